"""The table of calibration: coverage, ranks of the truth, and probabilities of ranker orders."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np

from epiclick.calibration.answers import LEVELS, QUANTITIES, Answers
from epiclick.calibration.families import Family
from epiclick.calibration.own_prior import OWN_PRIOR, OWN_QUANTITIES
from epiclick.evaluation.coverage import (
    clustered_mean,
    clustered_share,
    crps,
    is_covered,
    one_per_world,
    ranks_among,
    uniformity,
)

EDGES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # of the bins of probabilities
FEWEST = 50  # pairs that a bin needs to be judged
DIFFERENCE = "ranker_difference"

RANKED = {**QUANTITIES, **OWN_QUANTITIES}
"""Quantities whose ranks are tested, and their descriptions."""


@dataclass(frozen=True)
class OrderRow:
    """Pairs of rankers whose first is predicted to be better with a probability within a bin.

    Attributes:
        method: whose predictions they are.
        family: of the worlds, or the name of a group.
        well_specified: whether the model's assumptions hold there.
        bin_low: lower edge of the bin.
        bin_high: upper edge.
        pairs: number of pairs.
        predicted: their mean probability.
        actual: share of them in which the first is better.
        low: lower end of the 99 % interval of that share, from the differences between worlds.
        high: upper end.
        flagged: whether the mean probability is outside, if there are enough pairs.
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
    """A row for each bin with pairs, given the answers in each world."""
    found = _in_worlds(answers, DIFFERENCE, shrink)
    if not found:
        return
    chance = np.concatenate([chance_of(given.draws) for _, given in found])
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


def chance_of(draws: np.ndarray) -> np.ndarray:
    """(values,) probability of a difference above 0 by draws (values, draws); ties count half."""
    return (draws > 0).mean(axis=1) + (draws == 0).mean(axis=1) / 2


@dataclass(frozen=True)
class CoverageRow:
    """How often the intervals of one level contain the truth.

    Attributes:
        quantity: what they are intervals of (see `QUANTITIES`).
        family: of the worlds.
        well_specified: whether the model's assumptions hold there.
        nominal: level of the intervals.
        actual: share that contain the truth.
        error: its standard error, from the differences between worlds.
        width: their mean width.
        crps: mean continuous ranked probability score of the distributions behind them.
        method: whose they are.
        low: lower end of the 99 % interval of the actual coverage.
        high: upper end.
        worlds: number of worlds.
        values: number of values.
        flagged: whether the nominal level is outside that interval.
    """

    quantity: str
    family: str
    well_specified: bool
    nominal: float
    actual: float
    error: float
    width: float
    crps: float
    method: str
    low: float
    high: float
    worlds: int
    values: int
    flagged: bool


@dataclass(frozen=True)
class UniformityRow:
    """Whether the ranks of the truth among the draws, one per world, are uniform.

    Attributes:
        quantity: what was ranked (see `RANKED`).
        family: of the worlds.
        well_specified: whether the model's assumptions hold there.
        method: whose draws they are.
        p_value: of the test.
        ranks: (worlds,) the ranks.
        draws: number of draws that they are ranked among.
        flagged: whether the test rejects, at 1 in 100.
    """

    quantity: str
    family: str
    well_specified: bool
    method: str
    p_value: float
    ranks: tuple[int, ...]
    draws: int
    flagged: bool


@dataclass(frozen=True)
class CalibrationTable:
    """The results of a calibration run.

    Attributes:
        rows: coverage, by method, family, quantity and level.
        uniformity: tests of ranks, by method, family and quantity.
        worlds: worlds per family.
        seed: of the run.
        shrink: factor on all widths; 1 but for a negative control.
        orders: how often the ranker predicted to be better is, by method, family and probability.
    """

    rows: tuple[CoverageRow, ...]
    uniformity: tuple[UniformityRow, ...]
    worlds: int
    seed: int
    shrink: float
    orders: tuple[OrderRow, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The table in JSON types; errors, unknown from a single world, are null."""
        return {
            "table": [
                {**asdict(row), "error": row.error if np.isfinite(row.error) else None}
                for row in self.rows
            ],
            "uniformity": [{**asdict(row), "ranks": list(row.ranks)} for row in self.uniformity],
            "orders": [asdict(row) for row in self.orders],
            "worlds": self.worlds,
            "seed": self.seed,
            "shrink": self.shrink,
        }

    @property
    def flagged(self) -> tuple[CoverageRow, ...]:
        """Rows of well-specified worlds whose coverage is not the nominal level."""
        return tuple(row for row in self.rows if row.flagged and row.well_specified)

    @property
    def own_prior(self) -> tuple[UniformityRow, ...]:
        """Tests of ranks in worlds drawn from the model's own prior."""
        return tuple(test for test in self.uniformity if test.family == OWN_PRIOR.name)

    def to_markdown(self) -> str:
        """All tables as text."""
        return "\n".join(_markdown(self)) + "\n"


def coverage_rows(
    method: str, family: Family, answers: Sequence[Mapping[str, Answers]], shrink: float
) -> Iterator[CoverageRow]:
    """Rows of one method in one family, given its answers in each world."""
    for quantity, (world, given, kept_world) in _by_quantity(answers, shrink).items():
        score, _ = clustered_mean(
            crps(given.truth[_first(world, kept_world)], given.draws), kept_world
        )
        for level, nominal in enumerate(LEVELS):
            low, high = given.low[level], given.high[level]
            share = clustered_share(is_covered(given.truth, low, high), world)
            yield CoverageRow(
                quantity=quantity,
                family=family.name,
                well_specified=family.well_specified,
                nominal=nominal,
                actual=share.actual,
                error=share.error,
                width=clustered_mean(high - low, world)[0],
                crps=score,
                method=method,
                low=share.low,
                high=share.high,
                worlds=share.worlds,
                values=share.values,
                flagged=share.excludes(nominal),
            )


def uniformity_rows(
    method: str, family: Family, answers: Sequence[Mapping[str, Answers]], shrink: float
) -> Iterator[UniformityRow]:
    """Tests of one method in one family, given its answers in each world."""
    for quantity, (world, given, kept_world) in _by_quantity(answers, shrink).items():
        rng = np.random.default_rng([crc32(quantity.encode()), len(kept_world)])
        one = one_per_world(kept_world, rng)
        truth = given.truth[_first(world, kept_world)]
        ranks = ranks_among(truth[one], given.draws[one], rng)
        found = uniformity(ranks, given.draws.shape[1])
        yield UniformityRow(
            p_value=found.p_value,
            flagged=found.flagged,
            ranks=tuple(ranks.tolist()),
            draws=found.draws,
            method=method,
            quantity=quantity,
            family=family.name,
            well_specified=family.well_specified,
        )


def _by_quantity(
    answers: Sequence[Mapping[str, Answers]], shrink: float
) -> dict[str, tuple[np.ndarray, Answers, np.ndarray]]:
    """World of each value, the answers of all worlds, and world of each value with draws."""
    together = {}
    for quantity in RANKED:
        found = _in_worlds(answers, quantity, shrink)
        if not found:
            continue
        worlds = [world for world, _ in found]
        parts = [given for _, given in found]
        together[quantity] = (
            np.repeat(worlds, [len(each.truth) for each in parts]),
            Answers(
                np.concatenate([each.truth for each in parts]),
                np.concatenate([each.centre for each in parts]),
                np.concatenate([each.low for each in parts], axis=1),
                np.concatenate([each.high for each in parts], axis=1),
                np.concatenate([each.draws for each in parts]),
            ),
            np.repeat(worlds, [len(each.draws) for each in parts]),
        )
    return together


def _in_worlds(
    answers: Sequence[Mapping[str, Answers]], quantity: str, shrink: float
) -> list[tuple[int, Answers]]:
    """Number of each world with answers on a quantity, and these answers."""
    return [
        (world, each[quantity].shrunk(shrink))
        for world, each in enumerate(answers)
        if quantity in each
    ]


def _first(world: np.ndarray, kept_world: np.ndarray) -> np.ndarray:
    """Index of the values whose draws are kept: the first of each world."""
    names, start = np.unique(world, return_index=True)
    kept = np.bincount(np.searchsorted(names, kept_world), minlength=len(names))
    return np.concatenate([first + np.arange(n) for first, n in zip(start, kept, strict=True)])


def _markdown(table: CalibrationTable) -> Iterator[str]:
    yield f"Worlds of each family: {table.worlds}; seed {table.seed}; widths x {table.shrink:g}."
    yield ""
    yield (
        "| method | family | well specified | quantity | nominal | actual | 99 % interval | width "
        "| CRPS | |"
    )
    yield "|---|---|---|---|--:|--:|--:|--:|--:|---|"
    for row in table.rows:
        yield (
            f"| {row.method} | {row.family} | {'yes' if row.well_specified else 'no'} "
            f"| {QUANTITIES[row.quantity]} | {row.nominal:.0%} | {row.actual:.1%} "
            f"| {row.low:.1%} to {row.high:.1%} | {row.width:.4f} | {row.crps:.4f} "
            f"| {'off' if row.flagged else ''} |"
        )
    if table.orders:
        yield ""
        yield "Predicted probability that the first of two rankers is better, and how often it is"
        yield ""
        yield (
            "| method | family | well specified | probability | pairs | mean probability "
            "| actual share | 99 % interval | |"
        )
        yield "|---|---|---|---|--:|--:|--:|--:|---|"
    for order in table.orders:
        yield (
            f"| {order.method} | {order.family} | {'yes' if order.well_specified else 'no'} "
            f"| {order.bin_low:.0%} to {order.bin_high:.0%} | {order.pairs:,} "
            f"| {order.predicted:.1%} | {order.actual:.1%} | {order.low:.1%} to {order.high:.1%} "
            f"| {'off' if order.flagged else ''} |"
        )
    yield ""
    yield "Ranks of the truth among draws, one per world: are they uniform?"
    yield ""
    yield "| method | family | well specified | quantity | worlds | p-value | |"
    yield "|---|---|---|---|--:|--:|---|"
    for test in table.uniformity:
        yield (
            f"| {test.method} | {test.family} | {'yes' if test.well_specified else 'no'} "
            f"| {RANKED[test.quantity]} | {len(test.ranks)} | {test.p_value:.4f} "
            f"| {'off' if test.flagged else ''} |"
        )
