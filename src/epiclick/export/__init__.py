"""Exports for other tools: training sets for rankers, judgements, runs, posterior samples."""
