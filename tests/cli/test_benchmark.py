"""`epiclick benchmark`: what it writes and prints."""

import json
from pathlib import Path
from typing import Any

import pytest

from epiclick.benchmark import benchmark_worlds
from epiclick.benchmark import run_benchmark as module
from epiclick.benchmark.benchmark_worlds import WorldSize

from .conftest import epiclick

pytestmark = pytest.mark.slow


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[object]:
    """A call on a tiny world, whose fits run in this process."""

    def call(function: Any, *arguments: Any, programs: Path) -> Any:
        return function(*arguments)

    monkeypatch.setattr(module, "call_in_process", call)
    monkeypatch.setattr(benchmark_worlds, "QUICK", WorldSize(6, 5, 3, 240, 240, 3))
    return ["benchmark", "--quick", "--worlds", "pbm", "--models", "pbm", "--out", tmp_path / "B"]


@pytest.mark.parametrize("width", [60, 80])
def test_results_are_written_and_printed(
    small: list[object], width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.chdir(tmp_path)
    done = epiclick(*small[:-1], "B")
    assert done.code == 0, done.err
    assert max(map(len, done.out.splitlines())) <= width, done.out
    assert "epiclick against plain" in done.out
    assert "written to B: README.md, results.json" in done.err
    page = (tmp_path / "B" / "README.md").read_text()
    assert page.startswith("# Benchmark of click models\n")
    record = json.loads((tmp_path / "B" / "results.json").read_text())
    printed = epiclick(*small[:-1], "B", "--json")
    assert printed.err == ""
    assert printed.record == {**record, "warnings": []}
    rows = record["datasets"][0]["rows"]
    assert [row["version"] for row in rows] == ["epiclick", "plain"]
    assert epiclick(*small[:-1], "B", "--quiet").err == ""


def test_a_missing_folder_is_skipped_by_name(small: list[object], tmp_path: Path) -> None:
    done = epiclick(*small, "--data", tmp_path / "yandex-pages", "--json")
    assert done.record["warnings"] == [
        f"yandex-pages is skipped: there is no folder {tmp_path / 'yandex-pages'}"
    ]
    none = epiclick(*small[:2], "--worlds", "none", "--out", tmp_path / "C")
    none.assert_refused("there is no data set to run on", "no-data")


def test_files_of_others_are_not_replaced(small: list[object], tmp_path: Path) -> None:
    (tmp_path / "B").mkdir()
    (tmp_path / "B" / "README.md").write_text("mine")
    epiclick(*small).assert_refused("did not write", "foreign-files")
    assert (tmp_path / "B" / "README.md").read_text() == "mine"
    epiclick(*small[:-1], tmp_path / "D", "--models", "pmb").assert_refused("(did you mean 'pbm'?)")
    assert not (tmp_path / "D").exists()


@pytest.mark.parametrize("has_folder", [False, True])
def test_a_run_that_was_killed_before_its_first_cell_is_continued(
    small: list[object], has_folder: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    if has_folder:
        (tmp_path / "B" / "cells").mkdir(parents=True)
    with monkeypatch.context() as stopped:
        stopped.setattr(module, "call_in_process", stop)
        assert epiclick(*small).code == 130
    assert [path.name for path in (tmp_path / "B" / "data").iterdir()] == ["pbm.npz"]
    assert epiclick(*small).code == 0
