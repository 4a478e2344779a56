"""A log that grows by the day: counts are added, the oldest dropped, models compared."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epiclick import load

from .conftest import epiclick

pytestmark = pytest.mark.slow

DAYS = tuple(f"2026-05-0{day}" for day in range(1, 5))
COLUMNS = ["--column", "doc_id=sku", "--position-base", 0, "--part", "day"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each day, positions from 0 on."""
    folder, rng = tmp_path_factory.mktemp("daily"), np.random.default_rng(0)
    zeta, pages = rng.beta(1.2, 2.8, (40, 5)), 400
    for day in DAYS:
        query = rng.integers(0, 40, pages)
        shown = np.argsort(rng.random((pages, 5)), axis=1)[:, :3]
        chance = np.array([1, 0.6, 0.35]) * zeta[query[:, None], shown]
        rows = {
            "page_id": [f"{day}/{page}" for page in np.repeat(np.arange(pages), 3)],
            "query_id": [f"query {q}" for q in np.repeat(query, 3)],
            "sku": shown.ravel(),
            "rank": np.tile([0, 1, 2], pages),
            "clicked": (rng.random(chance.shape) < chance).astype(int).ravel(),
            "day": day,
        }
        pd.DataFrame(rows).to_csv(folder / f"{day}.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def windows(shop: Path) -> tuple[Path, Path]:
    """Counts of the first three days, and of the last three."""
    first, moved = shop / "first.parquet", shop / "moved.parquet"
    logs = [shop / f"{day}.csv" for day in DAYS]
    assert epiclick("count", *logs[:3], *COLUMNS, "--out", first).code == 0
    done = epiclick("count", first, logs[3], "--last", 3, "--out", moved)
    assert done.code == 0, done.err
    assert "read as the counts were: columns doc_id=sku, position_base 0, part day" in done.err
    return first, moved


def test_a_window_slides_byte_for_byte(shop: Path, windows: tuple[Path, Path]) -> None:
    whole = shop / "whole.parquet"
    logs = [shop / f"{day}.csv" for day in DAYS]
    assert epiclick("count", *logs[1:], *COLUMNS, "--out", whole).code == 0
    assert windows[1].read_bytes() == whole.read_bytes()
    done = epiclick("count", windows[1], "--last", 1, "--json")
    assert (done.record["pages"], done.record["displays"]) == (400, 1200)


@pytest.fixture(scope="module")
def models(shop: Path, windows: tuple[Path, Path]) -> tuple[Path, Path]:
    """A model of the first window, and one of the next that starts from it."""
    old, new = shop / "old", shop / "new"
    assert epiclick("fit", windows[0], "--out", old).code == 0
    done = epiclick("fit", windows[1], "--init", old, "--out", new)
    assert done.code == 0, done.err
    return new, old


def test_a_warm_start_leads_where_a_cold_one_does(
    shop: Path, windows: tuple[Path, Path], models: tuple[Path, Path]
) -> None:
    assert epiclick("fit", windows[1], "--out", shop / "cold").code == 0
    bias = [load(path).position_bias() for path in (models[0], shop / "cold")]
    pd.testing.assert_frame_equal(*bias, rtol=1e-3)
    assert not np.allclose(bias[0]["mean"], load(models[1]).position_bias()["mean"], rtol=1e-3)


def test_drift_is_printed_and_written(models: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "drift.parquet"
    done = epiclick("drift", *models, "--overlap", "2/3", "--out", out)
    assert done.code == 0, done.err
    assert "66.7% of the new log's displays" in " ".join(done.out.split())
    record = epiclick("drift", *models, "--overlap", "2/3", "--json").record
    assert list(record) == [
        *("schema_version", "position_bias", "p_value", "items", "changed_items"),
        *("assumption", "warnings"),
    ]
    table = pd.read_parquet(out)
    bias = table[table["quantity"] == "position_bias"]
    assert bias["difference"].tolist() == [row["difference"] for row in record["position_bias"]]
    assert record["position_bias"][0]["p_value"] is None
    assert len(table) == len(bias) + record["items"]
    common = {*read_pairs(models[0])} & {*read_pairs(models[1])}
    assert record["items"] == len(common)
    # logs without common displays are the default, and differ by more by chance
    apart = epiclick("drift", *models, "--json").record["position_bias"][1]
    assert apart["standard_error"] > 1.5 * record["position_bias"][1]["standard_error"]


def read_pairs(model: Path) -> list[tuple[str, int]]:
    items = load(model).relevance()
    return list(zip(items["query_id"], items["doc_id"], strict=True))


def test_the_report_says_what_changed(models: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    new, old = models
    done = epiclick("report", new, "--previous", old, "--overlap", "2/3", "--out", out)
    assert done.code == 0, done.err
    page = out.read_text(encoding="utf-8")
    assert 'id="chart-drift"' in page
    assert "since old: p = " in page
    assert "66.7% of the new log" in page


@pytest.mark.parametrize(
    ("arguments", "words", "error_code"),
    [
        (["--overlap", "most"], "such as 0.1% or 0.001", "not-a-number"),
        (["--overlap", "1/0"], "such as 27/28", "not-a-number"),
        (["--overlap", "1.5"], "a share from 0 to 1", "invalid-overlap"),
        (["--out", "drift.csv"], "name a .parquet file", "wrong-suffix"),
        (["--level", "90"], "level", None),
    ],
)
def test_drift_refuses_bad_options(
    arguments: list[str], words: str, error_code: str | None, models: tuple[Path, Path]
) -> None:
    epiclick("drift", *models, *arguments).assert_refused(words, error_code)


@pytest.mark.parametrize(
    ("given", "other"),
    [
        (["--overlap", "-1"], "--previous"),
        (["--overlap", "1/2"], "--previous"),
        (["--depth", "0"], "--ranking"),
    ],
)
def test_a_report_refuses_options_without_effect(
    given: list[str], other: str, models: tuple[Path, Path], tmp_path: Path
) -> None:
    done = epiclick("report", models[0], *given, "--out", tmp_path / "report.html")
    done.assert_refused(f"without {other}", "option-needs-another")


def test_windows_that_make_no_sense_are_refused(windows: tuple[Path, Path]) -> None:
    epiclick("count", windows[0], "--last", 0).assert_refused("1 or more", "invalid-last")
