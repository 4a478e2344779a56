"""Probabilities of pages whose users may stop after a click, against sums over all that can happen.

A user's way through a page is enumerated: at each item that is read a click or not, after each
click going on or not.
"""

from itertools import product

import numpy as np
import pytest

from epiclick.click_models.recursion import click_chances, draw_clicks, value_and_slope
from epiclick.click_models.registry import click_model
from epiclick.data.page_lists import PageLists
from epiclick.reading.pages import page_log_likelihood, reading_on_average, still_reading

ZETA = np.array([0.3, 0.6, 0.15, 0.8])
STAY = np.array([0.7, 0.35, 0.5, 0.9])


def ways(zeta: np.ndarray, stay: np.ndarray) -> dict[tuple[tuple[int, ...], int], float]:
    """(clicks, number of items read) -> probability."""
    found: dict[tuple[tuple[int, ...], int], float] = {}

    def walk(k: int, clicks: tuple[int, ...], p: float) -> None:
        if k == len(zeta):
            key = (clicks, k)
            found[key] = found.get(key, 0) + p
            return
        walk(k + 1, (*clicks, 0), p * (1 - zeta[k]))
        walk(k + 1, (*clicks, 1), p * zeta[k] * stay[k])
        key = ((*clicks, 1, *[0] * (len(zeta) - k - 1)), k + 1)
        found[key] = found.get(key, 0) + p * zeta[k] * (1 - stay[k])

    walk(0, (), 1.0)
    return found


def patterns(zeta: np.ndarray, stay: np.ndarray) -> dict[tuple[int, ...], float]:
    total: dict[tuple[int, ...], float] = {}
    for (clicks, _), p in ways(zeta, stay).items():
        total[clicks] = total.get(clicks, 0) + p
    return total


def all_lists(depth: int = 4) -> PageLists:
    clicked = np.array(list(product((0, 1), repeat=depth))) > 0
    pair = np.tile(np.arange(depth), (len(clicked), 1))
    return PageLists(pair, pair, clicked, np.ones(len(clicked), np.int64))


def test_pages_have_the_probability_of_all_ways_to_them() -> None:
    lists, expected = all_lists(), patterns(ZETA, STAY)
    stay = np.broadcast_to(STAY, lists.pair.shape)
    found = np.exp(page_log_likelihood(lists, ZETA, stay))
    for clicks, p in zip(lists.clicked, found, strict=True):
        assert p == pytest.approx(expected[tuple(clicks.astype(int))], rel=1e-12)
    assert found.sum() == pytest.approx(1, rel=1e-12)


def test_reading_is_that_of_users_with_the_same_clicks_above() -> None:
    lists = all_lists()
    found = still_reading(lists, ZETA, np.broadcast_to(STAY, lists.pair.shape))
    every = ways(ZETA, STAY)
    for i, clicks in enumerate(lists.clicked.astype(int)):
        for k in range(4):
            same = {key: p for key, p in every.items() if key[0][:k] == tuple(clicks[:k])}
            read = sum(p for (_, read), p in same.items() if read > k)
            assert found[i, k] == pytest.approx(read / sum(same.values()), rel=1e-12)


def test_reading_on_average_is_over_all_clicks() -> None:
    lists = all_lists()
    found = reading_on_average(lists, ZETA, np.broadcast_to(STAY, lists.pair.shape))
    for k in range(4):
        read = sum(p for (_, read), p in ways(ZETA, STAY).items() if read > k)
        np.testing.assert_allclose(found[:, k], read, rtol=1e-12)


def test_pages_end_where_their_lists_end() -> None:
    lists = all_lists()
    longer = PageLists(
        np.pad(lists.pair, ((0, 0), (0, 2)), constant_values=-1),
        np.pad(lists.given, ((0, 0), (0, 2))),
        np.pad(lists.clicked, ((0, 0), (0, 2))),
        lists.pages,
    )
    stay = np.full(longer.pair.shape, 0.4)
    np.testing.assert_array_equal(
        page_log_likelihood(longer, ZETA, stay), page_log_likelihood(lists, ZETA, stay[:, :4])
    )
    assert np.all(still_reading(longer, ZETA, stay)[:, 4:] == 0)


@pytest.mark.parametrize("name", ["dcm", "sdbn"])
def test_values_and_slopes_are_those_of_all_ways(name: str) -> None:
    model, depth = click_model(name), len(ZETA)
    contexts, emission = model.world(np.ones(depth))
    one = type(emission)(*(None if part is None else part[None] for part in emission))
    slots, weight = np.arange(depth)[None], np.array([[1.0, 0.5, 2.0, 1.5]])

    def value(zeta: np.ndarray, stay: np.ndarray) -> float:
        return sum(p * float(np.dot(c, weight[0])) for c, p in patterns(zeta, stay).items())

    found = value_and_slope(
        model.states(contexts), one, slots, ZETA[None, None], weight, STAY[None, None]
    )
    assert found.value[0, 0] == pytest.approx(value(ZETA, STAY), rel=1e-12)
    assert found.by_going_on is not None
    for k in range(depth):
        for which, slope in ((0, found.slope), (1, found.by_going_on)):
            ends = []
            for end in (0.0, 1.0):  # of a multilinear function the difference is the slope
                both = [ZETA.copy(), STAY.copy()]
                both[which][k] = end
                ends.append(value(*both))
            assert slope[0, 0, k] == pytest.approx(ends[1] - ends[0], rel=1e-10, abs=1e-13)
    chances = click_chances(model.states(contexts), one, slots, ZETA[None, None], STAY[None, None])[
        0, 0
    ]
    expected = sum(p * np.array(c) for c, p in patterns(ZETA, STAY).items())
    np.testing.assert_allclose(chances, expected, rtol=1e-12)


def test_clicks_are_drawn_with_their_probabilities() -> None:
    model, pages = click_model("dcm"), 40_000
    contexts, emission = model.world(np.ones(4))
    slots = np.broadcast_to(np.arange(4), (pages, 4))
    zeta, stay = np.tile(ZETA, (pages, 1)), np.tile(STAY, (pages, 1))
    rng = np.random.default_rng(0)
    clicks = draw_clicks(model.states(contexts), emission, slots, zeta, rng, stay)
    expected = patterns(ZETA, STAY)
    for pattern, p in expected.items():
        share = np.mean(np.all(clicks == np.array(pattern, bool), axis=1))
        assert abs(share - p) < 4.5 * np.sqrt(p * (1 - p) / pages)
    # negative control: users who always go on click more further down
    always = patterns(ZETA, np.ones(4))
    assert abs(always[1, 1, 0, 1] - expected[1, 1, 0, 1]) > 20 / np.sqrt(pages) * 0.01
