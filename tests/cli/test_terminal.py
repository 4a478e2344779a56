"""Control characters from files never reach the terminal."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epiclick.errors import printable

from .conftest import epiclick

RED, TITLE, REVERSED = "\x1b[31m", "\x1b]0;owned\x07", "\u202e"


def log(first_position: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    pages, size = 60, 3
    return pd.DataFrame(
        {
            "page_id": np.repeat(np.arange(pages), size),
            "query_id": f"query{TITLE}",
            "doc_id": np.tile([f"{i}{RED}{REVERSED}" for i in range(size)], pages),
            "position": np.concatenate([rng.permutation(size) for _ in range(pages)])
            + first_position,
            "click": rng.integers(0, 2, pages * size),
            f"dev{RED}ice": f"phone{TITLE}",
        }
    )


def assert_plain(text: str) -> None:
    assert text
    assert not set(text) & {"\x1b", "\x07", REVERSED, "\r"}


@pytest.mark.parametrize(
    ("first", "options", "code", "shown"),
    [
        (0, [], 2, r"query\x1b]0;owned\x07"),  # rows in an error
        (1, ["--column", "page_id=nope"], 2, r"dev\x1b[31mice"),  # names in an error
        (1, ["--context", f"position,dev{RED}ice"], 0, r"\x1b[31m"),  # a table
    ],
)
def test_what_files_contain_is_printed_as_escapes(
    first: int, options: list[str], code: int, shown: str, tmp_path: Path
) -> None:
    log(first).to_parquet(tmp_path / "log.parquet")
    done = epiclick("count", tmp_path / "log.parquet", *options)
    assert done.code == code
    assert shown in "".join((done.out + done.err).split("\n"))
    assert_plain(done.out + done.err)


def test_names_of_files_are_printed_as_escapes(tmp_path: Path) -> None:
    done = epiclick("count", tmp_path / f"no{RED}such.parquet")
    assert done.code == 2
    assert_plain(done.err)


def test_ordinary_text_is_printed_as_it_is() -> None:
    for text in ("naïve – 検索 ✓", "two\nlines", ""):
        assert printable(text) == text
    assert printable("a\tb\r") == r"a\tb\r"
