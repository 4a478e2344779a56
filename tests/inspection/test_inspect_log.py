"""What a log holds, against pandas; every flaw reported, and options that its values call for."""

import shlex
from collections.abc import Mapping
from pathlib import Path

import ibis
import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.inspection import inspect_log
from epiclick.inspection.inspected import Inspection

pytestmark = pytest.mark.slow

SIZE = 4  # results per page


def shop_log(pages: int = 600, seed: int = 0) -> pd.DataFrame:
    """Searches of a shop, under the names that people use; half of them go on to page 2."""
    rng = np.random.default_rng(seed)
    rows = []
    for page in range(pages):
        query, docs = page % 20, rng.permutation(10)
        for place in range(2 * SIZE if page % 2 else SIZE):
            click = int(rng.random() < 0.6 / (1 + place) * (0.3 + 0.07 * docs[place]))
            rows.append(
                (page, f"q{query}", docs[place], place % SIZE + 1, place // SIZE + 1, click)
            )
    log = pd.DataFrame(rows, columns=["search_id", "search_term", "sku", "rank", "page", "click"])
    log["user"] = np.where(log.search_id < 60, 0, log.search_id)
    log["event_time"] = pd.Timestamp("2026-03-01") + pd.to_timedelta(log.search_id, unit="min")
    return log


def codes(found: Inspection) -> dict[str, int | None]:
    return {problem.code: problem.count for problem in found.problems}


def options_in(command: str) -> str:
    return command.split(" --out ")[0].split(" ", 3)[3]


def test_a_clean_log(tmp_path: Path) -> None:
    log = shop_log().drop(columns="page")
    log["rank"] = log.groupby("search_id").cumcount() + 1
    log.to_parquet(tmp_path / "log.parquet", index=False)
    found = ec.inspect(tmp_path / "log.parquet")
    assert (found.rows, found.displays, found.clicks) == (len(log), len(log), log.click.sum())
    assert (found.pages, found.queries) == (600, 20)
    assert found.pairs == len(log[["search_term", "sku"]].drop_duplicates())
    assert {each.name: (each.role, each.how) for each in found.columns} == {
        "search_id": ("page_id", "alias"),
        "search_term": ("query_id", "alias"),
        "sku": ("doc_id", "alias"),
        "rank": ("position", "alias"),
        "click": ("click", "name"),
        "user": ("user_id", "alias"),
        "event_time": (None, None),
    }
    rates = log.groupby("rank").click.agg(["size", "sum", "mean"])
    assert found.by_position is not None
    np.testing.assert_array_equal(found.by_position.iloc[:, :3], rates.reset_index().iloc[:, :3])
    np.testing.assert_allclose(found.by_position.click_rate, rates["mean"])
    assert found.dates is not None
    assert found.dates.first == log.event_time.min().isoformat()
    assert found.dates.last == log.event_time.max().isoformat()
    clicks = log.groupby("search_id").click.sum()
    assert found.shapes is not None
    assert found.shapes.without_click == (clicks == 0).mean()
    assert found.shapes.mean_length == len(log) / 600
    assert found.shapes.longest == 2 * SIZE
    displays = log.user.value_counts()
    assert found.users is not None
    assert found.users.users == len(displays)
    assert found.users.busiest_share == displays[: -(-len(displays) // 100)].sum() / len(log)
    assert found.problems == ()
    assert found.command == f"epiclick fit {tmp_path}/log.parquet --out model"
    assert found.learnable is not None
    assert found.learnable.record["linked_share"] > 0.99
    errors = found.learnable.errors.relative_error
    assert errors.between(0, 0.5).all()
    assert "Next: epiclick fit" in str(found)


def test_every_flaw_is_reported(tmp_path: Path) -> None:
    log = shop_log().astype({"rank": object})
    clicked = log.index[(log.click == 1) & (log.search_id > 300)][:2]
    hole = log.index[(log.search_id == 101) & (log["rank"] == 2) & (log.page == 1)]
    log.loc[0, "rank"] = "first"
    log.loc[9, "search_term"] = None
    log.loc[10, "click"] = 7
    log = pd.concat([log.drop(index=hole), log.loc[clicked]])
    log.to_csv(tmp_path / "log.csv", index=False)
    before = (tmp_path / "log.csv").read_bytes()
    found = ec.inspect(tmp_path / "log.csv")
    pages = log.loc[clicked, "search_id"].nunique()
    assert codes(found) == {
        "not-a-number": 1,
        "missing-value": 1,
        "click-not-binary": 1,
        "repeated-document": pages,
        "repeated-position": pages,
        "repeated-rows": 2,
        "click-on-many-rows": 2,
        "pages-with-holes": 1,
    }
    assert found.displays is not None
    assert found.displays < len(log)
    assert "--on-bad drop" in options_in(found.command or "")
    assert "--page-number page --page-size 4" in options_in(found.command or "")
    assert (tmp_path / "log.csv").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]
    # the command reads the log
    words = options_in(found.command or "").split()
    assert "--max-bad" in words
    share = float(words[words.index("--max-bad") + 1].rstrip("%")) / 100
    counts = inspect_log.count_log(
        tmp_path / "log.csv",
        ec.LogOptions(page_number="page", page_size=4, on_bad="drop", max_bad=share),
    )[0]
    assert counts.total_displays == found.displays


PROPOSED: Mapping[str, tuple[dict, str]] = {
    "positions from 0": ({"rank": lambda t: t["rank"] - 1}, "--position-base 0"),
    "pages from 0": ({"page": lambda t: t.page - 1}, "--page-number-base 0"),
    "offset": ({"start": lambda t: (t.page - 1) * SIZE, "page": "x"}, "--offset start"),
    "views": ({"in_view": lambda t: (t["rank"] < 4).astype(int) | t.click}, "--viewed in_view"),
    "ads": ({"is_ad": lambda t: t["rank"] == 1}, "--sponsored is_ad"),
}


@pytest.mark.parametrize("name", PROPOSED)
def test_options_that_the_values_call_for(name: str) -> None:
    changes, option = PROPOSED[name]
    log = shop_log(pages=200).assign(**changes)
    found = ec.inspect(log)
    field, value = option.removeprefix("--").replace("-", "_").split(" ")
    assert f"{field}={value!r}" in found.command or f"{field}={value}" in found.command


def test_names_whose_values_do_not_fit_are_no_reason() -> None:
    plain = shop_log(pages=200).assign(in_view=2, is_ad=1, start=0, page=1)
    plain["rank"] = plain.groupby("search_id").cumcount() + 1
    assert ec.inspect(plain).command == "ec.EpistemicPBM().fit(ec.read_log(log))"


def test_options_given_are_kept(tmp_path: Path) -> None:
    log = shop_log(pages=100).rename(columns={"sku": "thing", "click": "hit"})
    log.to_parquet(tmp_path / "my log.parquet", index=False)
    names = {"doc_id": "thing", "click": "hit"}
    found = ec.inspect(tmp_path / "my log.parquet", columns=names, where="search_id < 50")
    assert found.pages == 50
    words = shlex.split(found.command or "")
    assert words[:3] == ["epiclick", "fit", f"{tmp_path}/my log.parquet"]
    assert words[words.index("--where") + 1] == "search_id < 50"
    assert [words[i + 1] for i, word in enumerate(words) if word == "--column"] == [
        "doc_id=thing",
        "click=hit",
    ]


def test_columns_that_are_not_clear() -> None:
    log = shop_log(pages=20).assign(query="q").drop(columns="click")
    found = ec.inspect(log)
    assert set(codes(found)) == {"ambiguous-column", "missing-column"}
    roles = {each.name: each.role for each in found.columns}
    assert (roles["query"], roles["search_term"], roles["sku"]) == ("query_id?",) * 2 + ("doc_id",)
    assert (found.command, found.displays, found.rows) == (None, None, len(log))


@pytest.mark.parametrize(
    ("change", "code", "advice"),
    [
        ({"click": 0}, "no-clicks", "cannot be fitted"),
        ({"rank": 1, "search_id": range(480)}, None, "no position bias to fit"),
        ({"rank": lambda t: t.sku + 1}, None, "No item was shown at two positions"),
    ],
)
def test_logs_that_teach_little(change: dict, code: str | None, advice: str) -> None:
    log = shop_log(pages=80).drop(columns=["page", "user"])
    log = log.assign(**{"rank": log.groupby("search_id").cumcount() + 1} | change)
    found = ec.inspect(log)
    assert code is None or code in codes(found)
    assert any(advice in sentence for sentence in found.advice)
    if code or "fit" in advice:
        assert found.command is None


def test_counted_logs_and_counts_files(tmp_path: Path) -> None:
    rows = {"query": ["a", "a", "b", "b"], "url": [1, 1, 2, 2], "pos": [0, 1, 0, 1]}
    counted = pd.DataFrame({**rows, "Impression": [10, 20, 5, 5], "Click": [12, 3, 1, 1]})
    found = ec.inspect(counted)
    assert (found.displays, found.clicks, found.pages) == (40, 15, None)
    assert codes(found) == {"position-below-base": 2, "clicks-exceed-displays": 1}
    assert found.command is not None
    assert "position_base=0" in found.command
    assert "clip_clicks=True" in found.command
    ec.read_log(shop_log(pages=50), page_number="page", page_size=SIZE).to_parquet(
        tmp_path / "c.parquet"
    )
    file = ec.inspect(tmp_path / "c.parquet")
    assert (file.pages, file.displays) == (50, 50 * SIZE + 25 * SIZE)
    assert file.command == f"epiclick fit {tmp_path}/c.parquet --out model"


def test_of_a_long_log_some_queries_are_inspected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = shop_log()
    log.to_parquet(tmp_path / "log.parquet", index=False)
    monkeypatch.setattr(inspect_log, "LONG", len(log) // 3)
    found = ec.inspect(tmp_path / "log.parquet")
    assert (found.one_in, found.rows) == (3, len(log))
    assert found.queries is not None
    assert 0 < found.queries < 20
    # whole queries: all pages of those that are chosen
    assert found.pages == 30 * found.queries
    assert "where" not in (found.command or "")


def test_tables_of_an_engine_are_left_alone() -> None:
    connection = ibis.duckdb.connect()
    connection.con.register("clicks", shop_log(pages=40))
    found = ec.inspect(connection.table("clicks"))
    assert found.pages == 40
    assert connection.list_tables() == ["clicks"]


def test_times_of_every_kind() -> None:
    log = shop_log(pages=40).drop(columns="event_time")
    first, last = pd.Timestamp("2026-03-01", tz="UTC"), pd.Timestamp("2026-03-01T00:39", tz="UTC")
    at = first + pd.to_timedelta(log.search_id, unit="min")
    for values in (at, at.astype("int64") // 10**6, at.map(lambda t: t.isoformat())):
        dates = ec.inspect(log.assign(ts=values)).dates
        assert dates is not None
        assert (pd.Timestamp(dates.first), pd.Timestamp(dates.last)) == (first, last)
    assert ec.inspect(log.assign(day="monday")).dates is None


def test_columns_that_formats_add_for_themselves_are_not_shown() -> None:
    pages = pd.DataFrame(
        {
            "page_id": range(40),
            "query_id": [f"q{i % 4}" for i in range(40)],
            "items": [["a", "b"] if i % 2 else ["b", "a"] for i in range(40)],
            "clicks": [["a"] if i % 3 else [] for i in range(40)],
        }
    )
    found = ec.inspect(pages)
    names = [each.name for each in found.columns]
    assert "doc_id" in names
    assert not [name for name in names if name.startswith("epiclick")]


@pytest.mark.parametrize(("seconds", "written"), [(1800.0, "30m"), (90.0, "90s"), (45.5, "45.5s")])
def test_times_are_written_so_that_they_can_be_read_again(seconds: float, written: str) -> None:
    from epiclick.cli.options import parse_time
    from epiclick.data.schema import LogOptions
    from epiclick.inspection.next_command import fit_command

    command = fit_command("clicks.csv", LogOptions(format="ubi", click_window=seconds))
    words = shlex.split(command)
    assert words[words.index("--click-window") + 1] == written
    assert parse_time(written, "--click-window") == seconds


@pytest.mark.parametrize("odd", ["nan", "inf", "1e400"])
def test_positions_without_a_largest_are_reported(odd: str, tmp_path: Path) -> None:
    log = shop_log(pages=40).astype({"rank": str})
    log.loc[3, "rank"] = odd
    log.to_csv(tmp_path / "log.csv", index=False)
    found = ec.inspect(tmp_path / "log.csv")
    assert set(codes(found)) & {"not-whole-number", "not-a-number"}
