"""Functions of the likelihood that jax traces: for sampled estimators and Markov chains."""
