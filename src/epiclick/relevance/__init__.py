"""Relevance heads: how the relevance of a pair follows from a network's raw outputs."""
