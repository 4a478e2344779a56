"""Whether stated uncertainty is right: worlds with a known truth, fits, and a table of coverage."""
