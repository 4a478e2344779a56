"""Evidence of pages, and draws of who went on, against enumeration of all who may have."""

from itertools import product

import numpy as np
import pytest
from scipy import special, stats

from epiclick.data.page_lists import PageLists
from epiclick.reading.channels import (
    ContextChannel,
    ItemChannel,
    pair_derivatives,
    pair_log_likelihood,
)
from epiclick.reading.gibbs import Chains, Prior, Shapes, draw_binomial
from epiclick.reading.stops import Evidence

PAIRS = 4


def lists() -> PageLists:
    """A few pages of four items."""
    pair = np.array([[0, 1, 2], [0, 1, 2], [3, 0, 1], [2, 3, -1], [1, 2, 3], [1, 2, 3]])
    clicked = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 0], [1, 0, 1]]) > 0
    given = np.where(pair >= 0, np.arange(3), 0)
    return PageLists(pair, given, clicked, np.array([3, 2, 1, 4, 2, 1]))


def test_evidence_is_that_of_reading_the_pages_one_by_one() -> None:
    own, evidence = lists(), Evidence.of(lists(), PAIRS)
    clicks, read, on = (np.zeros(PAIRS, int) for _ in range(3))
    tails = []
    for pair, clicked, pages in zip(own.pair, own.clicked, own.pages, strict=True):
        places = [k for k in range(3) if pair[k] >= 0]
        last = max((k for k in places if clicked[k]), default=None)
        for k in places:
            clicks[pair[k]] += pages * clicked[k]
            if last is None or k <= last:
                read[pair[k]] += pages
            if last is not None and clicked[k] and k < last:
                on[pair[k]] += pages
        if last is not None and last < places[-1]:
            tails.append((pair[last], last, tuple(pair[last + 1 : places[-1] + 1]), pages))
    np.testing.assert_array_equal(evidence.clicks, clicks)
    np.testing.assert_array_equal(evidence.read, read)
    np.testing.assert_array_equal(evidence.gone_on, on)
    found = [
        (pair, given, tuple(below[below < PAIRS]), pages)
        for pair, given, below, pages in zip(
            evidence.last_pair, evidence.last_given, evidence.below, evidence.pages, strict=True
        )
    ]
    assert sorted(found) == sorted(tails)


def test_counts_add_up_whoever_went_on() -> None:
    evidence = Evidence.of(lists(), PAIRS)
    for went_on in (np.zeros_like(evidence.pages), evidence.pages):
        known = evidence.completed(went_on)
        assert np.all(known.read >= evidence.clicks)
        below = (evidence.below < PAIRS).sum(axis=1)
        assert known.read.sum() == evidence.read.sum() + (went_on * below).sum()
        assert (
            known.stopped + known.went_on
        ).sum() == evidence.gone_on.sum() + evidence.pages.sum()


def exact(evidence: Evidence, prior: Prior) -> dict[tuple[int, ...], float]:
    """Probability of every number of users who went on, by enumeration; items integrated out."""
    found = {}
    for went_on in product(*(range(n + 1) for n in evidence.pages)):
        known = evidence.completed(np.array(went_on))
        a, b = prior.attraction
        failures = known.read - evidence.clicks
        log = special.betaln(a + evidence.clicks, b + failures).sum()
        log += np.log(special.comb(evidence.pages, went_on)).sum()
        if prior.satisfaction is not None:
            a, b = prior.satisfaction
            log += special.betaln(a + known.stopped, b + known.went_on).sum()
        else:
            stay = prior.going_on[evidence.last_given]
            log += special.xlogy(went_on, stay).sum()
            log += special.xlogy(evidence.pages - went_on, 1 - stay).sum()
        found[went_on] = log
    logs = np.array(list(found.values()))
    weights = np.exp(logs - special.logsumexp(logs))
    return dict(zip(found, weights, strict=True))


@pytest.mark.parametrize("by_item", [False, True])
def test_chains_draw_who_went_on_as_often_as_enumeration_says(by_item: bool) -> None:
    evidence = Evidence.of(lists(), PAIRS)
    attraction = Shapes(np.array([0.8, 2.0, 1.0, 3.0]), np.array([2.0, 1.5, 4.0, 2.0]))
    satisfaction = Shapes(np.array([2.0, 1.0, 0.7, 3.0]), np.array([1.0, 2.0, 0.9, 1.0]))
    prior = (
        Prior(attraction, satisfaction)
        if by_item
        else Prior(attraction, going_on=np.array([0.7, 0.4, 0.5]))
    )
    truth = exact(evidence, prior)
    chains = Chains.start(evidence, np.random.default_rng(0), prior, chains=6)
    chains.sweep(prior, 50)
    draws: list[tuple[int, ...]] = []
    for _ in range(1000):
        chains.sweep(prior, 3)
        draws += [tuple(each) for each in chains.went_on.tolist()]
    mean = sum(p * np.array(z) for z, p in truth.items())
    spread = np.sqrt(sum(p * (np.array(z) - mean) ** 2 for z, p in truth.items()))
    drawn = np.array(draws)
    # three sweeps between draws leave little correlation: half of them count
    error = spread / np.sqrt(len(draws) / 2)
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 4 * error)
    # and whole patterns, by chi-squared over those that are not rare
    often = {z: p for z, p in truth.items() if p * len(draws) > 20}
    counts = np.array([sum(d == z for d in draws[::2]) for z in often])
    expected = np.array(list(often.values()))
    expected = expected / expected.sum() * counts.sum()
    assert stats.chisquare(counts, expected).pvalue > 1e-4
    # negative control: users who went on although they would not
    wrong = Prior(attraction, going_on=np.array([0.2, 0.2, 0.2]))
    other = sum(p * np.array(z) for z, p in exact(evidence, wrong).items())
    assert np.any(np.abs(drawn.mean(axis=0) - other) > 8 * error)


def test_derivatives_of_outcomes_are_differences() -> None:
    rng = np.random.default_rng(1)
    raw = np.stack([rng.normal(-1, 1.5, 40), rng.normal(1, 3, 40)], axis=1)
    trials = rng.integers(0, 30, 40)
    successes = rng.binomial(trials, 0.4)
    slope, curve = pair_derivatives(raw, successes, trials)
    step = 1e-5

    def moved(at: np.ndarray, output: int, by: float) -> np.ndarray:
        there = at.copy()
        there[:, output] += by
        return there

    for output in range(2):
        up, down = (
            pair_log_likelihood(moved(raw, output, by), successes, trials) for by in (step, -step)
        )
        np.testing.assert_allclose(slope[:, output], (up - down) / (2 * step), atol=2e-6)
        ends = [
            pair_derivatives(moved(raw, output, by), successes, trials)[0] for by in (step, -step)
        ]
        second = (ends[0] - ends[1]) / (2 * step)
        for other in range(2):
            np.testing.assert_allclose(curve[:, output + other], second[:, other], atol=1e-6)
    # the oracle of the value itself
    a, b = (special.expit(s * raw[:, 0]) * (np.log1p(np.exp(raw[:, 1])) + 1) for s in (1, -1))
    expected = [
        stats.betabinom(n, p, q).logpmf(s) - np.log(special.comb(n, s))
        for n, s, p, q in zip(trials, successes, a, b, strict=True)
    ]
    np.testing.assert_allclose(
        pair_log_likelihood(raw, successes, trials), expected, rtol=1e-9, atol=1e-9
    )


def test_channels_sum_pairs_by_groups_of_queries() -> None:
    rng = np.random.default_rng(2)
    pairs, units, draws = 30, 3, 2
    given = np.concatenate([rng.normal(size=(pairs, units)), np.ones((pairs, 1))], axis=1)
    cluster = rng.integers(5, size=pairs)
    channel = ItemChannel(given, cluster, 5)
    layer = 0.3 * rng.normal(size=channel.size)
    trials = rng.integers(0, 6, (draws, pairs))
    successes = rng.binomial(trials, 0.5)
    found = channel.derivatives(channel.raw(layer), successes, trials)

    def value(layer: np.ndarray, draw: int, own: int) -> float:
        each = pair_log_likelihood(channel.raw(layer), successes[draw], trials[draw])
        return float(each[cluster == own].sum())

    every = sum(value(layer, draw, own) for draw in range(draws) for own in range(5))
    assert channel.value(channel.raw(layer), successes, trials) == pytest.approx(every)
    step = 1e-5 * np.eye(len(layer))
    for draw, own in product(range(draws), range(5)):
        slope = [(value(layer + m, draw, own) - value(layer - m, draw, own)) / 2e-5 for m in step]
        np.testing.assert_allclose(found.scores[draw, own], slope, atol=1e-6)
    whole = channel.gradient(channel.raw(layer), successes, trials)
    np.testing.assert_allclose(whole, found.scores.sum(axis=(0, 1)), atol=1e-12)
    ends = [
        [channel.gradient(channel.raw(layer + s * m), successes, trials) for s in (1, -1)]
        for m in step
    ]
    second = np.array([(up - down) / 2e-5 for up, down in ends])
    np.testing.assert_allclose(channel.information(found.curve), -second, atol=1e-5)


def test_going_on_by_context_is_binomial() -> None:
    channel, logit = ContextChannel(3, 2), np.array([0.4, -1.0, 2.0])
    clicks = np.array([[4, 2, 2], [1, 7, 5]])
    on = np.array([[[3, 0, 2], [1, 4, 0]], [[1, 1, 0], [0, 6, 4]]])  # two draws
    chance = special.expit(logit)
    expected = (special.xlogy(on, chance) + special.xlogy(clicks - on, 1 - chance)).sum()
    assert channel.value(logit, on, clicks) == pytest.approx(expected)
    found = channel.derivatives(logit, on, clicks)
    step = 1e-5 * np.eye(3)
    slope = [
        (channel.value(logit + m, on, clicks) - channel.value(logit - m, on, clicks)) / 2e-5
        for m in step
    ]
    np.testing.assert_allclose(found.scores.sum(axis=(0, 1)), slope, atol=1e-6)
    np.testing.assert_allclose(channel.gradient(logit, on, clicks), slope, atol=1e-6)
    curve = np.diag(len(on) * clicks.sum(axis=0) * chance * (1 - chance))
    np.testing.assert_allclose(channel.information(found.curve), curve)


def test_binomial_draws_follow_their_distribution() -> None:
    trials, chance = np.array([30, 9, 8, 3, 1, 1]), np.array([0.3, 0.9, 0.5, 0.1, 0.7, 0.2])
    size = 4000
    drawn = draw_binomial(trials, np.tile(chance, (size, 1)), np.random.default_rng(3))
    for n, p, own in zip(trials, chance, drawn.T, strict=True):
        expected = size * stats.binom.pmf(np.arange(n + 1), n, p)
        often = expected > 5
        counts = np.bincount(own, minlength=n + 1)
        share = expected[often] / expected[often].sum() * counts[often].sum()
        assert stats.chisquare(counts[often], share).pvalue > 1e-4
        rare = expected[~often].sum()
        assert abs(counts[~often].sum() - rare) <= 5 * np.sqrt(rare)
    # negative control: another chance
    off = size * stats.binom.pmf(np.arange(31), 30, 0.32)
    often = off > 5
    counts = np.bincount(drawn[:, 0], minlength=31)[often]
    assert stats.chisquare(counts, off[often] / off[often].sum() * counts.sum()).pvalue < 1e-4


def test_pages_with_the_same_tail_are_counted_together() -> None:
    """What is above the last click does not matter, nor how chains are split up."""
    pair = np.array([[0, 1, 2, 3], [1, 0, 2, 3], [1, 0, 3, 2]])
    clicked = np.array([[1, 1, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]]) > 0
    given = np.tile(np.arange(4), (3, 1))
    evidence = Evidence.of(PageLists(pair, given, clicked, np.array([2, 3, 4])), PAIRS)
    assert len(evidence.pages) == 3  # other pairs clicked last, or another order below
    same = PageLists(
        pair[[1, 1]], given[:2], np.array([[0, 1, 0, 0], [1, 1, 0, 0]]) > 0, np.array([3, 5])
    )
    merged = Evidence.of(same, PAIRS)
    assert merged.pages.tolist() == [8]
    assert merged.below.tolist() == [[2, 3, PAIRS]]
    went_on = np.array([[1, 0, 2], [0, 3, 1]])
    together = evidence.completed(went_on)
    for i, one in enumerate(went_on):
        for both, own in zip(together, evidence.completed(one), strict=True):
            np.testing.assert_array_equal(both[i], own)
