"""Of pairs of rankers told to be better with some probability, how many are?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from epiclick.calibration.answers import Answers
from epiclick.evaluation.coverage import clustered_mean, clustered_share

EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Of the bins of probabilities."""

FEWEST = 50
"""Pairs that a bin needs to be judged."""

DIFFERENCE = "ranker_difference"


@dataclass(frozen=True)
class OrderRow:
    """Pairs of rankers of which the first is told to be better with a probability within a bin.

    Attributes:
        method: who told it.
        family: of the worlds, or what stands for several.
        well_specified: whether the model's assumptions hold there.
        bin_low: lower edge of the bin.
        bin_high: upper edge.
        pairs: how many there are.
        predicted: their mean probability.
        actual: share of them in which the first is better.
        low: lower end of the 99 % interval of that share, from the differences between worlds.
        high: upper end.
        flagged: whether the mean probability lies outside, where pairs suffice.
    """

    method: str
    family: str
    well_specified: bool
    bin_low: float
    bin_high: float
    pairs: int
    predicted: float
    actual: float
    low: float
    high: float
    flagged: bool


def order_rows(
    method: str,
    family: str,
    answers: Sequence[Mapping[str, Answers]],
    shrink: float,
    *,
    well_specified: bool,
) -> Iterator[OrderRow]:
    """A row for each bin that has any pairs, given the answers in each world."""
    found = [
        (world, each[DIFFERENCE].shrunk(shrink))
        for world, each in enumerate(answers)
        if DIFFERENCE in each
    ]
    if not found:
        return
    chance = np.concatenate([_chance(given.draws) for _, given in found])
    better = np.concatenate([given.truth[: len(given.draws)] > 0 for _, given in found])
    world = np.concatenate([np.full(len(given.draws), number) for number, given in found])
    place = np.clip(np.searchsorted(EDGES, chance, side="right") - 1, 0, len(EDGES) - 2)
    for number, (low, high) in enumerate(pairwise(EDGES)):
        own = place == number
        if not own.any():
            continue
        predicted, _ = clustered_mean(chance[own], world[own])
        share = clustered_share(better[own], world[own])
        yield OrderRow(
            method=method,
            family=family,
            well_specified=well_specified,
            bin_low=low,
            bin_high=high,
            pairs=int(own.sum()),
            predicted=predicted,
            actual=share.actual,
            low=share.low,
            high=share.high,
            flagged=bool(own.sum() >= FEWEST and share.excludes(predicted)),
        )


def _chance(draws: np.ndarray) -> np.ndarray:
    """(values,) probability of a difference above 0, by (values, draws); ties count half."""
    return (draws > 0).mean(axis=1) + (draws == 0).mean(axis=1) / 2
