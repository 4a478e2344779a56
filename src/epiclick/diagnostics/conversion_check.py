r"""Whether conversions after a click depend on the position of the click, given the item.

The model of conversions assumes that they do not. The clicks on one item at several positions show
it: with n_ik clicks and y_ik conversions of item i at position k, and x_k = log2 k, the score of a
common slope in the log odds, given how many conversions each item has (Mantel and Haenszel's
conditioning), is

.. math:: U = \sum_i \sum_k x_k \Big(y_{ik} - n_{ik} \frac{y_i}{n_i}\Big), \qquad
          z = \frac{U}{\sqrt{\sum_q U_q^2}},

with U_q the part of query q, so that z is valid whatever makes the conversions of a query alike.
U divided by its conditional variance under independence estimates the slope.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import special

from epiclick.data.arrays import distinct
from epiclick.data.counts import ClickCounts

SIGNIFICANT = 0.01
"""Probability of a warning where conversions are free of position."""

NEGLIGIBLE = 0.05
"""Smallest relative difference in odds between the first and the last position that matters."""

LEAST_QUERIES = 10.0
"""Effective number of queries below which their differences do not give a standard error."""

LEVEL = 0.9


@dataclass(frozen=True)
class PositionCheck:
    """The effect of position on conversions of the same item.

    Attributes:
        queries: effective number of queries that tell.
        z: of the score; None if there are too few of them.
        p: two-sided probability of a larger |z| without an effect; None likewise.
        first: first position at which there are clicks to compare.
        last: last one.
        odds_ratio: odds of a conversion after a click at the last relative to the first position.
        low: lower end of its interval of 90 %.
        high: upper end.
    """

    queries: float
    z: float | None = None
    p: float | None = None
    first: int | None = None
    last: int | None = None
    odds_ratio: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def is_violated(self) -> bool:
        """Whether position matters, and not by chance."""
        if self.p is None or self.odds_ratio is None:
            return False
        return self.p < SIGNIFICANT and abs(self.odds_ratio - 1) > NEGLIGIBLE

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        return {**asdict(self), "violated": self.is_violated}

    @property
    def sentence(self) -> str:
        """What was found, for people."""
        if self.odds_ratio is None or self.low is None or self.high is None:
            return "too few items were clicked at several positions"
        low, high = (f"{end - 1:+.0%}" for end in (self.low, self.high))
        return (
            f"for the same item, the odds of a conversion after a click at position {self.last} "
            f"differ by {self.odds_ratio - 1:+.0%} from those at position {self.first} ({low} to "
            f"{high})"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """A warning if position matters."""
        if not self.is_violated:
            return ()
        return (
            f"conversions depend on the position of the click: {self.sentence}. The model assumes "
            "that they do not, so it misjudges items that a ranker moves between these positions. "
            "Conversions per page of rankers that keep items near their positions are less "
            "affected",
        )


def check_positions(counts: ClickCounts) -> PositionCheck:
    """Test whether conversions depend on position; counts have conversions."""
    counts = counts.by_given()
    assert counts.conversions is not None
    if "position" not in counts.contexts.column_names:
        return PositionCheck(0.0)
    position = np.asarray(counts.contexts["position"], np.float64)[counts.context]
    x = np.log2(np.maximum(position, 1.0))
    number, stratum = _strata(counts)
    n, y = counts.clicks.astype(np.float64), counts.conversions.number.astype(np.float64)
    clicks, converted, first, second = (
        np.bincount(stratum, each, number) for each in (n, y, n * x, n * x**2)
    )
    some = np.maximum(clicks, 1)
    spread = np.maximum(second - first**2 / some, 0.0)
    rate = converted / some
    # conditional variance of the score of a stratum: that of a hypergeometric distribution
    variance = rate * (1 - rate) * clicks / np.maximum(clicks - 1, 1) * spread
    tells = variance > 1e-12 * np.maximum(spread.max(initial=0.0), 1.0)
    score = x * (y - n * rate[stratum]) * tells[stratum]
    by_query = np.bincount(counts.query[counts.pair], score, counts.num_queries)
    squares = float((by_query**2).sum())
    queries = squares**2 / float((by_query**4).sum()) if squares > 0 else 0.0
    if queries < LEAST_QUERIES:
        return PositionCheck(queries)
    information = float(variance[tells].sum())
    slope, error = by_query.sum() / information, np.sqrt(squares) / information
    z = slope / error
    used = position[tells[stratum] & (n > 0)]
    span = np.log2(used.max()) - np.log2(used.min())
    reach = special.ndtri((1 + LEVEL) / 2) * error
    ratio, low, high = np.exp(span * np.array([slope, slope - reach, slope + reach]))
    return PositionCheck(
        queries=queries,
        z=float(z),
        p=float(2 * special.ndtr(-abs(z))),
        first=int(used.min()),
        last=int(used.max()),
        odds_ratio=float(ratio),
        low=float(low),
        high=float(high),
    )


def _strata(counts: ClickCounts) -> tuple[int, np.ndarray]:
    """Number of strata, and (entries,) that of each: a pair, apart by contexts but the position."""
    others = [name for name in counts.contexts.column_names if name != "position"]
    if not others:
        return len(counts), counts.pair
    kinds, kind = distinct({name: counts.contexts[name].combine_chunks() for name in others})
    return len(counts) * len(kinds), counts.pair * len(kinds) + kind[counts.context]


def conversion_words(counts: ClickCounts, found: PositionCheck) -> list[str]:
    """Sentences on the conversions of a log."""
    assert counts.conversions is not None
    total, clicks = counts.conversions.total, counts.total_clicks
    return [
        f"Conversions ({counts.options.conversion}): {total:,} of {clicks:,} clicks "
        f"({total / clicks:.1%}) led to one.",
        "Assumed: whether a click leads to a conversion depends on the item, not on the position. "
        f"{'Not checked' if found.z is None else 'Checked'}: {found.sentence}.",
    ]
