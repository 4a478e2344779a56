"""Logs as found in practice: nothing is silently lost, doubled or changed."""

import datetime
import threading
from pathlib import Path

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epiclick.data.arrays import distinct
from epiclick.data.counts import ClickCounts
from epiclick.data.engine import connect
from epiclick.data.features import read_features
from epiclick.data.readers import count_log, read_log
from epiclick.data.schema import LogOptions
from epiclick.errors import InputWarning

from ..raising import raises_code

pytestmark = pytest.mark.slow


def refused(code: str, source: object, **settings: object) -> str:
    with raises_code(code) as caught:
        read_log(source, **settings)
    return str(caught.value)


@pytest.fixture
def log() -> pd.DataFrame:
    """Forty pages of three results for four queries."""
    rng = np.random.default_rng(5)
    page = np.repeat(np.arange(40), 3)
    position = np.tile([1, 2, 3], 40)
    doc = page % 4 * 10 + (position + rng.integers(3, size=40)[page]) % 3
    click = rng.random(120) < 0.3
    columns = {"page_id": page, "query_id": page % 4, "doc_id": doc, "position": position}
    return pd.DataFrame({**columns, "click": click.astype(int)})


# Text files


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_csv_of_any_dialect(
    newline: str, delimiter: str, mark: str, log: pd.DataFrame, tmp_path: Path
) -> None:
    text = mark + log.to_csv(index=False, sep=delimiter, lineterminator=newline)
    (tmp_path / "l.csv").write_bytes(text.encode())
    assert read_log(tmp_path / "l.csv").to_table().equals(read_log(log).to_table())


def test_ids_with_quotes_newlines_and_unicode_are_kept(log: pd.DataFrame, tmp_path: Path) -> None:
    names = np.array(['a "quoted" one', "two\nlines", "naïve, ☃", "  spaces  "])
    odd = log.assign(query_id=names[log.query_id])
    odd.to_csv(tmp_path / "l.csv", index=False)
    odd.to_json(tmp_path / "l.jsonl", orient="records", lines=True)
    for file in ("l.csv", "l.jsonl"):
        assert set(read_log(tmp_path / file).query_id.to_pylist()) == set(names)


def test_an_unclosed_quote_cannot_be_dropped(log: pd.DataFrame, tmp_path: Path) -> None:
    lines = log.to_csv(index=False).splitlines()
    lines[60] = lines[60][:-1] + '"1'
    (tmp_path / "l.csv").write_text("\n".join(lines) + "\n")
    with raises_code("malformed-line") as caught:
        read_log(tmp_path / "l.csv", on_bad="drop", max_bad=1.0)
    assert caught.value.problems[-1].code == "not-droppable"
    assert "--on-bad drop" not in refused("malformed-line", tmp_path / "l.csv")


def test_the_line_of_a_wrong_encoding_is_named(log: pd.DataFrame, tmp_path: Path) -> None:
    data = (
        log.assign(doc_id=log.doc_id.map("doc-{}".format)).to_csv(index=False).encode().splitlines()
    )
    data[100] = data[100].replace(b"doc-", b"doc\xe9")
    (tmp_path / "l.csv").write_bytes(b"\n".join(data) + b"\n")
    message = refused("not-utf8", tmp_path / "l.csv")
    assert "l.csv" in message
    assert "(line 101)" in message


def test_a_file_cut_within_a_character_is_named(log: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_bytes(log.to_csv(index=False).encode() + "é".encode()[:1])
    assert "(line 122)" in refused("not-utf8", tmp_path / "l.csv")


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_other_encodings_are_named(encoding: str, log: pd.DataFrame, tmp_path: Path) -> None:
    log.rename(columns={"doc_id": "doc_id", "click": "click"}).assign(é=1).to_csv(
        tmp_path / "l.csv", index=False, encoding=encoding
    )
    assert "l.csv" in refused("not-utf8", tmp_path / "l.csv")


def test_a_blank_first_line_is_named(log: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("\n" + log.to_csv(index=False))
    assert "l.csv" in refused("missing-header", tmp_path / "l.csv")


def test_upper_case_suffixes_are_suffixes(log: pd.DataFrame, tmp_path: Path) -> None:
    log.to_csv(tmp_path / "l.csv.gz", index=False)
    (tmp_path / "l.csv.gz").rename(tmp_path / "L.CSV.GZ")
    assert read_log(tmp_path / "L.CSV.GZ").total_displays == 120


def test_text_positions_of_equal_value_are_repeats(log: pd.DataFrame, tmp_path: Path) -> None:
    written = log.assign(position=log.position.astype(str))
    written.loc[:2, "position"] = ["1", "1.0", "01"]
    written.to_csv(tmp_path / "l.csv", index=False)
    assert ": 1 page" in refused("repeated-position", tmp_path / "l.csv")


@pytest.mark.parametrize("value", ["inf", "nan", "1e30", "-inf"])
def test_numbers_that_do_not_fit_an_integer_are_bad_rows(
    value: str, log: pd.DataFrame, tmp_path: Path
) -> None:
    written = log.assign(position=log.position.astype(str))
    written.loc[7, "position"] = value
    written.to_csv(tmp_path / "l.csv", index=False)
    log.assign(position=written.position.astype(float)).to_parquet(tmp_path / "l.parquet")
    for file in ("l.csv", "l.parquet"):
        # a missing value in a DataFrame is written to Parquet as NULL
        null = (file, value) == ("l.parquet", "nan")
        code = "missing-value" if null else "not-whole-number"
        assert "position" in refused(code, tmp_path / file)
        counts, report = count_log(tmp_path / file, LogOptions(on_bad="drop", max_bad=0.1))
        assert (counts.total_displays, report.dropped) == (119, 1)


# Where


@pytest.fixture
def coded(log: pd.DataFrame) -> pd.DataFrame:
    zips = np.array(["007", "008", "7"])[log.position - 1]
    version = np.where(log.page_id < 38, "3", "beta")
    return log.assign(query_id=log.query_id + 10**17, zip=zips, version=version, raw=1.5)


@pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")
@pytest.mark.parametrize(
    "condition",
    [
        "query_id = 100000000000000001",
        "zip = '007'",
        "zip LIKE '00%'",
        "version IS NOT NULL",
        "version = 'beta' OR version = '3'",
        "raw > 1 AND position <= 2",
        "zip IN ('7', '008')",
    ],
)
def test_where_means_the_same_in_text_and_in_typed_files(
    condition: str, coded: pd.DataFrame, tmp_path: Path
) -> None:
    coded = coded.drop(columns="page_id")
    coded.to_csv(tmp_path / "l.csv", index=False)
    coded.to_parquet(tmp_path / "l.parquet")
    text, typed = (read_log(tmp_path / f, where=condition) for f in ("l.csv", "l.parquet"))
    assert text.to_table().equals(typed.to_table())


def test_an_unclosed_string_in_where_is_refused(log: pd.DataFrame) -> None:
    refused("invalid-condition", log, where="query_id = 'x")


# JSON


def test_two_objects_on_a_line_are_refused(log: pd.DataFrame, tmp_path: Path) -> None:
    lines = log.to_json(orient="records", lines=True).splitlines()
    joined = [*lines[:29], lines[29] + lines[30], *lines[31:]]
    (tmp_path / "l.jsonl").write_text("\n".join(joined) + "\n")
    assert "unexpected content after document" in refused("malformed-line", tmp_path / "l.jsonl")
    with raises_code("malformed-line") as caught:
        read_log(tmp_path / "l.jsonl", on_bad="drop", max_bad=1.0)
    assert caught.value.problems[-1].code == "not-droppable"


@pytest.mark.parametrize(
    "form", ["2024-01-0{}", "10:01:0{}", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A1{}"]
)
def test_json_strings_that_look_like_another_type_stay_text(
    form: str, log: pd.DataFrame, tmp_path: Path
) -> None:
    named = log.assign(query_id=log.query_id.map(form.format))
    named.to_json(tmp_path / "l.jsonl", orient="records", lines=True)
    assert read_log(tmp_path / "l.jsonl").to_table().equals(read_log(named).to_table())


def test_json_ids_beyond_64_bits_are_not_lost(log: pd.DataFrame, tmp_path: Path) -> None:
    lines = log.to_json(orient="records", lines=True).replace(
        '"query_id":3', f'"query_id":{2**64 + 3}'
    )
    (tmp_path / "l.jsonl").write_text(lines)
    message = refused("wrong-column-type", tmp_path / "l.jsonl", on_bad="drop", max_bad=1.0)
    assert "l.jsonl" in message


@pytest.mark.parametrize("text", ['[{"query_id": 1}, {"query_id": 2}]', "5\n6\n"])
def test_json_without_one_object_per_line_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "l.json").write_text(text)
    assert "l.json" in refused("not-json-lines", tmp_path / "l.json")


# Names of files and columns


@pytest.mark.parametrize("name", ["x[1].parquet", "q*.parquet", "x[1].csv"])
def test_a_name_with_wildcards_is_read_literally(name: str, log, tmp_path: Path) -> None:
    save = pd.DataFrame.to_parquet if name.endswith("parquet") else pd.DataFrame.to_csv
    for other, rows in {name: log, name.replace("[1]", "1").replace("*", "2"): log[:30]}.items():
        save(rows, tmp_path / other, index=False)
    assert read_log(tmp_path / name).total_displays == 120


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_folders_name_does_not_override_a_column(
    suffix: str, log: pd.DataFrame, tmp_path: Path
) -> None:
    folder = tmp_path / "click=1"
    folder.mkdir()
    save = pd.DataFrame.to_parquet if suffix == "parquet" else pd.DataFrame.to_csv
    save(log, folder / f"a.{suffix}", index=False)
    assert read_log(tmp_path).total_clicks == log.click.sum()


def test_columns_that_differ_by_case_are_refused(log: pd.DataFrame, tmp_path: Path) -> None:
    twins = log.assign(Click=1)
    twins.to_parquet(tmp_path / "l.parquet")
    twins.to_csv(tmp_path / "l.csv", index=False)
    for source in (twins, pa.Table.from_pandas(twins), tmp_path / "l.parquet", tmp_path / "l.csv"):
        assert "2 columns are called click" in refused("repeated-column", source)
    doubled = pd.concat([log, log.click], axis=1)
    assert "2 columns are called click" in refused("repeated-column", doubled)


def test_a_file_given_twice_causes_a_warning(log: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    log.drop(columns="page_id").to_csv(path, index=False)
    with pytest.warns(InputWarning, match="was given 2 times and counts 2 times"):
        counts = read_log([path, str(tmp_path / "*.csv")])
    assert counts.total_displays == 240


def test_an_index_written_by_pandas_is_not_a_feature(log: pd.DataFrame, tmp_path: Path) -> None:
    features = log[["query_id", "doc_id"]].drop_duplicates().assign(x=1.5)
    features.to_csv(tmp_path / "f.csv")
    with pytest.warns(InputWarning, match="Unnamed: 0"):
        assert read_features(tmp_path / "f.csv").names == ("x",)


# Types


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("position", datetime.date(2026, 1, 1)),
        ("position", {"at": 1}),
        ("click", datetime.datetime(2026, 1, 1)),
        ("click", [1]),
    ],
)
def test_types_that_are_not_numbers_are_named(
    column: str, value: object, log: pd.DataFrame
) -> None:
    table = (
        pa.Table.from_pandas(log)
        .drop_columns(column)
        .append_column(column, pa.array([value] * 120))
    )
    assert f"{column} is of type" in refused("wrong-column-type", table)


def test_nested_contexts_are_named(log: pd.DataFrame) -> None:
    table = pa.Table.from_pandas(log).append_column("ctx", pa.array([{"a": 1}] * 120))
    message = refused("wrong-column-type", table, context=("ctx", "position"))
    assert "ctx is of type struct" in message


@pytest.mark.parametrize(
    "kind", [pa.uint64(), pa.int8(), pa.decimal128(19, 0), pa.dictionary(pa.int8(), pa.int64())]
)
def test_positions_of_any_number_type(kind: pa.DataType, log: pd.DataFrame) -> None:
    table = pa.Table.from_pandas(log)
    position = table["position"]
    cast = position.dictionary_encode() if pa.types.is_dictionary(kind) else position.cast(kind)
    assert (
        read_log(table.set_column(3, "position", cast)).to_table().equals(read_log(log).to_table())
    )


# Contexts and parts


def test_contexts_without_a_position_may_repeat_on_a_page(log: pd.DataFrame) -> None:
    blocks = log.assign(block=np.where(log.position == 1, "top", "rest"))
    counts = read_log(blocks, context=("block",))
    assert counts.contexts["block"].to_pylist() == ["rest", "top"]
    assert counts.by_context()["displays"].tolist() == [80, 40]


@pytest.mark.parametrize("name", ["page_id", "click"])
def test_reserved_columns_cannot_be_contexts(name: str, log: pd.DataFrame) -> None:
    assert name in refused("reserved-column", log, context=(name, "position"))


@pytest.mark.parametrize("name", ["l.csv", "l.parquet", "l.jsonl"])
def test_timestamps_are_truncated_to_days_in_every_format(
    name: str, log: pd.DataFrame, tmp_path: Path
) -> None:
    times = pd.date_range("2026-01-01", periods=120, freq="30min")
    timed = log.assign(ts=times if name == "l.parquet" else times.strftime("%Y-%m-%d %H:%M:%S"))
    save = {"l.csv": timed.to_csv, "l.parquet": timed.to_parquet}.get(name)
    if save:
        save(tmp_path / name, index=False)
    else:
        timed.to_json(tmp_path / name, orient="records", lines=True)
    counts = read_log(tmp_path / name, part="ts")
    assert [str(day) for day in counts.parts.to_pylist()] == [
        "2026-01-01",
        "2026-01-02",
        "2026-01-03",
    ]
    assert counts.total_displays == 120


def test_folds_are_not_mistaken_for_days_or_other_folds(log: pd.DataFrame) -> None:
    folds = read_log(log, page_parts=4)
    with raises_code("wrong-parts") as caught:
        folds.split(0.5, 0.5, by="time")
    assert "part=" in str(caught.value)
    with raises_code("contexts-differ"):
        ClickCounts.concat([folds, read_log(log, page_parts=7)])
    days = read_log(log.assign(day=log.page_id % 4), part="day")
    with raises_code("wrong-parts") as caught:
        days.split(0.5, 0.5, by="page")
    assert "page_parts=" in str(caught.value)


def test_many_columns_of_many_values_make_few_contexts() -> None:
    rng = np.random.default_rng(0)
    columns = {name: pa.array(rng.permutation(20_000)) for name in "abcd"}
    table, index = distinct(columns)
    assert table.num_rows == 20_000
    assert all(
        table[name].take(index).equals(pa.chunked_array([columns[name]])) for name in columns
    )


# Files of counts


@pytest.fixture
def counts_file(log: pd.DataFrame, tmp_path: Path) -> Path:
    zero_based = log.assign(
        position=log.position - 1, device=np.where(log.page_id % 2, "desk", "phone")
    )
    counts = read_log(zero_based, position_base=0, context=("device", "position"))
    (tmp_path / "counts").mkdir()
    counts.to_parquet(tmp_path / "counts" / "c.parquet")
    return tmp_path / "counts" / "c.parquet"


def test_counts_are_the_same_however_they_are_named(counts_file: Path) -> None:
    expected = ClickCounts.from_parquet(counts_file)
    for source in (
        counts_file,
        str(counts_file.parent),
        str(counts_file.parent / "*.parquet"),
        [counts_file],
    ):
        again = read_log(source)
        assert again.to_table().equals(expected.to_table())
        assert again.pages == 40
    for options in ({"position_base": 0}, {"on_bad": "drop"}, {"options": expected.options}):
        assert read_log(counts_file, **options).to_table().equals(expected.to_table())


def test_counts_given_twice_count_twice(counts_file: Path) -> None:
    with pytest.warns(InputWarning, match="was given 2 times and counts 2 times"):
        assert read_log([counts_file, counts_file]).total_displays == 240


@pytest.mark.parametrize(
    "asked", [{"where": "position = 1"}, {"context": ("os",)}, {"page_parts": 3}, {"ids": "string"}]
)
def test_counts_cannot_be_counted_in_another_way(asked: dict, counts_file: Path) -> None:
    message = refused("options-differ", counts_file, **asked)
    assert str(counts_file) in message
    assert next(iter(asked)) in message


def test_counts_with_contexts_of_other_types_cannot_be_added(log: pd.DataFrame) -> None:
    one, other = (read_log(log.assign(device=d), context=("device", "position")) for d in (1, "1"))
    with raises_code("contexts-differ"):
        ClickCounts.concat([one, other])


def test_more_displays_than_64_bits_are_refused() -> None:
    table = pa.table(
        {
            "query_id": [1, 2],
            "doc_id": [1, 1],
            "position": [1, 1],
            "displays": [2**62] * 2,
            "clicks": [1, 1],
        }
    )
    with raises_code("too-many-displays"):
        ClickCounts.from_table(table)


def test_a_log_with_only_bad_rows_is_refused(log: pd.DataFrame) -> None:
    message = refused("no-displays", log.assign(click=9), on_bad="drop", max_bad=1.0)
    assert "120 rows are bad" in message


# The engine


def test_two_connections_that_spill_do_not_interfere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPICLICK_MEMORY_LIMIT", "150MB")
    first, second = connect(), connect()
    for connection in (first, second):
        connection.raw_sql(
            "CREATE TEMP TABLE t AS SELECT range AS a, hash(range) AS b FROM range(10_000_000)"
        )
    second.disconnect()
    assert first.raw_sql("SELECT sum(a) FROM t").fetchone() == (10_000_000 * 9_999_999 // 2,)


def test_logs_can_be_read_in_several_threads(log: pd.DataFrame) -> None:
    expected = read_log(log).to_table()
    seen: list[bool] = []
    threads = [
        threading.Thread(target=lambda: seen.append(read_log(log).to_table().equals(expected)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 4


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")
def test_an_operation_that_an_engine_lacks_is_reported(log: pd.DataFrame, tmp_path: Path) -> None:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(tmp_path / "log.db")) as database:
        log.to_sql("log", database, index=False)
    table = ibis.sqlite.connect(tmp_path / "log.db").table("log")
    assert "sqlite table" in refused("source-unreadable", table, page_parts=4)


def test_parquet_written_with_dictionaries_and_odd_row_groups(
    log: pd.DataFrame, tmp_path: Path
) -> None:
    pq.write_table(
        pa.Table.from_pandas(log), tmp_path / "l.parquet", row_group_size=7, use_dictionary=True
    )
    assert read_log(tmp_path / "l.parquet").to_table().equals(read_log(log).to_table())
