"""Judgements for the Search Relevance Workbench and for learning-to-rank plugins."""

import copy
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from epiclick.errors import InputWarning
from epiclick.export.judgement_list import write_judgement_list
from epiclick.export.workbench import check_name, write_judgements

from ..raising import raises_code
from .workbench_layout import violations

DOCUMENTED: dict[str, Any] = {
    "name": "Imported Judgments",
    "description": "Judgments generated outside SRW",
    "type": "IMPORT_JUDGMENT",
    "judgmentRatings": [
        {
            "query": "red dress",
            "ratings": [
                {"docId": "B077ZJXCTS", "rating": "3.000"},
                {"docId": "B07QRCGL3G", "rating": "0.000"},
            ],
        },
        {"query": "blue jeans", "ratings": [{"docId": "B07L9V4Y98", "rating": "0.000"}]},
    ],
}
QUERIES = pa.array(["größe 40", "größe 40", "say 'hi'", "star, wars"])
DOCS = pa.array(["B-1", "B/2", "3", "äöü"])
GRADES = np.array([0, 4, 0, 2], np.int32)


def read(path: Path) -> Any:
    return json.loads(path.read_bytes().decode("utf-8"))


def test_the_documented_example_follows_the_layout() -> None:
    assert violations(DOCUMENTED) == []


def ratings_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = record["judgmentRatings"][0]["ratings"]
    return found


DAMAGE: dict[str, Callable[[dict[str, Any]], object]] = {
    "type": lambda r: r.update(type="UBI_JUDGMENT"),
    "name": lambda r: r.update(name="x" * 51),
    "description": lambda r: r.update(description="a <b> tag"),
    "judgmentRatings": lambda r: r.update(judgmentRatings={"red dress": []}),
    "query": lambda r: r["judgmentRatings"][0].update(query=7),
    "query twice": lambda r: r["judgmentRatings"][1].update(query="red dress"),
    "ratings": lambda r: r["judgmentRatings"][0].update(ratings=[]),
    "docId": lambda r: ratings_of(r)[0].update(docId=""),
    "docId twice": lambda r: ratings_of(r)[1].update(docId="B077ZJXCTS"),
    "rating": lambda r: ratings_of(r)[0].update(rating=3.0),
    "fields of a rating": lambda r: ratings_of(r)[0].pop("rating"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_the_check_of_the_layout_notices_what_an_import_refuses(what: str) -> None:
    record = copy.deepcopy(DOCUMENTED)
    DAMAGE[what](record)
    assert violations(record) == [what]


def test_judgements_follow_the_layout_and_keep_their_zeros(tmp_path: Path) -> None:
    out = tmp_path / "judgements.json"
    write_judgements(out, QUERIES, DOCS, GRADES, name="May", description="graded")
    record = read(out)
    assert violations(record) == []
    assert (record["name"], record["description"]) == ("May", "graded")
    found = [
        (each["query"], one["docId"], one["rating"])
        for each in record["judgmentRatings"]
        for one in each["ratings"]
    ]
    texts = ["0.000", "4.000", "0.000", "2.000"]
    assert found == list(zip(QUERIES.to_pylist(), DOCS.to_pylist(), texts, strict=True))
    # a line per query, so that long files can be read and compared
    assert len(out.read_text(encoding="utf-8").splitlines()) == 1 + 3 + 1


def test_ids_that_are_numbers_are_written_as_text(tmp_path: Path) -> None:
    out = tmp_path / "judgements.json"
    write_judgements(
        out, pa.array([7, 7]), pa.array([1, 2]), np.array([1, 0]), name="n", description="d"
    )
    assert violations(read(out)) == []
    assert read(out)["judgmentRatings"][0]["query"] == "7"


def test_queries_that_no_query_set_takes_are_reported(tmp_path: Path) -> None:
    queries = pa.array(['6" screen', "a\nb", "plain", "x" * 2001])
    with pytest.warns(InputWarning, match=r"3 queries .*first '6\" screen'"):
        write_judgements(tmp_path / "j.json", queries, DOCS, GRADES, description="d")
    assert violations(read(tmp_path / "j.json")) == []


def test_empty_ids_and_bad_names_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    empty = pa.array(["", "", "a", "b"])
    with raises_code("empty-id") as caught:
        write_judgements(tmp_path / "j.json", QUERIES, empty, GRADES)
    assert "2 items" in str(caught.value)
    for name in ("", "x" * 51, 'a "list"', "<b>", "a\nb"):
        with raises_code("invalid-name"):
            write_judgements(tmp_path / "j.json", QUERIES, DOCS, GRADES, name=name)
    assert check_name("x" * 50) == "x" * 50
    assert not list(tmp_path.iterdir())


def parsed(path: Path) -> list[tuple[int, str, str]]:
    """Grade, query and document of every line, as the plugins' own scripts parse them."""
    lines = path.read_text(encoding="utf-8").splitlines()
    header = [re.match(r"#\sqid:(\d+?):\s+?(.*)", line) for line in lines]
    queries = {match[1]: match[2] for match in header if match}
    body = [re.match(r"^(\d+)\s+qid:(\d+)\s+#\s+(\w+).*", line) for line in lines]
    return [(int(match[1]), queries[match[2]], match[3]) for match in body if match]


def test_judgement_lists_are_read_back_by_the_plugins_parser(tmp_path: Path) -> None:
    out, docs = tmp_path / "judgements.txt", pa.array(["a1", "b_2", "3", "c"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_judgement_list(out, QUERIES, docs, GRADES)
    expected = zip(GRADES.tolist(), QUERIES.to_pylist(), docs.to_pylist(), strict=True)
    assert parsed(out) == list(expected)
    assert out.read_text(encoding="utf-8").splitlines()[-3:] == [
        *("4 qid:1 # b_2", "0 qid:2 # 3", "2 qid:3 # c"),
    ]


def test_numbers_of_queries_are_kept(tmp_path: Path) -> None:
    out = tmp_path / "judgements.txt"
    write_judgement_list(out, pa.array([0, 7, 7]), pa.array([1, 2, 3]), np.array([1, 0, 3]))
    assert parsed(out) == [(1, "0", "1"), (0, "7", "2"), (3, "7", "3")]
    assert "3 qid:7 # 3\n" in out.read_text()
    # RankLib takes no negative numbers
    write_judgement_list(out, pa.array([-1, 7]), pa.array([1, 2]), np.array([1, 0]))
    assert parsed(out) == [(1, "-1", "1"), (0, "7", "2")]


def test_ids_that_a_judgement_list_cannot_hold(tmp_path: Path) -> None:
    with raises_code("id-with-whitespace"):
        write_judgement_list(tmp_path / "l", QUERIES, pa.array(["a b", "c", "d", "e"]), GRADES)
    with raises_code("id-with-line-break") as caught:
        write_judgement_list(tmp_path / "l", pa.array(["a", "a\u2028b", "c\nd", "e"]), DOCS, GRADES)
    assert "2 query_ids" in str(caught.value)
    assert not list(tmp_path.iterdir())
    with pytest.warns(InputWarning, match=r"3 doc ids .*first 'B-1'.* cut them off"):
        write_judgement_list(tmp_path / "l", QUERIES, DOCS, GRADES)
    with pytest.warns(InputWarning, match=r"1 queries contain \*"):
        write_judgement_list(tmp_path / "l", pa.array(["a*2"]), pa.array(["d"]), GRADES[:1])
