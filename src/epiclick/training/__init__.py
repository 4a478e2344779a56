"""From counts to fitted parameters: batches, objectives, the loop, checkpoints."""
