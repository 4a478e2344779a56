"""Calibration runs: controls, stopping and resuming, processes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from epiclick.calibration.answers import Answers
from epiclick.calibration.families import Case, Family
from epiclick.calibration.methods import METHODS, Method, find_methods
from epiclick.calibration.runner import calibrate, gather
from epiclick.errors import InputError

from ..raising import raises_code

pytestmark = pytest.mark.slow

CONTROL = METHODS["control"]
WORLDS = 16


@pytest.fixture(scope="module")
def kept(tiny: Family, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibration")
    calibrate(WORLDS, [tiny], [CONTROL], seed=1, folder=folder, progress=False)
    return folder


def test_the_control_that_knows_the_truth_passes(kept: Path, tiny: Family) -> None:
    found = gather([tiny], [CONTROL], kept, WORLDS, 1)
    assert len(found.rows) == 8
    assert not found.flagged
    assert min(test.p_value for test in found.uniformity) > 0.01
    assert {row.worlds for row in found.rows} == {WORLDS}


def test_the_negative_control_is_flagged_from_the_same_worlds(kept: Path, tiny: Family) -> None:
    found = gather([tiny], [CONTROL], kept, WORLDS, 1, shrink=0.7)
    # position bias has two values per world: too few for a verdict from so few worlds
    assert all(row.flagged for row in found.rows if row.quantity != "position_bias")


def test_a_stopped_run_resumes(kept: Path, tiny: Family, tmp_path: Path) -> None:
    asked: list[int] = []

    def answer(case: Case) -> dict[str, Answers]:
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append(case.seed)
        return CONTROL.answer(case)

    counted = Method(CONTROL.name, CONTROL.description, answer)
    with pytest.raises(KeyboardInterrupt):
        calibrate(4, [tiny], [counted], seed=1, folder=tmp_path, progress=False)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    assert len(files) == len(asked) == 2
    table = calibrate(4, [tiny], [CONTROL], seed=1, folder=tmp_path, progress=False)
    assert all(path.stat().st_mtime_ns == time for path, time in files.items())
    assert table == gather([tiny], [CONTROL], kept, 4, 1)


def test_results_of_other_settings_are_not_taken(tiny: Family, tmp_path: Path) -> None:
    calls: list[Family] = []

    def answer(case: Case) -> dict[str, Answers]:
        calls.append(case.family)
        return {
            "position_bias": Answers.of_draws(np.zeros(2), np.random.default_rng(0).random((2, 9)))
        }

    method = Method("known", "says something", answer)
    other = replace(tiny, pages=400)
    for family, seed in ((tiny, 0), (tiny, 0), (other, 0), (tiny, 5)):
        calibrate(1, [family], [method], seed, folder=tmp_path, progress=False)
    assert calls == [tiny, other, tiny]


def test_the_number_of_processes_changes_nothing(tiny: Family, kept: Path, tmp_path: Path) -> None:
    table = calibrate(3, [tiny], ["control"], 1, jobs=2, folder=tmp_path, progress=False)
    assert table == gather([tiny], [CONTROL], kept, 3, 1)


def test_an_error_in_a_world_is_not_hidden(tiny: Family) -> None:
    def answer(case: Case) -> dict[str, Answers]:
        raise InputError("no such thing", code="broken-world")

    with raises_code("broken-world"):
        calibrate(1, [tiny], [Method("broken", "", answer)], progress=False)


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        ({"worlds": 0}, "not-whole-number", "worlds=0"),
        ({"shrink": 0.0}, "invalid-number", "shrink=0.0"),
        ({"jobs": 0}, "not-whole-number", "jobs=0"),
        ({"seed": -1}, "not-whole-number", "seed=-1"),
        ({"methods": ["margnal"]}, "unknown-method", "did you mean 'marginal'"),
        ({"methods": []}, "no-methods", "marginal is the default"),
        ({"families": []}, "no-families", "leave out families"),
    ],
)
def test_invalid_arguments_are_named(arguments: dict, code: str, named: str) -> None:
    with raises_code(code) as caught:
        calibrate(**arguments)
    assert named in str(caught.value)


def test_methods_are_used_once() -> None:
    assert find_methods(["control", "control"]) == (CONTROL,)
