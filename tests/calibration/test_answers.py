"""Answers: intervals of draws, shrinking, files."""

from pathlib import Path

import numpy as np

from epiclick.calibration.answers import KEPT, Answers
from epiclick.calibration.runner import load_answers, save_answers


def test_shrinking_multiplies_all_widths_around_the_median(right_answers) -> None:
    given = right_answers(np.random.default_rng(0))
    shrunk = given.shrunk(0.7)
    assert np.allclose(shrunk.high - shrunk.low, 0.7 * (given.high - given.low))
    assert np.allclose(np.median(shrunk.draws, axis=1), given.centre)
    assert np.allclose(shrunk.draws.std(axis=1), 0.7 * given.draws.std(axis=1))
    assert given.shrunk(1.0) is given


def test_shrinking_works_on_the_draws_that_are_kept(right_answers, tmp_path: Path) -> None:
    given = right_answers(np.random.default_rng(1), values=KEPT + 10)
    save_answers({"seen_relevance": given}, tmp_path / "kept.npz")
    kept = load_answers(tmp_path / "kept.npz")["seen_relevance"]
    assert kept.draws.shape == (KEPT, 99)
    assert np.allclose(kept.shrunk(0.7).draws, given.shrunk(0.7).draws[:KEPT], atol=1e-5)
    assert np.array_equal(kept.low, given.low)
    assert np.array_equal(kept.truth, given.truth)
    assert [path.name for path in tmp_path.iterdir()] == ["kept.npz"]


def test_a_point_states_no_uncertainty() -> None:
    truth = np.array([0.1, 0.2])
    point = Answers.of_draws(truth, np.repeat(truth[:, None], 99, axis=1))
    unknown = Answers(truth, truth, np.full((2, 2), np.nan), np.full((2, 2), np.nan), point.draws)
    assert not point.known
    assert not unknown.known
