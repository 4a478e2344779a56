"""Fitted models: what they keep, predict, show and store; no jax."""
