"""Predicted clicks per page of lists: by click models, and by click rates without a model."""

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import epiclick as ec
from epiclick.api import EPISTEMIC
from epiclick.benchmark.page_data import PageLog
from epiclick.click_models.registry import REGISTRY
from epiclick.comparison.verdict import model_checks

SAMPLES = 1_000
PSEUDO = 2.0
"""Displays that the average click rate counts in the rate of an item."""

Values = Callable[[np.ndarray], np.ndarray]
"""(lists, depth) of one query, which may be cut to the positions that count -> (lists, samples) of
clicks per page, common to all lists."""


class Learned(NamedTuple):
    """What was learned from pages.

    Attributes:
        values: of lists.
        checks: names of the checks of the fit that failed.
    """

    values: Values
    checks: tuple[str, ...] = ()


Learner = Callable[[PageLog, np.ndarray], Learned]
"""From training pages and the query of each pair."""


def click_model(name: str, pages: PageLog, query_of: np.ndarray) -> Learned:
    """A click model with default parameters, and values of rankers as `compare` samples them."""
    counts = ec.read_log(pages.to_table(query_of), click_model=name)
    model = EPISTEMIC[name]().fit(counts, progress=False)

    def values(lists: np.ndarray) -> np.ndarray:
        rankings = {
            str(number): pa.table(
                {
                    "query_id": query_of[items],
                    "doc_id": items.astype(np.int64),
                    "position": np.arange(1, len(items) + 1),
                }
            )
            for number, items in enumerate(lists)
        }
        found = ec.compare(model, rankings, clicks=counts, measures=["clicks"], samples=SAMPLES)
        return found.samples().to_numpy().T

    failed = (check.name for check in model_checks(model.fitted_) if check.state == "failed")
    return Learned(values, tuple(failed))


def by_position(pages: PageLog, query_of: np.ndarray) -> Learned:
    """Click rates by query and position, whatever the items: the same for all lists of a query."""
    query = query_of[pages.pair[:, 0]]

    def values(lists: np.ndarray) -> np.ndarray:
        own = pages.clicked[query == query_of[lists[0, 0]], : lists.shape[1]].sum(axis=1)
        noise = np.random.default_rng(0).standard_normal(SAMPLES)
        sampled = own.mean() + own.std(ddof=1) / np.sqrt(len(own)) * noise
        return np.tile(sampled, (len(lists), 1))

    return Learned(values)


def by_item(pages: PageLog, query_of: np.ndarray) -> Learned:
    """Click rates of items, whatever their position."""
    displays, clicks = _by_pair(pages, len(query_of))
    rate = _by_query(clicks, query_of) / _by_query(displays, query_of)

    def values(lists: np.ndarray) -> np.ndarray:
        items, index = np.unique(lists, return_inverse=True)
        prior = rate[query_of[items]]
        return _sampled(clicks[items], displays[items], prior)[index.reshape(lists.shape)].sum(1)

    return Learned(values)


def by_item_and_position(pages: PageLog, query_of: np.ndarray) -> Learned:
    """Click rates of items in their own position; of the position where they never were there."""
    depth = pages.depth
    cell = pages.pair * depth + pages.place
    displays = np.bincount(cell.ravel(), minlength=len(query_of) * depth)
    clicks = np.bincount(cell[pages.clicked], minlength=len(query_of) * depth)
    query = query_of[pages.pair[:, 0]]

    def values(lists: np.ndarray) -> np.ndarray:
        rate = pages.clicked[query == query_of[lists[0, 0]]].mean(axis=0)
        place = np.arange(lists.shape[1])
        cells, index = np.unique(lists * depth + place, return_inverse=True)
        sampled = _sampled(clicks[cells], displays[cells], rate[cells % depth])
        return sampled[index.reshape(lists.shape)].sum(axis=1)

    return Learned(values)


def _by_pair(pages: PageLog, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.bincount(pages.pair.ravel(), minlength=pairs),
        np.bincount(pages.pair[pages.clicked], minlength=pairs),
    )


def _by_query(of_pairs: np.ndarray, query_of: np.ndarray) -> np.ndarray:
    return np.bincount(query_of, of_pairs)


def _sampled(clicks: np.ndarray, displays: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """(n, samples) of independent Betas, whose prior is the average rate."""
    rate = np.clip(rate, 1e-6, 1 - 1e-6)[:, None]
    clicked, skipped = clicks[:, None], (displays - clicks)[:, None]
    shape = (len(clicks), SAMPLES)
    return np.random.default_rng(0).beta(
        clicked + PSEUDO * rate, skipped + PSEUDO * (1 - rate), shape
    )


LEARNERS: Mapping[str, Learner] = {
    **{name: functools.partial(click_model, name) for name in REGISTRY},
    "position": by_position,
    "item": by_item,
    "item-position": by_item_and_position,
}
"""By the name of their rows."""
