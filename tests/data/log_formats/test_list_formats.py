"""Pages as lists, page lines and Open Bandit, against loops over the same pages."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import epiclick as ec
from epiclick.data.readers import count_log
from epiclick.data.schema import LogOptions

from ...raising import raises_code

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "data"
PAGES: list[tuple[str, list[str], list[str]]] = [
    ("a", ["x", "y", "z"], ["y", "y"]),
    ("a", ["y", "x"], []),
    ("b", ["u", "v"], ["v", "u"]),
]
DROP = LogOptions(on_bad="drop", max_bad=0.9)


def counted(pages: list[tuple[str, list[str], list[str]]]) -> set[tuple]:
    displays, clicks = Counter(), Counter()
    for query, items, clicked in pages:
        for position, item in enumerate(items, 1):
            displays[query, item, position] += 1
            clicks[query, item, position] += item in clicked
    return {(*key, n, clicks[key]) for key, n in displays.items()}


def entries(counts: ec.ClickCounts) -> set[tuple]:
    frame = counts.to_table().to_pandas()
    names = ["query_id", "doc_id", "position", "displays", "clicks"]
    return {tuple(row) for row in frame[names].itertuples(index=False)}


def table(how: str) -> pd.DataFrame:
    query, items, clicked = (list(each) for each in zip(*PAGES, strict=True))
    marks = [[int(i in c) for i in s] for s, c in zip(items, clicked, strict=True)]
    forms: dict[str, tuple[Any, Any]] = {
        "lists": (items, clicked),
        "marks": (items, marks),
        "booleans": (items, [[bool(m) for m in each] for each in marks]),
        "json": ([json.dumps(each) for each in items], [json.dumps(each) for each in clicked]),
        "text": ([" ".join(each) for each in items], [", ".join(each) for each in clicked]),
    }
    return pd.DataFrame({"query": query, "items": forms[how][0], "clicks": forms[how][1]})


@pytest.mark.parametrize("how", ["lists", "marks", "booleans", "json", "text"])
def test_lists_are_pages(how: str) -> None:
    counts, report = count_log(table(how), LogOptions())
    assert entries(counts) == counted(PAGES)
    assert counts.pages == len(PAGES)
    assert report.format == "list-columns"
    repeated = any("1 further clicks" in each for each in report.warnings)
    assert repeated == (how in ("lists", "json", "text"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_lists_in_files(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"pages.{kind}"
    lists = table("lists").assign(page_id=["p1", "p2", "p3"], device="m")
    if kind == "parquet":
        lists.to_parquet(file)
    elif kind == "jsonl":
        lists.to_json(file, orient="records", lines=True)
    else:
        table("json").assign(page_id=["p1", "p2", "p3"], device="m").to_csv(file, index=False)
    counts, _ = count_log(str(file), LogOptions(context=("device", "position")))
    assert entries(counts) == counted(PAGES)


@pytest.mark.parametrize("odd", [7, {"x": 1}, ["a"]])
@pytest.mark.parametrize("column", ["query_id", "page_id"])
def test_ids_beside_lists_follow_the_rules_of_other_logs(
    tmp_path: Path, column: str, odd: Any
) -> None:
    pages = [
        {"page_id": f"p{i}", "query_id": "q", "items": ["a", "b"], "clicks": ["a"]}
        for i in range(3)
    ]
    pages[1][column] = odd
    file = tmp_path / "pages.jsonl"
    file.write_text("".join(json.dumps(page) + "\n" for page in pages))
    with raises_code("mixed-types"):
        count_log(str(file), LogOptions())


def test_other_names_positions_and_types() -> None:
    log = pd.DataFrame(
        {
            "query": ["a", "b"],
            "slate": [[7, 8], [9, 7]],
            "chosen": [[8], []],
            "positions": [[1, 3], [2, 5]],
        }
    )
    options = LogOptions(columns={"doc_id": "slate", "click": "chosen"}, format="list-columns")
    counts, _ = count_log(log, options)
    assert entries(counts) == {
        ("a", 7, 1, 1, 0),
        ("a", 8, 3, 1, 1),
        ("b", 9, 2, 1, 0),
        ("b", 7, 5, 1, 0),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "code"),
    [
        ({"items": ["x", "y"], "clicks": ["w"]}, "click-without-display"),
        ({"items": [], "clicks": []}, "not-a-list"),
        ({"items": None, "clicks": []}, "not-a-list"),
        ({"items": ["x", "x"], "clicks": []}, "repeated-document"),
    ],
)
def test_bad_pages_are_refused_or_dropped(page: dict[str, Any], code: str) -> None:
    log = pd.concat([table("lists"), pd.DataFrame([{"query": "a", **page}])], ignore_index=True)
    with raises_code(code):
        count_log(log, LogOptions())
    counts, _ = count_log(log, DROP)
    extra = [("a", page["items"], [])] if code == "click-without-display" else []
    assert entries(counts) == counted([*PAGES, *extra])


@pytest.mark.slow
def test_marks_need_one_for_each_item() -> None:
    log = table("booleans")
    log["clicks"] = [[True], *log.clicks[1:]]
    with raises_code("lists-differ-in-length"):
        count_log(log, LogOptions())
    assert entries(count_log(log, DROP)[0]) == counted(PAGES[1:])


def test_marks_and_ids_that_cannot_be_told_apart() -> None:
    log = pd.DataFrame({"query": ["a", "b"], "items": [[0, 1], [1, 5]], "clicks": [[0, 1], [1, 0]]})
    with raises_code("ambiguous-clicks"):
        count_log(log, LogOptions())


def test_missing_lists_of_clicks_are_none_and_reported() -> None:
    log = table("lists")
    log["clicks"] = [log.clicks[0], None, log.clicks[2]]
    counts, report = count_log(log, LogOptions())
    assert entries(counts) == counted(PAGES)
    assert any("1 pages have no list of clicks" in each for each in report.warnings)


def lines_of(file: Path) -> list[tuple[str, list[str], list[str]]]:
    with gzip.open(file, "rt") as text:
        split = (line.rstrip("\n").split("\t") for line in text)
        return [(query, items.split(), clicked.split()) for query, items, clicked in split]


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "yandex-pages").is_dir(), reason="yandex-pages is not at hand")
def test_page_lines_of_the_sample() -> None:
    file = SHARED / "yandex-pages" / "train.tsv.gz"
    pages = lines_of(file)
    assert (len(pages), sum(len(page[2]) for page in pages)) == (7_997, 12_756)
    orphans = sum(each not in page[1] for page in pages for each in page[2])
    with raises_code("click-without-display") as caught:
        count_log(str(file), LogOptions())
    assert caught.value.problems[0].count == orphans
    counts, report = count_log(str(file), LogOptions(on_bad="drop", max_bad=0.01))
    assert report.format == "page-lines"
    assert counts.pages == len(pages)
    typed = {(query, int(doc), *rest) for query, doc, *rest in counted(pages)}
    assert entries(counts) == typed
    again = sum(len(page[2]) - len(set(page[2])) for page in pages)
    assert any(each.startswith(f"{again:,} further clicks") for each in report.warnings)


@pytest.mark.slow
def test_page_lines_with_a_broken_line(tmp_path: Path) -> None:
    file = tmp_path / "pages.tsv"
    good = "".join(f"{q}\t{' '.join(s)}\t{' '.join(c)}\n" for q, s, c in PAGES) * 10
    file.write_text(good + "b\tu v\n")
    with raises_code("malformed-line"):
        count_log(str(file), LogOptions())
    counts, report = count_log(str(file), DROP)
    assert report.dropped == 1
    assert counts.pages == 30


def test_a_table_with_a_header_has_no_page_lines(tmp_path: Path) -> None:
    file = tmp_path / "log.tsv"
    file.write_text("query_id\tdoc_id\tposition\tclick\nq\ta\t1\t1\nq\tb\t2\t0\n")
    assert count_log(str(file), LogOptions())[1].format == "rows"
    with raises_code("not-in-format"):
        count_log(str(file), LogOptions(format="page-lines"))


@pytest.mark.skipif(not (SHARED / "obd").is_dir(), reason="obd is not at hand")
@pytest.mark.parametrize(("policy", "clicks"), [("random", 46), ("bts", 69)])
def test_open_bandit(policy: str, clicks: int) -> None:
    file = SHARED / "obd" / policy / "men.csv"
    counts, report = count_log(str(file), LogOptions(part="day"))
    raw = pd.read_csv(file)
    assert report.format == "open-bandit"
    assert (counts.total_displays, counts.total_clicks) == (len(raw), clicks)
    assert len(counts.parts) == pd.to_datetime(raw.timestamp, format="ISO8601").dt.date.nunique()
    expected = raw.groupby(["item_id", "position"]).click.agg(["size", "sum"])
    table = (
        counts.to_table().to_pandas().groupby(["doc_id", "position"])[["displays", "clicks"]].sum()
    )
    assert (table.displays == expected["size"]).all()
    assert (table.clicks == expected["sum"]).all()
