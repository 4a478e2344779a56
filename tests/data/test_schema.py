"""Columns are found by name or refused with a remedy, never guessed."""

import json
from dataclasses import replace

import pytest

from epiclick.data.schema import ALIASES, LogOptions, resolve_columns

from ..raising import raises_code

RAW = ["query_id", "doc_id", "position", "click"]


def test_canonical_names_are_found_as_they_are() -> None:
    columns = resolve_columns(["page_id", *RAW], LogOptions())
    assert columns.found == {name: name for name in ["page_id", *RAW]}
    assert columns.aliases == {}
    assert not columns.counted


@pytest.mark.parametrize("canonical", ["page_id", "query_id", "doc_id", "position", "click"])
def test_every_alias_is_found_in_any_case(canonical: str) -> None:
    for alias in ALIASES[canonical]:
        names = [n for n in ["page_id", *RAW] if n != canonical] + [alias.upper()]
        assert resolve_columns(names, LogOptions()).found[canonical] == alias.upper()


def test_counted_logs_are_recognised_by_their_displays() -> None:
    columns = resolve_columns(["query", "url", "pos", "Impression", "Click"], LogOptions())
    assert columns.counted
    assert columns.found["displays"] == "Impression"
    assert columns.found["clicks"] == "Click"


def test_two_candidates_are_refused_and_column_decides() -> None:
    names = ["query_id", "user_query", "doc_id", "position", "click"]
    with raises_code("ambiguous-column") as caught:
        resolve_columns(names, LogOptions())
    assert "query_id and user_query" in str(caught.value)
    assert 'columns={"query_id": "query_id"}' in str(caught.value)
    options = LogOptions(columns={"query_id": "user_query", "page_id": "query_id"})
    found = resolve_columns(names, options).found
    assert (found["query_id"], found["page_id"]) == ("user_query", "query_id")


def test_all_problems_are_reported_together() -> None:
    options = LogOptions(columns={"click": "tapped"}, context=("devise", "position"))
    with raises_code("unknown-column") as caught:
        resolve_columns(["query", "qid", "rank", "device"], options, "my.csv")
    assert str(caught.value).startswith("my.csv ")
    tapped, query, doc, device = caught.value.problems
    assert [tapped.code, query.code] == ["unknown-column", "ambiguous-column"]
    assert [doc.code, device.code] == ["missing-column", "unknown-column"]
    assert "'tapped' (given for click)" in str(tapped)
    assert "query and qid" in str(query)
    assert "doc_id" in str(doc)
    assert "'devise'" in str(device)
    assert "(did you mean 'device'?)" in str(device)


def test_clicks_without_displays_are_explained() -> None:
    with raises_code("missing-column") as caught:
        resolve_columns(["query_id", "doc_id", "position", "clicks"], LogOptions())
    assert "clicks but no displays" in str(caught.value)


def test_page_folds_need_a_page_id() -> None:
    with raises_code("missing-column") as caught:
        resolve_columns(RAW, LogOptions(page_parts=10))
    assert "page_parts" in str(caught.value)
    assert 'columns={"page_id": "NAME"}' in str(caught.value)


def test_contexts_may_do_without_a_position() -> None:
    columns = resolve_columns(
        ["query_id", "doc_id", "slot_kind", "click"], LogOptions(context=("slot_kind",))
    )
    assert columns.contexts == {"slot_kind": "slot_kind"}


@pytest.mark.parametrize(
    ("wrong", "code", "named"),
    [
        ({"columns": {"positon": "x"}}, "unknown-canonical-column", "did you mean 'position'"),
        ({"context": ()}, "invalid-context", "context"),
        ({"context": ("position", "position")}, "invalid-context", "context"),
        ({"context": ("query_id",)}, "reserved-column", "query_id"),
        ({"position_base": 2}, "invalid-position-base", "0 or 1, not 2"),
        ({"part": "day", "page_parts": 5}, "part-and-page-parts", "page_parts"),
        ({"page_parts": 1}, "invalid-page-parts", "from 2 to 4096, not 1"),
        ({"ids": "float"}, "invalid-ids", "auto, string or integer, not 'float'"),
        ({"on_bad": "ignore"}, "invalid-on-bad", "error or drop, not 'ignore'"),
        ({"max_bad": 3.0}, "invalid-max-bad", "from 0 to 1, not 3.0"),
        ({"columns": ["x"]}, "invalid-columns", "columns"),
    ],
)
def test_invalid_options_are_refused(wrong: dict, code: str, named: str) -> None:
    with raises_code(code) as caught:
        LogOptions(**wrong)
    assert named in str(caught.value)


def test_all_invalid_options_are_reported_together() -> None:
    with raises_code("invalid-page-parts") as caught:
        LogOptions(page_parts="many", max_bad=3.0, context=())  # type: ignore[arg-type]
    codes = [problem.code for problem in caught.value.problems]
    assert codes == ["invalid-page-parts", "invalid-max-bad", "invalid-context"]


def test_options_survive_json() -> None:
    options = LogOptions(
        columns={"position": "slot"}, context=("device", "position"), where="x > 1"
    )
    assert LogOptions.from_dict(json.loads(json.dumps(options.to_dict()))) == options


def test_another_log_reuses_all_but_the_choice_of_rows() -> None:
    options = LogOptions(
        columns={"position": "slot"}, context=("device", "position"), on_bad="drop", ids="string"
    )
    for own in ({"where": "day <= 7", "part": "day"}, {"page_parts": 5}, {"cluster": "day"}):
        assert replace(options, **own).for_another_log() == options
