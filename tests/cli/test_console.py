"""Tables and sentences: whole at every width."""

import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from epiclick.cli.console import column_widths, print_table, print_text

COLUMNS = ["ranker", "clicks per page", "displays", "log-likelihood"]
ROWS = [
    ["new-ranker", "0.1234 (0.1200 to 0.1300)", "12,345,678", "-0.5678"],
    ["[b]old[/b]", "0.9 (0.8 to 1.0)", "1", "-12.5"],
]
WORDS = [word for row in ROWS for cell in row for word in cell.split()]


@pytest.mark.parametrize("width", [20, 40, 53, 54, 60, 70, 80, 200])
def test_no_number_is_cut_at_any_width(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_table("Rankers", COLUMNS, ROWS)
    shown = capsys.readouterr().out
    assert [word for word in WORDS if word not in shown] == []
    assert "…" not in shown
    if "│" in shown:
        assert max(map(len, shown.splitlines())) <= width


def test_a_table_left_to_rich_would_be_cut(capsys: pytest.CaptureFixture) -> None:
    table = Table(*COLUMNS)
    for row in ROWS:
        table.add_row(*row)
    Console(width=40).print(table)
    shown = capsys.readouterr().out
    assert [word for word in WORDS if word not in shown] != []


CELL = st.lists(st.text("abc019.-", min_size=1, max_size=9), max_size=3).map(" ".join)


@pytest.mark.slow
@settings(max_examples=200)
@given(st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=4), st.integers(0, 60))
def test_columns_hold_their_longest_words_and_no_more_than_they_want(
    rows: list[tuple[str, ...]], room: int
) -> None:
    widths = column_widths(rows, room)
    columns = list(zip(*rows, strict=True))
    words = [
        max((len(w) for cell in column for w in cell.split()), default=0) for column in columns
    ]
    wanted = [max(map(len, column)) for column in columns]
    if widths is None:
        assert sum(words) > room
        return
    assert all(w <= width <= most for w, width, most in zip(words, widths, wanted, strict=True))
    assert sum(widths) == min(room, sum(wanted))


def test_sentences_fit_and_keep_names_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    name = "a-path/with-hyphens/that-is-longer-than-any-line.parquet"
    print_text(f"Some words that go before, and then --fail-unless-better and {name}. After.")
    lines = capsys.readouterr().out.splitlines()
    assert f"{name}." in lines
    assert any("--fail-unless-better" in line for line in lines)
    assert all(len(line) <= 40 for line in lines if name not in line)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_letters_that_a_terminal_lacks_do_not_end_a_call(encoding: str) -> None:
    program = (
        "from epiclick.cli.exit_codes import exit_code; from epiclick.cli.console import print_table; "
        f"table = {('Größe, 中', ['gerät'], [['téléphone 中']])!a}; "
        "raise SystemExit(exit_code(lambda: print_table(*table)))"
    )
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-c", program],
        capture_output=True,
        env={"PYTHONIOENCODING": encoding, "LC_ALL": "C", "COLUMNS": "80"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    shown = done.stdout.decode(encoding)
    assert re.search("t(é|\\\\xe9)l", shown)
    assert ("中" in shown) == (encoding == "utf-8")
