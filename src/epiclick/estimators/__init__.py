"""Estimators of the likelihood's gradient: the paper's, and ours in closed form.

| name | position bias | relevance | gradient |
|---|---|---|---|
| `naive` | sampled | sampled with it | of the likelihood, by score functions |
| `self_normalized` | sampled | sampled with it | of the log-likelihood, by score functions |
| `conditioned` | sampled | sampled for each bias | of the log-likelihood, by score functions |
| `exact` | sampled | integrated | by a score function for bias, exact for relevance |
| `marginal` | a point | integrated | exact |

Names are available without jax, which is loaded when the first estimator is made.
"""
