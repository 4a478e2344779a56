"""Formats of click logs: each module turns what was opened into rows of single displays."""
