from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare

from epiclick.simulate.users import USERS

THETA = np.array([0.9, 0.6, 0.25])
RELEVANCE = np.array([0.7, 0.2, 0.95])
SATISFACTION = np.array([0.6, 0.3, 0.5])


def independent(probabilities):
    """Probability of each pattern of clicks on a page whose clicks are independent."""
    return {
        pattern: np.prod([p if c else 1 - p for c, p in zip(pattern, probabilities, strict=True)])
        for pattern in product((0, 1), repeat=len(probabilities))
    }


def impatient(relevance, theta):
    """The same for a user who reads step by step, by enumeration."""
    patterns = dict.fromkeys(product((0, 1), repeat=len(theta)), 0.0)

    def read(position, clicks, probability):
        if position == len(theta):
            patterns[clicks] += probability
            return
        rest = (0,) * (len(theta) - position)
        goes_on = theta[position] / (theta[position - 1] if position else 1)
        patterns[clicks + rest] += probability * (1 - goes_on)
        here = probability * goes_on
        zeta = relevance[position]
        read(position + 1, (*clicks, 0), here * (1 - zeta))
        read(position + 1, (*clicks, 1), here * zeta * 0.5)
        patterns[(*clicks, 1, *rest[1:])] += here * zeta * 0.5

    read(0, (), 1.0)
    return patterns


def trust(relevance, theta):
    return [
        theta[k] * ((0.8 + 0.2 / (k + 1)) * zeta + 0.3 / (k + 1) * (1 - zeta))
        for k, zeta in enumerate(relevance)
    ]


def browsing(relevance, theta):
    """Users who look further after a click: theta_k ** (d / (d + 1)), d from the last click."""
    patterns = {}
    for pattern in product((0, 1), repeat=len(theta)):
        probability, last = 1.0, None
        for k, click in enumerate(pattern):
            power = 1 if last is None else (k - last) / (k - last + 1)
            chance = theta[k] ** power * relevance[k]
            probability *= chance if click else 1 - chance
            last = k if click else last
        patterns[pattern] = probability
    return patterns


def reading(relevance, stay):
    """From the top; after a click going on with probability stay."""
    patterns = {}
    for pattern in product((0, 1), repeat=3):
        p, last = 1.0, max((k for k in range(3) if pattern[k]), default=None)
        for k in range(3 if last is None else last + 1):
            p *= relevance[k] if pattern[k] else 1 - relevance[k]
            if pattern[k] and k != last:
                p *= stay[k]
        if last is not None:
            below = np.prod([1 - relevance[k] for k in range(last + 1, 3)])
            p *= 1 - stay[last] + stay[last] * below
        patterns[pattern] = p
    return patterns


PATTERNS = {
    "pbm": lambda relevance, theta: independent(np.multiply(relevance, theta)),
    "ubm": browsing,
    "cascade": lambda relevance, theta: reading(relevance, np.zeros(3)),
    "dcm": lambda relevance, theta: reading(relevance, 0.2 + 0.6 * np.array(theta)),
    "sdbn": lambda relevance, theta: reading(relevance, 1 - SATISFACTION),
    "impatient": impatient,
    "trust": lambda relevance, theta: independent(trust(relevance, theta)),
    "personal": lambda relevance, theta: independent(np.multiply(relevance, theta)),
}


def satisfaction(name, pages):
    """The further argument of users who can be satisfied."""
    return [np.tile(SATISFACTION, (pages, 1))] if USERS[name].can_be_satisfied else []


def test_every_user_model_has_an_oracle():
    assert USERS.keys() == PATTERNS.keys()


@pytest.mark.parametrize("name", USERS)
def test_probability_is_the_sum_over_all_patterns(name):
    patterns = PATTERNS[name](RELEVANCE, THETA)
    assert sum(patterns.values()) == pytest.approx(1, abs=1e-12)
    expected = sum(p * np.array(pattern) for pattern, p in patterns.items())
    pages = np.stack([RELEVANCE, np.full(3, 0.5)])
    got = USERS[name].probability(pages, THETA, *satisfaction(name, 2))
    assert got.shape == (2, 3)
    np.testing.assert_allclose(got[0], expected, rtol=1e-12)


@pytest.mark.parametrize("name", USERS)
def test_drawn_patterns_have_their_probabilities(name):
    """Chi-square over all 8 patterns; a correct sampler fails it once in 10,000 seeds."""
    pages = 40_000
    clicks = USERS[name].draw(
        np.tile(RELEVANCE, (pages, 1)),
        THETA,
        np.random.default_rng(0),
        *satisfaction(name, pages),
    )
    counts = np.bincount(clicks @ np.array([4, 2, 1]), minlength=8)

    def pvalue(relevance, theta):
        expected = pages * np.array(list(PATTERNS[name](relevance, theta).values()))
        assert np.all(counts[expected == 0] == 0), "an impossible pattern"
        return chisquare(counts[expected > 0], expected[expected > 0])

    assert pvalue(RELEVANCE, THETA).pvalue > 1e-4
    if name not in ("cascade", "sdbn"):  # whose users know no position bias
        wrong = [1.15, 1, 1] if name == "dcm" else [1, 1, 1.15]
        assert pvalue(RELEVANCE, THETA * wrong).pvalue < 1e-6, "wrong position bias"
    assert pvalue(RELEVANCE[[1, 0, 2]], THETA).pvalue < 1e-6, "wrong items"


def test_models_differ_from_each_other():
    first, *others = [
        list(PATTERNS[name](RELEVANCE, THETA).values())
        for name in ("pbm", "ubm", "impatient", "trust")
    ]
    assert all(np.abs(np.subtract(first, other)).max() > 0.01 for other in others)


def test_trust_decreases_down_the_page():
    flat = np.ones(6)
    recognised = USERS["trust"].probability(np.ones(6), flat)
    mistaken = USERS["trust"].probability(np.zeros(6), flat)
    assert (np.diff(recognised) < 0).all()
    assert (np.diff(mistaken) < 0).all()
    assert (mistaken < recognised).all()


@pytest.mark.parametrize("name", sorted(USERS.keys() - {"trust"}))
def test_nothing_is_clicked_without_relevance(name):
    clicks = USERS[name].draw(np.zeros((200, 3)), np.ones(3), np.random.default_rng(0))
    assert clicks.dtype == bool
    assert not clicks.any()
