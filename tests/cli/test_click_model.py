"""A click model other than the usual one, through the verbs."""

from pathlib import Path

import pandas as pd
import pytest

from .conftest import epiclick

pytestmark = pytest.mark.slow

WORLD = ["--queries", 40, "--docs", 6, "--features", 3, "--pages", 1500, "--positions", 3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world of users who look further after a click, and a model of them."""
    place = tmp_path_factory.mktemp("ubm")
    made = epiclick("simulate", "--out", place / "world", *WORLD, "--users", "ubm", "-q")
    assert made.code == 0, made.err
    table = pd.read_parquet(place / "world" / "features.parquet")
    for name, ascending in (("new", False), ("old", True)):
        ordered = table.sort_values(["query_id", "f0"], ascending=[True, ascending])
        ordered["position"] = ordered.groupby("query_id").cumcount() + 1
        ordered = ordered[ordered["position"] <= 3][["query_id", "doc_id", "position"]]
        ordered.to_parquet(place / f"{name}.parquet")
    log = place / "world" / "clicks.parquet"
    fitted = epiclick("fit", log, "--click-model", "ubm", "--out", place / "model", "--json")
    record = fitted.record
    assert record["click_model"] == "ubm"
    assert [(row["position"], row["last_click"]) for row in record["parameters"]] == [
        (1, 0),
        (2, 0),
        (2, 1),
        (3, 0),
        (3, 1),
        (3, 2),
    ]
    assert [row["position"] for row in record["position_bias"]] == [1, 2, 3]
    return place


def test_verbs_read_later_logs_as_the_model_does(folder: Path) -> None:
    model, log = folder / "model", folder / "world" / "clicks.parquet"
    bias = epiclick("position-bias", model, "--json").record
    assert len(bias["parameters"]) == 6
    scores = epiclick("evaluate", model, log, "--truth", folder / "world", "--json").record
    assert [row["position"] for row in scores["by_position"]] == [1, 2, 3]
    assert {each["quantity"] for each in scores["coverage"]} == {"position_bias", "relevance"}
    rankings = [f"--ranking={name}={folder / name}.parquet" for name in ("new", "old")]
    compared = epiclick("compare", model, *rankings, "--clicks", log, "--json").record
    assert [row["name"] for row in compared["rankers"]] == ["new", "old"]
    out = folder / "report.html"
    made = epiclick("report", model, log, "--out", out, "--truth", folder / "world", "-q")
    assert made.code == 0, made.err
    assert "Looked at, by position, last_click" in out.read_text()


def test_tables_for_people_show_examination_and_position_bias(folder: Path) -> None:
    printed = epiclick("position-bias", folder / "model").out
    assert "Examination, 90% intervals" in printed
    assert "last_click" in printed
    assert "Position bias, 90% intervals; relative to position 1" in printed


def test_counts_keep_the_history_that_a_model_needs(folder: Path) -> None:
    log, counts = folder / "world" / "clicks.parquet", folder / "counts.parquet"
    made = epiclick("count", log, "--click-model", "ubm", "--out", counts, "--json").record
    assert [row["position"] for row in made["by_position"]] == [1, 2, 3]
    assert "last_click" in pd.read_parquet(counts).columns
    scored = epiclick("evaluate", folder / "model", counts, "--json")
    assert scored.code == 0, scored.err


@pytest.mark.parametrize(
    ("options", "words", "error_code"),
    [
        (["--click-model", "umb"], "--click-model", "unknown-click-model"),
        (["--click-model", "umb"], "(did you mean 'ubm'?)", "unknown-click-model"),
        (
            ["--click-model", "ubm", "--estimator", "pointwise"],
            "--estimator pointwise needs --click-model pbm",
            "option-does-not-apply",
        ),
    ],
)
def test_what_cannot_be_fitted_is_refused_at_once(
    options: list[str], words: str, error_code: str | None, folder: Path
) -> None:
    done = epiclick("fit", "no-such-log.csv", *options, "--out", folder / "none")
    done.assert_refused(words, error_code)


def test_a_log_without_pages_is_refused_in_one_message(folder: Path, tmp_path: Path) -> None:
    log = pd.read_parquet(folder / "world" / "clicks.parquet").drop(columns="page_id")
    log.to_csv(tmp_path / "log.csv", index=False)
    done = epiclick("fit", tmp_path / "log.csv", "--click-model", "ubm", "--out", tmp_path / "m")
    done.assert_refused("--column page_id=NAME", "missing-column")


def test_continuation_is_shown_beside_how_far_users_read(tmp_path: Path) -> None:
    world, model = tmp_path / "world", tmp_path / "model"
    assert epiclick("simulate", "--out", world, *WORLD, "--users", "dcm", "-q").code == 0
    fitted = epiclick("fit", world / "clicks.parquet", "--click-model", "dcm", "--out", model)
    assert fitted.code == 0, fitted.err
    printed = epiclick("position-bias", model).out
    assert "Continuation, 90% intervals" in printed
    assert "Position bias, 90% intervals; relative to position 1" in printed


def test_users_who_stop_when_satisfied_through_the_verbs(tmp_path: Path) -> None:
    world, model = tmp_path / "world", tmp_path / "model"
    made = epiclick("simulate", "--out", world, *WORLD, "--users", "sdbn", "-q")
    assert made.code == 0, made.err
    log, features = world / "clicks.parquet", world / "features.parquet"
    fitted = epiclick("fit", log, "--click-model", "sdbn", "--out", model, "--json").record
    assert fitted["click_model"] == "sdbn"
    bias = [row["mean"] for row in fitted["position_bias"]]
    assert bias[0] == 1
    assert bias == sorted(bias, reverse=True)
    scores = epiclick("evaluate", model, log, "--truth", world, "--json").record
    assert scores["log_likelihood"]["page"] == pytest.approx(scores["log_likelihood"]["display"])
    out = tmp_path / "items.parquet"
    assert epiclick("relevance", model, "--clicks", log, "--out", out, "-q").code == 0
    items = pd.read_parquet(out)
    assert items["satisfaction"].between(0, 1).all()
    assert (items["satisfaction_low"] <= items["satisfaction_high"]).all()
    rankings = [f"--ranking=f{i}={features}:f{i}" for i in (0, 1)]
    compared = epiclick("compare", model, *rankings, "--clicks", log, "--depth", 3, "--json").record
    assert all(row["low"] < row["value"] < row["high"] for row in compared["rankers"])
    page = tmp_path / "report.html"
    made = epiclick("report", model, log, "--out", page, "--truth", world, "-q")
    assert made.code == 0, made.err
    without = pd.read_parquet(log).drop(columns="page_id")
    without.to_parquet(tmp_path / "without.parquet")
    refused = epiclick(
        "fit", tmp_path / "without.parquet", "--click-model", "sdbn", "--out", tmp_path / "other"
    )
    assert refused.code == 2
    assert refused.error_code == "missing-column"


def test_the_trust_model_shows_both_probabilities(tmp_path: Path) -> None:
    world, model = tmp_path / "world", tmp_path / "model"
    assert epiclick("simulate", "--out", world, *WORLD, "--users", "trust", "-q").code == 0
    log = world / "clicks.parquet"
    fitted = epiclick("fit", log, "--click-model", "trust", "--out", model, "--json").record
    assert fitted["click_model"] == "trust"
    assert {"attractive", "unattractive", "offset", "rests_on_prior"} <= set(
        fitted["parameters"][0]
    )
    assert len(epiclick("position-bias", model, "--json").record["parameters"]) == 3
    printed = epiclick("position-bias", model).out
    assert "unattractive" in printed
    assert "Position bias (slope of clicks in relevance)" in printed
    scores = epiclick("evaluate", model, log, "--truth", world, "--json").record
    assert {each["quantity"] for each in scores["coverage"]} == {"position_bias", "relevance"}
    out = tmp_path / "report.html"
    assert epiclick("report", model, log, "--out", out, "--truth", world, "-q").code == 0
    assert "also click results for their position alone" in out.read_text()
