"""Posteriors given the clicks: of the click model's parameters and of each item's relevance."""
