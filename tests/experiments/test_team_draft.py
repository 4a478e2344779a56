"""Team draft against a draft played step by step, and its fairness."""

import itertools

import numpy as np
import pytest

from epiclick.experiments.team_draft import NOBODY, as_lists, rounds, team_draft


def by_hand(one: list[int], other: list[int], coins, depth: int) -> tuple[list[int], list[int]]:
    """As two players would: the coin of the round says who picks first."""
    page: list[int] = []
    teams: list[int] = []
    while len(page) < depth:
        first = 0 if coins[len(page) // 2] else 1
        turn = first if len(page) % 2 == 0 else 1 - first
        left = [[item for item in own if item not in page] for own in (one, other)]
        if left[0] and left[1]:
            page.append(left[turn][0])
            teams.append(turn)
        elif left[0] or left[1]:
            page.append((left[0] or left[1])[0])
            teams.append(NOBODY)
        else:
            break
    more = depth - len(page)
    return page + [-1] * more, teams + [NOBODY] * more


@pytest.mark.parametrize("depth", [1, 2, 5, 8])
def test_pages_are_those_of_a_draft_by_hand(depth: int) -> None:
    rng = np.random.default_rng(depth)
    lists = [[rng.permutation(7)[: rng.integers(1, 7)].tolist() for _ in range(60)] for _ in "ab"]
    one, other = (np.array([each + [-1] * (6 - len(each)) for each in own]) for own in lists)
    coins = rng.random((60, rounds(depth))) < 0.5
    found = team_draft(one, other, coins, depth)
    for page in range(60):
        item, team = by_hand(lists[0][page], lists[1][page], coins[page], depth)
        assert found.item[page].tolist() == item
        assert found.team[page].tolist() == team
    assert (found.sign == np.where(found.team == NOBODY, 0, 1 - 2 * found.team)).all()


def test_every_item_is_shown_once_and_teams_take_turns() -> None:
    rng = np.random.default_rng(3)
    one, other = (np.stack([rng.permutation(10)[:6] for _ in range(500)]) for _ in "ab")
    found = team_draft(one, other, rng.random((500, 3)) < 0.5, 6)
    assert all(len(set(page)) == 6 for page in found.item.tolist())
    assert (np.sort(found.team.reshape(-1, 3, 2), axis=2) == [0, 1]).all()


def test_clicks_by_position_alone_favour_nobody() -> None:
    one, other = np.array([[0, 1, 2, 3, 4]]), np.array([[9, 3, 8, 0, 7]])
    every = np.array(list(itertools.product([False, True], repeat=3)))
    theta = np.array([1.0, 0.6, 0.4, 0.3, 0.2])

    def lead(tosses: np.ndarray) -> float:
        found = team_draft(
            *(np.repeat(own, len(tosses), axis=0) for own in (one, other)), tosses, 5
        )
        return float((theta * found.sign).sum(axis=1).mean())

    assert lead(every) == pytest.approx(0)
    assert lead(every[every[:, 0]]) > 0.1  # a coin that always favours the first ranker


def test_a_longer_list_wins_no_clicks_by_its_length() -> None:
    found = team_draft(np.array([[0]]), np.array([[0, 1, 2]]), np.array([[True, True]]), 3)
    assert found.item.tolist() == [[0, 1, 2]]
    assert found.team.tolist() == [[0, NOBODY, NOBODY]]


def test_slots_become_lists() -> None:
    found = as_lists(np.array([0, 0, 1, 2, 2, 2]), np.arange(6))
    assert found.tolist() == [[0, 1, -1], [2, -1, -1], [3, 4, 5]]
