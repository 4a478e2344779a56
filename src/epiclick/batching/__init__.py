"""Batches of pairs in a few fixed shapes, for training, posterior and evaluation."""
