"""The committed study of natural changes: its page has its numbers, and says what they say."""

import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "natural-changes"
TEXT = (FOLDER / "README.md").read_text()
PROSE = re.sub(r"\s+", " ", TEXT)
RESULTS: dict[str, Any] = json.loads((FOLDER / "results.json").read_text())
MODELS = ("pbm", "ubm", "trust", "cascade", "dcm", "sdbn")
INDEPENDENT = ("pbm", "ubm", "trust")
"""Models whose rows the page sums up."""

PAIRS = ("later_both_new", "later_one_new", "same_both_new")


@pytest.fixture
def natural_tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import natural_tables

    return natural_tables


def scores(model: str, kind: str, depth: int = 10) -> dict[str, Any]:
    return RESULTS["rows"][model][f"depth_{depth}"][kind]


def sure(found: dict[str, Any]) -> dict[str, Any]:
    return found["orders"][-1]


def span(values: list[float], scale: int = 100, decimals: int = 0) -> str:
    low, high = (f"{scale * end:.{decimals}f}" for end in (min(values), max(values)))
    return f"{low} to {high}" if low != high else low


def test_the_tables_are_those_of_the_results(natural_tables: ModuleType) -> None:
    tables = natural_tables.tables(RESULTS)
    assert len(tables) == 7
    for name, table in tables.items():
        assert table in TEXT, name
    assert set(RESULTS["rows"]) == {*MODELS, "position", "item", "item-position"}


def test_pages_and_lists_are_counted_as_the_page_says() -> None:
    pages, overlap = RESULTS["pages"], RESULTS["overlap"]
    later, same = pages["judged_later"], pages["judged_same"]
    assert f"{pages['training_pages']:,} training pages, {pages['later_pages']:,} later" in PROSE
    number = sum(each > 0 for each in later["by_query"])
    assert f"{later['lists']} lists of {number} queries on **later** pages" in PROSE
    assert f"({pages['judged_only_later']} of them were never shown in training)" in PROSE
    number = sum(each > 0 for each in same["by_query"])
    assert f"{same['lists']} lists of {number} queries on the **same period**" in PROSE
    largest = sum(sorted(later["by_query"])[-2:])
    assert f"Two queries have {largest} of the {later['lists']} lists" in PROSE
    assert f"{overlap['nearest']:.1f} on average hold another item" in PROSE
    assert f"{overlap['average']:.1f} than on an average page" in PROSE
    assert f"({100 * overlap['with_unseen']:.0f} % of the lists have such an item)" in PROSE


def test_the_summary_is_that_of_the_results() -> None:
    one_new = [sure(scores(name, "later_one_new")) for name in INDEPENDENT]
    agree, expected = ([each[key] for each in one_new] for key in ("agree", "expected"))
    assert f"had that sign in {span(agree)} % of pairs" in PROSE
    assert f"should have had it in {span(expected)} %" in PROSE
    assert max(agree) < min(expected)
    pbm = one_new[0]
    interval = f"between {100 * pbm['agree_low']:.0f} and {100 * pbm['agree_high']:.0f} %"
    assert f"{100 * pbm['agree']:.0f} %, is known only to lie {interval}" in PROSE
    covered = {
        kinds: [
            scores(name, kind)["coverage_90"]["actual"] for name in INDEPENDENT for kind in kinds
        ]
        for kinds in (("later", "same"), PAIRS)
    }
    values, differences = (span(each) for each in covered.values())
    assert f"was {values} % for values and {differences} % for differences" in PROSE
    top = [sure(scores(name, "same_both_new", 3)) for name in INDEPENDENT]
    agree, expected = ([each[key] for each in top] for key in ("agree", "expected"))
    assert f"have the right sign in {span(agree)} % of pairs" in PROSE
    assert f"where {span(expected)} % were expected" in PROSE


def test_the_page_about_comparing_rankers_has_the_same_numbers() -> None:
    page = re.sub(r"\s+", " ", (ROOT / "docs" / "compare.md").read_text())
    every = [sure(scores(name, kind)) for name in INDEPENDENT for kind in PAIRS]
    agree, expected = ([each[key] for each in every] for key in ("agree", "expected"))
    assert f"in {span(agree)} % of pairs, where {span(expected)} % were expected" in page


def test_what_the_page_concludes_is_in_the_results() -> None:
    for period in ("later", "same"):
        best = min(scores(name, period)["error"] for name in MODELS)
        assert scores("position", period)["error"] < best
    for name in MODELS:
        assert RESULTS["rows"][name]["failed_checks"]["queries"] == 1
    # with users who follow the model, part of the shortfall of verdicts remains
    control = RESULTS["control"]["depth_10"]
    shortfalls = []
    for kind in PAIRS:
        with_right, with_real = sure(control[kind]), sure(scores("pbm", kind))
        lack = [each["expected"] - each["agree"] for each in (with_right, with_real)]
        shortfalls.append(lack[0] / lack[1])
    assert f"up to {100 * max(shortfalls):.0f} % of the shortfall is there" in PROSE
    agree, expected = (
        span([sure(control[kind])[key] for kind in PAIRS]) for key in ("agree", "expected")
    )
    assert f"in {agree} % of pairs where {expected} % were expected" in PROSE
    values, differences = (
        span([control[kind]["coverage_90"]["actual"] for kind in kinds])
        for kinds in (("later", "same"), PAIRS)
    )
    assert f"cover {values} % of values and {differences} % of differences" in PROSE
    # no drift: earlier pages of the same lists predict later ones
    drift = RESULTS["drift"]["depth_10"]["later"]
    assert drift["dispersion"] < 1.1
    assert f"({drift['predictions']} lists of {drift['queries']} queries)" in PROSE
