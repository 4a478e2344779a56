"""`epiclick interleave`: pages that are written, shown and analysed."""

from pathlib import Path

import pandas as pd
import pytest

from .conftest import epiclick

RANKINGS = ("--ranking", "new=new.csv", "--ranking", "live=live.csv")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two rankings; the current one."""
    for name, docs in {"new": "abc", "live": "bda"}.items():
        rows = [(q, d, k) for q in ("shoes", "hats") for k, d in enumerate(docs, 1)]
        table = pd.DataFrame(rows, columns=["query_id", "doc_id", "position"])
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def show(shop: Path) -> pd.DataFrame:
    """Pages, with a click on every item of the new ranker."""
    made = epiclick("interleave", *RANKINGS, "--out", "pages.parquet", "--pages-per-query", 5)
    assert (made.code, "10 interleaved pages of 2 queries" in made.out) == (0, True), made.err
    pages = pd.read_parquet(shop / "pages.parquet")
    return pages.assign(click=(pages["team"] == "new").astype(int))


@pytest.mark.slow
def test_pages_are_written_and_their_clicks_analysed(shop: Path) -> None:
    pages = show(shop)
    pages.drop(columns="team").to_csv("log.csv", index=False)
    pages.to_csv("teams.csv", index=False)
    joined = epiclick("interleave", "--clicks", "log.csv", "--pages", "pages.parquet", "--json")
    assert joined.record == epiclick("interleave", "--clicks", "teams.csv", "--json").record
    assert joined.record["clicks_against"] == 0
    assert (joined.record["wins"], joined.record["losses"]) == (10, 0)
    printed = epiclick("interleave", "--clicks", "teams.csv", "--against", "live")
    assert "Verdict: new beats live: " in printed.out
    assert epiclick("interleave", "--clicks", "teams.csv", "--against", "new").out != printed.out


def test_traffic_sets_the_number_of_pages(shop: Path) -> None:
    rows = {"page_id": [1, 1, 2], "query_id": ["shoes"] * 3, "doc_id": ["a", "b", "a"]}
    log = pd.DataFrame({**rows, "position": [1, 2, 1], "click": [1, 0, 0]})
    log.to_csv("log.csv", index=False)
    made = epiclick(
        "interleave",
        *RANKINGS,
        "--traffic",
        "log.csv",
        "--out",
        "p.parquet",
        "--depth",
        2,
        "--json",
    )
    assert (made.record["pages"], made.record["queries"], made.record["slots"]) == (2, 1, 4)


@pytest.mark.parametrize(
    ("call", "words", "code"),
    [
        ((), "or --clicks LOG to analyse", "nothing-to-do"),
        (RANKINGS, "--out FILE to make pages", "nothing-to-do"),
        ((*RANKINGS[:2], "--out", "p.parquet"), "two rankings", "not-two-rankings"),
        ((*RANKINGS, "--out", "p.csv"), "name a .parquet file", "wrong-suffix"),
        ((*RANKINGS, "--out", "p.parquet", "--depth", "0"), "depth must", "depth-out-of-range"),
        ((*RANKINGS, "--clicks", "log.csv"), "makes new ones", "options-conflict"),
        (
            (*RANKINGS, "--out", "p.parquet", "--against", "new"),
            "no effect without --clicks",
            "option-needs-another",
        ),
        (
            (*RANKINGS, "--out", "p.parquet", "--traffic", "l.csv", "--pages-per-query", "2"),
            "both set the number",
            "options-conflict",
        ),
    ],
)
def test_bad_calls_are_refused(call: tuple[str, ...], words: str, code: str, shop: Path) -> None:
    before = sorted(shop.rglob("*"))
    epiclick("interleave", *call).assert_refused(words, code)
    assert sorted(shop.rglob("*")) == before


def test_bad_logs_are_refused(shop: Path) -> None:
    pages = show(shop).drop(columns="team")
    pages.to_csv("log.csv", index=False)
    epiclick("interleave", "--clicks", "log.csv").assert_refused("no column team", "team-missing")
    pages.assign(page_id=pages["page_id"] + 3).to_csv("other.csv", index=False)
    other = epiclick("interleave", "--clicks", "other.csv", "--pages", "pages.parquet")
    other.assert_refused("3 of the log's pages are not among the interleaved", "unknown-page")
