"""What a click on an item is worth: the probability of a conversion, or its expected value.

Given the log, it is independent of the item's relevance: conversions among clicks say nothing about
how often an item is clicked. Its parameters are drawn independently of those of clicks.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from epiclick.comparison.factors import Moments
from epiclick.comparison.shown_items import CHUNK, Items, moments_of
from epiclick.data.arrays import locate_rows
from epiclick.fitted.parameters import parameter_draws
from epiclick.fitted.prediction import chunks_of
from epiclick.fitted.revenue import Revenue, pair_values
from epiclick.fitted.state import FittedModel
from epiclick.posterior.conversion_items import conversion_betas

OWN_SEED = 1_000_003
"""Added to the seed of a comparison, whose draws of the parameters of clicks must be others."""

TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Worth:
    """What clicks count.

    Attributes:
        moments: mean and variance under every draw, between 0 and 1, in chunks of items.
        unit: what 1 stands for.
    """

    moments: Moments
    unit: float = 1.0


def conversion_worth(fitted: FittedModel, items: Items, draws: int, seed: int) -> Worth:
    """The probability that a click leads to a conversion."""
    conversion = fitted.conversion
    assert conversion is not None
    drawn = parameter_draws(conversion, draws, seed=seed + OWN_SEED)
    assert len(drawn) == draws

    def given_conversions() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        assert items.counts is not None
        for _, _, part in chunks_of(items.counts, CHUNK):
            betas = conversion_betas(conversion, part, drawn)
            yield betas.mean, betas.variance

    known = None if items.counts is None else given_conversions()
    rng = np.random.default_rng([seed, 12])
    return Worth(moments_of(conversion, items, drawn, rng, known))


def value_worth(fitted: FittedModel, items: Items, draws: int, seed: int) -> Worth:
    """The value that a click leads to: probability of a conversion times its value."""
    revenue = fitted.revenue
    assert revenue is not None
    number, value = _values(fitted, revenue, items)
    overall = revenue.draws[:draws]
    assert len(overall) == draws
    # relative to the unit all products are below 1, and their variance below that of 0 and 1
    own = np.divide(value, number, out=np.zeros(len(number)), where=number > 0)
    most = max(overall.max(), own.max(initial=0.0)) + revenue.between / max(overall.min(), TINY)
    unit = 2 * max(float(most), TINY)

    def products() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        start = 0
        for mean, variance in conversion_worth(fitted, items, draws, seed).moments:
            stop = start + mean.shape[1]
            its, spread = revenue.moments(number[start:stop], value[start:stop], overall)
            its, spread = its / unit, spread / unit**2
            start = stop
            yield mean * its, (variance + mean**2) * (spread + its**2) - (mean * its) ** 2

    return Worth(products(), unit)


WORTH: Mapping[str, Callable[[FittedModel, Items, int, int], Worth]] = {
    "conversion": conversion_worth,
    "value": value_worth,
}
"""By the name that measures have for it; arguments are those of `conversion_worth`."""


def known_worth(fitted: FittedModel) -> tuple[str, ...]:
    """What a model knows about the worth of clicks."""
    known = {"conversion": fitted.conversion is not None, "value": fitted.revenue is not None}
    return tuple(name for name in WORTH if known[name])


def _values(fitted: FittedModel, revenue: Revenue, items: Items) -> tuple[np.ndarray, np.ndarray]:
    """(items,) conversions and their total value; 0 for items without any of their own."""
    found = [np.zeros((0, 2))]
    counts = items.counts
    if counts is not None and counts.conversions is None and revenue.items is not None:
        assert fitted.items is not None
        names = ("query_id", "doc_id")
        row = locate_rows(*({n: getattr(c, n) for n in names} for c in (counts, fitted.items)))
        found.append(np.where(row[:, None] >= 0, revenue.items[row], 0.0))
    elif counts is not None:
        found.append(np.stack(pair_values(counts), axis=1))
    if revenue.items is not None:
        found.append(revenue.items[items.kept])
    known = np.concatenate(found)
    known = np.concatenate([known, np.zeros((len(items) - len(known), 2))])
    return known[:, 0], known[:, 1]
