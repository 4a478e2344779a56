"""Probabilities that a ranker is better, against how often it is."""

import numpy as np

from epiclick.calibration.answers import Answers
from epiclick.calibration.table import DIFFERENCE, FEWEST, order_rows


def stated(rng: np.random.Generator, worlds: int, shift: float = 0.0) -> list[dict[str, Answers]]:
    """Worlds with a posterior of each of 8 differences, from which their truth was drawn."""
    answers = []
    for _ in range(worlds):
        centre = rng.normal(0, 1.5, 8)
        truth = centre + rng.standard_normal(8)
        draws = centre[:, None] + shift + rng.standard_normal((8, 99))
        ends = np.stack([centre, centre])
        answers.append({DIFFERENCE: Answers(truth, centre, ends - 1, ends + 1, draws)})
    return answers


def rows_of(answers: list[dict[str, Answers]], shrink: float = 1.0) -> list:
    return list(order_rows("method", "family", answers, shrink, well_specified=True))


def test_true_probabilities_pass_and_overconfident_ones_are_flagged() -> None:
    answers = stated(np.random.default_rng(0), 200)
    rows = rows_of(answers)
    assert [row.bin_low for row in rows] == [0.0, 0.2, 0.4, 0.6, 0.8]
    assert all(row.pairs >= FEWEST for row in rows)
    assert not any(row.flagged for row in rows)
    # overconfident: a ranker predicted to be better with 0.99 is better less often
    assert any(row.flagged for row in rows_of(answers, 0.3))
    assert any(row.flagged for row in rows_of(stated(np.random.default_rng(1), 200, shift=0.8)))


def test_shares_are_those_of_a_plain_loop() -> None:
    answers = stated(np.random.default_rng(2), 12)
    sums: dict[int, list[tuple[float, bool]]] = {}
    for each in answers:
        for truth, draws in zip(each[DIFFERENCE].truth, each[DIFFERENCE].draws, strict=True):
            chance = float(np.mean(draws > 0))
            sums.setdefault(min(int(chance * 5), 4), []).append((chance, bool(truth > 0)))
    for row, place in zip(rows_of(answers), sorted(sums), strict=True):
        found = np.array(sums[place])
        assert row.pairs == len(found)
        np.testing.assert_allclose([row.predicted, row.actual], found.mean(axis=0))
        assert not row.flagged or row.pairs >= FEWEST


def test_few_pairs_are_not_judged_and_other_answers_say_nothing() -> None:
    rows = rows_of(stated(np.random.default_rng(3), 3, shift=5.0))
    assert not any(row.flagged for row in rows)
    assert rows_of([{}]) == []
