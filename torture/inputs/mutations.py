"""Changes to rows and to the bytes of a file; sound ones keep the log readable."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

Row = dict[str, Any]

ODD_NUMBERS = (
    *("0", "-1", "1.5", "", " 2", "2 ", "+1", "1e0", "1.0", "01", "nan", "inf", "-inf", "1e400"),
    *("9223372036854775807", "9223372036854775808", "99999999999999999999", "0x1", "1_0", "²"),
    *(
        "١",
        "1,000",
        "one",
        "NULL",
        "null",
        "None",
        "true",
        "2026-01-01",
        "-0",
        "0.9999999999999999",
    ),
    *("\x1b[31m", "1\x00", "--", "=1+1", "1;2", "'1'", '"1"'),
)
ODD_CLICKS = (
    "0",
    "1",
    "2",
    "-1",
    "",
    "TRUE",
    "False",
    "t",
    "yes",
    "1.0",
    "0.5",
    "nan",
    "NULL",
    " 1",
    "01",
)
ODD_IDS = (
    *(
        "",
        " ",
        "007",
        "7",
        "-7",
        "1e3",
        "1.0",
        "NULL",
        "nan",
        "true",
        "a,b",
        'say "hi"',
        "two\nlines",
    ),
    *(
        "tab\there",
        "ünï",
        "日本語",
        "🙂",
        "e\u0301",
        "é",
        "\u202eabc",
        "\x1b]0;title\x07",
        "\x9b31m",
    ),
    *("=cmd|' /C calc'!A0", "+1", "@SUM(1)", "<script>alert(1)</script>", "'; DROP TABLE log; --"),
    *(
        "../../etc/passwd",
        "a" * 3000,
        "\ufeff",
        "\x7f",
        "\\",
        "${HOME}",
        "%s%n",
        "{0}",
        "[bold]x[/bold]",
    ),
    *("99999999999999999999", "-0", "0x10", "Infinity", "QUERY 1", " query 1", "query  1"),
)
ODD_VALUES: Mapping[str, tuple[str, ...]] = {
    "position": ODD_NUMBERS,
    "click": ODD_CLICKS,
    "page_id": ODD_IDS,
    "query_id": ODD_IDS,
    "doc_id": ODD_IDS,
    "device": ODD_IDS,
    "day": ("2026-01-01", "", "yesterday", "2026-13-01", "20260101", "\x1b[0m"),
    "results_page": ODD_NUMBERS,
    "in_view": ODD_CLICKS,
    "ad": ODD_CLICKS,
}
ALIASES = {
    "page_id": "request_id",
    "query_id": "search_term",
    "doc_id": "sku",
    "position": "rank",
    "click": "clicked",
}

RowChange = Callable[[Random, list[Row]], list[Row]]


def odd_value(rng: Random, rows: list[Row]) -> list[Row]:
    """One cell gets a value that a log should not have, or only looks as if."""
    name = rng.choice(list(ODD_VALUES))
    return _changed(rng, rows, name, rng.choice(ODD_VALUES[name]))


def odd_column(rng: Random, rows: list[Row]) -> list[Row]:
    """All cells of a column get odd values."""
    name = rng.choice(list(ODD_VALUES))
    return [{**row, name: rng.choice(ODD_VALUES[name])} for row in rows]


def missing_value(rng: Random, rows: list[Row]) -> list[Row]:
    """One cell is empty."""
    return _changed(rng, rows, rng.choice(list(ODD_VALUES)), None)


def swapped_values(rng: Random, rows: list[Row]) -> list[Row]:
    """Two cells of a column change places."""
    name, one, other = (
        rng.choice(list(ODD_VALUES)),
        rng.randrange(len(rows)),
        rng.randrange(len(rows)),
    )
    rows = [dict(row) for row in rows]
    rows[one][name], rows[other][name] = rows[other].get(name), rows[one].get(name)
    return rows


def without_column(rng: Random, rows: list[Row]) -> list[Row]:
    """A column is missing."""
    name = rng.choice(list(rows[0]))
    return [{key: value for key, value in row.items() if key != name} for row in rows]


def two_names(rng: Random, rows: list[Row]) -> list[Row]:
    """A column is there under two names."""
    name = rng.choice(list(ALIASES))
    return [
        {**row, rng.choice((ALIASES[name], name.upper())): row.get(name)} for row in rows[:1]
    ] + rows[1:]


def unknown_name(rng: Random, rows: list[Row]) -> list[Row]:
    """A column has a name that says nothing."""
    name = rng.choice(list(ALIASES))
    return _renamed(
        rows, name, rng.choice(("x", f"{name} ", f"_{name}", "", "\x1b[1m", f"my {name}"))
    )


def repeated_row(rng: Random, rows: list[Row]) -> list[Row]:
    """A row is there twice."""
    at = rng.randrange(len(rows))
    return [*rows[:at], rows[at], *rows[at:]]


def lost_rows(rng: Random, rows: list[Row]) -> list[Row]:
    """Some rows are missing, perhaps all."""
    kept = rng.choice((0.0, 0.02, 0.5, 0.9))
    return [row for row in rows if rng.random() < kept]


def another_order(rng: Random, rows: list[Row]) -> list[Row]:
    """Rows in another order."""
    return rng.sample(rows, len(rows))


def columns_in_another_order(rng: Random, rows: list[Row]) -> list[Row]:
    """Columns in another order."""
    names = rng.sample(list(rows[0]), len(rows[0]))
    return [{name: row[name] for name in names if name in row} for row in rows]


def another_column(rng: Random, rows: list[Row]) -> list[Row]:
    """A column that nothing needs."""
    name = rng.choice(("note", "ünï", "select", "a b", 'q"uote', "epiclick", "Displays_total"))
    return [{**row, name: rng.choice(ODD_IDS[5:12])} for row in rows]


def other_names(rng: Random, rows: list[Row]) -> list[Row]:
    """Columns have other names that are known."""
    for name in rng.sample(list(ALIASES), rng.randint(1, 5)):
        rows = _renamed(
            rows, name, rng.choice((ALIASES[name], name.upper(), ALIASES[name].title()))
        )
    return rows


def _changed(rng: Random, rows: list[Row], name: str, value: Any) -> list[Row]:
    at = rng.randrange(len(rows))
    return [{**row, name: value} if number == at else row for number, row in enumerate(rows)]


def _renamed(rows: list[Row], name: str, other: str) -> list[Row]:
    return [{(other if key == name else key): value for key, value in row.items()} for row in rows]


SOUND_ROWS: tuple[RowChange, ...] = (
    another_order,
    columns_in_another_order,
    another_column,
    other_names,
)
ROWS: tuple[RowChange, ...] = (
    *(odd_value, odd_value, odd_value, odd_column, missing_value, swapped_values, without_column),
    *(two_names, unknown_name, repeated_row, lost_rows),
)

ByteChange = Callable[[Random, bytes], bytes]


def flipped(rng: Random, content: bytes) -> bytes:
    """One bit is another."""
    if not content:
        return content
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]


def replaced(rng: Random, content: bytes) -> bytes:
    """A byte is one that means something to parsers."""
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(PARSED) + content[at + 1 :]


def inserted(rng: Random, content: bytes) -> bytes:
    """A byte more."""
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(PARSED) + content[at:]


def deleted(rng: Random, content: bytes) -> bytes:
    """A few bytes less."""
    at = rng.randrange(len(content) + 1)
    return content[:at] + content[at + rng.choice((1, 1, 2, 20)) :]


def truncated(rng: Random, content: bytes) -> bytes:
    """The end is missing."""
    return content[: rng.randrange(len(content) + 1)]


def repeated(rng: Random, content: bytes) -> bytes:
    """A piece is there twice."""
    at = rng.randrange(len(content) + 1)
    return content[:at] + content[max(at - rng.randint(1, 60), 0) : at] + content[at:]


def with_mark(_: Random, content: bytes) -> bytes:
    """A byte order mark comes first."""
    return b"\xef\xbb\xbf" + content


def with_returns(_: Random, content: bytes) -> bytes:
    """Lines end as on Windows."""
    return content.replace(b"\n", b"\r\n")


def without_last_newline(_: Random, content: bytes) -> bytes:
    """The last line does not end."""
    return content.rstrip(b"\n")


PARSED = (
    b'"',
    b",",
    b"\n",
    b"\r",
    b"\t",
    b"\\",
    b"\0",
    b"'",
    b";",
    b"{",
    b"}",
    b"[",
    b":",
    b"#",
    b" ",
    b"\xff",
    b"\x1b",
)
SOUND_BYTES: tuple[ByteChange, ...] = (with_mark, with_returns, without_last_newline)
BYTES: tuple[ByteChange, ...] = (flipped, replaced, inserted, deleted, truncated, repeated)


def flipped_at(rng: Random, content: bytes, at: int) -> bytes:
    """One bit of a byte is another."""
    return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]


def overwritten_at(rng: Random, content: bytes, at: int) -> bytes:
    """A byte is 0 or 255, or where it is one of them, the other."""
    other = rng.choice([value for value in (0, 255) if value != content[at]])
    return content[:at] + bytes([other]) + content[at + 1 :]


def cut_at(_: Random, content: bytes, at: int) -> bytes:
    """Only the bytes before are left."""
    return content[:at]


PLACES: tuple[Callable[[Random, bytes, int], bytes], ...] = (
    flipped_at,
    overwritten_at,
    cut_at,
)
"""Changes at a given place."""
