r"""Position bias from pages whose ranking was random, and whether a model's agrees with it.

On such pages every item of a query is equally likely at every position, so clicks differ between
positions because of position bias alone. Relative to a position r of the same query, no model of
relevance is needed (the Mantel-Haenszel ratio; where all pages have the same length it is the ratio
of click rates):

.. math:: \frac{\theta_k}{\theta_r} = \frac{\sum_q M_{qk} N_{qr} / (N_{qk} + N_{qr})}
                                           {\sum_q M_{qr} N_{qk} / (N_{qk} + N_{qr})}.

Its error is estimated from the differences between queries. A model of other pages assumes that
items change position for reasons unrelated to who sees them; where the two disagree, that
assumption fails.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import special

from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError
from epiclick.fitted.parameters import parameter_draws
from epiclick.fitted.prediction import contexts_of, mean_emission
from epiclick.fitted.state import FittedModel, history_of
from epiclick.identification.identifiability import named

FEWEST_CLICKS = 5
"""Clicks needed at a position and at its reference; with fewer, errors mislead."""

FALSE_ALARMS = 0.01
"""Probability that a correct model is found to disagree at any position."""

DRAWS = 4_000

NOT_COMPARED = (
    "Randomised pages give a bias by position, which this click model does not have: how often a "
    "position is examined depends on the last click above it, or clicks there are not in "
    "proportion to relevance. They can only be compared with the position-based model "
    "(--click-model pbm)."
)


def has_bias_by_position(fitted: FittedModel) -> bool:
    """Whether clicks are in proportion to one bias for each position."""
    return not history_of(fitted) and not fitted.clicks.is_affine


@dataclass(frozen=True, eq=False)
class RandomisedCheck:
    """A model's position bias next to that of randomised pages.

    Attributes:
        contexts: the model's table of contexts.
        displays: of the randomised pages.
        clicks: of the randomised pages.
        level: probability of the intervals.
        table: context columns; `against`, index of the context that the bias is relative to;
            `model` and `randomised` with `_low` and `_high`; `difference` of the second minus the
            first with `_low` and `_high`; `agrees`. NaN and None where clicks are too few.
    """

    contexts: pa.Table
    displays: int
    clicks: int
    level: float
    table: pd.DataFrame

    @property
    def warnings(self) -> tuple[str, ...]:
        """Where the two disagree."""
        differ = self.table[self._where(False)]
        if differ.empty:
            return ()
        pairs = "; ".join(
            f"{named(self.contexts, [k])}: model {_interval(row, 'model')}, randomised "
            f"{_interval(row, 'randomised')}"
            for k, row in differ.iterrows()
        )
        return (
            "position bias differs from that of randomised pages, because of personalised ranking "
            f"or a poor fit: {pairs}",
        )

    def sentences(self) -> list[str]:
        """Where the two agree, disagree or cannot be compared."""
        found = [
            f"{self.displays:,} displays of randomised pages with {self.clicks:,} clicks were kept "
            "out of the fit, for comparison."
        ]
        agree = np.flatnonzero(self._where(True))
        if len(agree):
            widest = self.table["difference_high"] - self.table["difference_low"]
            found.append(
                f"Model and randomised pages agree at {named(self.contexts, agree)} (differences "
                f"are known to {widest.iloc[agree].max() / 2:.2f} or better)."
            )
        found += [f"Warning: {warning}." for warning in self.warnings]
        compared = self.table["against"] != np.arange(len(self.table))
        unknown = np.flatnonzero(self._where(None) & compared)
        if len(unknown):
            found.append(
                f"{named(self.contexts, unknown)}: too few clicks on randomised pages to compare."
            )
        return found

    def _where(self, agrees: bool | None) -> np.ndarray:
        """(contexts,) whether the result at each is this one."""
        return np.array([each is agrees for each in self.table["agrees"]])

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        rows = self.contexts.to_pylist()
        records = self.table.drop(columns="against").to_dict("records")
        return {
            "displays": self.displays,
            "clicks": self.clicks,
            "level": self.level,
            "agrees": None if self._where(None).all() else not self._where(False).any(),
            "by_position": [
                {**record, "against": rows[against]}
                for record, against in zip(records, self.table["against"], strict=True)
            ],
        }


def compare_randomised(
    fitted: FittedModel,
    randomised: ClickCounts,
    level: float = 0.9,
    at_bound: Collection[int] = (),
) -> RandomisedCheck:
    """Compare a model with the randomised pages that were kept out of its log.

    Positions are compared within equal values of the other context columns, as these are not
    random (a user's device, say). A model's bias at its bound, or relative to one, has no interval.

    A model without a bias by position alone is rejected.
    """
    if not has_bias_by_position(fitted):
        raise InputError(NOT_COMPARED, code="no-bias-by-position")
    index = contexts_of(fitted, randomised.contexts, warn=False)
    context = index[randomised.context]
    bias = mean_emission(fitted).attractive
    log_bias = _log_bias_draws(fitted)
    against = _references(fitted)
    half = special.ndtri((1 + level) / 2)
    compared = max(int(np.sum(against != np.arange(len(against)))), 1)
    bound = special.ndtri(1 - FALSE_ALARMS / (2 * compared))
    rows: list[dict[str, Any]] = []
    for k, other in enumerate(against):
        own = _with_ends("model", bias[k] / bias[other], _spread(log_bias, k, other), half)
        if k in at_bound or other in at_bound:
            own |= {"model_low": float("nan"), "model_high": float("nan")}
        row: dict[str, Any] = {"against": int(other), **own, "scaled": np.nan}
        if k != other:
            ratio, sd = mantel_haenszel(randomised, context, k, int(other))
            row |= _with_ends("randomised", ratio, sd, half)
            error = np.hypot(ratio * sd, row["model"] * _spread(log_bias, k, other))
            gap = ratio - row["model"]
            row |= {"difference": gap, "difference_low": gap - half * error}
            row |= {"difference_high": gap + half * error}
            row["scaled"] = abs(gap) / error
        rows.append(row)
    table = pd.concat([fitted.contexts.to_pandas(), pd.DataFrame(rows)], axis=1)
    verdicts = _verdicts(table.pop("scaled").to_numpy(), half, bound)
    table["agrees"] = pd.Series(verdicts, dtype=object)
    return RandomisedCheck(
        fitted.contexts, randomised.total_displays, randomised.total_clicks, level, table
    )


def mantel_haenszel(
    counts: ClickCounts, context: np.ndarray, k: int, other: int
) -> tuple[float, float]:
    """Ratio of the bias at k to that at another context, and the standard error of its logarithm.

    Both are NaN with fewer than FEWEST_CLICKS clicks at either.

    Args:
        counts: of randomised pages.
        context: (entries,) number of each entry's context.
        k: the context.
        other: its reference.
    """
    query = counts.query[counts.pair]
    displays, clicks = (
        [
            np.bincount(query[at], amount[at], counts.num_queries)
            for at in (context == k, context == other)
        ]
        for amount in (counts.displays, counts.clicks)
    )
    both = (displays[0] > 0) & (displays[1] > 0)
    (n_k, n_r), (m_k, m_r) = ([side[both] for side in amount] for amount in (displays, clicks))
    if both.sum() < 2 or min(m_k.sum(), m_r.sum()) < FEWEST_CLICKS:
        return float("nan"), float("nan")
    above, below = m_k * n_r / (n_k + n_r), m_r * n_k / (n_k + n_r)  # (queries,)
    influence = above / above.sum() - below / below.sum()
    queries = len(influence)
    variance = queries / (queries - 1) * np.square(influence).sum()
    return float(above.sum() / below.sum()), float(np.sqrt(variance))


def _verdicts(scaled: np.ndarray, half: float, bound: float) -> list[bool | None]:
    """Whether each context agrees, given its difference over its standard error.

    A difference beyond the bound shows that the two disagree somewhere. Only then do other contexts
    whose interval excludes 0 disagree too: among many, some do so by chance.
    """
    limit = half if np.any(scaled > bound) else bound
    return [None if np.isnan(each) else bool(each <= limit) for each in scaled]


def _references(fitted: FittedModel) -> np.ndarray:
    """(contexts,) index of the context that each is compared with.

    Among those that differ in position alone: the anchor if it is one of them, else the first.
    """
    rows = fitted.contexts.to_pylist()
    order = list(range(len(rows)))
    group: list[tuple[Any, ...]] = [() for _ in rows]
    if "position" in fitted.contexts.column_names:
        order.sort(key=lambda k: rows[k]["position"])
        group = [tuple(v for name, v in row.items() if name != "position") for row in rows]
    first: dict[tuple[Any, ...], int] = {}
    for k in order if fitted.anchor is None else [fitted.anchor, *order]:
        first.setdefault(group[k], k)
    return np.array([first[own] for own in group])


def _log_bias_draws(fitted: FittedModel) -> np.ndarray:
    """(draws, contexts) logarithms of position bias; a single row where it is a point."""
    if fitted.posterior is not None:
        fitted = replace(fitted, members=())  # the posterior is more informative than they are
    drawn = []
    for parameters in parameter_draws(fitted, DRAWS):
        emission = parameters.position.points.emission(fitted.clicks, fitted.anchor, np)
        drawn.append(np.log(emission.attractive))
    return np.array(drawn)


def _spread(log_bias: np.ndarray, k: int, other: int) -> float:
    """Standard deviation of the logarithm of a ratio of biases; 0 of a single draw."""
    if len(log_bias) == 1:
        return 0.0
    return float(np.std(log_bias[:, k] - log_bias[:, other], ddof=1))


def _with_ends(name: str, ratio: float, sd: float, half: float) -> dict[str, float]:
    """A ratio and the ends of its interval, which is symmetric in logarithms."""
    ends = {f"{name}_{end}": ratio * np.exp(side * half * sd) for end, side in _SIDES.items()}
    return {name: float(ratio), **{key: float(value) for key, value in ends.items()}}


_SIDES: Mapping[str, int] = {"low": -1, "high": 1}


def _interval(row: pd.Series, name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{row[name]:.2f} " + (
        "(at its bound)" if np.isnan(low) else f"({low:.2f} to {high:.2f})"
    )
