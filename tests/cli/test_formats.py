"""`--format`, `--impressions`, `--clicks` and `--click-window` on the command line."""

from pathlib import Path

import pandas as pd
import pytest

from epiclick.cli.options import parse_time
from epiclick.errors import InputError

from .conftest import epiclick

IMPRESSIONS = pd.DataFrame(
    {
        "search_id": [1, 1, 2, 2],
        "query": ["a", "a", "b", "b"],
        "sku_id": ["x", "y", "u", "v"],
        "rank": [1, 2, 1, 2],
        "ts": "2026-01-01 10:00:00",
    }
)
CLICKS = pd.DataFrame(
    {
        "search_id": [1, 2],
        "sku_id": ["y", "u"],
        "ts": ["2026-01-01 10:10:00", "2026-01-01 10:50:00"],
    }
)


@pytest.fixture
def tables(tmp_path: Path) -> tuple[str, ...]:
    IMPRESSIONS.to_csv(tmp_path / "i.csv", index=False)
    CLICKS.to_csv(tmp_path / "c.csv", index=False)
    return ("--impressions", f"{tmp_path / 'i.csv'}", "--clicks", f"{tmp_path / 'c.csv'}")


def test_two_tables_and_a_window(tables: tuple[str, ...]) -> None:
    item = ("--column", "doc_id=sku_id", "--json")
    done = epiclick("count", *tables, *item)
    assert (done.code, done.record["displays"], done.record["clicks"]) == (0, 4, 2)
    done = epiclick("count", *tables, *item, "--click-window", "30m")
    assert done.record["clicks"] == 1
    assert any("1 clicks came more than 1,800 seconds" in each for each in done.record["warnings"])


def test_what_is_missing_is_named(tables: tuple[str, ...], tmp_path: Path) -> None:
    done = epiclick("count", *tables[:2])
    assert done.code == 2
    assert "--impressions FILE --clicks FILE" in done.err
    done = epiclick("count")
    assert done.code == 2
    assert "--impressions and --clicks" in done.err
    done = epiclick("count", str(tmp_path / "i.csv"), "--format", "xml")
    assert done.code == 2
    assert "two-tables" in done.err


def test_the_format_that_was_taken_is_noted(tmp_path: Path) -> None:
    file = tmp_path / "pages.tsv"
    file.write_text("q\ta b\tb\nq\tb a\t\n")
    done = epiclick("count", str(file))
    assert done.code == 0
    assert "format: one line per page" in done.err
    assert "--format page-lines" in done.err


def test_times() -> None:
    written = ("45s", "30m", "2h", "1d", "1.5h", "none")
    assert [parse_time(each, "--click-window") for each in written] == [
        *(45, 1800, 7200, 86400, 5400),
        None,
    ]
    for wrong in ("30", "m", "", "3x", "-"):
        with pytest.raises(InputError):
            parse_time(wrong, "--click-window")
