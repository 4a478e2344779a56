"""Feature files and tables are read as float32, or refused with an error that names the column."""

import gc
import json
from pathlib import Path
from unittest import mock

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epiclick.data import feature_rows, features
from epiclick.data.features import FeatureTable, read_features
from epiclick.errors import InputWarning

from ..raising import raises_code

pytestmark = pytest.mark.slow

FLOAT_MAX = float(np.finfo(np.float32).max)


def frame(rows: int = 50, seed: int = 0) -> pd.DataFrame:
    """Features of every kind that counts as one."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "query_id": np.arange(rows) // 5,
            "doc_id": [f"d{i % 5}" for i in range(rows)],
            "bm25": rng.normal(size=rows),
            "length": rng.integers(-3, 1000, rows),
            "short": rng.normal(size=rows).astype(np.float32),
            "fresh": rng.integers(0, 2, rows).astype(bool),
        }
    )


NAMES = ("bm25", "length", "short", "fresh")


def write(table: pd.DataFrame, path: Path) -> Path:
    """The same table as a file of the kind given by its name."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path, row_group_size=7)
    elif ".csv" in path.suffixes or ".tsv" in path.suffixes:
        table.to_csv(path, index=False, sep="\t" if ".tsv" in path.suffixes else ",")
    else:
        table.to_json(path, orient="records", lines=True, double_precision=15)
    return path


def expected(table: pd.DataFrame, names: tuple[str, ...] = NAMES) -> np.ndarray:
    return np.stack([table[name].to_numpy().astype(np.float32) for name in names], axis=1)


def refused(code: str, source, **options) -> str:
    with raises_code(code) as caught:
        read_features(source, **options)
    return str(caught.value)


# Sources

FILES = ["a.parquet", "a.csv", "a.csv.gz", "a.tsv", "a.jsonl", "a.ndjson.gz"]


@pytest.mark.parametrize("name", FILES)
def test_files_of_every_kind_give_the_same_table(tmp_path: Path, name: str) -> None:
    table = frame()
    path = write(table, tmp_path / name)
    for source in (path, str(path)):
        read = read_features(source)
        assert read.names == NAMES
        np.testing.assert_allclose(read.matrix, expected(table), rtol=1e-6)
        assert read.keys.schema.types == [pa.int64(), pa.string()]
        assert read.keys["query_id"].to_pylist() == table.query_id.to_list()
        assert read.keys["doc_id"].to_pylist() == table.doc_id.to_list()
        assert isinstance(read.matrix, np.memmap)
        assert not read.matrix.flags.writeable


def in_memory(table: pd.DataFrame) -> dict:
    arrow = pa.Table.from_pandas(table)
    return {"pandas": table, "arrow": arrow, "batch": arrow.to_batches()[0]}


@pytest.mark.parametrize("kind", ["pandas", "arrow", "batch"])
def test_tables_in_memory_stay_in_memory(kind: str) -> None:
    table = frame()
    read = read_features(in_memory(table)[kind])
    assert type(read.matrix) is np.ndarray
    np.testing.assert_array_equal(read.matrix, expected(table))
    assert read.names == NAMES
    assert read_features(read) is read


def test_ibis_tables_are_streamed_to_disk(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    table = frame()
    read = read_features(ibis.memtable(pa.Table.from_pandas(table)))
    assert isinstance(read.matrix, np.memmap)
    np.testing.assert_array_equal(read.matrix, expected(table))
    del read
    gc.collect()
    assert list(tmp_path.glob("epiclick-*/matrix.npy")) == []


def test_folders_globs_and_lists_are_read_in_order(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(feature_rows, "BATCH", 13)
    whole = frame(5_000)
    for i in range(5):
        write(whole.iloc[1_000 * i : 1_000 * (i + 1)], tmp_path / f"part-{i}.parquet")
    files = [tmp_path / f"part-{i}.parquet" for i in range(5)]
    for source in (tmp_path, str(tmp_path / "part-*.parquet"), files):
        read = read_features(source)
        np.testing.assert_array_equal(read.matrix, expected(whole))
        assert read.keys["doc_id"].to_pylist() == whole.doc_id.to_list()
    assert len(read_features([str(files[3])])) == 1_000


def test_columns_in_another_order_are_matched_by_name(tmp_path: Path) -> None:
    table = frame(20)
    write(table[:10], tmp_path / "a.parquet")
    write(
        table[10:][["fresh", "doc_id", "bm25", "query_id", "short", "length"]],
        tmp_path / "b.parquet",
    )
    np.testing.assert_array_equal(read_features(tmp_path).matrix, expected(table))


def test_the_second_start_reads_the_cache_and_a_changed_file_does_not(
    tmp_path, monkeypatch
) -> None:
    path = write(frame(), tmp_path / "a.parquet")
    read_features(path)
    with monkeypatch.context() as patch:
        patch.setattr("epiclick.data.sources.open_source", lambda source: pytest.fail("read again"))
        again = read_features(path)
    np.testing.assert_array_equal(again.matrix, expected(frame()))
    write(frame(seed=1), path)
    np.testing.assert_array_equal(read_features(path).matrix, expected(frame(seed=1)))


# Keys


def test_aliases_mapping_and_columns_kept_with_the_ids() -> None:
    table = frame().rename(columns={"query_id": "QID", "doc_id": "Product_ID"})
    table["split"] = pd.Categorical(["train"] * 30 + ["test"] * 20)
    table["label"] = np.arange(50) % 5
    read = read_features(table)
    assert read.names == NAMES
    assert read.keys.column_names == ["query_id", "doc_id", "split", "label"]
    assert read.keys["split"].to_pylist() == ["train"] * 30 + ["test"] * 20
    assert read.keys.schema.field("split").type == pa.string()
    assert read.keys["label"].to_pylist() == table.label.to_list()

    table = frame().assign(query=0.5)
    message = refused("ambiguous-column", table)
    assert "query_id and query" in message
    assert 'columns={"query_id": "query_id"}' in message
    read = read_features(table, columns={"query_id": "query_id"})
    assert read.names == (*NAMES, "query")


def test_missing_columns_are_reported_with_the_existing_ones() -> None:
    renamed = frame().rename(columns={"query_id": "who", "doc_id": "what"})
    with raises_code("missing-column") as caught:
        read_features(renamed)
    query, doc = caught.value.problems
    assert "query_id (query_id or query or user_query or qid or search_term)" in str(query)
    assert doc.code == "missing-column"
    assert "doc_id" in str(doc)
    assert "who, what, bm25" in str(doc)
    assert "doc_id (x)" in refused("unknown-column", frame(), columns={"doc_id": "x"})


@pytest.mark.parametrize(
    ("written", "kind", "ids"),
    [
        (["1", "2", "-30"], pa.int64(), [1, 2, -30]),
        (["007", "7", "8"], pa.string(), ["007", "7", "8"]),
        (["1", "x", "2"], pa.string(), ["1", "x", "2"]),
        (["1.0", "2", "3"], pa.string(), ["1.0", "2", "3"]),
        (["9" * 20, "2", "3"], pa.string(), ["9" * 20, "2", "3"]),
        (["a b", "é", "c,d"], pa.string(), ["a b", "é", "c,d"]),
    ],
)
def test_ids_of_csv_are_integers_only_where_nothing_is_lost(tmp_path, written, kind, ids) -> None:
    path = write(pd.DataFrame({"query_id": 1, "doc_id": written, "x": 1}), tmp_path / "a.csv")
    read = read_features(path)
    assert read.keys.schema.field("doc_id").type == kind
    assert read.keys["doc_id"].to_pylist() == ids
    as_text = read_features(path, ids="string").keys["doc_id"].to_pylist()
    assert as_text == written


@pytest.mark.parametrize("kind", ["int8", "uint32", "int64"])
def test_integer_ids_of_any_width_become_int64(kind: str) -> None:
    read = read_features(frame().assign(query_id=lambda t: t.query_id.astype(kind)))
    assert read.keys.schema.field("query_id").type == pa.int64()


def test_ids_that_cannot_be_compared_are_refused_with_the_remedy() -> None:
    table = frame().assign(query_id=lambda t: t.query_id + 0.5, doc_id=pd.Timestamp("2020-01-01"))
    message = refused("wrong-column-type", pa.Table.from_pandas(table))
    assert "query_id is of type float64" in message
    assert "doc_id is of type timestamp" in message
    assert "Write ids as integers or text" in message


def test_missing_ids_are_counted() -> None:
    table = frame().astype({"query_id": "Int64"})
    table.loc[[3, 9], "query_id"] = pd.NA
    table.loc[11, "doc_id"] = None
    message = refused("missing-value", table)
    assert "query_id is missing: 2 rows, first row 4." in message
    assert "doc_id is missing: 1 row, first row 12." in message


# Values


def test_values_that_are_not_finite_are_reported_with_their_first_pair() -> None:
    table = pa.Table.from_pandas(frame())
    bm25 = table["bm25"].to_numpy().copy()
    bm25[[7, 8]] = np.nan
    short = table["short"].to_numpy().copy()
    short[[12, 20, 49]] = [np.inf, -np.inf, np.nan]
    length = table["length"].to_pylist()
    length[31] = None
    for name, values in (("bm25", bm25), ("short", short), ("length", pa.array(length))):
        at = table.column_names.index(name)
        table = table.set_column(at, name, pa.chunked_array([pa.array(values)]))
    message = refused("feature-not-finite", table)
    assert "NaN: 3 values, first bm25: 2 (first (query 1, doc d2)); short: 1 (" in message
    assert "infinite: 2 values, first short: 2 (first (query 2, doc d2))." in message
    assert "missing or not a number: 1 value, first length: 1 (first (query 6, doc d1)" in message


def test_values_beyond_float32_are_clipped_and_counted(tmp_path: Path) -> None:
    table = frame().assign(bm25=1e300, length=-1e39, short=FLOAT_MAX)
    path = write(table, tmp_path / "a.parquet")
    for source in (path, path, pa.Table.from_pandas(table)):
        with pytest.warns(InputWarning, match=r"100 values .*\(bm25: 50, length: 50\)"):
            read = read_features(source)
        np.testing.assert_array_equal(read.matrix[:, :3], [[FLOAT_MAX, -FLOAT_MAX, FLOAT_MAX]] * 50)


def test_columns_of_text_are_left_out_on_request_with_a_warning(tmp_path: Path) -> None:
    table = frame().assign(title="1984", year="1984")
    table.loc[5:, "title"] = "the trial"
    for source in (table.astype({"year": object}), write(table, tmp_path / "a.parquet")):
        with pytest.warns(InputWarning, match="left out: title, year"):
            assert read_features(source, max_categories=0).names == NAMES
    with pytest.warns(InputWarning, match="left out: title") as caught:
        read = read_features(write(table, tmp_path / "a.csv"), max_categories=0)
    assert len(caught) == 1
    assert read.names == (*NAMES, "year")


def test_text_in_a_csv_column_of_numbers_is_refused(tmp_path: Path) -> None:
    table = frame().astype({"bm25": object, "length": object})
    table.loc[[3, 4], "bm25"] = "n/a"
    table.loc[6, "length"] = None
    message = refused("feature-not-finite", write(table, tmp_path / "a.csv"))
    assert "missing or not a number: 3 values, first bm25: 2 (first (query 0, doc d3)); " in message
    assert "length: 1 (first (query 1, doc d1))" in message


def test_repeated_pairs_are_reported_together_with_other_problems() -> None:
    table = pd.concat([frame(), frame()[:3], frame()[1:2]])
    table.iloc[30, 2] = np.inf
    with raises_code("feature-not-finite") as caught:
        read_features(table)
    infinite, repeated = caught.value.problems
    assert "infinite: 1 value" in str(infinite)
    assert repeated.code == "repeated-pair"
    assert "3 have more: 4 repeated rows" in str(repeated)
    assert "(query 0, doc d0) 2 times; (query 0, doc d1) 3 times" in str(repeated)


def test_empty_sources_and_those_without_features_are_refused(tmp_path: Path) -> None:
    refused("no-rows", frame()[:0])
    refused("no-rows", write(frame()[:0], tmp_path / "a.parquet"))
    titled = frame()[["query_id", "doc_id"]].assign(title="a")
    assert "title" in refused("no-features", titled, max_categories=0)
    assert "nothing" in refused("no-features", frame()[["query_id", "doc_id"]])


def test_damaged_files_are_refused_and_leave_no_entry(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("EPICLICK_CACHE", str(tmp_path / "cache"))
    whole = write(frame(), tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole[:-20])
    assert "a.parquet" in refused("damaged-file", tmp_path / "a.parquet")
    packed = write(frame(2_000), tmp_path / "a.csv.gz").read_bytes()
    (tmp_path / "a.csv.gz").write_bytes(packed[: len(packed) // 2])
    assert "a.csv.gz" in refused("damaged-file", tmp_path / "a.csv.gz")
    lines = [json.dumps(row) for row in frame(20).to_dict("records")]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines[:10], '{"query_id": 3, "do', *lines[10:]]))
    assert ": 1 line" in refused("malformed-line", tmp_path / "a.jsonl")
    (tmp_path / "b.csv").write_text("query_id,doc_id,x\n1,2,3\n1,3\n1,4,5\n")
    assert ": 1 line" in refused("malformed-line", tmp_path / "b.csv")
    assert "nowhere.parquet" in refused("file-missing", tmp_path / "nowhere.parquet")
    assert list((tmp_path / "cache").glob("*")) == []


def test_a_feature_that_some_files_lack_is_reported(tmp_path: Path) -> None:
    write(frame(20)[:10], tmp_path / "a.parquet")
    write(frame(20)[10:].drop(columns="short"), tmp_path / "b.parquet")
    assert "feature short is missing from: 1 file" in refused("partial-column", tmp_path)


# Looking up

ids = st.integers(0, 4)


@settings(deadline=None)
@given(
    st.lists(st.tuples(ids, ids), max_size=12, unique=True),
    st.lists(st.tuples(ids, ids), max_size=12),
    st.booleans(),
    st.sampled_from([0, features.FEW_ROWS]),
)
def test_locate_finds_what_a_dictionary_finds(own, wanted, text, few) -> None:
    kind = pa.string() if text else pa.int64()

    def column(pairs, part) -> pa.Array:
        return pa.array([pair[part] for pair in pairs], pa.int64()).cast(kind)

    keys = pa.table({"query_id": column(own, 0), "doc_id": column(own, 1)})
    table = FeatureTable(keys, ("x",), np.zeros((len(own), 1), np.float32))
    row = {pair: i for i, pair in enumerate(own)}
    with mock.patch.object(features, "FEW_ROWS", few):
        found = table.locate(column(wanted, 0), column(wanted, 1))
    assert found.dtype == np.int64
    assert found.tolist() == [row.get(pair, -1) for pair in wanted]


def test_locate_takes_ids_of_any_width_and_layout() -> None:
    table = read_features(frame())
    query = pa.chunked_array([pa.array([9], pa.int16()), pa.array([0, None, 77], pa.int16())])
    doc = pa.array(["d4", "d1", "d1", "d1"], pa.large_string())
    assert table.locate(query, doc).tolist() == [49, 1, -1, -1]
    assert table.locate(query, doc.dictionary_encode()).tolist() == [49, 1, -1, -1]


def test_ids_that_differ_only_by_type_are_refused() -> None:
    table = read_features(frame())
    with raises_code("id-types-differ") as caught:
        table.locate(pa.array(["1"]), pa.array(["d1"]))
    assert "query_id is an integer in the features but text in" in str(caught.value)
    assert "ids='string'" in str(caught.value)
    assert len(caught.value.problems) == 1


def test_shapes_must_agree() -> None:
    keys = pa.table({"query_id": [1, 2], "doc_id": [1, 2]})
    with raises_code("shape-mismatch") as caught:
        FeatureTable(keys, ("x",), np.zeros((3, 1), np.float32))
    assert "(3, 1)" in str(caught.value)
    assert "2 keys and 1 names" in str(caught.value)
    with raises_code("not-a-matrix") as caught:
        FeatureTable(keys, ("x",), np.zeros((2, 1)))
    assert "float32" in str(caught.value)


@pytest.mark.parametrize("index", [[3], [5, 5, 0, 9, 8, 1, 2, 3, -1], list(range(10)), []])
def test_rows_of_a_mapped_file_are_read_unchanged(tmp_path: Path, index: list[int]) -> None:
    matrix = np.random.default_rng(0).random((10, 3), dtype=np.float32)
    np.save(tmp_path / "matrix.npy", matrix)
    mapped = np.load(tmp_path / "matrix.npy", mmap_mode="r")
    keys = pa.table({"query_id": np.arange(10), "doc_id": np.arange(10)})
    rows = FeatureTable(keys, ("a", "b", "c"), mapped).rows(np.array(index, int))
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, matrix[np.array(index, int)])
    # a slice of a map does not start where the file does, and is read through the map
    tail = FeatureTable(keys.slice(4), ("a", "b", "c"), mapped[4:])
    np.testing.assert_array_equal(tail.rows([0, 2]), matrix[[4, 6]])
