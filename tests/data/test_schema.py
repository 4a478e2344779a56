"""Columns are found by name or refused with a remedy, never guessed."""

import json
from dataclasses import replace

import pytest

from epiclick.data.schema import ALIASES, LogOptions, resolve_columns
from epiclick.errors import InputError

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


def test_counted_logs_are_told_by_their_displays() -> None:
    columns = resolve_columns(["query", "url", "pos", "Impression", "Click"], LogOptions())
    assert columns.counted
    assert columns.found["displays"] == "Impression"
    assert columns.found["clicks"] == "Click"


def test_two_candidates_are_refused_and_column_decides() -> None:
    names = ["query_id", "user_query", "doc_id", "position", "click"]
    with pytest.raises(
        InputError, match=r"query_id and user_query could each be query_id.*--column"
    ):
        resolve_columns(names, LogOptions())
    options = LogOptions(columns={"query_id": "user_query", "page_id": "query_id"})
    found = resolve_columns(names, options).found
    assert (found["query_id"], found["page_id"]) == ("user_query", "query_id")


def test_all_problems_are_told_together() -> None:
    options = LogOptions(columns={"click": "tapped"}, context=("devise", "position"))
    with pytest.raises(InputError) as caught:
        resolve_columns(["query", "qid", "rank", "device"], options, "my.csv")
    message = str(caught.value)
    assert message.startswith("my.csv cannot be used:")
    assert "column 'tapped' (given for click) is not in the log" in message
    assert "query and qid could each be query_id" in message
    assert "no column for doc_id" in message
    assert "context column 'devise' is not in the log (did you mean 'device'?)" in message
    assert len(caught.value.problems) == 4


def test_clicks_without_displays_are_explained() -> None:
    with pytest.raises(InputError, match="clicks but no displays"):
        resolve_columns(["query_id", "doc_id", "position", "clicks"], LogOptions())


def test_page_folds_need_a_page_id() -> None:
    with pytest.raises(InputError, match="page-parts needs a column for page_id"):
        resolve_columns(RAW, LogOptions(page_parts=10))


def test_contexts_may_do_without_a_position() -> None:
    columns = resolve_columns(
        ["query_id", "doc_id", "slot_kind", "click"], LogOptions(context=("slot_kind",))
    )
    assert columns.contexts == {"slot_kind": "slot_kind"}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"columns": {"positon": "x"}}, r"did you mean 'position'"),
        ({"context": ()}, "at least one column"),
        ({"context": ("query_id",)}, "cannot be a context"),
        ({"position_base": 2}, "must be 0 or 1"),
        ({"part": "day", "page_parts": 5}, "choose one"),
        ({"page_parts": 1}, "from 2 to 4096"),
        ({"ids": "float"}, "auto, string or integer"),
        ({"on_bad": "ignore"}, "error or drop"),
        ({"max_bad": 3.0}, "from 0 to 1"),
    ],
)
def test_contradictory_options_are_refused(wrong: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        LogOptions(**wrong)


def test_options_survive_json() -> None:
    options = LogOptions(
        columns={"position": "slot"}, context=("device", "position"), where="x > 1"
    )
    assert LogOptions.from_dict(json.loads(json.dumps(options.to_dict()))) == options


def test_another_log_takes_over_all_but_the_choice_of_rows() -> None:
    options = LogOptions(
        columns={"position": "slot"}, context=("device", "position"), on_bad="drop", ids="string"
    )
    for own in ({"where": "day <= 7", "part": "day"}, {"page_parts": 5}):
        assert replace(options, **own).for_another_log() == options
