"""Rankings from every kind of source against a plain loop; invalid ones are refused."""

import json
from pathlib import Path

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epiclick.comparison.rankings import Ranking, read_ranking
from epiclick.data.features import read_features
from epiclick.errors import InputError

from ..raising import raises_code
from .planted import list_queries

Lists = dict[tuple, list]


def frame(seed: int = 0, queries: int = 12) -> pd.DataFrame:
    """Lists of one to nine documents, rows in any order."""
    rng = np.random.default_rng(seed)
    rows = [
        (query, f"d{doc}", position)
        for query in range(queries)
        for position, doc in enumerate(rng.permutation(20)[: rng.integers(1, 10)], 1)
    ]
    table = pd.DataFrame(rows, columns=["query_id", "doc_id", "position"])
    return table.sample(frac=1, random_state=seed).reset_index(drop=True)


def by_loop(rows: pd.DataFrame, keys: tuple[str, ...] = ("query_id",), depth: int = 99) -> Lists:
    """The lists of a table, by a dictionary and a loop."""
    lists: dict[tuple, dict] = {}
    for row in rows.to_dict("records"):
        lists.setdefault(tuple(row[key] for key in keys), {})[row["position"]] = row["doc_id"]
    return {
        key: [docs[p] for p in range(1, len(docs) + 1) if p <= depth]
        for key, docs in sorted(lists.items())
    }


def as_lists(ranking: Ranking, *extra: str) -> Lists:
    """The lists of a ranking by query and further context columns, checked for their order."""
    lists: Lists = {}
    columns = [ranking.contexts[name].to_pylist() for name in extra]
    numbers = {}
    slots = zip(
        ranking.query_id.to_pylist(),
        ranking.doc_id.to_pylist(),
        ranking.page,
        ranking.contexts["position"].to_pylist(),
        *columns,
        strict=True,
    )
    for query, doc, page, position, *others in slots:
        docs = lists.setdefault((query, *others), [])
        docs.append(doc)
        assert position == len(docs)
        assert numbers.setdefault((query, *others), page) == page
    assert list(numbers.values()) == list(range(ranking.lists))
    assert list_queries(ranking) == [key[0] for key in numbers]
    return lists


def refused(source, code: str, **options) -> str:
    """The message with which a ranking is refused under a code."""
    with raises_code(code) as error:
        read_ranking(source, "new", **options)
    return str(error.value)


def write(rows: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        rows.to_parquet(path, index=False)
    elif path.suffix == ".csv":
        rows.to_csv(path, index=False)
    else:
        rows.to_json(path, orient="records", lines=True)
    return path


SOURCES = {
    "frame": lambda rows, folder: rows,
    "arrow": lambda rows, folder: pa.Table.from_pandas(rows, preserve_index=False),
    "ibis": lambda rows, folder: ibis.memtable(pa.Table.from_pandas(rows, preserve_index=False)),
    "parquet": lambda rows, folder: write(rows, folder / "r.parquet"),
    "csv": lambda rows, folder: write(rows, folder / "r.csv"),
    "json": lambda rows, folder: str(write(rows, folder / "r.jsonl")),
    "categories": lambda rows, folder: rows.astype({"doc_id": "category"}),
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("depth", [None, 3])
def test_every_source_gives_the_lists_of_a_plain_loop(kind, depth, tmp_path):
    rows = frame()
    ranking = read_ranking(SOURCES[kind](rows, tmp_path), "new", depth=depth)
    assert ranking.name == "new"
    assert as_lists(ranking) == by_loop(rows, depth=depth or 99)
    assert len(ranking) == (rows["position"] <= (depth or 99)).sum()
    assert ranking.contexts.column_names == ["position"]
    assert ranking.page.dtype == np.int64
    cut = int((rows["position"] > 3).sum())
    note = f"{cut} of {len(rows)} slots are deeper than position 3 and were cut"
    assert ranking.notes == ((note,) if depth else ())


def test_a_depth_that_cuts_nothing_leaves_no_note():
    assert read_ranking(frame(), "new", depth=9).notes == ()


@pytest.mark.parametrize("kind", SOURCES)
def test_scores_are_sorted_highest_first(kind, tmp_path):
    rows = frame()
    scored = rows.drop(columns="position").assign(score=10.5 - rows["position"])
    ranking = read_ranking(SOURCES[kind](scored, tmp_path), "new")
    assert as_lists(ranking) == by_loop(rows)
    assert ranking.notes == ()


def test_position_wins_over_score():
    rows = frame()
    # the score says the opposite, or is missing
    scored = rows.assign(score=rows["position"].astype(float).where(rows["position"] != 2))
    assert as_lists(read_ranking(scored, "new")) == by_loop(rows)


@pytest.mark.parametrize("kind", SOURCES)
def test_any_column_can_be_the_score(kind, tmp_path):
    rows = frame()
    # positions and scores that say the opposite are ignored
    other = rows.assign(bm25=10.5 - rows["position"], score=rows["position"])
    other["position"] = 99 - rows["position"]
    ranking = read_ranking((SOURCES[kind](other, tmp_path), "bm25"), "new")
    assert as_lists(ranking) == by_loop(rows)


def test_an_unknown_column_of_scores_is_named_with_the_nearest_one():
    message = refused((frame().assign(bm25=1.0), "bm52"), "unknown-column")
    assert "'bm52'" in message
    assert "bm25" in message


def test_ties_are_broken_by_document_and_counted():
    rows = pd.DataFrame(
        {
            "query_id": [1, 1, 1, 1, 2, 2, 3],
            "doc_id": [10, 9, 8, 7, 10, 9, 1],
            "score": [0.5, 0.5, 0.5, 2.0, 0.0, -0.0, 2.0],
        }
    )
    ranking = read_ranking(rows, "new")
    assert as_lists(ranking) == {(1,): [7, 8, 9, 10], (2,): [9, 10], (3,): [1]}
    (note,) = ranking.notes
    assert note.startswith("5 of 7 slots")
    assert note.endswith("broken by doc_id")
    # the second place is a choice between three documents, two of them cut
    tied, cut = read_ranking(rows, "new", depth=2).notes
    assert tied.startswith("3 of 5 slots")
    assert cut.startswith("2 of 7 slots")


def test_aliases_are_known_in_any_case():
    rows = frame()
    renamed = rows.rename(columns={"query_id": "QID", "doc_id": "url", "position": "Rank"})
    assert as_lists(read_ranking(renamed, "new")) == by_loop(rows)


@pytest.mark.parametrize("kind", ["frame", "csv"])
def test_lists_are_distinguished_by_page_and_by_context(kind, tmp_path):
    parts = [
        frame(seed).assign(page_id=seed, device=device)
        for seed, device in [(1, "phone"), (2, "desk"), (10, "desk"), (1, "desk")]
    ]
    rows = pd.concat(parts, ignore_index=True)
    source = SOURCES[kind](rows, tmp_path)
    ranking = read_ranking(source, "new", context=("device", "position"))
    assert ranking.contexts.column_names == ["device", "position"]
    expected = by_loop(rows, ("query_id", "page_id", "device"))
    assert ranking.lists == len(expected)
    ends = np.flatnonzero(np.diff(ranking.page)) + 1
    docs = [part.tolist() for part in np.split(ranking.doc_id.to_numpy(False), ends)]
    device = [part[0] for part in np.split(ranking.contexts["device"].to_numpy(), ends)]
    # lists are in the order of query, page (as a number: 2 before 10), device
    assert docs == list(expected.values())
    assert device == [key[2] for key in expected]
    assert list_queries(ranking) == [key[0] for key in expected]


def test_contexts_alone_distinguish_lists():
    rows = pd.concat([frame(s).assign(device=d) for s, d in [(1, "b"), (2, "a")]])
    ranking = read_ranking(rows, "new", context=("position", "device"))
    assert as_lists(ranking, "device") == by_loop(rows, ("query_id", "device"))
    # control: without the context, the two lists of a query overlap
    assert "repeated-document" in problem_codes(rows)
    assert "shared-position" in problem_codes(rows)


def test_a_context_may_have_the_name_of_an_alias():
    rows = frame().assign(slot="top")
    ranking = read_ranking(rows, "new", context=("position", "slot"))
    assert as_lists(ranking) == by_loop(rows)
    assert "position and slot" in refused(rows, "ambiguous-column")


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_the_order_of_rows_changes_nothing(data):
    scored = data.draw(st.booleans())
    lists = data.draw(
        st.dictionaries(
            st.tuples(st.integers(-3, 3), st.sampled_from("ab")),
            st.lists(st.integers(0, 30), min_size=1, max_size=6, unique=True),
            min_size=1,
            max_size=6,
        )
    )
    rows = [
        {"query_id": q, "page_id": p, "doc_id": doc, "position": i, "score": -(i // 2)}
        for (q, p), docs in lists.items()
        for i, doc in enumerate(docs, 1)
    ]
    shuffled = data.draw(st.permutations(rows))
    drop = ["position"] if scored else []
    one, other = (
        read_ranking(pd.DataFrame(table).drop(columns=drop), "new", depth=4)
        for table in (rows, shuffled)
    )
    assert one.query_id.equals(other.query_id)
    assert one.doc_id.equals(other.doc_id)
    assert one.contexts.equals(other.contexts)
    assert one.page.tolist() == other.page.tolist()
    assert one.notes == other.notes


@pytest.mark.parametrize(
    ("ids", "query", "doc"),
    [
        (None, pa.int64(), pa.large_string()),
        ("auto", pa.int64(), pa.large_string()),
        ("string", pa.large_string(), pa.large_string()),
    ],
)
def test_ids_of_text_files_settle_as_those_of_logs(ids, query, doc, tmp_path):
    rows = frame()
    for source in (rows, write(rows, tmp_path / "r.csv"), write(rows, tmp_path / "r.parquet")):
        ranking = read_ranking(source, "new", ids=ids)
        assert (ranking.query_id.type, ranking.doc_id.type) == (query, doc)


def test_text_that_looks_like_numbers_stays_text_where_it_came_as_text(tmp_path):
    rows = frame().assign(query_id=lambda t: t["query_id"].astype(str))
    assert read_ranking(rows, "new").query_id.type == pa.large_string()
    numbered = rows.assign(doc_id=rows["doc_id"].str.removeprefix("d"))
    ranking = read_ranking(numbered, "new", ids="integer")
    assert list_queries(ranking) == list(range(12))
    assert ranking.doc_id.type == pa.int64()
    with pytest.raises(InputError) as error:
        read_ranking(rows, "new", ids="integer")
    message = str(error.value)
    assert "doc_id must be an integer" in message
    assert "query_id must be" not in message
    padded = rows.assign(query_id="0" + rows["query_id"])
    assert read_ranking(write(padded, tmp_path / "r.csv"), "new").query_id.type == pa.large_string()


def features(queries: int = 5, docs: int = 4):
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        [(q, f"d{d}", *rng.normal(size=2)) for q in range(queries) for d in range(docs)],
        columns=["query_id", "doc_id", "bm25", "age"],
    )
    return table, read_features(table)


def test_a_function_scores_all_features():
    table, given_features = features()
    seen = []

    def ranker(rows: pd.DataFrame) -> np.ndarray:
        seen.append(rows.copy())
        rows["bm25"] *= -1  # it may do what it likes with its frame
        return rows["bm25"].to_numpy() + 2 * rows["age"].to_numpy()

    ranking = read_ranking(ranker, "new", features=given_features, depth=2)
    assert list(seen[0].columns) == ["query_id", "doc_id", "bm25", "age"]
    assert seen[0]["doc_id"].tolist() == table["doc_id"].tolist()
    np.testing.assert_array_equal(given_features.matrix[:, 0], table["bm25"].astype(np.float32))
    expected: Lists = {}
    for query, rows in table.astype({"bm25": np.float32, "age": np.float32}).groupby("query_id"):
        best = sorted((-(2 * r.age - r.bm25), r.doc_id) for r in rows.itertuples())
        expected[(query,)] = [doc for _, doc in best][:2]
    assert as_lists(ranking) == expected
    assert ranking.notes == ("10 of 20 slots are deeper than position 2 and were cut",)


def test_what_a_function_returns_is_checked():
    _, table = features()
    refused(lambda f: f["bm25"], "features-needed")
    given = {"features": table, "context": ("device", "position")}
    assert "device" in refused(lambda f: 0, "function-without-contexts", **given)
    message = refused(lambda f: [1, 2, 3], "scores-wrong-shape", features=table)
    assert "shape (3,) for 20 rows" in message
    message = refused(lambda f: 1.0, "scores-wrong-shape", features=table)
    assert "shape () for 20 rows" in message
    refused(lambda f: ["high"] * 20, "scores-not-numbers", features=table)
    refused(lambda f: f["bm25"].sort_values(), "scores-misaligned", features=table)
    message = refused(
        lambda f: f["bm25"].where(f.index > 1, np.inf), "score-not-finite", features=table
    )
    assert ": 2 rows, first (query 0, doc d0): score inf" in message


def bad(**columns) -> pd.DataFrame:
    good = {"query_id": [1, 1, 2, 2], "doc_id": list("abab"), "position": [1, 2, 1, 2]}
    return pd.DataFrame({**good, **columns})


WRONG = {
    "whole": (
        bad(position=[1, 1.5, 1, None]),
        "position-not-whole",
        ": 2 rows, first (query 1, doc b): position 1.5. Number positions 1, 2, 3 ...",
    ),
    "text": (
        bad(position=["1", "2", "first", "2"]),
        "position-not-whole",
        ": 1 row, first (query 2, doc a): position first.",
    ),
    "zero": (
        bad(position=[0, 1, 0, 1]),
        "position-below-one",
        ": 2 rows, first (query 1, doc a): position 0. Positions start at 1",
    ),
    "huge": (bad(position=[1, 2, 1, 1e300]), "position-not-whole", ": 1 row"),
    "query": (
        bad(query_id=[1, None, 2, None]),
        "missing-value",
        "query_id is missing: 2 rows, first row 2. Fill or drop it.",
    ),
    "doc": (
        bad(doc_id=["a", "b", None, "b"]),
        "missing-value",
        "doc_id is missing: 1 row, first row 3.",
    ),
    "tie": (
        bad(position=[1, 2, 1, 1]),
        "shared-position",
        ": 1 position, first (query 2, position 1): docs a and b. Give each document",
    ),
    "gap": (
        bad(position=[1, 4, 2, 3]),
        "position-gap",
        ": 2 lists, first (query 1): no position 2. Number positions 1, 2, 3 ...",
    ),
    "twice": (
        bad(doc_id=list("abbb")),
        "repeated-document",
        ": 1 document, first (query 2, doc b). Keep one of each",
    ),
    "empty": (bad().head(0), "empty-ranking", ""),
    "score": (
        bad(score=[1, np.inf, 2, np.nan]).drop(columns="position"),
        "score-not-finite",
        ": 2 rows, first (query 1, doc b): score inf.",
    ),
    "page": (
        bad(page_id=["x", None, "y", "y"]),
        "missing-value",
        "page_id is missing: 1 row, first row 2.",
    ),
    "misnamed": (
        bad().rename(columns={"position": "positon", "doc_id": "document"}),
        "missing-column",
        "position or score (known names: position, rank, pos, slot, score) "
        "(did you mean 'positon'?)",
    ),
    "no document": (
        bad().rename(columns={"doc_id": "dok_id"}),
        "missing-column",
        "doc_id (known names: doc_id, item_id, url, object_id, product_id, item, sku) "
        "(did you mean 'dok_id'?)",
    ),
    "dates": (
        bad(position=pd.Timestamp("2026-01-01")),
        "invalid-type",
        "position is of type timestamp",
    ),
}


@pytest.mark.parametrize("flaw", WRONG)
def test_each_flaw_is_named_with_its_place_and_remedy(flaw):
    source, code, named = WRONG[flaw]
    message = refused(source, code)
    assert message.startswith("ranking 'new': DataFrame cannot be used:\n")
    assert named in message
    assert message.count("\n  - ") == (2 if flaw == "misnamed" else 1)


def test_decimal_ids_are_refused():
    with pytest.raises(InputError) as error:
        read_ranking(bad(query_id=[1.5, 1.5, 2.5, 2.5]), "new")
    assert str(error.value).startswith("ranking 'new': DataFrame cannot be used:\n")
    assert "query_id is of type float64" in str(error.value)
    assert len(error.value.problems) == 1


def test_the_table_of_flaws_starts_from_one_without():
    assert as_lists(read_ranking(bad(), "new")) == {(1,): ["a", "b"], (2,): ["a", "b"]}


def problem_codes(source) -> list[str]:
    """Codes of all problems of a ranking that is refused."""
    with pytest.raises(InputError) as error:
        read_ranking(source, "new")
    return [problem.code for problem in error.value.problems]


def test_all_flaws_are_reported_at_once():
    rows = pd.DataFrame(
        [
            ("1", "a", 1),
            ("1", "b", 1),
            ("2", "a", 1),
            ("2", "b", 3),
            ("3", "a", 1),
            ("3", "a", 2),
            ("4", "a", 0),
            ("4", "b", 1),
            ("5", "a", 1.5),
        ],
        columns=["query_id", "doc_id", "position"],
    )
    with pytest.raises(InputError) as error:
        read_ranking(rows, "new")
    assert {problem.code: problem.count for problem in error.value.problems} == {
        "position-not-whole": 1,
        "position-below-one": 1,
        "repeated-document": 1,
        "shared-position": 1,
        "position-gap": 1,
    }
    assert "1 list, first (query 2)" in str(error.value)
    # the position of a row without a query is unknown, so gaps are not reported
    assert "position-gap" not in problem_codes(
        pd.concat([rows, rows.head(1).assign(query_id=None)])
    )


def test_a_repeated_row_does_not_tie_with_itself():
    rows = pd.concat([bad(), bad().head(1)])
    assert problem_codes(rows) == ["repeated-document"]
    assert ": 1 document, first (query 1, doc a)" in refused(rows, "repeated-document")


def test_bad_lines_of_files_are_counted(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("query_id,doc_id,position\n1,a,1\n1,b,2,9\n1,c,3\n")
    with pytest.raises(InputError) as error:
        read_ranking(path, "new")
    # the missing line leaves a gap, which is not what is wrong
    (problem,) = error.value.problems
    assert problem.count == 1
    assert "line 3" in str(problem)
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({"query_id": 1, "doc_id": "a", "position": 1}) + "\n{oops\n")
    with pytest.raises(InputError, match="JSON"):
        read_ranking(path, "new")


def test_invalid_settings_are_refused():
    assert "not 0" in refused(frame(), "depth-out-of-range", depth=0)
    assert "device" in refused(frame(), "context-without-position", context=("device",))
    message = refused(frame().assign(devise=1), "missing-column", context=("device", "position"))
    assert "'device' is not in the ranking (did you mean 'devise'?)" in message
    for source in (3, "nowhere.parquet"):
        with pytest.raises(InputError, match="ranking 'new': "):
            read_ranking(source, "new")


def test_a_ranking_that_was_read_is_returned_unchanged() -> None:
    ranking = read_ranking(frame(), "new", depth=2)
    assert read_ranking(ranking, "new", depth=2) is ranking
