"""`epiclick select`: its record, its tables, and what it refuses."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import epiclick as ec
from epiclick.cli import console
from epiclick.cli.select import print_selection
from epiclick.data.checksums import check_record
from epiclick.selection import select_model
from epiclick.selection.parsimony import ModelScores
from epiclick.selection.selected import Selection

from .conftest import epiclick

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def log(cli_folder: Path) -> Path:
    path = cli_folder / "select.parquet"
    made = ec.simulate(
        queries=60, docs=6, features=2, pages=4_000, positions=4, users="ubm", seed=1
    )
    made.log.to_pandas().to_parquet(path)
    return path


def test_the_record_is_that_of_the_library(log: Path) -> None:
    done = epiclick("select", log, "--models", "ubm,pbm", "--seed", 3, "--json")
    assert done.err == ""
    record = done.record
    assert record["schema_version"] == 1
    assert {"models", "verdict", "warnings"} <= set(record)
    found = ec.select(log, ("ubm", "pbm"), seed=3, progress=False)
    expected = console.json_safe(found.to_dict())
    for one in (*record["models"], *expected["models"]):
        one.pop("seconds")
    assert {name: record[name] for name in expected} == expected
    assert {"click_model", "log_likelihood", "perplexity", "difference", "low", "high"} <= set(
        record["models"][0]
    )


def test_the_record_is_written_and_shown_in_a_report(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "select.json"
    done = epiclick("select", log, "--models", "pbm,ubm", "--out", path, "--json")
    written = json.loads(path.read_text())
    check_record(written)
    assert written == {**done.record, "digest": written["digest"]}
    epiclick("fit", log, "--out", tmp_path / "model")
    page = tmp_path / "report.html"
    shown = epiclick("report", tmp_path / "model", "--selection", path, "--out", page, "--quiet")
    assert (shown.code, shown.err) == (0, "")
    assert written["verdict"].split(":")[0] in page.read_text()
    # before any work
    refused = epiclick("select", log, "--out", tmp_path / "select.txt")
    refused.assert_refused("select.json", "wrong-suffix")
    refused = epiclick("report", tmp_path / "model", "--selection", tmp_path / "none.json")
    refused.assert_refused("epiclick select --out", "file-missing")


@pytest.fixture(scope="module")
def selection(log: Path) -> Selection:
    """Of the models of the tables, fitted once for all widths."""
    return ec.select(log, ("pbm", "ubm"), holdout=0.1, progress=False)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_tables_fit_the_terminal(
    width: int, log: Path, selection: Selection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(select_model, "select", lambda *_, **__: selection)
    done = epiclick("select", log, "--models", "pbm,ubm", "--holdout", 0.1)
    assert (done.code, done.err) == (0, ""), done.err
    assert max(map(len, done.out.splitlines())) <= width
    assert "best" in done.out
    flat = " ".join(done.out.split())
    assert "Verdict: Choose " in flat
    assert "Rule: the simplest model" in flat


def test_a_model_that_cannot_be_scored_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (
        ModelScores("cascade", 0, None, impossible=1_234),
        ModelScores("pbm", 4, -0.3, 0.0, 0.0, 0.0, 1.4),
    )
    print_selection(Selection(rows, {}, {}, 0.9, 10_000, 50_000, 60, "position 5"))
    flat = " ".join(capsys.readouterr().out.split())
    assert "cascade gives 1,234 pages probability 0, so it is not scored." in flat
    assert "probability" in flat.split("Verdict")[0]


def test_models_that_need_pages_are_left_out_or_refused(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "no_pages.csv"
    pd.read_parquet(log).drop(columns="page_id").to_csv(path, index=False)
    record = epiclick("select", path, "--json").record
    assert [each["click_model"] for each in record["models"]].count("pbm") == 1
    assert any(each.startswith("ubm is left out: ") for each in record["warnings"])
    done = epiclick("select", path, "--models", "pbm,ubm")
    done.assert_refused("ubm cannot be fitted", "missing-column")
    # how the log is read is up to the same options as elsewhere
    renamed = tmp_path / "renamed.csv"
    pd.read_parquet(log).rename(columns={"page_id": "view"}).to_csv(renamed, index=False)
    how = ["--column", "page_id=view", "--where", "query_id < 30", "--models", "ubm"]
    assert epiclick("select", renamed, *how, "--json").record["queries"] == 30
    assert "columns: page_id from view" in epiclick("select", renamed, *how).err


@pytest.mark.parametrize(
    ("given", "words", "code"),
    [
        (["--models", "pbm,umb"], "(did you mean 'ubm'?)", "unknown-click-model"),
        (["--models", ","], "names of click models", "invalid-type"),
        (["--holdout", 1.5], "holdout must be a share", "holdout-out-of-range"),
        (["--holdout", "some"], "--holdout some: write a number", None),
        (["--level", 90], "level must lie strictly between 0 and 1", "level-out-of-range"),
        (["--where", "query_id = 1"], "at least 2 are needed", "too-few-queries"),
        (["--where", "click = 0"], "has no click in", "no-clicks"),
        (["--features", "nothing.parquet"], "no file at nothing.parquet", None),
    ],
)
def test_bad_input_ends_with_one_message(
    given: list[object], words: str, code: str | None, log: Path
) -> None:
    done = epiclick("select", log, *given)
    done.assert_refused(words, code)
    assert done.err.count("epiclick: ") == 1


def test_progress_is_shown_on_a_terminal_only(log: Path) -> None:
    call = [sys.executable, "-m", "epiclick", "select", str(log), "--models", "pbm"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        written = b""
        try:
            while block := os.read(ours, 4096):
                written += block
        except OSError:  # the other end was closed
            pass
    os.close(ours)
    assert process.returncode == 0
    assert b"reading" in written
    piped = subprocess.run(call, capture_output=True, text=True)
    assert (piped.returncode, piped.stderr) == (0, "")
