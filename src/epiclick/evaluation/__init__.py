"""How good a model is: scores of its clicks, backtests, baselines, coverage of its intervals."""
