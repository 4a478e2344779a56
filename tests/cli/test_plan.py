"""`epiclick plan` on the small world of the other verbs."""

import json
from pathlib import Path

import pandas as pd
import pytest

from .conftest import Done, epiclick

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def call(world: Path, marginal: tuple[Path, Done]) -> list[object]:
    """A call that plans an experiment between rankers by a feature each."""
    features = pd.read_parquet(world / "features.parquet")
    rankings: list[object] = []
    for name, feature in {"new": "f0", "live": "f1"}.items():
        by = features.groupby("query_id")[feature].rank(method="first", ascending=False)
        table = features[["query_id", "doc_id"]].assign(position=by.astype(int))
        table[by <= 3].to_csv(world / f"{name}.csv", index=False)
        rankings += ["--ranking", f"{name}={world / name}.csv"]
    log = ["--clicks", world / "late.parquet", "--features", world / "features.parquet"]
    return ["plan", marginal[0], *rankings, *log]


def test_all_experiments_are_planned_and_written(call: list[object], tmp_path: Path) -> None:
    out, pages = tmp_path / "plan.json", tmp_path / "pages.parquet"
    record = epiclick(
        *call, "--pages-per-day", 500, "--out", out, "--pages-out", pages, "--json"
    ).record
    assert json.loads(out.read_text()) == record
    by_name = {each["name"]: each for each in record["experiments"]}
    assert {"ab_test", "interleaving"} <= set(by_name)
    assert by_name["ab_test"]["days"] == by_name["ab_test"]["pages"] / 500
    assert by_name["ab_test"]["pages"] == 2 * by_name["ab_test"]["pages_per_arm"]
    assert record["names"] == ["new", "live"]
    columns = ["experiment", "query_id", "doc_id", "positions", "pages"]
    assert pd.read_parquet(pages).columns.tolist() == columns
    done = epiclick(*call, "--pages-per-day", 500)
    assert f"{by_name['ab_test']['pages']:,}" in done.out
    assert " ".join(record["verdict"].split()) in " ".join(done.out.split())


def test_the_difference_is_that_of_compare(call: list[object]) -> None:
    compared = epiclick("compare", *call[1:], "--json").record["differences"][0]
    assert epiclick(*call, "--json").record["difference"] == compared


def test_bad_calls_are_refused(call: list[object], tmp_path: Path) -> None:
    epiclick(*call, "--power", 1).assert_refused("power must lie strictly", "level-out-of-range")
    epiclick(*call[:4], *call[6:]).assert_refused("for two rankings, not 1", "not-two-rankings")
    epiclick(*call, "--depth", 0).assert_refused("depth must be 1 or more", "depth-out-of-range")
    wrong = epiclick(*call, "--pages-out", tmp_path / "pages.csv")
    wrong.assert_refused("--pages-out", "wrong-suffix")
    epiclick(*call, "--pages-per-day", 0).assert_refused("pages_per_day must be above 0")
