"""The estimators by name, and what is to be known of each before jax is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

EstimatorName = Literal["naive", "self_normalized", "conditioned", "exact", "marginal"]

POINTWISE = "pointwise"
"""In place of an estimator: relevance is a point, too, and its likelihood is followed as it is."""


@dataclass(frozen=True)
class Listed:
    """An estimator that need not be loaded to be named.

    Attributes:
        module: where it is, in this folder.
        class_name: its class there.
        is_point: whether the click model's parameters are points while training, and not Betas.
        options: of `make_estimator` that it has.
    """

    module: str
    class_name: str
    is_point: bool
    options: tuple[str, ...]


ESTIMATORS: Mapping[str, Listed] = {
    "naive": Listed("naive", "Naive", False, ("samples", "baseline", "literal")),
    "self_normalized": Listed(
        "self_normalized", "SelfNormalized", False, ("samples", "baseline", "literal")
    ),
    "conditioned": Listed("conditioned", "Conditioned", False, ("samples", "baseline", "literal")),
    "exact": Listed("exact", "Exact", False, ("samples", "baseline")),
    "marginal": Listed("marginal", "Marginal", True, ()),
}
