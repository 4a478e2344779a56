"""Position bias from swaps within and between days: brute force, bias, and a jackknife."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from epiclick.data.counts import ClickCounts
from epiclick.identification.swaps import swaps_by_part
from epiclick.identification.unbounded import unbounded_bias

from ..day_logs import THETA, day_log

CONTEXTS = len(THETA)
KINDS = ("within", "between")


def estimates(counts: ClickCounts) -> dict[str, np.ndarray]:
    """Log biases of both kinds of swaps, at weights of the true bias."""
    found = swaps_by_part(counts, np.log(THETA), 0, counts.num_queries)
    assert found.within is not None
    assert found.between is not None
    return {kind: getattr(found, kind).log_bias for kind in KINDS}


def dense(counts: ClickCounts) -> tuple[np.ndarray, np.ndarray]:
    """(pairs, days, contexts) displays and clicks."""
    assert counts.parts is not None
    found = np.zeros((2, len(counts), len(counts.parts), CONTEXTS))
    for amount, values in zip(found, (counts.displays, counts.clicks), strict=True):
        amount[counts.pair, counts.part, counts.context] = values
    return found[0], found[1]


def brute_force(counts: ClickCounts, kind: str) -> np.ndarray:
    """The root of the equations, swap by swap."""
    displays, clicks = dense(counts)
    examined = displays @ THETA  # (pairs, days)
    days = range(displays.shape[1])
    rates = np.zeros((CONTEXTS, CONTEXTS))
    for p in range(len(displays)):
        for a in days:
            for b in days:
                if (a == b) != (kind == "within"):
                    continue
                total = examined[p, a] if kind == "within" else examined[p].sum()
                if total > 0:
                    rates += np.outer(clicks[p, a], displays[p, b]) / total

    def gaps(free: np.ndarray) -> np.ndarray:
        theta = np.exp(np.append(0, free))
        return (rates @ theta - theta * rates.sum(axis=0))[1:]

    return np.append(0, optimize.root(gaps, np.zeros(CONTEXTS - 1), tol=1e-12).x)


@pytest.mark.parametrize("kind", KINDS)
def test_it_solves_the_equations_of_all_swaps(kind: str) -> None:
    counts = day_log(queries=40)
    found = estimates(counts)
    np.testing.assert_allclose(found[kind], brute_force(counts, kind), atol=1e-8)
    # negative control: the other kind of swaps has another solution
    (other,) = set(KINDS) - {kind}
    assert np.abs(found[other] - found[kind]).max() > 1e-3


def test_a_single_day_is_the_estimate_from_all_swaps() -> None:
    counts = day_log(queries=100, days=1)
    values = unbounded_bias(counts).values(0)
    found = swaps_by_part(counts, values, 0, counts.num_queries)
    assert found.within is not None
    np.testing.assert_allclose(found.within.log_bias, values, atol=1e-5)
    assert found.between is None


@pytest.mark.parametrize("level", [-3.0, 1.5])
def test_it_is_unbiased_for_rare_and_for_frequent_clicks(level: float) -> None:
    """Up to the curvature of the logarithm: the mean over 24 logs, within 4 standard errors."""
    logs = [day_log(level=level, seed=seed) for seed in range(24)]
    each = [estimates(counts) for counts in logs]
    for kind in KINDS:
        values = np.array([found[kind] for found in each])[:, 1:]
        error = values.std(axis=0) / np.sqrt(len(values))
        assert np.all(abs(values.mean(axis=0) - np.log(THETA[1:])) < 4 * error)
    # negative control: rates of clicks, which better items at the top raise
    rates = np.array([counts.by_context()["click_rate"].to_numpy() for counts in logs])
    ratio = np.log(rates[:, 1:] / rates[:, :1])
    error = ratio.std(axis=0) / np.sqrt(len(ratio))
    assert np.all(abs(ratio.mean(axis=0) - np.log(THETA[1:])) > 10 * error)


@pytest.mark.parametrize("kind", KINDS)
def test_influences_are_those_of_a_jackknife_by_query(kind: str) -> None:
    """To a few percent: leaving a query out changes the slope of the equations, too."""
    counts = day_log(queries=60, pages=60)
    found = getattr(swaps_by_part(counts, np.log(THETA), 0, counts.num_queries), kind)
    left_out = np.array(
        [estimates(counts.subset(counts.query != q))[kind] for q in range(counts.num_queries)]
    )
    jackknife = (found.log_bias - left_out)[:, 1:]
    influence = found.influence[:, 1:]
    for k in range(CONTEXTS - 1):
        assert np.corrcoef(jackknife[:, k], influence[:, k])[0, 1] > 0.99
    ratio = np.square(influence).sum(axis=0) / np.square(jackknife).sum(axis=0)
    np.testing.assert_allclose(ratio, 1, atol=0.1)
    # influences of the estimate add to nothing, as it solves the equations
    assert np.abs(influence.sum(axis=0)).max() < 1e-9


def test_contexts_that_no_clicks_compare_have_no_estimate() -> None:
    counts = day_log(queries=40)
    without = replace(counts, clicks=np.where(counts.context == 2, 0, counts.clicks))
    found = swaps_by_part(without, np.log(THETA), 0, counts.num_queries)
    for each in (found.within, found.between):
        assert each is not None
        assert np.isnan(each.log_bias).tolist() == [False, False, True]
        assert not each.influence[:, 2].any()
