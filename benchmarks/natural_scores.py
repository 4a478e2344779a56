r"""Scores of predicted clicks per page against observed ones, which are uncertain as well.

A model predicts samples :math:`v_1 ... v_S` of what is expected, pages show a mean m with standard
error s. If both are right, m is a draw of the mixture of Student distributions around the samples,
and its rank there

.. math:: u = \frac1S \sum_i T_\nu\left(\frac{m - v_i}{s}\right)

is uniform: the predictive interval of level p contains m if :math:`|u - 1/2| \le p / 2`. The same
holds for differences of two lists, from common samples and with Welch's degrees of freedom.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy import special

from epiclick.evaluation.coverage import clustered_share
from natural_lists import MeanClicks

LEVELS = (0.5, 0.9)
CONFIDENCE = 0.9
"""Of the interval of a share, by query."""

EDGES = (0.5, 0.7, 0.95, 1.0)
"""Of the bins of the probability that a list is better; from the last but one on it is sure."""


@dataclass(frozen=True, eq=False)
class Judged:
    """Predictions beside what was observed; (n,) each.

    Attributes:
        query: of the list or of both.
        one: the list.
        other: the list it is compared with; -1 for values.
        predicted: mean of the samples.
        variance: of the samples.
        better: share of positive samples: of a difference, P(better).
        observed: mean of the pages.
        error: its standard error.
        rank: u.
        positive: predicted probability that the observed mean is positive.
        known: whether all items were on training pages.
    """

    query: np.ndarray
    one: np.ndarray
    other: np.ndarray
    predicted: np.ndarray
    variance: np.ndarray
    better: np.ndarray
    observed: np.ndarray
    error: np.ndarray
    rank: np.ndarray
    positive: np.ndarray
    known: np.ndarray

    @classmethod
    def together(cls, parts: Iterable[Self]) -> Self:
        """Several, one after the other."""
        every = list(parts)
        return cls(
            **{
                each.name: np.concatenate([getattr(part, each.name) for part in every])
                for each in fields(cls)
            }
        )

    def where(self, mask: np.ndarray) -> "Judged":
        """Some of them."""
        return Judged(**{each.name: getattr(self, each.name)[mask] for each in fields(self)})

    def __len__(self) -> int:
        """Number of predictions."""
        return len(self.rank)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Samples of the clicks per page of lists, and what pages showed.

    Attributes:
        query: (lists,).
        lists: (lists,) numbers.
        items: (lists, depth).
        samples: (lists, samples), common to all lists.
        observed: of these lists.
        known: (lists,) whether all items were on training pages.
        shrink: factor of all widths, for a control.
    """

    query: np.ndarray
    lists: np.ndarray
    items: np.ndarray
    samples: np.ndarray
    observed: MeanClicks
    known: np.ndarray
    shrink: float = 1.0

    def values(self, where: np.ndarray) -> Judged:
        """Of some lists."""
        other, known = np.full(len(where), -1), self.known[where]
        return self._judged(self.samples[where], self.observed.at(where), where, other, known)

    def differences(self, one: np.ndarray, other: np.ndarray) -> Judged:
        """Of pairs of lists, except those that show the same items."""
        differ = (self.items[one] != self.items[other]).any(axis=1)
        one, other = one[differ], other[differ]
        seen = self.observed.at(one).minus(self.observed.at(other))
        known = self.known[one] & self.known[other]
        drawn = self.samples[one] - self.samples[other]
        return self._judged(drawn, seen, one, self.lists[other], known)

    def _judged(
        self,
        samples: np.ndarray,
        seen: MeanClicks,
        one: np.ndarray,
        other: np.ndarray,
        known: np.ndarray,
    ) -> Judged:
        centre = samples.mean(axis=1)
        drawn = centre[:, None] + self.shrink * (samples - centre[:, None])
        error = self.shrink * seen.error
        return Judged(
            query=self.query[one],
            one=self.lists[one],
            other=other,
            predicted=centre,
            variance=drawn.var(axis=1),
            better=(drawn > 0).mean(axis=1) + (drawn == 0).mean(axis=1) / 2,
            observed=seen.mean,
            error=error,
            rank=_below(seen.mean, drawn, error, seen.degrees),
            positive=1 - _below(np.zeros(len(drawn)), drawn, error, seen.degrees),
            known=known,
        )


def _below(
    point: np.ndarray, samples: np.ndarray, error: np.ndarray, degrees: np.ndarray
) -> np.ndarray:
    """(n,) probability that sample plus sampling error is below the point."""
    z = (point[:, None] - samples) / error[:, None]
    return special.stdtr(degrees[:, None], z).mean(axis=1)


def covered(judged: Judged, level: float) -> np.ndarray:
    """(n,) whether predictive intervals contain the observed mean."""
    return np.abs(judged.rank - 0.5) <= level / 2


def calibration(judged: Judged) -> dict[str, Any]:
    """Coverage with its interval by query, and the size of errors beyond sampling error.

    `dispersion` is the root mean square of errors in predicted standard deviations, 1 if these are
    right; `model_share` the share of the predicted variance that is the model's, not the pages'.
    `error` and `noise` are root mean squares, of predicted minus observed clicks per page and of
    the standard error of the latter.
    """
    if not len(judged):
        return {"predictions": 0}
    miss, noise = judged.predicted - judged.observed, judged.error**2
    total = judged.variance + noise
    found: dict[str, Any] = {
        "predictions": len(judged),
        "distinct": len(np.unique(np.stack([judged.one, judged.other]), axis=1).T),
        "queries": len(np.unique(judged.query)),
    }
    for level in LEVELS:
        hit = covered(judged, level)
        share = clustered_share(hit, judged.query, CONFIDENCE)
        found[f"coverage_{level:.0%}".rstrip("%")] = {
            "actual": share.actual,
            "low": share.low,
            "high": share.high,
        }
    return found | {
        "dispersion": float(np.sqrt((miss**2 / total).mean())),
        "model_share": float((judged.variance / total).mean()),
        "bias": float(miss.mean()),
        "observed": float(judged.observed.mean()),
        "error": float(np.sqrt((miss**2).mean())),
        "noise": float(np.sqrt(noise.mean())),
    }


def value_scores(judged: Judged) -> dict[str, Any]:
    """Scores of values; the correlation is between lists of the same query."""
    return {
        **calibration(judged),
        "correlation": _correlation(
            _centred(judged.predicted, judged.query), _centred(judged.observed, judged.query)
        ),
        "by_query": {
            str(query): _of_query(judged.where(judged.query == query))
            for query in np.unique(judged.query)
        },
        "known": calibration(judged.where(judged.known)),
        "unknown": calibration(judged.where(~judged.known)),
    }


def _of_query(judged: Judged) -> dict[str, Any]:
    found = calibration(judged)
    kept = ("predictions", "distinct", "dispersion", "bias", "observed")
    return {name: found[name] for name in kept} | {"coverage_90": found["coverage_90"]["actual"]}


def difference_scores(judged: Judged) -> dict[str, Any]:
    """Scores of differences, whose order is of no account, and of the probability of each sign.

    `agree` is the share of pairs whose observed difference has the predicted sign, ties counted
    half; `expected` is what it would be if the prediction were right, sampling error included.
    """
    return {
        **calibration(judged),
        "bias": None,
        "correlation": _correlation(judged.predicted, judged.observed),
        "ceiling": _ceiling(judged),
        "orders": [_order(judged, low, high) for low, high in pairwise(EDGES) if len(judged)],
    }


def _order(judged: Judged, low: float, high: float) -> Mapping[str, Any]:
    """Pairs whose better list is predicted with a probability within a bin."""
    better = np.maximum(judged.better, 1 - judged.better)
    own = (better >= low) & ((better < high) | (high == EDGES[-1]))
    found: dict[str, Any] = {"low": low, "high": high, "pairs": int(own.sum())}
    if not own.any():
        return found
    side = np.sign(judged.better - 0.5)[own]
    positive, observed = judged.positive[own], judged.observed[own]
    agree = (1 + side * np.sign(observed)) / 2
    reversed_ = side * observed / judged.error[own] < -special.ndtri((1 + LEVELS[-1]) / 2)
    share = clustered_share(agree, judged.query[own], CONFIDENCE)
    return found | {
        "better": float(better[own].mean()),
        "expected": float(
            np.where(side > 0, positive, np.where(side < 0, 1 - positive, 0.5)).mean()
        ),
        "agree": share.actual,
        "agree_low": share.low,
        "agree_high": share.high,
        "reversed": float(reversed_.mean()),
    }


def _centred(values: np.ndarray, query: np.ndarray) -> np.ndarray:
    _, index = np.unique(query, return_inverse=True)
    return values - (np.bincount(index, values) / np.bincount(index))[index]


def _correlation(one: np.ndarray, other: np.ndarray) -> float | None:
    """About 0, so that the order of two lists does not matter; None if nothing varies."""
    scale = np.sqrt((one**2).sum() * (other**2).sum())
    return float((one * other).sum() / scale) if scale > 1e-12 else None


def _ceiling(judged: Judged) -> float:
    """The correlation that the true expected differences would have, given the sampling error."""
    signal = 1 - (judged.error**2).mean() / (judged.observed**2).mean()
    return float(np.sqrt(max(signal, 0.0)))
