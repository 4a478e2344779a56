"""Names of the ways in which a model can be unsure."""

from typing import Literal

BiasKind = Literal["robust", "bayes", "evidential"]
"""Intervals of position bias; see `bias_table.position_bias_table`."""

ThetaPosterior = Literal["laplace", "nuts"]
"""How the posterior of position bias and last layer is found after a `marginal` fit."""
