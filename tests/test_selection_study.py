"""The study of `select`: its records, its outcomes, and that it is resumed, in tiny worlds."""

import json
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import selection

    return selection


def test_outcomes(study: ModuleType) -> None:
    parameters = {"pbm": 4, "trust": 9, "ubm": 14}
    assert study.outcome("trust", "trust", parameters) == "right"
    assert study.outcome("trust", "pbm", parameters) == "tie"
    assert study.outcome("trust", "ubm", parameters) == "wrong"
    assert study.outcome("trust", None, parameters) == "wrong"
    assert study.numbers("2:5") == range(2, 5)


@pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")
def test_worlds_are_files_and_are_not_run_again(
    study: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = study.World("cascade", 20, 400, 0)
    study.run([world], tmp_path)
    (path,) = tmp_path.iterdir()
    record = json.loads(path.read_text())
    assert path.name == "cascade-20-400-0.json"
    assert len(record["models"]) == 6
    scores = {row["click_model"]: row["log_likelihood"] for row in record["models"]}
    own = scores.pop("cascade")
    assert record["gain"] == own - max(scores.values())
    assert set(record["assumptions"]) == {"cascade", *scores}
    monkeypatch.setattr(study.World, "selected", lambda _: pytest.fail("run again"))
    study.run([world], tmp_path)
    (row,) = study.summary(tmp_path)
    assert (row["users"], row["queries"], row["pages"], row["worlds"]) == ("cascade", 20, 400, 1)
    assert row["right"] + row["tie"] + row["wrong"] == 1
    assert row["gain"] == row["least_gain"] == record["gain"]
