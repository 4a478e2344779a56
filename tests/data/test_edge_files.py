"""Unusual files: read correctly, or refused with an error that names the problem."""

import csv
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epiclick.data.engine import engine_errors
from epiclick.data.features import read_features
from epiclick.data.readers import count_log, read_log
from epiclick.data.schema import LogOptions
from epiclick.errors import InputError, InputWarning

from ..raising import raises_code

pytestmark = pytest.mark.slow

FLIPS = 200  # of each kind of file


def refused(code: str, source: object, **settings: object) -> str:
    with raises_code(code) as caught:
        read_log(source, **settings)
    return str(caught.value)


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """Forty pages of three results for four queries."""
    page, position = np.repeat(np.arange(40), 3), np.tile([1, 2, 3], 40)
    columns = {"page_id": page, "query_id": page % 4, "doc_id": page % 4 * 10 + position}
    click = (page * 7 + position * 3) % 5 == 0
    return pd.DataFrame({**columns, "position": position, "click": click.astype(int)})


@pytest.fixture(scope="module")
def features(log: pd.DataFrame) -> pd.DataFrame:
    pairs = log[["query_id", "doc_id"]].drop_duplicates()
    values = np.random.default_rng(0).normal(size=(len(pairs), 2))
    return pairs.assign(f0=values[:, 0], f1=values[:, 1])


@pytest.fixture
def objects(log: pd.DataFrame) -> list[str]:
    return log.to_json(orient="records", lines=True).splitlines()


# Columns and ids


def test_an_index_stored_by_pandas_is_ignored(
    log: pd.DataFrame, features: pd.DataFrame, tmp_path: Path
) -> None:
    shuffled = features.sample(frac=1, random_state=1)
    shuffled.to_parquet(tmp_path / "f.parquet", index=True)
    assert "__index_level_0__" in pq.read_schema(tmp_path / "f.parquet").names
    for source in (tmp_path / "f.parquet", pa.Table.from_pandas(shuffled)):
        assert read_features(source).names == ("f0", "f1")
    log.sample(frac=1, random_state=1).to_parquet(tmp_path / "l.parquet", index=True)
    assert read_log(tmp_path / "l.parquet").total_displays == 120
    message = refused(
        "unknown-column", tmp_path / "l.parquet", context=("__index_level_0__", "position")
    )
    assert "'__index_level_0__'" in message


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_queries_that_differ_only_in_case_or_spaces_cause_a_warning(
    suffix: str, log: pd.DataFrame, tmp_path: Path
) -> None:
    names = np.array(["red shoes", "Red  Shoes", "hats", "gloves "])
    named = log.assign(query_id=names[log.query_id])
    path = tmp_path / f"l.{suffix}"
    save = {"parquet": named.to_parquet, "csv": named.to_csv}[suffix]
    save(path, index=False)
    with pytest.warns(InputWarning) as caught:
        counts = read_log(path)
    assert counts.num_queries == 4
    (message,) = [str(each.message) for each in caught]
    assert message.startswith("2 of 4 queries ")
    assert "'Red  Shoes' and 'red shoes'" in message
    assert "normalise_queries=True" in message
    counts.to_parquet(tmp_path / "counts.parquet")
    with pytest.warns(InputWarning, match=r"2 of 4 queries .*'Red  Shoes'"):
        read_log(tmp_path / "counts.parquet")


def test_queries_that_differ_otherwise_cause_none(log: pd.DataFrame) -> None:
    names = np.array(["red shoes", "redshoes", "réd shoes", "red-shoes"])
    assert count_log(log.assign(query_id=names[log.query_id]), LogOptions())[1].warnings == ()


# JSON lines


@pytest.mark.parametrize("rows", [slice(None), slice(1)])
def test_keys_that_differ_by_case_are_refused(
    rows: slice, objects: list[str], tmp_path: Path
) -> None:
    objects[rows] = [each[:-1] + ',"Click":1}' for each in objects[rows]]
    (tmp_path / "l.jsonl").write_text("\n".join(objects) + "\n")
    assert "2 columns are called click" in refused("repeated-column", tmp_path / "l.jsonl")


def test_keys_that_differ_by_case_between_files_are_refused(
    objects: list[str], tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join(objects[:60]) + "\n")
    other = "\n".join(objects[60:]).replace('"click"', '"Click"')
    (tmp_path / "b.jsonl").write_text(other + "\n")
    assert "2 columns are called click" in refused("repeated-column", tmp_path)


def test_numbered_keys_are_separate_keys(objects: list[str], tmp_path: Path) -> None:
    numbered = [each[:-1] + ',"click_1":1}' for each in objects]
    (tmp_path / "l.jsonl").write_text("\n".join(numbered) + "\n")
    assert read_log(tmp_path / "l.jsonl").total_displays == 120


@pytest.mark.parametrize("empty", ["{}", "null"])
@pytest.mark.parametrize("broken", [[], ['{"page_id": 9, "query']])
def test_objects_without_values_are_bad_rows(
    empty: str, broken: list[str], objects: list[str], tmp_path: Path
) -> None:
    lines = [*objects, *[empty] * 5, *broken]
    (tmp_path / "l.jsonl").write_text("\n".join(lines) + "\n\n")
    code, count = ("malformed-line", ": 6 lines") if broken else ("missing-value", ": 5 rows")
    assert count in refused(code, tmp_path / "l.jsonl")
    counts, report = count_log(tmp_path / "l.jsonl", LogOptions(on_bad="drop", max_bad=0.1))
    assert (counts.total_displays, report.dropped) == (120, 5 + len(broken))


@pytest.mark.parametrize(("opening", "closing"), [('{"a":', "}"), ("[", "]")])
def test_nesting_that_would_overflow_the_stack_is_refused(
    opening: str, closing: str, objects: list[str], tmp_path: Path
) -> None:
    deep = '{"a":' + opening * 200_000 + "1" + closing * 200_000 + "}"
    (tmp_path / "l.jsonl").write_text("\n".join([*objects[:60], deep, *objects[60:]]) + "\n")
    assert "1,000 levels" in refused("nested-too-deeply", tmp_path / "l.jsonl")
    (tmp_path / "l.jsonl").write_text("\n".join([*objects, deep]))
    assert "1,000 levels" in refused("nested-too-deeply", tmp_path / "l.jsonl")


def test_unused_values_may_be_nested_and_long(objects: list[str], tmp_path: Path) -> None:
    deep = '{"b":' * 900 + "1" + "}" * 900
    brackets = '"' + '[\\"{' * 3000 + '"'
    lines = [each[:-1] + f',"x":{deep},"y":{brackets}}}' for each in objects]
    (tmp_path / "l.jsonl").write_text("\n".join(lines) + "\n")
    assert read_log(tmp_path / "l.jsonl").total_displays == 120


# Line ends


def lines_of(log: pd.DataFrame) -> list[str]:
    return log.to_csv(index=False).splitlines()


def test_lone_cr_as_line_end_is_named(log: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_bytes("\r".join(lines_of(log)).encode() + b"\r")
    assert "tr '\\r' '\\n'" in refused("lone-carriage-return", tmp_path / "l.csv")


@pytest.mark.parametrize("ends", [("\n", "\r\n"), ("\r\n", "\n"), ("\n", "\r"), ("\r\n", "\r")])
def test_mixed_line_ends_are_named(
    ends: tuple[str, str], log: pd.DataFrame, tmp_path: Path
) -> None:
    lines = lines_of(log)
    text = "".join(line + ends[number >= 60] for number, line in enumerate(lines))
    (tmp_path / "l.csv").write_bytes(text.encode())
    assert "dos2unix" in refused("source-unreadable", tmp_path / "l.csv")


def test_a_cr_within_quotes_is_a_character(log: pd.DataFrame, tmp_path: Path) -> None:
    named = log.assign(doc_id=log.doc_id.map("a\rb{}".format))
    (tmp_path / "l.csv").write_bytes(named.to_csv(index=False, quoting=csv.QUOTE_ALL).encode())
    assert read_log(tmp_path / "l.csv").to_table().equals(read_log(named).to_table())


def test_a_first_line_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_bytes(b"x" * (1 << 20) + b",query_id\n1,2\n")
    assert "1 MB" in refused("header-too-long", tmp_path / "l.csv")


# Names and types of files


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize(
    "name", ['it\'s "odd"', "two\nlines", "a*b?c[1]{2}", "back\\slash", "$HOME ~ %20", "x" * 240]
)
def test_files_of_any_name_are_read(
    name: str, suffix: str, log: pd.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / f"{name}.{suffix}"
    save: dict[str, Callable[[], object]] = {
        "csv": lambda: log.to_csv(path, index=False),
        "parquet": lambda: log.to_parquet(path),
        "jsonl": lambda: log.to_json(path, orient="records", lines=True),
    }
    save[suffix]()
    for source in (path, tmp_path):
        assert read_log(source, where="position <= 2").total_displays == 80


def test_names_that_are_not_utf8_are_refused(log: pd.DataFrame, tmp_path: Path) -> None:
    log.to_csv(tmp_path / "l.csv", index=False)
    try:
        os.rename(tmp_path / "l.csv", os.fsencode(tmp_path) + b"/l\xff.csv")
    except OSError:
        pytest.skip("file names are UTF-8 here")
    for source in (tmp_path, str(tmp_path / "*.csv")):
        assert ": 1 file" in refused("name-not-utf8", source)


def test_names_that_no_file_can_have_are_refused() -> None:
    assert "(File name too long)" in refused("cannot-read", "x" * 5000 + ".csv")
    with pytest.raises(InputError, match="NUL"):
        read_log("a\0b.csv")


def test_pipes_devices_and_dead_links_are_refused(log: pd.DataFrame, tmp_path: Path) -> None:
    log.to_csv(tmp_path / "a.csv", index=False)
    os.mkfifo(tmp_path / "b.csv")
    for source in (tmp_path / "b.csv", tmp_path, str(tmp_path / "*.csv"), "/dev/null"):
        assert ": 1 path" in refused("not-a-regular-file", source)
    (tmp_path / "b.csv").unlink()
    (tmp_path / "b.csv").symlink_to(tmp_path / "nowhere.csv")
    assert "b.csv" in refused("not-a-regular-file", tmp_path)
    (tmp_path / "b.csv").unlink()
    assert read_log(tmp_path).total_displays == 120


def test_folders_named_like_files_are_read_by_a_glob_too(log: pd.DataFrame, tmp_path: Path) -> None:
    for day, rows in enumerate((log[:60], log[60:])):
        folder = tmp_path / f"day{day}.parquet"
        folder.mkdir()
        rows.to_parquet(folder / "part-0.parquet")
    log[:3].assign(page_id=99).to_parquet(tmp_path / "rest.parquet")
    for source in (tmp_path, str(tmp_path / "*.parquet"), str(tmp_path / "**")):
        assert read_log(source).total_displays == 123


def test_missing_permissions_are_reported(
    log: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir()
    for path in (tmp_path / "a.parquet", tmp_path / "closed" / "b.parquet"):
        log.to_parquet(path)

    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("epiclick.data.files.check_tables", deny)
        message = refused("cannot-read", tmp_path / "a.parquet")
        assert "a.parquet cannot be read (permission denied)" in message
    scan = os.scandir

    def closed(path: str) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", closed)
    message = refused("cannot-read", tmp_path)
    assert str(tmp_path / "closed") in message
    assert "(Permission denied)" in message


# Engines


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (duckdb.InternalException("INTERNAL Error: Attempted to access"), "engine-failed"),
        (duckdb.FatalException("FATAL Error: database was invalidated"), "engine-failed"),
        (duckdb.IOException("IO Error"), "source-unreadable"),
        (pa.ArrowKeyError("no such key"), "source-unreadable"),
        (pa.ArrowSerializationError("thrift"), "source-unreadable"),
        (OSError("Couldn't deserialize thrift"), "source-unreadable"),
        (RecursionError("maximum recursion depth exceeded"), "nested-too-deeply"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start"), "source-unreadable"),
    ],
)
def test_errors_of_an_engine_name_the_input(error: Exception, code: str) -> None:
    with raises_code(code) as caught, engine_errors("my log"):
        raise error
    assert str(caught.value).startswith("my log ")


def test_memory_that_a_damaged_file_claims_is_not_allocated() -> None:
    with pytest.raises(MemoryError, match="my log"), engine_errors("my log"):
        raise pa.ArrowMemoryError("malloc of size 2305843009213693952 failed")


# Damage


@pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")
@pytest.mark.parametrize("kind", ["log", "features"])
def test_a_flipped_byte_in_parquet_gives_the_same_or_an_error(
    kind: str, log: pd.DataFrame, features: pd.DataFrame, tmp_path: Path
) -> None:
    """Parquet has no checksums of values by default: only in them may a flip go undetected."""
    path = tmp_path / "x.parquet"
    {"log": log, "features": features}[kind].to_parquet(path)

    def read() -> object:
        if kind == "log":
            return count_log(path, LogOptions())[0].to_table().to_pydict()
        table = read_features(path, cache=False)
        return table.keys.to_pydict(), table.names, table.matrix.tobytes()

    whole, expected = path.read_bytes(), read()
    end_of_values = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    rng = np.random.default_rng(0)
    seen: Counter[str] = Counter()
    for at in rng.choice(len(whole), FLIPS, replace=False).tolist():
        flipped = bytearray(whole)
        flipped[at] ^= int(rng.integers(1, 256))
        path.write_bytes(flipped)
        try:
            outcome = "same" if read() == expected else "other values"
        except (InputError, MemoryError):
            outcome = "refused"
        seen[outcome] += 1
        assert outcome != "other values" or at < end_of_values
    assert seen["refused"] > FLIPS / 3
    assert seen["other values"] < FLIPS / 10
