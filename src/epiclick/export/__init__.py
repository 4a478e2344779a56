"""Out to other tools: training sets for rankers, judgements and runs, posterior samples."""
