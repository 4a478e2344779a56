"""Batches of pairs in few shapes, for training, posterior and evaluation alike."""
