"""Names of the kinds of models, and of the ways in which they can be unsure."""

from collections.abc import Mapping
from typing import Literal

from epiclick.click_models.registry import HOMES
from epiclick.relevance.registry import ID_BETA, NETWORK_BETA, POINT

HEADS_OF: Mapping[str, tuple[str, ...]] = {
    **{home.public: (NETWORK_BETA.name, ID_BETA.name) for home in HOMES.values()},
    "PointwisePBM": (POINT.name,),
}
"""Relevance heads that a class has: with features, and without where it can do without."""

BiasKind = Literal["robust", "bayes", "evidential"]
"""Intervals of position bias; see `bias_table.position_bias_table`."""

ThetaPosterior = Literal["laplace", "nuts"]
"""How the posterior of position bias and last layer is found after a `marginal` fit."""


def head_of(kind: str, *, with_features: bool) -> str:
    """The relevance head of a class, given features or not; "" for an unknown class."""
    heads = HEADS_OF.get(kind, ("",))
    return heads[0] if with_features else heads[-1]
