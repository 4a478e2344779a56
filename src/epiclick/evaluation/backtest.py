"""Observed against predicted clicks of a log, and whether chance explains the difference.

Observed clicks differ from predicted ones by noise (of clicks, and of items, whose relevance is
known only as a distribution) and because the model's parameters are uncertain. The interval
accounts for both. Where the log shares queries with the training log, part of the noise is already
in the parameters, and intervals are somewhat too wide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse, special

from epiclick.data.arrays import locate_rows
from epiclick.data.by_column import ByColumn
from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError
from epiclick.fitted.parameters import parameter_draws
from epiclick.fitted.prediction import (
    chunks_of,
    click_probabilities,
    contexts_of,
    emission_by,
    floor_by,
    going_on_by,
    lists_of,
    networks_of,
    over_entries,
    relevance_of_pairs,
    reported_emission,
    satisfaction_before,
)
from epiclick.fitted.state import FittedModel
from epiclick.reading.pages import still_reading
from epiclick.relevance.reported import reported

DRAWS = 256
"""Of the parameters, for their spread; predictions need fewer, as means converge sooner."""

FEWEST_DRAWS = 64
"""For logs with so many pairs that more draws would take long."""

MOST_PREDICTED = 2**24  # pairs x draws

FEWEST_QUERIES = 2.0
"""Effective number of queries from which a standard error can be estimated."""

CHUNK = 4096  # pairs at once, under every draw


@dataclass(frozen=True, eq=False)
class GroupedDisplays:
    """Displays and clicks in groups to compare; each row is part of an entry of some counts.

    Attributes:
        group: (rows,) number of the group.
        entry: (rows,) of the counts.
        query: (rows,) number of the query; need not agree between groups.
        displays: (rows,)
        clicks: (rows,)
        groups: number of groups; each has a display.
    """

    group: np.ndarray
    entry: np.ndarray
    query: np.ndarray
    displays: np.ndarray
    clicks: np.ndarray
    groups: int

    @classmethod
    def of(cls, counts: ClickCounts, columns: Sequence[ByColumn]) -> Self:
        """All counts as group 0, then a group per value of each column."""
        entries = len(counts.pair)
        parts = [(np.zeros(entries, np.int64), np.arange(entries), counts)]
        groups = 1
        for column in columns:
            parts.append((groups + column.counts.context, column.entry, column.counts))
            groups += len(column.values)
        return cls(
            group=np.concatenate([group for group, _, _ in parts]),
            entry=np.concatenate([entry for _, entry, _ in parts]),
            query=np.concatenate([part.query[part.pair] for _, _, part in parts]),
            displays=np.concatenate([part.displays for _, _, part in parts]),
            clicks=np.concatenate([part.clicks for _, _, part in parts]),
            groups=groups,
        )

    def total(self, amount: np.ndarray) -> np.ndarray:
        """(groups,) sums of (rows,) amounts."""
        return np.bincount(self.group, amount, self.groups)


def query_noise(shown: GroupedDisplays, chance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Standard error of clicks about their expectation, and effective number of queries.

    .. math:: \frac{n}{n - 1} \sum_q \Big(O_q - \frac{O}{P} P_q\Big)^2, \qquad
              n = P^2 \Big/ \sum_q P_q^2

    is its square, for O_q observed and P_q expected clicks of query q, O and P their totals; but at
    least that of independent clicks. It is valid however the clicks of a query are correlated.

    Args:
        shown: displays and clicks.
        chance: (rows,) probability of a click at a display.

    Returns:
        (groups,) each; the error is NaN with too few queries.
    """
    expected = shown.displays * chance
    ratio = shown.total(shown.clicks) / shown.total(expected)
    residual = shown.clicks - ratio[shown.group] * expected
    _, first, cell = np.unique(
        shown.group * (shown.query.max() + 1) + shown.query, return_index=True, return_inverse=True
    )

    def squared(amount: np.ndarray) -> np.ndarray:
        """(groups,) sums over queries of the square of their sum of (rows,) amounts."""
        by_query = np.bincount(cell, amount)
        return np.bincount(shown.group[first], by_query**2, shown.groups)

    effective = shown.total(expected) ** 2 / squared(expected)
    enough = effective >= FEWEST_QUERIES
    inflated = effective / np.where(enough, effective - 1, np.nan)
    independent = shown.total(expected * (1 - chance))
    return np.sqrt(np.maximum(inflated * squared(residual), independent)), effective


def predicted_by_draws(
    fitted: FittedModel, counts: ClickCounts, shown: GroupedDisplays
) -> tuple[np.ndarray, float]:
    """Clicks expected under every draw of the parameters, and degrees of freedom of their spread.

    Items known by their clicks in training keep their relevance in all draws, as its dependence on
    position bias is not stored.

    Args:
        fitted: the model.
        counts: the log to predict.
        shown: groups of its displays.

    Returns:
        (draws, groups), a single draw if the model has no uncertainty.
    """
    count = int(np.clip(MOST_PREDICTED // max(len(counts), 1), FEWEST_DRAWS, DRAWS))
    if fitted.clicks.has_latent_state:
        return _read_by_draws(fitted, counts, shown), FEWEST_DRAWS / 2
    draws = parameter_draws(fitted, count)
    networks = networks_of(draws)
    floor = floor_by(fitted, draws)
    emission = reported_emission(
        emission_by(fitted, draws, contexts_of(fitted, counts.contexts, warn=False)), floor
    )
    rise, offset = emission.attractive, emission.unattractive
    rise = rise if offset is None else rise - offset
    # a row for every (context, group), since within one all displays have the same bias
    row = counts.context[shown.entry] * shown.groups + shown.group
    displays = sparse.csc_array(
        (shown.displays.astype(float), (row, counts.pair[shown.entry])),
        (len(counts.contexts) * shown.groups, len(counts)),
    )
    total, first = np.zeros((shown.groups, len(draws))), 0
    for _, _, part in chunks_of(counts, CHUNK):
        alpha, beta = relevance_of_pairs(fitted, networks, part)
        mean = alpha / (alpha + beta)
        if floor is not None:
            mean = reported(np.broadcast_to(mean, (len(draws), len(part))), floor)
        relevance = with_known_items(fitted, part, mean)
        here = displays[:, first : first + len(part)]
        used, index = np.unique(here.indices, return_inverse=True)
        rows = sparse.csc_array((here.data, index, here.indptr), (len(used), len(part)))
        clicks = rise.T[used // shown.groups] * (rows @ np.ascontiguousarray(relevance.T))
        if offset is not None:
            clicks += offset.T[used // shown.groups] * rows.sum(axis=1)[:, None]
        np.add.at(total, used % shown.groups, clicks)
        first += len(part)
    # draws of a Gaussian come in pairs that mirror each other
    freedom = len(draws) - 1 if fitted.members else len(draws) / 2
    return total.T, float(freedom)


def _read_by_draws(fitted: FittedModel, counts: ClickCounts, shown: GroupedDisplays) -> np.ndarray:
    """The same for a model that needs whole pages: (draws, groups)."""
    draws = parameter_draws(fitted, FEWEST_DRAWS)
    lists = lists_of(fitted, counts)
    alpha, beta = relevance_of_pairs(fitted, [draw.layers for draw in draws], counts)
    relevance = with_known_items(fitted, counts, alpha / (alpha + beta))
    satisfied = satisfaction_before(fitted, counts)
    total = []
    for i, draw in enumerate(draws):
        stay = going_on_by(fitted, draw, lists, satisfied)
        read = still_reading(lists, relevance[i], stay)
        chance = over_entries(counts, read * np.where(lists.shown, relevance[i][lists.pair], 0.0))
        total.append(shown.total(shown.displays * chance[shown.entry]))
    return np.stack(total)


def with_known_items(fitted: FittedModel, counts: ClickCounts, relevance: np.ndarray) -> np.ndarray:
    """(networks, pairs) relevance, replaced by that of `fitted.items` where it has the pair."""
    items = fitted.items
    if items is None:
        return relevance
    row = locate_rows(
        {"query_id": counts.query_id, "doc_id": counts.doc_id},
        {"query_id": items.query_id, "doc_id": items.doc_id},
    )
    return np.where(row >= 0, (items.alpha / (items.alpha + items.beta))[row], relevance)


Grade = Literal["inside", "just outside", "far outside"]

FAR = 0.99
"""Level of the interval beyond which clicks lie far outside.

For a correct model one log in ten lies outside a 90 % interval, which alone is no evidence against
it; one in a hundred lies outside this one, which has the same noise, spread and degrees of freedom.
A correct model that is checked every week is then rejected by chance once in two years."""


@dataclass(frozen=True)
class Backtest:
    """Observed clicks of some displays, and those a model predicted.

    Rates are clicks per page, or per display where pages are unknown.

    Attributes:
        pages: pages with these displays; None if unknown.
        displays: number of displays.
        clicks: observed.
        predicted: expected clicks.
        noise: standard error of the clicks; NaN with too few queries to estimate it.
        spread: standard deviation of `predicted` over the model's parameters; 0 if it has no
            uncertainty about them.
        freedom: degrees of freedom of noise and spread together.
        level: probability of the intervals.
    """

    pages: int | None
    displays: int
    clicks: int
    predicted: float
    noise: float
    spread: float
    freedom: float
    level: float

    @property
    def per(self) -> str:
        """Unit of the rates: "page" or "display"."""
        return "display" if self.pages is None else "page"

    @property
    def observed_rate(self) -> float:
        """Observed clicks per page, or per display."""
        return self.clicks / self._size

    @property
    def predicted_rate(self) -> float:
        """Predicted clicks per page, or per display."""
        return self.predicted / self._size

    @property
    def observed_per_page(self) -> float | None:
        """Observed clicks per page; None where pages are unknown."""
        return None if self.pages is None else self.observed_rate

    @property
    def predicted_per_page(self) -> float | None:
        """Predicted clicks per page; None where pages are unknown."""
        return None if self.pages is None else self.predicted_rate

    @property
    def low(self) -> float:
        """Lower end of the predicted interval of the rate; NaN where unknown."""
        return float(np.maximum(self.predicted - self._half, 0) / self._size)

    @property
    def high(self) -> float:
        """Upper end of the predicted interval of the rate; NaN where unknown."""
        return (self.predicted + self._half) / self._size

    @property
    def ratio(self) -> float:
        """Observed clicks divided by predicted ones."""
        return self.clicks / self.predicted if self.predicted else float("nan")

    @property
    def ratio_low(self) -> float:
        """Lower end of the ratio's interval."""
        return float(np.maximum(self.ratio - self._half / (self.predicted or np.nan), 0))

    @property
    def ratio_high(self) -> float:
        """Upper end of the ratio's interval."""
        return self.ratio + self._half / (self.predicted or np.nan)

    @property
    def inside(self) -> bool | None:
        """Whether the observed rate lies between low and high; None if unknown."""
        return None if np.isnan(self._half) else abs(self.clicks - self.predicted) <= self._half

    @property
    def grade(self) -> Grade | None:
        """Where the observed clicks lie; None if unknown.

        Just outside is outside the interval of `level` but inside that of `FAR`, which is
        impossible at a level of `FAR` or more.
        """
        if self.inside is None:
            return None
        if self.inside:
            return "inside"
        far = abs(self.clicks - self.predicted) > self._half_at(max(FAR, self.level))
        return "far outside" if far else "just outside"

    @property
    def summary(self) -> str:
        """The comparison in words, without the final full stop, and a warning where it fails."""
        width = 2 * self._half / self._size
        # as many digits as the ends need to differ
        digits = 4 if not width > 0 else int(np.clip(np.ceil(-np.log10(width)) + 1, 2, 8))

        def rounded(rate: float) -> str:
            return f"{rate:.{digits}f}"

        within = "" if np.isnan(width) else f" ({rounded(self.low)} to {rounded(self.high)})"
        rates = (
            f"predicted {rounded(self.predicted_rate)} clicks per {self.per}{within}, "
            f"observed {rounded(self.observed_rate)}"
        )
        if self.inside is None:
            return f"{rates}; too few queries to estimate how much they differ by chance"
        if self.inside:
            return rates
        if self.grade == "just outside":
            return (
                f"{rates}. That is {self.deviation}, just outside the {self.level:.0%} interval: "
                f"one log in {1 / (1 - self.level):.0f} lies outside by chance, so check a second "
                "one"
            )
        return (
            f"{rates}. Warning: {self.deviation}, far outside the {self.level:.0%} interval; "
            "neither chance nor the model's own uncertainty explains that"
        )

    @property
    def deviation(self) -> str:
        """How far observed clicks are from predicted ones, in words."""
        more = "more" if self.clicks > self.predicted else "fewer"
        return f"{abs(self.ratio - 1):.1%} {more} clicks than predicted"

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        return {
            "pages": self.pages,
            "displays": self.displays,
            "clicks": self.clicks,
            "predicted_clicks": self.predicted,
            "observed_per_page": self.observed_per_page,
            "predicted_per_page": self.predicted_per_page,
            "per": self.per,
            "level": self.level,
            "low": self.low,
            "high": self.high,
            "ratio": self.ratio,
            "ratio_low": self.ratio_low,
            "ratio_high": self.ratio_high,
            "inside": self.inside,
            "grade": self.grade,
            "words": self.summary,
        }

    @property
    def _size(self) -> int:
        return self.displays if self.pages is None else self.pages

    @property
    def _half(self) -> float:
        """Half the width of the interval of the clicks."""
        return self._half_at(self.level)

    def _half_at(self, level: float) -> float:
        """Half the width of the interval of a level."""
        quantile = special.stdtrit(self.freedom, (1 + level) / 2)
        return float(quantile * np.hypot(self.noise, self.spread))


def backtest(fitted: FittedModel, counts: ClickCounts, level: float = 0.9) -> Backtest:
    """Compare the clicks of a log with those a model predicts.

    Args:
        fitted: the model.
        counts: a log it was not trained on, with features if the model needs them.
        level: probability with which the interval of a correct model contains the observed clicks.
    """
    whole, _ = backtests(fitted, counts, (), level)
    return whole


def backtests(
    fitted: FittedModel, counts: ClickCounts, columns: Sequence[ByColumn], level: float = 0.9
) -> tuple[Backtest, Mapping[str, tuple[Backtest, ...]]]:
    """Backtests of a whole log, and of every value of some columns: column -> one per value."""
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, not {level}", code="level-out-of-range")
    chance = click_probabilities(fitted, counts)  # (entries,)
    shown = GroupedDisplays.of(counts, columns)
    p = chance[shown.entry]
    displays, clicks, predicted = (
        shown.total(amount) for amount in (shown.displays, shown.clicks, shown.displays * p)
    )
    noise, queries = query_noise(shown, p)
    drawn, drawn_freedom = predicted_by_draws(fitted, counts, shown)
    # relative, as the prediction itself averages over fewer draws
    spread = predicted * drawn.std(axis=0, ddof=min(len(drawn) - 1, 1)) / drawn.mean(axis=0)
    # Welch-Satterthwaite
    freedom = (noise**2 + spread**2) ** 2 / (
        noise**4 / (queries - 1) + spread**4 / max(drawn_freedom, 1)
    )
    pages = [counts.pages]
    for column in columns:
        pages += column.pages
    tested = [
        Backtest(
            pages=pages[g],
            displays=int(displays[g]),
            clicks=int(clicks[g]),
            predicted=float(predicted[g]),
            noise=float(noise[g]),
            spread=float(spread[g]),
            freedom=float(freedom[g]),
            level=level,
        )
        for g in range(shown.groups)
    ]
    ends = np.cumsum([1, *(len(column.values) for column in columns)])
    return tested[0], {
        column.name: tuple(tested[start:stop])
        for column, start, stop in zip(columns, ends, ends[1:], strict=False)
    }
