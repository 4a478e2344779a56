"""Fitted models: their contents, predictions, tables and files; no jax."""
