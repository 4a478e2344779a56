"""Files that are damaged, and commands that are killed while they write them."""
