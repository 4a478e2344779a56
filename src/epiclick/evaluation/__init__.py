"""How good a model is: scores of clicks, fit of the model, baselines to beat."""
