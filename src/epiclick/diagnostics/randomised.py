r"""Position bias from pages whose ranking was random, and whether a model's agrees with it.

On such pages every item of a query is as likely at one position as at another, so clicks differ by
position for no other reason than position bias. Against a position r of the same query, no model
of relevance is needed (the ratio of Mantel and Haenszel; where all pages are as long as each other
it is the ratio of click rates):

.. math:: \frac{\theta_k}{\theta_r} = \frac{\sum_q M_{qk} N_{qr} / (N_{qk} + N_{qr})}
                                           {\sum_q M_{qr} N_{qk} / (N_{qk} + N_{qr})}.

Its error comes from the differences between queries. A model of other pages assumes that items
change position for reasons unrelated to who sees them; where the two disagree, they do not.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import stats

from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError
from epiclick.fitted.parameters import parameter_draws
from epiclick.fitted.prediction import contexts_of, mean_bias
from epiclick.fitted.state import FittedModel, history_of
from epiclick.identification.identifiability import named

FEWEST_CLICKS = 5
"""Clicks needed at a position and at the one it is compared with; with fewer, errors mislead."""

FALSE_ALARMS = 0.01
"""Probability of any disagreement, over all positions, where there is none."""

DRAWS = 4_000

NOT_COMPARED = (
    "Randomised pages give a bias by position, which this click model does not have: how often a "
    "position is looked at depends on the last click above it. They can be compared with the "
    "position-based model (--click-model pbm) alone."
)


@dataclass(frozen=True, eq=False)
class RandomisedCheck:
    """A model's position bias beside that of randomised pages.

    Attributes:
        contexts: the model's table of contexts.
        displays: of the randomised pages.
        clicks: of the randomised pages.
        level: probability of the intervals.
        table: context columns; `against`, index of the context that the bias is relative to;
            `model` and `randomised` with `_low` and `_high`; `difference` of the second less the
            first with `_low` and `_high`; `agrees`. NaN and None where too few clicks tell.
    """

    contexts: pa.Table
    displays: int
    clicks: int
    level: float
    table: pd.DataFrame

    @property
    def warnings(self) -> tuple[str, ...]:
        """Where the two disagree."""
        apart = self.table[self._judged(False)]
        if apart.empty:
            return ()
        told = "; ".join(
            f"{named(self.contexts, [k])}: model {_interval(row, 'model')}, randomised "
            f"{_interval(row, 'randomised')}"
            for k, row in apart.iterrows()
        )
        return (
            "position bias differs from that of randomised pages, by personalised ranking or a "
            f"poor fit: {told}",
        )

    def words(self) -> list[str]:
        """All of it, sentence by sentence."""
        said = [
            f"{self.displays:,} displays of randomised pages with {self.clicks:,} clicks were kept "
            "out of the fit, to compare with."
        ]
        agree = np.flatnonzero(self._judged(True))
        if len(agree):
            widest = self.table["difference_high"] - self.table["difference_low"]
            said.append(
                f"Model and randomised pages agree at {named(self.contexts, agree)} (differences "
                f"are known to {widest.iloc[agree].max() / 2:.2f} or better)."
            )
        said += [f"Warning: {warning}." for warning in self.warnings]
        compared = self.table["against"] != np.arange(len(self.table))
        unknown = np.flatnonzero(self._judged(None) & compared)
        if len(unknown):
            said.append(
                f"{named(self.contexts, unknown)}: too few clicks on randomised pages to compare."
            )
        return said

    def _judged(self, verdict: bool | None) -> np.ndarray:
        """(contexts,) whether this is the verdict on each."""
        return np.array([each is verdict for each in self.table["agrees"]])

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        rows = self.contexts.to_pylist()
        records = self.table.drop(columns="against").to_dict("records")
        return {
            "displays": self.displays,
            "clicks": self.clicks,
            "level": self.level,
            "agrees": None if self._judged(None).all() else not self._judged(False).any(),
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

    Positions are compared within equal values of the other context columns: who has which device,
    say, is not random. A model's bias at its bound, or relative to one, has no interval.

    A model whose contexts have a history has no bias by position alone, and is refused.
    """
    if history_of(fitted):
        raise InputError(NOT_COMPARED)
    index = contexts_of(fitted, randomised.contexts, warn=False)
    context = index[randomised.context]
    bias, _ = mean_bias(fitted)
    log_bias = _log_bias_draws(fitted)
    against = _references(fitted)
    half = stats.norm.ppf((1 + level) / 2)
    compared = max(int(np.sum(against != np.arange(len(against)))), 1)
    bound = stats.norm.ppf(1 - FALSE_ALARMS / (2 * compared))
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
        k: the context asked for.
        other: the context it is compared with.
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

    One that is beyond the bound shows that the two disagree somewhere. Only then are others whose
    interval excludes 0 counted too: of many, some do so by chance.
    """
    limit = half if np.any(scaled > bound) else bound
    return [None if np.isnan(each) else bool(each <= limit) for each in scaled]


def _references(fitted: FittedModel) -> np.ndarray:
    """(contexts,) index of the context that each is compared with.

    Of those that differ in position alone: the anchor if it is among them, else the first.
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
        fitted = replace(fitted, members=())  # whose posterior says more than they do
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
