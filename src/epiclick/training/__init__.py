"""Training: objectives, the loop, ensembles, checkpoints."""
