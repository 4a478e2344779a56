"""TREC's and Quepid's files, read back by independent parsers."""

import csv
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from epiclick.errors import InputWarning
from epiclick.export.judgements import write_qrels, write_ratings, write_run

from ..raising import raises_code

QUERIES, DOCS = pa.array(["7", "7", "ä-1"]), pa.array([3, 12, 5])
GRADES = np.array([0, 4, 2], np.int32)


def lines(path: Path) -> list[list[str]]:
    """Words of every line, each separated by one space."""
    text = path.read_bytes().decode("utf-8")
    assert text.endswith("\n")
    assert "\r" not in text
    return [line.split(" ") for line in text.removesuffix("\n").split("\n")]


def test_qrels_have_four_words_per_line(tmp_path: Path) -> None:
    write_qrels(tmp_path / "qrels", QUERIES, DOCS, GRADES)
    assert lines(tmp_path / "qrels") == [
        ["7", "0", "3", "0"],
        ["7", "0", "12", "4"],
        ["ä-1", "0", "5", "2"],
    ]


def test_a_run_sorts_by_score_as_by_rank(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scores = np.sort(rng.uniform(size=50))[::-1]
    scores[1] = np.nextafter(scores[0], 0)  # differs in the last bit
    ranking = pd.DataFrame(
        {"query_id": 1, "doc_id": range(50), "position": range(1, 51), "score": scores}
    )
    write_run(tmp_path / "run", ranking)
    rows = lines(tmp_path / "run")
    assert {(row[0], row[1], row[5]) for row in rows} == {("1", "Q0", "epiclick")}
    assert [int(row[2]) for row in rows] == list(range(50))
    assert [int(row[3]) for row in rows] == list(range(1, 51))
    assert [float(row[4]) for row in rows] == scores.tolist()


@pytest.mark.parametrize("bad", ["two words", "a\tb", "a\n", "", "no\u00a0break", "wide\u3000"])
def test_ids_with_whitespace_are_refused(bad: str, tmp_path: Path) -> None:
    ids = pa.array(["good", bad, bad])
    with raises_code("id-with-whitespace") as caught:
        write_qrels(tmp_path / "qrels", ids, DOCS, GRADES)
    assert f"1 query_id, first {bad!r}" in str(caught.value)
    ranking = pd.DataFrame({"query_id": 1, "doc_id": ids.to_pylist(), "position": 1, "score": 0.5})
    with raises_code("id-with-whitespace") as caught:
        write_run(tmp_path / "run", ranking)
    assert "1 doc_id, first" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_quepid_reads_its_own_header_and_three_columns(tmp_path: Path) -> None:
    write_ratings(tmp_path / "ratings.csv", pa.array(["star wars", "größe", "x"]), DOCS, GRADES)
    text = (tmp_path / "ratings.csv").read_bytes().decode("utf-8")
    assert text == "query,docid,rating\nstar wars,3,0\ngröße,12,4\nx,5,2\n"


def test_commas_are_quoted_and_warned_about(tmp_path: Path) -> None:
    queries = pa.array(["red, large", 'say "hi"', "plain"])
    with pytest.warns(InputWarning, match=r"2 ids .*first 'red, large'"):
        write_ratings(tmp_path / "ratings.csv", queries, DOCS, GRADES)
    with (tmp_path / "ratings.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["query"] for row in rows] == queries.to_pylist()
    assert [int(row["rating"]) for row in rows] == GRADES.tolist()


FORMULAS = ["=HYPERLINK(1)", "@SUM(A1)", "+1+cmd", "-2-3", "\t=1", "=1,2"]


@pytest.mark.parametrize("formula", FORMULAS)
def test_formulas_are_escaped_if_asked_for_else_reported(formula: str, tmp_path: Path) -> None:
    queries, path = pa.array(["-7", formula, "+1.5"]), tmp_path / "ratings.csv"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        write_ratings(path, queries, DOCS, GRADES)
    assert "1 ids look like formulas" in str(caught[0].message)
    with path.open(newline="", encoding="utf-8") as file:
        assert [row["query"] for row in csv.DictReader(file)] == queries.to_pylist()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        write_ratings(path, queries, DOCS, GRADES, escape_formulas=True)
    assert not any("formulas" in str(each.message) for each in caught)
    with path.open(newline="", encoding="utf-8") as file:
        assert [row["query"] for row in csv.DictReader(file)] == ["-7", f"'{formula}", "+1.5"]
