r"""Click rates of the training counts: what any click model has to beat.

A rate is drawn towards the overall one as if each group had one display more:

.. math:: p = \frac{M + c\, r}{N + c}, \quad c = 1,

with N displays and M clicks of the group in training and r the overall click rate. So a group that
training never showed gets r, and one without a click does not get 0, which one click would refute.
"""

from collections.abc import Callable, Mapping

import numpy as np

from epiclick.data.counts import ClickCounts
from epiclick.data.matching import locate_rows
from epiclick.models.fitted import FittedModel, given_of
from epiclick.models.prediction import given_contexts_of

EXTRA_DISPLAYS = 1.0  # c


def overall_rate(train: ClickCounts, test: ClickCounts) -> np.ndarray:
    """(entries of test,) the click rate of all training displays, everywhere."""
    return np.full(len(test.pair), train.total_clicks / train.total_displays)


def rate_by_context(train: ClickCounts, test: ClickCounts) -> np.ndarray:
    """(entries of test,) the click rate of the entry's given context (rank)."""
    train, (given, index) = train.by_given(), test.given
    names = train.contexts.column_names
    row = locate_rows(
        {name: given[name] for name in names},
        {name: train.contexts[name] for name in names},
    )
    return _smoothed(train, train.context, len(train.contexts), row)[index[test.context]]


def rate_by_document(train: ClickCounts, test: ClickCounts) -> np.ndarray:
    """(entries of test,) the click rate of the entry's own (query, doc) pair, wherever shown."""
    row = locate_rows(
        {"query_id": test.query_id, "doc_id": test.doc_id},
        {"query_id": train.query_id, "doc_id": train.doc_id},
    )
    return _smoothed(train, train.pair, len(train), row)[test.pair]


def kept_rates(fitted: FittedModel, test: ClickCounts) -> dict[str, np.ndarray]:
    """(entries of test,) the click rates that a model keeps of its own log, by name of the rule."""
    kept, (_, index) = fitted.training.checks["by_context"], given_of(fitted)
    displays, clicks = (np.bincount(index, kept[name]) for name in ("displays", "clicks"))
    overall = clicks.sum() / displays.sum()
    given, place = test.given
    row = given_contexts_of(fitted, given)
    smoothed = (clicks + EXTRA_DISPLAYS * overall) / (displays + EXTRA_DISPLAYS)
    rate = np.where(row < 0, overall, smoothed[row])
    return {
        "overall": np.full(len(test.pair), overall),
        "by_context": rate[place[test.context]],
    }


Baseline = Callable[[ClickCounts, ClickCounts], np.ndarray]

BASELINES: Mapping[str, Baseline] = {
    "overall": overall_rate,
    "by_context": rate_by_context,
    "by_document": rate_by_document,
}
"""Name -> function of training and test counts, giving the probability of a click at each entry."""


def _smoothed(train: ClickCounts, group: np.ndarray, size: int, row: np.ndarray) -> np.ndarray:
    """The smoothed rate of the training groups at `row`, of an empty group where that is -1."""
    rate = train.total_clicks / train.total_displays
    displays = np.bincount(group, train.displays, size + 1)[row]  # row -1: the empty one at the end
    clicks = np.bincount(group, train.clicks, size + 1)[row]
    return (clicks + EXTRA_DISPLAYS * rate) / (displays + EXTRA_DISPLAYS)
