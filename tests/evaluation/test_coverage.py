"""Coverage and its error against simulation, independent formulas and cases worked by hand."""

import numpy as np
import pytest
from scipy.stats import beta, norm
from scipy.stats import t as student

from epiclick.evaluation.coverage import (
    clustered_mean,
    clustered_share,
    crps,
    interval_of_draws,
    is_covered,
    ranks_among,
)


def worlds_of_hits(
    rng: np.random.Generator, share: float, worlds: int, values: int, alike: float
) -> tuple[np.ndarray, np.ndarray]:
    """Hits in worlds whose own shares follow a Beta around `share`, of confidence `alike`."""
    own = rng.beta(share * alike, (1 - share) * alike, worlds)
    world = np.repeat(np.arange(worlds), values)
    return rng.random(len(world)) < own[world], world


def test_share_and_error_are_those_of_the_loop() -> None:
    rng = np.random.default_rng(0)
    world = rng.integers(0, 7, 100)
    hit = rng.random(100) < 0.8
    found = clustered_share(hit, world)
    assert found.actual == pytest.approx(hit.mean())
    residuals = [hit[world == w].sum() - hit.mean() * (world == w).sum() for w in range(7)]
    assert found.error == pytest.approx(np.sqrt(7 / 6 * sum(r * r for r in residuals)) / 100)
    assert (found.worlds, found.values) == (7, 100)


def test_worlds_of_one_value_have_the_binomial_error_and_wilsons_interval() -> None:
    hit = np.arange(200) < 170
    found = clustered_share(hit, np.arange(200))
    assert found.error == pytest.approx(np.sqrt(0.85 * 0.15 / 199))
    # both ends solve (share - p)^2 = t^2 p (1 - p) / n
    worth, t = 0.85 * 0.15 / found.error**2, student.ppf(0.995, 199)
    for end in (found.low, found.high):
        assert (0.85 - end) ** 2 == pytest.approx(t**2 * end * (1 - end) / worth)


@pytest.mark.parametrize(("share", "worlds", "alike"), [(0.5, 30, 5), (0.9, 60, 20), (0.9, 12, 20)])
def test_its_interval_contains_the_share_at_the_nominal_rate(
    share: float, worlds: int, alike: float
) -> None:
    rng = np.random.default_rng(1)
    runs = 1500
    missed = np.mean(
        [
            clustered_share(*worlds_of_hits(rng, share, worlds, 40, alike), 0.95).excludes(share)
            for _ in range(runs)
        ]
    )
    # nominally 5 % are missed; up to 7 % are tolerated with few and very different worlds
    assert missed <= 0.07 + 3 * np.sqrt(0.07 * 0.93 / runs)
    assert missed >= 0.02


def test_an_error_that_ignores_worlds_would_miss_far_more_often() -> None:
    rng = np.random.default_rng(2)
    missed = []
    for _ in range(300):
        hit, _ = worlds_of_hits(rng, 0.5, 30, 40, 5)
        missed.append(clustered_share(hit, np.arange(len(hit)), 0.95).excludes(0.5))
    assert np.mean(missed) > 0.3


@pytest.mark.parametrize("hit", [np.ones(60, bool), np.zeros(60, bool)])
def test_the_interval_of_0_and_1_is_that_of_as_many_values_as_worlds(hit: np.ndarray) -> None:
    found = clustered_share(hit, np.repeat(np.arange(6), 10))
    t2 = student.ppf(0.995, 5) ** 2
    width = t2 / (6 + t2)
    assert found.error == 0
    assert found.high - found.low == pytest.approx(width)
    assert width > 0.5


def test_equal_worlds_give_no_interval_narrower_than_that_of_independent_values() -> None:
    hit = np.tile(np.arange(10) < 9, 8)
    found = clustered_share(hit, np.repeat(np.arange(8), 10))
    alone = clustered_share(hit, np.arange(80))
    assert found.error == pytest.approx(0, abs=1e-12)
    assert found.high - found.low >= alone.high - alone.low


def test_one_world_says_nothing() -> None:
    found = clustered_share(np.array([True, False]), np.zeros(2))
    assert (found.low, found.high) == (0, 1)
    assert np.isnan(found.error)
    assert np.isnan(clustered_mean(np.ones(3), np.zeros(3))[1])


def test_the_error_of_a_mean_accounts_for_worlds() -> None:
    values, world = np.array([1.0, 3.0, 5.0, 9.0]), np.array([0, 0, 1, 1])
    mean, error = clustered_mean(values, world)
    assert mean == 4.5
    assert error == pytest.approx(np.sqrt(2 * (5.0**2 + 5.0**2)) / 4)


def test_intervals_contain_their_ends() -> None:
    truth = np.array([0.1, 0.2, 0.3])
    low, high = np.array([0.1, 0.21, 0.0]), np.array([1, 1, 0.3])
    assert is_covered(truth, low, high).tolist() == [1, 0, 1]


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_of_99_draws_have_exactly_nominal_coverage(level: float) -> None:
    rng = np.random.default_rng(3)
    n = 20_000
    draws, truth = rng.random((n, 99)), rng.random(n)
    low, high = interval_of_draws(draws, level)
    assert abs(draws - low[:, None]).min(axis=1).max() < 1e-12  # ends are draws
    assert abs(is_covered(truth, low, high).mean() - level) < 3 * np.sqrt(level * (1 - level) / n)


def test_ranks_count_draws_below_and_break_ties_evenly() -> None:
    draws = np.array([[0.1, 0.2, 0.3], [0.5, 0.5, 0.5]])
    truth = np.array([0.25, 0.5])
    assert ranks_among(truth, draws).tolist() == [2, 1]
    rng = np.random.default_rng(4)
    tied = [ranks_among(truth, draws, rng)[1] for _ in range(2000)]
    assert np.all(abs(np.bincount(tied) / 2000 - 0.25) < 3 * np.sqrt(0.25 * 0.75 / 2000))


def test_crps_is_the_closed_form_of_a_normal() -> None:
    rng = np.random.default_rng(5)
    truth = np.array([-0.5, 0.3, 2.0])
    n = 20_000
    closed = truth * (2 * norm.cdf(truth) - 1) + 2 * norm.pdf(truth) - 1 / np.sqrt(np.pi)
    assert crps(truth, rng.standard_normal((3, n))) == pytest.approx(closed, abs=4 / np.sqrt(n))


def test_crps_of_few_draws_is_unbiased() -> None:
    rng = np.random.default_rng(6)
    n = 20_000
    few = crps(np.full(n, 0.3), rng.beta(2, 3, (n, 5)))
    many = crps(np.array([0.3]), rng.beta(2, 3, (1, 200_000)))[0]
    assert abs(few.mean() - many) < 4 * few.std() / np.sqrt(n) + 1e-3
    assert crps(np.array([0.3]), np.array([[0.5]])) == pytest.approx([0.2])


def test_crps_prefers_the_right_width() -> None:
    rng = np.random.default_rng(7)
    n = 4000
    truth, p = rng.beta(4, 6, n), (np.arange(99) + 0.5) / 99
    right = np.broadcast_to(beta.ppf(p, 4, 6), (n, 99))
    for factor in (0.5, 1.6):
        assert crps(truth, 0.4 + factor * (right - 0.4)).mean() > crps(truth, right).mean()


@pytest.mark.parametrize("worlds", range(2, 80))
def test_the_interval_of_none_or_all_has_its_share_at_an_end(worlds: int) -> None:
    for hit, end in ((np.zeros(worlds, bool), "low"), (np.ones(worlds, bool), "high")):
        found = clustered_share(hit, np.arange(worlds))
        assert found.low <= found.actual <= found.high
        assert getattr(found, end) == found.actual == hit[0]
