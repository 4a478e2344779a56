"""Selections written by `select --out`, read back; and files that are none."""

import json
from pathlib import Path
from typing import Any

import pytest

from epiclick.cli.select import write_selection
from epiclick.selection.parsimony import ModelScores
from epiclick.selection.selected import Selection
from epiclick.selection.selection_file import read_selection

from ..damaging import assert_damage_is_found
from ..raising import raises_code

SCORES = (
    ModelScores(
        "pbm", 4, -0.35, -0.02, -0.03, -0.01, 1.45, -0.36, 0.0, 0.0, 0.0, relative_bias=0.2
    ),
    ModelScores("ubm", 14, -0.33, 0.0, 0.0, 0.0, 1.44, -0.36, 0.0, 0.0, 0.0, relative_bias=0.3),
    ModelScores("cascade", 0, None, impossible=7, unit="page"),
)


def record_of(scores: tuple[ModelScores, ...] = SCORES) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "models": [{**each.to_dict(), "by_position": [], "warnings": []} for each in scores],
        "level": 0.9,
        "pages": 100,
        "displays": 500,
        "queries": 8,
        "last_position": "position 5",
        "notes": ["sdbn is left out"],
    }


def written(folder: Path, record: Any) -> Path:
    path = folder / "select.json"
    path.write_text(json.dumps(record))
    return path


def test_what_was_selected_is_read_back(tmp_path: Path) -> None:
    found = read_selection(written(tmp_path, record_of()))
    assert found.scores == SCORES
    made = Selection(SCORES, {}, {}, 0.9, 100, 500, 8, "position 5")
    assert found.verdict == made.verdict
    assert found.best is found.scores[1]
    assert found.chosen is found.scores[1]
    assert (found.level, found.pages, found.displays, found.queries) == (0.9, 100, 500, 8)
    assert found.notes == ("sdbn is left out",)


def test_a_selection_in_which_nothing_was_scored_is_one(tmp_path: Path) -> None:
    found = read_selection(written(tmp_path, record_of(SCORES[2:])))
    assert (found.best, found.chosen) == (None, None)
    assert found.verdict.startswith("No model could be scored")


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"models": []},
        {"models": "pbm"},
        {"models": [1]},
        {"models": [{"click_model": "pbm"}]},
        {"models": [{**SCORES[0].to_dict(), "low": None}]},
        {"models": [{**SCORES[0].to_dict(), "parameters": "4"}]},
        {"models": [SCORES[0].to_dict()]},  # which is not the best of its own file
        {"level": None},
        {"notes": [1]},
        {"displays": 1.5},
    ],
)
def test_damaged_files_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    path = written(tmp_path, {**record_of(), **change})
    with raises_code("damaged-file") as caught:
        read_selection(path)
    assert "epiclick select LOG --out select.json" in str(caught.value)


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    for content in ("", "[]", '{"position_bias": []}', "NaN"):
        (tmp_path / "other.json").write_text(content)
        with raises_code("damaged-file"):
            read_selection(tmp_path / "other.json")
    with raises_code("file-missing") as caught:
        read_selection(tmp_path / "none.json")
    assert "epiclick select --out" in str(caught.value)


def test_damage_is_refused_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "select.json"
    record = record_of()
    del record["schema_version"]
    write_selection(record, path)
    whole = read_selection(path)

    def check() -> None:
        assert read_selection(path) == whole

    refused, same = assert_damage_is_found(path, check, flips=len(path.read_bytes()))
    assert refused > 20 * same
