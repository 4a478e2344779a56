"""Conversions on the command line: simulate, count, fit, relevance, compare and report."""

from pathlib import Path

import pandas as pd
import pytest

from .conftest import Done, epiclick

pytestmark = pytest.mark.slow

READ = ["--conversion", "purchase", "--value", "revenue"]


@pytest.fixture(scope="module")
def shop(cli_folder: Path) -> Path:
    """A world with purchases, and two rankings."""
    folder = cli_folder / "shop"
    done = epiclick(
        *("simulate", "--out", folder, "--queries", 60, "--docs", 6, "--features", 3),
        *("--pages", 1500, "--positions", 3, "--relevance", "beta", "--conversions", "--json"),
    )
    assert 0 < done.record["purchases"] < done.record["clicks"]
    features = pd.read_parquet(folder / "features.parquet")
    for name in ("f0", "f1"):
        rows = features[["query_id", "doc_id"]].assign(score=features[name])
        rows.to_csv(cli_folder / f"{name}.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def model(shop: Path, cli_folder: Path) -> tuple[Path, Done]:
    out = cli_folder / "shop_model"
    return out, epiclick("fit", shop / "clicks.parquet", *READ, "--out", out, "--json")


@pytest.fixture
def rankers(cli_folder: Path, shop: Path) -> list[object]:
    both = [f"{name}={cli_folder / name}.csv" for name in ("f0", "f1")]
    pages = ["--clicks", shop / "clicks.parquet", "--depth", 3, "--samples", 300]
    return ["--ranking", both[0], "--ranking", both[1], *pages]


def test_a_world_has_the_truth_about_its_purchases(shop: Path) -> None:
    truth = pd.read_parquet(shop / "relevance.parquet")
    assert truth["conversion"].between(0, 1).all()
    assert (truth["value"] > 0).all()
    log = pd.read_parquet(shop / "clicks.parquet")
    assert (log["purchase"] <= log["click"]).all()
    assert ((log["revenue"] > 0) == (log["purchase"] == 1)).all()


def test_count_shows_conversions(shop: Path, cli_folder: Path) -> None:
    out = cli_folder / "shop_counts.parquet"
    found = epiclick("count", shop / "clicks.parquet", *READ, "--out", out, "--json").record
    log = pd.read_parquet(shop / "clicks.parquet")
    assert found["conversions"] == log["purchase"].sum()
    by_position = log.groupby("position")["purchase"].sum().tolist()
    assert [row["conversions"] for row in found["by_position"]] == by_position
    printed = epiclick("count", out)
    assert "conversions" in printed.out
    refit = epiclick("fit", out, "--out", cli_folder / "shop_again", "--json").record
    assert refit["conversion"]["conversions"] == found["conversions"]


def test_fit_reports_conversions_and_their_check(model: tuple[Path, Done]) -> None:
    found = model[1].record["conversion"]
    assert found["column"] == "purchase"
    assert set(found["position"]) >= {"z", "p", "odds_ratio", "low", "high", "violated"}
    assert any("not on the position" in text for text in model[1].record["words"])


def test_relevance_has_columns_of_conversions(
    model: tuple[Path, Done], shop: Path, tmp_path: Path
) -> None:
    out = tmp_path / "items.parquet"
    done = epiclick("relevance", model[0], "--clicks", shop / "clicks.parquet", "--out", out)
    assert done.code == 0, done.err
    assert "conversion purchase, value revenue" in done.err  # the model's options
    columns = ["conversion", "conversion_low", "conversion_high"]
    assert pd.read_parquet(out).columns[-3:].tolist() == columns


def test_compare_reports_every_measure(
    model: tuple[Path, Done], shop: Path, rankers: list[object]
) -> None:
    found = epiclick("compare", model[0], *rankers, "--truth", shop, "--json").record
    assert found["measure"] == "clicks"
    assert list(found["differences_by"]) == ["conversions", "value"]
    for row in found["rankers"]:
        assert row["conversions_low"] < row["conversions"] < row["conversions_high"]
        assert row["conversion_value_low"] < row["conversion_value"] < row["conversion_value_high"]
    assert found["differences_by"]["value"][0]["unit"] == "value"
    printed = epiclick("compare", model[0], *rankers, "--against", "f1")
    for title in ("Clicks per page", "Conversions per page", "Value per page"):
        assert title in printed.out


def test_compare_decides_by_the_measure_that_is_asked_for(
    model: tuple[Path, Done], shop: Path, rankers: list[object]
) -> None:
    both = epiclick("compare", model[0], *rankers, "--json").record["rankers"]
    decided = epiclick(
        "compare", model[0], *rankers, "--measure", "conversions", "--truth", shop, "--json"
    ).record
    assert [row["value"] for row in decided["rankers"]] == pytest.approx(
        [row["conversions"] for row in both], rel=0.05
    )
    assert "conversions" in decided["verdict"]
    assert all(0 < value < 1 for value in decided["true_values"].values())


def test_a_report_has_all_measures(
    model: tuple[Path, Done], shop: Path, rankers: list[object], tmp_path: Path
) -> None:
    shown = [each for each in rankers if each != "--clicks" and each != shop / "clicks.parquet"]
    shown = shown[: shown.index("--samples")]
    out = tmp_path / "report.html"
    done = epiclick("report", model[0], shop / "clicks.parquet", *shown, "--out", out)
    assert done.code == 0, done.err
    page = out.read_text()
    assert "conversions per page" in page
    assert "value per page" in page


def test_a_log_is_read_without_conversions_if_asked(
    model: tuple[Path, Done], shop: Path, rankers: list[object], tmp_path: Path
) -> None:
    bare = tmp_path / "bare.parquet"
    pd.read_parquet(shop / "clicks.parquet").drop(columns=["purchase", "revenue"]).to_parquet(bare)
    own = [bare if each == shop / "clicks.parquet" else each for each in rankers]
    epiclick("compare", model[0], *own).assert_refused("'purchase'", "unknown-column")
    without = epiclick("compare", model[0], *own, "--conversion", "none", "--json").record
    assert without["rankers"][0]["conversions"] > 0  # from what the model learned


def test_what_cannot_be_is_refused(shop: Path, cli_folder: Path, rankers: list[object]) -> None:
    log, out = shop / "clicks.parquet", cli_folder / "never"
    for given, words, code in (
        (["--value", "revenue"], "--conversion", "value-needs-conversion"),
        (["--conversion", "sale"], "'sale'", "unknown-column"),
        ([*READ, "--estimator", "exact"], "marginal", "conversions-need-marginal"),
    ):
        epiclick("fit", log, *given, "--out", out).assert_refused(words, code)
    plain = cli_folder / "shop_plain"
    assert epiclick("fit", log, "--out", plain).code == 0
    epiclick("compare", plain, *rankers, "--measure", "value").assert_refused(
        "--conversion COLUMN", "conversions-unknown"
    )
