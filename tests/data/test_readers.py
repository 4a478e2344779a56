"""Every format gives the same counts; every mistake in a log is reported with its remedy."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import ibis
import pandas as pd
import pyarrow as pa
import pytest

from epiclick.data.readers import count_log, read_log
from epiclick.data.schema import LogOptions
from epiclick.errors import InputError, InputWarning

from ..raising import raises_code

pytestmark = pytest.mark.slow


def write(frame: pd.DataFrame, path: Path) -> Path:
    if ".parquet" in path.name:
        frame.to_parquet(path, index=False)
    elif "json" in path.name:
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")
    return path


def refused(code: str, source: object, **settings: object) -> str:
    with raises_code(code) as caught:
        read_log(source, **settings)
    return str(caught.value)


# What can be read


@pytest.mark.parametrize(
    "name",
    ["l.parquet", "l.pq.parquet", "l.csv", "l.csv.gz", "l.tsv", "l.jsonl", "l.ndjson.gz", "l.json"],
)
def test_every_file_format_gives_the_same_counts(
    name: str, small_log: pd.DataFrame, tmp_path: Path
) -> None:
    expected = read_log(small_log)
    counts = read_log(write(small_log, tmp_path / name))
    assert counts.to_table().equals(expected.to_table())
    assert counts.pages == 6


def test_tables_of_every_library_give_the_same_counts(small_log: pd.DataFrame) -> None:
    expected = read_log(small_log).to_table()
    arrow = pa.Table.from_pandas(small_log)
    connection = ibis.duckdb.connect()
    connection.con.register("clicks", arrow)
    categories = small_log.assign(query_id=small_log.query_id.astype("category"))
    for source in (arrow, connection.table("clicks"), categories, arrow.to_batches()[0]):
        assert read_log(source).to_table().equals(expected)


def test_folders_globs_and_lists(small_log: pd.DataFrame, tmp_path: Path) -> None:
    expected = read_log(small_log).to_table()
    days = tmp_path / "log" / "day=1", tmp_path / "log" / "day=2"
    for folder, rows in zip(days, (small_log[:9], small_log[9:]), strict=True):
        folder.mkdir(parents=True)
        write(rows, folder / "clicks.parquet")
    (tmp_path / "log" / "_SUCCESS").touch()
    (tmp_path / "log" / ".hidden.parquet").touch()
    assert read_log(tmp_path / "log").to_table().equals(expected)
    assert read_log(str(tmp_path / "log" / "*" / "*.parquet")).to_table().equals(expected)
    assert read_log([day / "clicks.parquet" for day in days]).to_table().equals(expected)
    by_day = read_log(tmp_path / "log", part="day")
    assert by_day.parts.to_pylist() == [1, 2]


def test_counted_rows_and_aliases() -> None:
    frame = pd.DataFrame(
        {"qid": [1, 1], "url": ["u", "v"], "pos": [0, 1], "Impression": [9, 4], "Click": [3, 0]}
    )
    counts, report = count_log(frame, LogOptions(position_base=0))
    assert counts.contexts["position"].to_pylist() == [1, 2]
    assert (counts.total_displays, counts.total_clicks, counts.pages) == (13, 3, None)
    assert report.aliases["displays"] == "Impression"


@pytest.mark.parametrize("kind", [bool, int, float, str])
def test_clicks_of_any_type(kind: type, small_log: pd.DataFrame, tmp_path: Path) -> None:
    expected = read_log(small_log).to_table()
    typed = small_log.assign(click=small_log.click.astype(bool if kind is bool else kind))
    assert read_log(typed).to_table().equals(expected)
    assert read_log(write(typed, tmp_path / "l.csv")).to_table().equals(expected)
    assert read_log(write(typed, tmp_path / "l.jsonl")).to_table().equals(expected)


@pytest.mark.parametrize("name", ["l.csv", "l.parquet", "l.jsonl"])
def test_where_filters_in_every_format(name: str, small_log: pd.DataFrame, tmp_path: Path) -> None:
    log = small_log.assign(price=[9.5, 10, 11] * 6, day=["2026-01-01", "2026-01-02"] * 9)
    chosen = log[(log.price > 9.9) & (log.day >= "2026-01-02")]
    counts = read_log(write(log, tmp_path / name), where="price > 9.9 AND day >= '2026-01-02'")
    assert counts.to_table().equals(read_log(chosen.drop(columns="page_id")).to_table())


def test_where_is_checked(small_log: pd.DataFrame) -> None:
    message = refused("unknown-column", small_log, where="postion < 3")
    assert "postion (did you mean 'position'?)" in message
    assert "position <" in refused("invalid-condition", small_log, where="position <")
    refused("invalid-condition", small_log, where="1 = 1; DROP TABLE log")
    assert "where" in refused("no-displays", small_log, where="position > 99")


def test_timestamps_as_parts_are_truncated_to_days(small_log: pd.DataFrame) -> None:
    times = pd.date_range("2026-03-01 08:00", periods=18, freq="3h")
    counts = read_log(small_log.assign(at=times), part="at")
    assert [str(day) for day in counts.parts.to_pylist()] == [
        "2026-03-01",
        "2026-03-02",
        "2026-03-03",
    ]


# Ids keep their type


@pytest.mark.parametrize("name", ["l.csv", "l.tsv", "l.csv.gz"])
def test_ids_of_text_files_keep_their_zeros(
    name: str, small_log: pd.DataFrame, tmp_path: Path
) -> None:
    padded = small_log.assign(query_id=small_log.query_id.map({"shoes": "007", "hats": "8"}))
    assert set(read_log(write(padded, tmp_path / name)).query_id.to_pylist()) == {"007", "8"}
    whole = small_log.assign(query_id=small_log.query_id.map({"shoes": 7, "hats": 10}))
    counts = read_log(write(whole, tmp_path / name))
    assert counts.query_id.type == pa.int64()
    assert counts.query_id.to_pylist() == [7, 7, 7, 10, 10, 10]
    assert read_log(tmp_path / name, ids="string").query_id.to_pylist()[0] == "10"


def test_ids_that_look_like_numbers_stay_text_where_types_are_known(
    small_log: pd.DataFrame,
) -> None:
    digits = small_log.assign(query_id=small_log.query_id.map({"shoes": "1", "hats": "2"}))
    assert read_log(digits).query_id.to_pylist() == ["1"] * 3 + ["2"] * 3
    whole = digits.assign(doc_id="5").drop(columns="page_id")
    assert read_log(whole, ids="integer").query_id.to_pylist() == [1, 2]
    message = refused("id-not-integer", small_log, ids="integer")
    assert "query_id" in message
    assert ": 2 values, first 'hats'; 'shoes'" in message


def test_ids_that_differ_only_by_type_are_refused(small_log: pd.DataFrame, tmp_path: Path) -> None:
    mixed = small_log.assign(query_id=[1, "1", 2] * 6)
    assert "query_id" in refused("mixed-types", mixed)
    assert set(read_log(mixed.drop(columns="page_id"), ids="string").query_id.to_pylist()) == {
        "1",
        "2",
    }

    lines = mixed.drop(columns="page_id").to_dict("records")
    path = tmp_path / "mixed.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    assert "ids='string'" in refused("mixed-types", path)
    assert set(read_log(path, ids="string").query_id.to_pylist()) == {"1", "2"}

    write(small_log.assign(query_id=1), tmp_path / "a.parquet")
    write(small_log.assign(query_id="1", page_id=small_log.page_id + 10), tmp_path / "b.parquet")
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    assert "query_id" in refused("mixed-types", files)
    assert set(read_log(files, ids="string").query_id.to_pylist()) == {"1"}


def test_floating_point_ids_are_refused(small_log: pd.DataFrame) -> None:
    message = refused("wrong-column-type", small_log.assign(query_id=1.5))
    assert "query_id is of type float64" in message


def test_integers_that_pandas_made_floats_are_integers_again(small_log: pd.DataFrame) -> None:
    holed = small_log.assign(query_id=[1.0] * 17 + [None])
    assert "query_id is missing: 1 row" in refused("missing-value", holed)


def test_huge_floats_in_unused_columns_do_no_harm(small_log: pd.DataFrame) -> None:
    assert len(read_log(small_log.assign(price=1e300, weight=float("inf")))) == 6


# Mistakes


def spoil(log: pd.DataFrame, column: str, value: object) -> pd.DataFrame:
    values = log[column].astype(object).tolist()
    values[4] = value
    return log.assign(**{column: values})


BROKEN: dict[str, tuple[str, object, str]] = {
    "position 0": ("position", 0, "position-below-base"),
    "position negative": ("position", -3, "position-below-base"),
    "position fractional": ("position", 1.5, "not-whole-number"),
    "position text": ("position", "top", "not-a-number"),
    "position with an underscore": ("position", "1_0", "not-a-number"),
    "position NULL": ("position", None, "missing-value"),
    "click 2": ("click", 2, "click-not-binary"),
    "click NULL": ("click", None, "missing-value"),
    "query NULL": ("query_id", None, "missing-value"),
    "doc NULL": ("doc_id", None, "missing-value"),
    "page NULL": ("page_id", None, "missing-value"),
}


@pytest.mark.parametrize("mistake", BROKEN)
@pytest.mark.parametrize("name", [None, "l.csv", "l.jsonl", "l.parquet"])
def test_a_bad_value_is_named_counted_and_can_be_dropped(
    mistake: str, name: str | None, small_log: pd.DataFrame, tmp_path: Path
) -> None:
    column, value, code = BROKEN[mistake]
    broken = spoil(small_log, column, value)
    if name == "l.parquet":
        # Parquet has one type per column
        broken = (
            broken.astype({"position": "string"})
            if isinstance(value, str)
            else broken.convert_dtypes()
        )
    source = broken if name is None else write(broken, tmp_path / name)
    message = refused(code, source)
    first = message.splitlines()[1]
    assert first.startswith(f"  - {column} ")
    assert ": 1 row, first (" in first
    assert 'on_bad="drop"' in message
    counts, report = count_log(source, LogOptions(on_bad="drop", max_bad=0.1))
    assert (report.dropped, counts.total_displays) == (1, 17)
    assert report.warnings[0] == "1 bad rows were left out"


def test_bad_rows_of_a_log_without_pages_can_be_dropped(small_log: pd.DataFrame) -> None:
    rows = spoil(small_log, "click", 5).drop(columns="page_id")
    counts, report = count_log(rows, LogOptions(on_bad="drop", max_bad=0.1))
    assert (report.dropped, counts.total_displays) == (1, len(small_log) - 1)


def test_one_mistake_is_reported_once(small_log: pd.DataFrame) -> None:
    for column, value, _ in BROKEN.values():
        with pytest.raises(InputError) as caught:
            read_log(spoil(small_log, column, value))
        rows = [problem for problem in caught.value.problems if problem.count is not None]
        assert len(rows) == 1, rows


def test_examples_name_the_place_and_the_value(small_log: pd.DataFrame) -> None:
    message = refused("position-below-base", spoil(small_log, "position", 0))
    assert ": 1 row, first (page 2, query shoes, doc a): position 0. " in message
    assert "position_base=0" in message
    message = refused("click-not-binary", spoil(small_log, "click", 2))
    assert ": 1 row, first (page 2, query shoes, doc a, position 2): click 2. " in message


def test_all_mistakes_of_a_log_are_reported_together(small_log: pd.DataFrame) -> None:
    log = spoil(spoil(small_log, "position", 0), "click", 7)
    log.loc[0, "doc_id"] = None
    log.loc[17, "doc_id"] = "y"
    with pytest.raises(InputError) as caught:
        read_log(log)
    *found, hint = caught.value.problems
    assert {problem.code for problem in found} == {
        "position-below-base",
        "click-not-binary",
        "missing-value",
        "repeated-document",
    }
    assert hint.code == "bad-rows"


def test_too_many_bad_rows_are_not_dropped(small_log: pd.DataFrame) -> None:
    with raises_code("click-not-binary") as caught:
        read_log(spoil(small_log, "click", 5), on_bad="drop", max_bad=0.05)
    limit = caught.value.problems[-1]
    assert limit.code == "too-many-bad-rows"
    assert "1 of 18 rows (5.56%)" in str(limit)
    assert "5.00%" in str(limit)
    assert "--max-bad" in str(limit)


def test_repeats_on_a_page_are_refused_and_the_page_can_be_dropped(small_log: pd.DataFrame) -> None:
    message = refused("repeated-document", spoil(small_log, "doc_id", "b"))
    assert ": 1 page, first (page 2): doc b, 2 times" in message
    same_slot = spoil(small_log, "position", 1)
    message = refused("repeated-position", same_slot)
    assert ": 1 page, first (page 2): position 1, 2 times" in message
    counts, report = count_log(same_slot, LogOptions(on_bad="drop", max_bad=0.5))
    assert (report.dropped, counts.pages, counts.total_displays) == (3, 5, 15)


@pytest.mark.parametrize(
    ("displays", "clicks", "column", "code"),
    [
        (2.5, 1, "displays", "not-whole-number"),
        (-1, 0, "displays", "negative-count"),
        (None, 0, "displays", "missing-value"),
        (5, 0.5, "clicks", "not-whole-number"),
        (5, -1, "clicks", "negative-count"),
        (7, 9, "clicks", "clicks-exceed-displays"),
    ],
)
def test_bad_counts_are_refused(displays: object, clicks: object, column: str, code: str) -> None:
    frame = pd.DataFrame(
        {
            "query_id": "q",
            "doc_id": "d",
            "position": [1, 2],
            "displays": [9, displays],
            "clicks": [1, clicks],
        }
    )
    message = refused(code, frame)
    first = message.splitlines()[1]
    assert first.startswith(f"  - {column} ")
    assert ": 1 row, first (query q, doc d, position 2" in first
    if code == "clicks-exceed-displays":
        assert ", displays 7): clicks 9. " in first
        assert "clip_clicks=True" in first


def test_clipping_caps_each_row_and_reports_it() -> None:
    frame = pd.DataFrame(
        {
            "query_id": "q",
            "doc_id": "d",
            "position": [1, 1, 2],
            "displays": [9, 5, 3],
            "clicks": [1, 8, 0],
        }
    )
    counts, report = count_log(frame, LogOptions(clip_clicks=True))
    assert counts.total_clicks == 1 + 5
    assert report.capped == 1
    assert "1 rows had more clicks than displays" in report.warnings[0]


def test_an_empty_log_and_one_without_clicks_are_refused(small_log: pd.DataFrame) -> None:
    assert "no rows" in refused("no-displays", small_log[:0].astype(small_log.dtypes))
    message = refused("no-clicks", small_log.assign(click=0))
    assert "18 displays" in message
    assert 'columns={"click": "NAME"}' in message


# Files that cannot be read


def test_damaged_files_are_all_named(small_log: pd.DataFrame, tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet", "c.parquet"):
        write(small_log, tmp_path / name)
    for name in ("a.parquet", "c.parquet"):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with raises_code("damaged-file") as caught:
        read_log(tmp_path)
    a, c = caught.value.problems
    assert c.code == "damaged-file"
    assert str(tmp_path / "a.parquet") in str(a)
    assert str(tmp_path / "c.parquet") in str(c)


def test_a_truncated_archive_is_refused_even_at_the_end_of_a_line(
    small_log: pd.DataFrame, tmp_path: Path
) -> None:
    whole = gzip.compress(b"query_id,doc_id,position,click\n" + b"q,d,1,1\n" * 10_000)
    (tmp_path / "l.csv.gz").write_bytes(whole[:-8])
    assert "l.csv.gz" in refused("damaged-file", tmp_path / "l.csv.gz")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "l.csv").touch()
    assert "l.csv" in refused("empty-file", tmp_path / "l.csv")


def test_malformed_lines_are_counted_and_can_be_dropped(
    small_log: pd.DataFrame, tmp_path: Path
) -> None:
    text = small_log.to_csv(index=False)
    (tmp_path / "l.csv").write_text(text + "7,shoes,a\n8,shoes,a,1,0,extra\n")
    message = refused("malformed-line", tmp_path / "l.csv")
    assert ": 2 lines" in message
    assert "line 20" in message
    counts, report = count_log(tmp_path / "l.csv", LogOptions(on_bad="drop", max_bad=0.2))
    assert (report.dropped, counts.total_displays) == (2, 18)

    lines = small_log.to_json(orient="records", lines=True)
    (tmp_path / "l.jsonl").write_text(lines + '{"page_id": 9, "query\n')
    assert ": 1 line" in refused("malformed-line", tmp_path / "l.jsonl")
    counts, report = count_log(tmp_path / "l.jsonl", LogOptions(on_bad="drop", max_bad=0.2))
    assert (report.dropped, counts.total_displays) == (1, 18)


def test_mixed_files_are_refused(small_log: pd.DataFrame, tmp_path: Path) -> None:
    write(small_log, tmp_path / "a.csv")
    write(small_log, tmp_path / "b.parquet")
    assert "1 CSV, 1 Parquet" in refused("mixed-file-kinds", tmp_path)
    write(small_log.rename(columns={"doc_id": "url"}), tmp_path / "c.csv")
    message = refused("columns-differ", [tmp_path / "a.csv", tmp_path / "c.csv"])
    assert str(tmp_path / "c.csv") in message
    write(small_log.drop(columns="click"), tmp_path / "d.parquet")
    message = refused("partial-column", [tmp_path / "b.parquet", tmp_path / "d.parquet"])
    assert "column click is missing from: 1 file" in message


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_compressed_and_plain_files_are_not_read_together(
    kind: str, small_log: pd.DataFrame, tmp_path: Path
) -> None:
    for name in (f"a.{kind}", f"b.{kind}.gz"):
        write(small_log, tmp_path / name)
    refused("mixed-compression", tmp_path)


def test_unused_columns_may_differ_between_files(small_log: pd.DataFrame, tmp_path: Path) -> None:
    write(small_log[:9].assign(extra=1), tmp_path / "a.parquet")
    write(small_log[9:].assign(other="x"), tmp_path / "b.parquet")
    assert read_log(tmp_path).to_table().equals(read_log(small_log).to_table())


def test_missing_and_unknown_files_are_named(tmp_path: Path) -> None:
    assert "nowhere.parquet" in refused("file-missing", tmp_path / "nowhere.parquet")
    (tmp_path / "notes.docx").touch()
    message = refused("unknown-file-kind", tmp_path / "notes.docx")
    assert ": 1 file" in message
    assert ".parquet, .csv" in message
    assert "int" in refused("invalid-type", 3)


def test_quotes_in_names_are_read(small_log: pd.DataFrame, tmp_path: Path) -> None:
    log = small_log.rename(columns={"position": 'it\'s "odd"'})
    path = write(log, tmp_path / "a 'quoted' name.csv")
    counts = read_log(path, columns={"position": 'it\'s "odd"'})
    assert counts.to_table().equals(read_log(small_log).to_table())


# Warnings


def test_a_single_position_causes_a_warning(small_log: pd.DataFrame) -> None:
    with pytest.warns(InputWarning, match="position bias cannot be learned"):
        read_log(small_log[small_log.position == 1])


def test_a_log_of_clicked_pages_only_causes_a_warning(small_log: pd.DataFrame) -> None:
    with pytest.warns(InputWarning, match=r"only 0\.0% of pages are without a click"):
        read_log(small_log[small_log.page_id != 3])


def test_queries_that_never_repeat_cause_a_warning(small_log: pd.DataFrame) -> None:
    with pytest.warns(InputWarning, match=r"100\.0% of queries were shown on a single page"):
        read_log(small_log.assign(query_id=small_log.page_id))


# Real logs


def test_the_real_yandex_counts(shared_data: Callable[[str], Path]) -> None:
    path = shared_data("yandex-counts/counts.csv")
    assert ": 38 rows" in refused("clicks-exceed-displays", path, position_base=0)
    counts, report = count_log(path, LogOptions(position_base=0, clip_clicks=True))
    assert report.capped == 38
    assert (len(counts), counts.num_queries) == (3258, 60)
    assert (counts.total_displays, counts.total_clicks) == (24_726_798, 2_434_436)
    rates = counts.by_context()["click_rate"].round(3).tolist()
    assert rates == [0.761, 0.082, 0.033, 0.024, 0.012, 0.009, 0.008, 0.005, 0.004, 0.003]


def test_the_real_open_bandit_log(shared_data: Callable[[str], Path]) -> None:
    path = shared_data("obd/random/men.csv")
    counts = read_log(path, columns={"query_id": "user_feature_0"})
    assert (counts.total_displays, counts.total_clicks) == (10_000, 46)
    assert counts.contexts["position"].to_pylist() == [1, 2, 3]
