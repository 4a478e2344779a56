"""Mutated inputs of every kind, judged by independent readers."""
