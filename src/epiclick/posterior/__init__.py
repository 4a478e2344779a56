"""What is known after the clicks: which answers the data can give, and how surely."""
