r"""Scores of predicted clicks, and the baselines that any click model has to beat.

Conventions are those of PyClick: natural logarithms for the log-likelihood, which is the mean
within a result page and then over pages; perplexity at a rank is 2 to the minus mean log2 of the
probability of what happened, averaged over ranks with equal weights.

A baseline's rate is shrunk towards the overall one as if each group had one more display:

.. math:: p = \frac{M + c\, r}{N + c}, \quad c = 1,

with N displays and M clicks of the group in training and r the overall click rate. So a group
without displays in training gets r, and one without clicks does not get 0, which a single click
would make infinitely wrong.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy

from epiclick.data.arrays import locate_rows
from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError
from epiclick.fitted.prediction import given_contexts_of
from epiclick.fitted.state import FittedModel, given_of

if TYPE_CHECKING:
    from epiclick.data.page_weights import PageWeights


@dataclass(frozen=True, eq=False)
class ClickScores:
    """How well click probabilities predicted the clicks.

    Attributes:
        display_log_likelihood: mean log-probability of what happened, per display.
        pair_log_likelihood: the same per (query, doc) pair.
        page_log_likelihood: mean within a page, then over pages; None where pages are unknown.
        perplexity: mean over the given contexts ("ranks") that were displayed.
        by_context: given context columns, displays, clicks, observed, predicted, perplexity; one
            row per given context.
    """

    display_log_likelihood: float
    pair_log_likelihood: float
    page_log_likelihood: float | None
    perplexity: float
    by_context: pd.DataFrame

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON, which has no infinity: values that are not finite become None."""
        return {
            "log_likelihood": {
                "display": _finite(self.display_log_likelihood),
                "pair": _finite(self.pair_log_likelihood),
                "page": _finite(self.page_log_likelihood),
            },
            "perplexity": _finite(self.perplexity),
            "by_position": [
                {name: _finite(value) for name, value in row.items()}
                for row in self.by_context.to_dict("records")
            ],
        }


def score_clicks(
    counts: ClickCounts,
    probability: np.ndarray,
    page_weights: "PageWeights | None" = None,
    *,
    pair_log_likelihood: float | None = None,
) -> ClickScores:
    r"""Score the probability of a click at each entry against the clicks.

    .. math:: \ell = \sum_i M_i \log p_i + (N_i - M_i) \log(1 - p_i)

    divided by displays and by pairs; for pages, each display is weighted by one over the length of
    its page. A probability of 0 or 1 scores 0 where the clicks agree, and minus infinity where they
    contradict it.

    Args:
        counts: the displays and clicks.
        probability: (entries,) of a click at each entry of `counts`.
        page_weights: weights of the entries within their pages; without them there is no page
            score.
        pair_log_likelihood: the mean joint log-probability of a pair's clicks, for a model under
            which displays of a pair are not independent; used as given.
    """
    p = _checked(counts, probability)
    clicks, unclicked = counts.clicks, counts.displays - counts.clicks
    log_probability = scipy.special.xlogy(clicks, p) + scipy.special.xlog1py(
        unclicked, -p
    )  # (entries,)
    total = float(log_probability.sum())
    by_context = _by_context(counts, p, log_probability)
    page = None
    if page_weights is not None:
        assert len(page_weights.clicked) == len(p), "page weights of other counts"
        weighted = scipy.special.xlogy(page_weights.clicked, p) + scipy.special.xlog1py(
            page_weights.unclicked, -p
        )
        page = float(weighted.sum()) / page_weights.pages
    return ClickScores(
        display_log_likelihood=total / counts.total_displays,
        pair_log_likelihood=total / len(counts)
        if pair_log_likelihood is None
        else pair_log_likelihood,
        page_log_likelihood=page,
        # contexts that were displayed only in other parts of a split are NaN, and left out
        perplexity=float(by_context["perplexity"].mean()),
        by_context=by_context,
    )


def _by_context(counts: ClickCounts, p: np.ndarray, log_probability: np.ndarray) -> pd.DataFrame:
    given, index = counts.given
    size, table, context = len(given), given.to_pandas(), index[counts.context]
    displays = np.bincount(context, counts.displays, size)
    clicks = np.bincount(context, counts.clicks, size)
    expected = np.bincount(context, counts.displays * p, size)
    log_sum = np.bincount(context, log_probability, size)
    shown = np.where(displays > 0, displays, np.nan)
    table["displays"], table["clicks"] = displays.astype(np.int64), clicks.astype(np.int64)
    table["observed"] = clicks / shown
    table["predicted"] = expected / shown
    with np.errstate(over="ignore"):  # beyond float64 is as good as infinite
        table["perplexity"] = np.exp(-log_sum / shown)  # the base of 2 cancels
    return table


def _checked(counts: ClickCounts, probability: np.ndarray) -> np.ndarray:
    p = np.asarray(probability, np.float64)
    if p.shape != counts.pair.shape:
        raise InputError(
            f"one probability per entry is needed: {len(counts.pair):,} entries, "
            f"probabilities of shape {p.shape}",
            code="probabilities-wrong-shape",
        )
    bad = np.flatnonzero(~((p >= 0) & (p <= 1)))
    if len(bad):
        raise InputError(
            f"probabilities must lie in [0, 1]; {len(bad):,} do not, first at entry {bad[0]}: "
            f"{p[bad[0]]}",
            code="probability-out-of-range",
        )
    return p


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


EXTRA_DISPLAYS = 1.0  # c


def overall_rate(train: ClickCounts, test: ClickCounts) -> np.ndarray:
    """(entries of test,) the click rate of all training displays."""
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
    """(entries of test,) the click rate of the entry's (query, doc) pair over all positions."""
    row = locate_rows(
        {"query_id": test.query_id, "doc_id": test.doc_id},
        {"query_id": train.query_id, "doc_id": train.doc_id},
    )
    return _smoothed(train, train.pair, len(train), row)[test.pair]


def kept_rates(fitted: FittedModel, test: ClickCounts) -> dict[str, np.ndarray]:
    """(entries of test,) the click rates of its training log that a model keeps, by baseline."""
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
"""Name -> function of training and test counts: the probability of a click at each test entry."""


def _smoothed(train: ClickCounts, group: np.ndarray, size: int, row: np.ndarray) -> np.ndarray:
    """The smoothed rate of the training groups at `row`; of an empty group where it is -1."""
    rate = train.total_clicks / train.total_displays
    displays = np.bincount(group, train.displays, size + 1)[row]  # row -1: the empty last group
    clicks = np.bincount(group, train.clicks, size + 1)[row]
    return (clicks + EXTRA_DISPLAYS * rate) / (displays + EXTRA_DISPLAYS)
