"""`epiclick calibrate`, as a program or a person would call it."""

import json
from pathlib import Path

import pytest

from epiclick import arguments
from epiclick.calibration import runner

from .conftest import Done, epiclick

pytestmark = pytest.mark.slow

QUICK = ["--worlds", 4, "--methods", "control", "--families", "three-positions", "--jobs", 1]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("calibrate") / "out"


@pytest.fixture(scope="module")
def done(out: Path) -> Done:
    return epiclick("calibrate", *QUICK, "--out", out, "--json")


def test_json_has_the_documented_keys(done: Done) -> None:
    record = done.record
    assert list(record)[:2] == ["schema_version", "table"]
    keys = ("quantity", "family", "well_specified", "nominal", "actual", "error", "width", "crps")
    assert len(record["table"]) == 8
    for row in record["table"]:
        assert set(keys) <= set(row)
        assert row["family"] == "three-positions"
        assert 0 <= row["low"] <= row["actual"] <= row["high"] <= 1
    assert {row["nominal"] for row in record["table"]} == {0.5, 0.9}


def test_tables_and_a_figure_are_written(done: Done, out: Path) -> None:
    assert done.code == 0
    names = {path.name for path in out.iterdir()}
    assert names >= {"calibration.json", "calibration.md", "control.png", "worlds"}
    kept = json.loads((out / "calibration.json").read_text())
    assert {**kept, "warnings": []} == done.record
    assert (out / "control.png").read_bytes().startswith(b"\x89PNG")


def test_the_negative_control_takes_the_same_worlds_and_is_flagged(done: Done, out: Path) -> None:
    files = {path: path.stat().st_mtime_ns for path in (out / "worlds").rglob("*.npz")}
    again = epiclick("calibrate", *QUICK, "--out", out, "--shrink", 0.5, "--quiet")
    assert again.code == 0, again.err
    assert {path: path.stat().st_mtime_ns for path in (out / "worlds").rglob("*.npz")} == files
    assert "!" in again.out
    assert (out / "calibration-x0.5.md").exists()
    kept = json.loads((out / "calibration.json").read_text())
    assert {**kept, "warnings": []} == done.record
    assert "of 8 coverages in well-specified worlds are off" in again.out
    assert again.err == ""


def test_worlds_of_the_models_own_prior_are_judged_by_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the others find posteriors, which takes long
    few = {"prior": runner.OWN_METHODS["prior"]}
    monkeypatch.setattr(runner, "OWN_METHODS", few)
    call = ["--worlds", 6, "--families", "own-prior", "--jobs", 1, "--out", tmp_path]
    record = epiclick("calibrate", *call, "--json").record
    assert record["table"] == []
    assert [row["quantity"] for row in record["uniformity"]] == [
        "second_position",
        "third_position",
        "item_mean",
        "item_confidence",
        "item_relevance",
    ]
    for row in record["uniformity"]:
        assert (row["family"], row["method"], row["draws"]) == ("own-prior", "prior", 99)
        assert len(row["ranks"]) == 6
    text = epiclick("calibrate", *call, "--quiet").out
    assert "6 worlds from the model's own prior" in " ".join(text.split())
    assert "item confidence" in text
    assert (tmp_path / "own-prior.png").read_bytes().startswith(b"\x89PNG")
    assert "| prior | own-prior | yes |" in (tmp_path / "calibration.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "words", "error_code"),
    [
        (["--families", "spase"], "did you mean 'sparse'", "unknown-family"),
        (["--methods", "nuts"], "'nuts'", "unknown-method"),
        (["--worlds", 0, "--shrink", -1], "worlds must be", "not-whole-number"),
        (["--jobs", 0], "jobs must be", "not-whole-number"),
    ],
)
def test_bad_arguments_give_code_2_and_write_nothing(
    arguments: list[object], words: str, error_code: str | None, tmp_path: Path
) -> None:
    refused = epiclick("calibrate", "--out", tmp_path / "new", *arguments)
    refused.assert_refused(words, error_code)
    assert not list(tmp_path.iterdir())


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    refused = epiclick("calibrate", "--out", tmp_path / "file")
    refused.assert_refused("name a folder", "not-a-folder")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "find_spec", lambda name: None)
    refused = epiclick("calibrate")
    assert refused.error_code == "missing-extra"
    assert 'pip install "epiclick[calibration]"' in refused.err


@pytest.mark.parametrize("name", ["calibration.json", "calibration.md", "control.png"])
def test_a_file_of_the_user_is_not_replaced(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text("mine")
    monkeypatch.setattr(runner, "calibrate", lambda *_, **__: pytest.fail("work began"))
    refused = epiclick("calibrate", *QUICK, "--out", tmp_path)
    refused.assert_refused(name, "foreign-files")
    assert "epiclick calibrate" in refused.err
    assert (tmp_path / name).read_text() == "mine"
