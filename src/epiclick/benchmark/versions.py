"""The versions of a click model that a benchmark compares: ours, plain ones, and peers'."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from epiclick.benchmark.cell_scores import displays_of
from epiclick.benchmark.own_fits import Fitted, fit_own
from epiclick.benchmark.page_data import BenchmarkData
from epiclick.benchmark.plain_em import PLAIN
from epiclick.benchmark.point_estimates import PointEstimates
from epiclick.benchmark.textbook_counting import COUNTING
from epiclick.click_models.registry import REGISTRY

OURS = "epiclick"


@dataclass(frozen=True)
class Version:
    """One way to fit click models.

    Attributes:
        what: in words.
        models: names of the click models it has.
        fit: (data, name of the model) -> the fit.
        needs_features: whether it applies only to data with features.
    """

    what: str
    models: tuple[str, ...]
    fit: Callable[[BenchmarkData, str], Fitted]
    needs_features: bool = False


def _fit_points(
    models: Mapping[str, Callable[[BenchmarkData], PointEstimates]],
) -> Callable[[BenchmarkData, str], Fitted]:
    def fit(data: BenchmarkData, name: str) -> Fitted:
        begun = time.process_time()
        found = models[name](data)
        seconds = time.process_time() - begun
        return Fitted(displays_of(data, found.chances(data.test)), found.relevance, seconds)

    return fit


def _with_features(data: BenchmarkData, name: str) -> Fitted:
    return fit_own(data, name, with_features=True)


VERSIONS: dict[str, Version] = {
    OURS: Version("epiclick, by ids", tuple(REGISTRY), fit_own),
    "features": Version(
        "epiclick with features; clicks are predicted from features alone",
        tuple(REGISTRY),
        _with_features,
        needs_features=True,
    ),
    "plain": Version("EM, one pseudo-click and one pseudo-skip", tuple(PLAIN), _fit_points(PLAIN)),
    "counting": Version(
        "textbook counting down to the last click, biased for dcm and sdbn",
        tuple(COUNTING),
        _fit_points(COUNTING),
    ),
}
"""Versions that run here; `clax_fits` has CLAX, which runs in an environment of its own."""
