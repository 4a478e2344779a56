"""`epiclick count`, as a program or a person would call it."""

import datetime
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from epiclick.cli.main import run

from .conftest import epiclick

pytestmark = pytest.mark.slow


@pytest.fixture
def log_file(small_log: pd.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / "clicks.csv"
    small_log.to_csv(path, index=False)
    return path


def test_json_has_the_documented_keys(log_file: Path) -> None:
    # as a program, once; calls in this process go the same way
    command = [sys.executable, "-m", "epiclick", "count", str(log_file), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == epiclick("count", log_file, "--json").out
    record = json.loads(done.stdout)
    assert record == {
        "schema_version": 1,
        "pages": 6,
        "pairs": 6,
        "displays": 18,
        "clicks": 6,
        "by_position": [
            {"position": 1, "displays": 6, "clicks": 3},
            {"position": 2, "displays": 6, "clicks": 2},
            {"position": 3, "displays": 6, "clicks": 1},
        ],
        "warnings": [],
    }


def test_people_get_a_table_and_the_names_that_were_taken(log_file: Path, tmp_path: Path) -> None:
    renamed = tmp_path / "renamed.csv"
    pd.read_csv(log_file).rename(columns={"position": "rank"}).to_csv(renamed, index=False)
    done = epiclick("count", renamed)
    assert "6 pages, 6 pairs of 2 queries, 18 displays, 6 clicks" in done.out
    assert "Click rate by position" in done.out
    assert "columns: position from rank" in done.err
    assert max(map(len, done.out.splitlines())) <= 80
    assert "\x1b" not in done.out
    assert epiclick("count", renamed, "--quiet").err == ""


def test_out_is_a_parquet_file_that_counts_again_to_the_same(
    log_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "counts.parquet"
    assert epiclick("count", log_file, "--out", out).code == 0
    assert pq.read_table(out).column_names == [
        "query_id",
        "doc_id",
        "position",
        "displays",
        "clicks",
    ]
    first = json.loads(epiclick("count", log_file, "--json").out)
    assert json.loads(epiclick("count", out, "--json").out) == first


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.csv"], "no file at nowhere.csv"),
        (["LOG", "--column", "position"], "write it as position=slot"),
        (["LOG", "--column", "positon=slot"], "did you mean 'position'?"),
        (["LOG", "--context", "devise,position"], "'devise'"),
        (["LOG", "--max-bad", "few"], "write a share such as 0.1%"),
        (["LOG", "--position-base", "0", "--where", "position >"], "not an SQL condition"),
        (["LOG", "--out", "."], "is a folder"),
        (["LOG", "--out", "counts.csv"], "name a .parquet file"),
        (["LOG", "--out", "clicks.csv/c.parquet"], "cannot be written"),
    ],
)
def test_bad_input_gives_code_2_one_message_and_no_file(
    arguments: list[str],
    words: str,
    log_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [str(log_file) if a == "LOG" else a for a in arguments]
    if "--out" not in arguments:
        arguments += ["--out", str(tmp_path / "counts.parquet")]
    done = epiclick("count", *arguments)
    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    assert [p.name for p in tmp_path.iterdir()] == ["clicks.csv"]


def test_the_real_yandex_counts(shared_data: Callable[[str], Path]) -> None:
    path = shared_data("yandex-counts/counts.csv")
    done = epiclick("count", path, "--position-base", 0, "--clip-clicks", "--json")
    record = json.loads(done.out)
    assert (record["pages"], record["pairs"]) == (None, 3258)
    assert (record["displays"], record["clicks"]) == (24_726_798, 2_434_436)
    assert "38 rows had more clicks than displays" in record["warnings"][0]
    refused = epiclick("count", path)
    assert refused.code == 2
    assert "--position-base 0" in refused.err
    assert "--clip-clicks" in refused.err


def test_the_log_itself_is_never_overwritten(small_log: pd.DataFrame, tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    small_log.to_parquet(log)
    before = log.read_bytes()
    done = epiclick("count", tmp_path / "*.parquet", "--out", log)
    assert done.code == 2
    assert "is also an input; name another file" in done.err
    assert log.read_bytes() == before


def test_context_values_are_shown_as_they_are(small_log: pd.DataFrame, tmp_path: Path) -> None:
    day = [datetime.date(2026, 1, 1 + i % 2) for i in range(18)]
    small_log.assign(day=day, kind="[red]x[/b]").to_parquet(tmp_path / "log.parquet")
    log = tmp_path / "log.parquet"
    assert "[red]x[/b]" in epiclick("count", log, "--context", "kind,position").out
    record = json.loads(epiclick("count", log, "--context", "day,position", "--json").out)
    assert record["by_position"][0]["day"] == "2026-01-01"


def test_an_interrupt_leaves_nothing_behind(
    log_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def half_written(table: object, where: Path, **_: object) -> None:
        where.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(pq, "write_table", half_written)
    monkeypatch.setattr(
        sys, "argv", ["epiclick", "count", str(log_file), "--out", str(tmp_path / "c.parquet")]
    )
    with pytest.raises(SystemExit) as stopped:
        run()
    assert stopped.value.code == 130
    assert "nothing was written" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["clicks.csv"]
