r"""Estimates of rankers' clicks on supported items, with intervals, beside the model's own value.

All estimators of `other_estimators` are linear in clicks: an item's own clicks decide a share
kappa_i of its relevance, 1 unless the estimator is doubly robust. The variance of an estimate is
that of clicks given relevance, that of relevance as far as clicks do not decide, and that of the
parameters:

.. math:: \phi \sum_i E_i^2 \kappa_i^2 \operatorname{Var}(\hat\zeta_i \mid \zeta_i)
          + \sum_i E_i^2 (1 - \kappa_i)^2 \operatorname{Var} \zeta_i
          + \operatorname{Var}_\theta \hat V.

phi, at least 1, is the variance of the clicks of queries about what the calibrated model predicts
before it has seen them, relative to the one that it expects.

The difference from the model's value uses the same clicks in both, so its variance is not the sum
of theirs. It is that of the sum of the queries' differences, whatever the correlation within a
query, and again that of the parameters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy import special

from epiclick.comparison.item_means import ItemMeans
from epiclick.comparison.other_estimators import (
    ESTIMATORS,
    TINY,
    ByClicks,
    DrawTotals,
    kept_share,
)
from epiclick.diagnostics.clustered_score import ClusteredScore

UNAVAILABLE = {
    "click_model": "clicks on a page depend on each other under this click model",
    "no_overlap": "the log shows none of its items",
    "few_queries": "its items in the log belong to too few queries",
}
"""Why there is no estimate, by code."""

NONE = float("nan")


@dataclass(frozen=True)
class Estimate:
    """A ranker's clicks per page on supported items by one estimator.

    Numbers are NaN where there is no estimate.

    Attributes:
        name: of the ranker.
        estimator: one of `ESTIMATORS`.
        value: clicks per page.
        low: lower end of its interval.
        high: upper end.
        model: the model's value of the same slots.
        difference: of the estimate from it.
        diff_low: lower end of its interval.
        diff_high: upper end.
        p_value: probability of a difference as large if both estimate the same.
        unavailable: why there is no estimate, a key of `UNAVAILABLE`; "" if there is one.
    """

    name: str
    estimator: str
    value: float = NONE
    low: float = NONE
    high: float = NONE
    model: float = NONE
    difference: float = NONE
    diff_low: float = NONE
    diff_high: float = NONE
    p_value: float = NONE
    unavailable: str = ""

    @property
    def available(self) -> bool:
        """Whether there is an estimate."""
        return not self.unavailable


def not_available(names: Sequence[str], why: str) -> tuple[Estimate, ...]:
    """No estimate for any of these rankers, for the same reason."""
    return tuple(Estimate(name, each, unavailable=why) for name in names for each in ESTIMATORS)


def estimates_of(
    names: Sequence[str], totals: DrawTotals, means: ItemMeans, level: float, *, members: bool
) -> tuple[Estimate, ...]:
    """All estimates of all rankers.

    Args:
        names: of the rankers.
        totals: over all supported items.
        means: relevance by the model.
        level: probability of the intervals.
        members: whether the draws of the parameters are members of an ensemble.
    """
    own = _Supported.of(totals, means)
    return tuple(
        each
        for number, name in enumerate(names)
        for each in _of_ranker(name, number, totals, own, level, members=members)
    )


def _of_ranker(
    name: str,
    number: int,
    totals: DrawTotals,
    own: "_Supported",
    level: float,
    *,
    members: bool,
) -> Iterator[Estimate]:
    target = own.target[:, number]
    if not target.any():
        yield from not_available([name], "no_overlap")
        return
    fixed = totals.fixed()[:, number]  # (draws,)
    model = totals.model[:, number] + fixed
    for each, values in totals.by_estimator().items():
        kept, relevance, variance = own.by_estimator(each)
        score = target * (kept * relevance + (1 - kept) * own.calibrated - own.relevance)
        apart = ClusteredScore.of(totals.pairs.query, score, target, 1.0)
        if apart is None:
            yield Estimate(name, each, unavailable="few_queries")
            continue
        value = values[:, number] + fixed
        of_value, of_difference = (
            _Error.of(noise, drawn, apart.clusters, members=members)
            for noise, drawn in (
                (np.sqrt((np.square(target) * variance).sum()), value),
                (apart.error * target.sum(), value - model),
            )
        )
        middle, away = float(value.mean()), float((value - model).mean())
        yield Estimate(
            name=name,
            estimator=each,
            value=middle,
            low=middle - of_value.half_width(level),
            high=middle + of_value.half_width(level),
            model=float(model.mean()),
            difference=away,
            diff_low=away - of_difference.half_width(level),
            diff_high=away + of_difference.half_width(level),
            p_value=of_difference.p_value(away),
        )


class _Error(NamedTuple):
    """Error of a number that depends on clicks and parameters.

    Attributes:
        total: standard error.
        freedom: its degrees of freedom.
    """

    total: float
    freedom: float

    @classmethod
    def of(cls, noise: float, drawn: np.ndarray, queries: float, *, members: bool) -> Self:
        """From the error due to clicks, and the number under every draw of the parameters."""
        draws = len(drawn)
        spread = float(drawn.std(ddof=int(members and draws > 1)))
        # draws of a Gaussian come in pairs that mirror each other; Welch and Satterthwaite's rule
        by_draws = max(draws - 1 if members else draws / 2, 1)
        variance = max(noise**2 + spread**2, TINY**2)
        fourth = noise**4 / (queries - 1) + spread**4 / by_draws
        return cls(float(np.sqrt(variance)), float(variance**2 / max(fourth, TINY**4)))

    def half_width(self, level: float) -> float:
        """Half of the interval of a level."""
        return float(special.stdtrit(self.freedom, (1 + level) / 2)) * self.total

    def p_value(self, away: float) -> float:
        """Probability of a number as far from 0, if 0 is the truth."""
        return float(2 * special.stdtr(self.freedom, -abs(away) / self.total))


@dataclass(frozen=True, eq=False)
class _Supported:
    """The supported items at the mean of the parameters; (pairs,) each unless noted.

    Attributes:
        target: E, (pairs, rankers).
        by_clicks: relevance by an item's clicks alone, (pairs, 1) each.
        kept: kappa of the doubly robust estimator.
        relevance: by the model.
        calibrated: before the item's own clicks, calibrated on other folds.
        spread: variance of relevance among such items.
        ips_variance: of relevance by IPS, given relevance itself.
        snips_variance: of relevance by self-normalised IPS.
    """

    target: np.ndarray
    by_clicks: ByClicks
    kept: np.ndarray
    relevance: np.ndarray
    calibrated: np.ndarray
    spread: np.ndarray
    ips_variance: np.ndarray
    snips_variance: np.ndarray

    @classmethod
    def of(cls, totals: DrawTotals, means: ItemMeans) -> Self:
        pairs, outcome, size = totals.pairs, totals.outcome, len(totals.pairs)
        lines = totals.lines.average
        target, logged = pairs.exposure(lines.rise)
        by_clicks = ByClicks.of(pairs, lines, logged, 0, size)
        exposed = np.maximum(logged[:, 0], TINY)
        displays = pairs.displays.sum(axis=1)
        calibrated = totals.calibration.mean(axis=0)[totals.fold] * outcome.mean
        before = (calibrated, np.square(calibrated) + outcome.variance)
        given = (means.mean[:size], means.square[:size])
        inverse = 1 / np.maximum(lines.rise, TINY)
        one = np.ones_like(inverse)
        by_query = np.bincount(pairs.query, by_clicks.clicks[:, 0] - exposed * calibrated)
        expected = _variance(totals, one, *before) + np.square(exposed) * outcome.variance
        excess = max(float(np.square(by_query).sum() / max(expected.sum(), TINY)), 1.0)
        return cls(
            target=target[..., 0],
            by_clicks=by_clicks,
            kept=kept_share(pairs, logged, 0, size)[:, 0],
            relevance=given[0],
            calibrated=calibrated,
            spread=outcome.variance,
            ips_variance=excess * _variance(totals, inverse, *given) / displays**2,
            snips_variance=excess * _variance(totals, one, *given) / exposed**2,
        )

    def by_estimator(self, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Share that own clicks decide, relevance by these, and variance; (pairs,) each."""
        all_of_it = np.ones(len(self.kept))
        if name == "ips":
            return all_of_it, self.by_clicks.ips[:, 0], self.ips_variance
        if name == "snips":
            return all_of_it, self.by_clicks.snips[:, 0], self.snips_variance
        variance = self.kept**2 * self.snips_variance + (1 - self.kept) ** 2 * self.spread
        return self.kept, self.by_clicks.snips[:, 0], variance


def _variance(
    totals: DrawTotals, weight: np.ndarray, mean: np.ndarray, square: np.ndarray
) -> np.ndarray:
    """(pairs,) variance of an item's weighted clicks, from moments of its relevance, (pairs,) each.

    With p = O + S zeta at a display, it is the sum of E[p (1 - p)] times the weight squared, which
    is (1, contexts).
    """
    (s, o), w = totals.lines.average, np.square(weight)
    parts = (w * o * (1 - o), w * s * (1 - 2 * o), w * s**2)
    fixed, linear, quadratic = (totals.pairs.logged(each)[:, 0] for each in parts)
    return np.maximum(fixed + linear * mean - quadratic * square, 0.0)
