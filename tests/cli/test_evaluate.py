"""`epiclick evaluate`, as a program or a person would call it."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epiclick import World, load, read_log
from epiclick.cli.evaluate import print_by
from epiclick.fitted.parameters import parameter_draws, without_uncertainty

from ..before_clicks import before_clicks
from .conftest import Done, epiclick, fitted

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def expected(world: Path, marginal: tuple[Path, Done]) -> pd.DataFrame:
    """Every display of the late pages with its probability, averaged over the model's draws."""
    model = load(marginal[0])
    uncertain, features = model.fitted_, world / "features.parquet"
    log = pd.read_parquet(world / "late.parquet")
    counts = read_log(world / "late.parquet", features=features)
    draws = parameter_draws(uncertain)
    log["p"] = 0.0
    for draw in draws:
        model.fitted_ = without_uncertainty(replace(uncertain, parameters=draw))
        items = log.merge(before_clicks(model.fitted_, counts), how="left")
        bias = model.position_bias().set_index("position")["mean"]
        log["p"] += log["position"].map(bias) * items["mean"].to_numpy() / len(draws)
    log["score"] = np.log(np.where(log["click"], log["p"], 1 - log["p"]))
    return log


@pytest.fixture(scope="session")
def evaluated(world: Path, marginal: tuple[Path, Done], pointwise: tuple[Path, Done]) -> Done:
    return epiclick(
        *("evaluate", marginal[0], world / "late.parquet"),
        *("--features", world / "features.parquet", "--train", world / "early.parquet"),
        *("--against", pointwise[0], "--by", "device", "--json"),
    )


def test_json_has_the_documented_keys(evaluated: Done, pointwise: tuple[Path, Done]) -> None:
    record = evaluated.record
    assert set(record) == {
        "schema_version",
        "log_likelihood",
        "perplexity",
        "by_position",
        "chi2_per_df",
        "by_queries",
        "baselines",
        "backtest",
        "against",
        "by",
        "coverage",
        "warnings",
    }
    assert {"display", "pair", "page"} <= set(record["log_likelihood"])
    assert set(record["baselines"]) == {"overall", "by_context", "by_document"}
    assert set(record["against"]) == {str(pointwise[0])}
    assert record["warnings"] == []


def test_likelihoods_are_those_of_every_single_display(
    evaluated: Done, expected: pd.DataFrame
) -> None:
    record = evaluated.record
    scores = record["log_likelihood"]
    assert scores["display"] == pytest.approx(expected["score"].mean(), rel=1e-6)
    by_page = expected.groupby("page_id")["score"].mean()
    assert scores["page"] == pytest.approx(by_page.mean(), rel=1e-6)
    by_position = expected.groupby("position")
    perplexity = 2 ** -(by_position["score"].mean() / np.log(2))
    assert record["perplexity"] == pytest.approx(perplexity.mean(), rel=1e-6)
    rows = pd.DataFrame(record["by_position"]).set_index("position")
    assert rows["displays"].to_dict() == by_position.size().to_dict()
    assert rows["observed"].to_dict() == pytest.approx(by_position["click"].mean().to_dict())
    assert rows["predicted"].to_dict() == pytest.approx(by_position["p"].mean().to_dict(), rel=1e-6)


def test_a_column_tells_scores_apart(evaluated: Done, expected: pd.DataFrame) -> None:
    rows = pd.DataFrame(evaluated.record["by"]).set_index("device")
    groups = expected.groupby("device")
    assert list(rows.index) == ["desk", "phone"]
    assert rows["displays"].to_dict() == groups.size().to_dict()
    assert rows["clicks"].to_dict() == groups["click"].sum().to_dict()
    assert rows["observed"].to_dict() == pytest.approx(groups["click"].mean().to_dict())
    assert rows["predicted"].to_dict() == pytest.approx(groups["p"].mean().to_dict(), rel=1e-6)
    assert rows["log_likelihood"].to_dict() == pytest.approx(
        groups["score"].mean().to_dict(), rel=1e-6
    )


@pytest.fixture(scope="session")
def by_several(world: Path, marginal: tuple[Path, Done], cli_folder: Path) -> tuple[Path, Done]:
    """The late pages with columns of whole pages and one of items, to score by all of them."""
    log = pd.read_parquet(world / "late.parquet")
    log["variant"] = np.where(log["page_id"] % 2 == 0, "new", "old")
    log["day"] = pd.Timestamp("2026-03-01") + pd.to_timedelta(log["page_id"] % 3, "D")
    log["shelf"] = log["doc_id"] % 4
    log.to_parquet(cli_folder / "several.parquet")
    given = ["--features", world / "features.parquet", "--by", "variant, device,day,shelf,position"]
    done = epiclick("evaluate", marginal[0], cli_folder / "several.parquet", *given, "--json")
    return cli_folder / "several.parquet", done


def test_each_of_several_columns_is_told_apart(
    by_several: tuple[Path, Done], expected: pd.DataFrame, evaluated: Done
) -> None:
    log = pd.read_parquet(by_several[0]).merge(
        expected[["page_id", "doc_id", "p", "score"]], validate="1:1"
    )
    log["day"] = log["day"].dt.date.astype(str)
    rows = pd.DataFrame(by_several[1].record["by"])
    assert list(rows["column"].unique()) == ["variant", "device", "day", "shelf", "position"]
    for column, part in rows.groupby("column"):
        groups = log.groupby(column)
        part = part.set_index("value")
        assert list(part.index) == list(part[column]) == sorted(log[column].unique())
        for name, values in {
            "displays": groups.size(),
            "clicks": groups["click"].sum(),
            "observed": groups["click"].mean(),
            "predicted": groups["p"].mean(),
            "log_likelihood": groups["score"].mean(),
            "ratio": groups["click"].sum() / groups["p"].sum(),
        }.items():
            assert part[name].to_dict() == pytest.approx(values.to_dict(), rel=1e-6), name
        if column == "position":
            assert set(part["per"]) == {"display"}
            assert part["pages"].isna().all()
            continue
        pages = groups["page_id"].nunique()
        assert part["pages"].to_dict() == pages.to_dict()
        of_page = {"observed_per_page": groups["click"], "predicted_per_page": groups["p"]}
        for name, clicks in of_page.items():
            values = clicks.sum() / pages
            assert part[name].to_dict() == pytest.approx(values.to_dict(), rel=1e-6), name
    # one column says of itself what it says beside others
    alone = pd.DataFrame(evaluated.record["by"])
    both = rows[rows["column"] == "device"].reset_index(drop=True)[alone.columns]
    pd.testing.assert_frame_equal(both, alone, check_dtype=False)


def test_the_whole_log_is_backtested(evaluated: Done, expected: pd.DataFrame) -> None:
    test = evaluated.record["backtest"]
    pages = expected["page_id"].nunique()
    assert test["pages"] == pages
    assert test["clicks"] == expected["click"].sum()
    assert test["observed_per_page"] == pytest.approx(expected["click"].sum() / pages)
    assert test["predicted_per_page"] == pytest.approx(expected["p"].sum() / pages, rel=1e-6)
    assert test["low"] < test["predicted_per_page"] < test["high"]
    assert test["inside"] == (test["low"] <= test["observed_per_page"] <= test["high"])
    assert test["words"].startswith("predicted ")


def test_a_context_tells_scores_apart_too(
    world: Path, marginal: tuple[Path, Done], evaluated: Done
) -> None:
    given = ["--features", world / "features.parquet", "--by", "position", "--json"]
    record = epiclick("evaluate", marginal[0], world / "late.parquet", *given).record
    for row, same in zip(record["by"], record["by_position"], strict=True):
        assert {name: row[name] for name in ("position", "displays", "clicks")} == {
            name: same[name] for name in ("position", "displays", "clicks")
        }
        assert row["log_likelihood"] == pytest.approx(-np.log(same["perplexity"]))
    # telling apart changes no other score
    for name in ("log_likelihood", "perplexity", "by_position", "chi2_per_df"):
        assert record[name] == evaluated.record[name]


def test_values_outside_are_marked_by_how_far(capsys: pytest.CaptureFixture[str]) -> None:
    grades = ["inside"] * 14 + ["just outside"] * 3 + ["far outside"] * 2 + [None]
    rows = [
        {
            **{"value": f"day {i}", "displays": 100, "clicks": 20, "per": "page", "level": 0.9},
            **{"observed_per_page": 0.2, "predicted_per_page": 0.2, "ratio": 1.0},
            **{"ratio_low": 0.9, "ratio_high": 1.1, "grade": grade},
        }
        for i, grade in enumerate(grades)
    ]
    print_by("day", rows)
    said = capsys.readouterr().out
    assert len(re.findall(r"\(0\.90 to 1\.10\)\* ", said)) == 3
    assert len(re.findall(r"\(0\.90 to 1\.10\)\*\* ", said)) == 2
    words = " ".join(said.split())
    # of 19 graded: 9 and 1 in a hundred
    assert "* 1 is just outside the 90% interval: 3 of 19 values; 1.7 expected by chance." in words
    assert "** 1 is far outside it, beyond the 99% interval: 2 of 19 values; 0.2 expected" in words
    print_by("day", rows[:14])
    assert "by chance" not in capsys.readouterr().out


def test_queries_are_told_apart_by_what_the_model_saw(
    world: Path, evaluated: Done, expected: pd.DataFrame
) -> None:
    seen = set(pd.read_parquet(world / "early.parquet")["query_id"])
    shares = evaluated.record["by_queries"]
    displays = {
        name: sum(row["displays"] for row in part["by_position"]) for name, part in shares.items()
    }
    assert displays["new"] == (~expected["query_id"].isin(seen)).sum() > 0
    assert displays["train"] + displays["held-out"] == expected["query_id"].isin(seen).sum()
    new = expected[~expected["query_id"].isin(seen)]["score"].mean()
    assert shares["new"]["log_likelihood"]["display"] == pytest.approx(new, rel=1e-6)


def test_a_rival_scores_as_when_asked_itself(
    world: Path, pointwise: tuple[Path, Done], evaluated: Done
) -> None:
    given = [world / "late.parquet", "--features", world / "features.parquet", "--json"]
    own = epiclick("evaluate", pointwise[0], *given).record
    rival = evaluated.record["against"][str(pointwise[0])]
    for name in ("log_likelihood", "perplexity", "by_position", "by_queries"):
        assert rival[name] == own[name]


def test_people_get_tables(
    world: Path,
    marginal: tuple[Path, Done],
    without_features: tuple[Path, Done],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(world.parent)
    given = ["--features", world / "features.parquet", "--by", "device"]
    done = epiclick(
        *("evaluate", "marginal", world / "late.parquet", *given),
        *("--against", "without_features", "--train", world / "early.parquet"),
    )
    assert done.code == 0, done.err
    for words in (
        "Log-likelihood per display, pair and page; perplexity",
        "│               marginal │",
        "│       without_features │",
        "click rate by document",
        "By whether the model was trained on the query",
        "Observed and predicted click rate by position",
        "Backtest: predicted ",
        "By device: clicks per page",
        "phone",
        "observed/predicted",
    ):
        assert words in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_counted_logs_have_no_page_scores(
    world: Path, without_features: tuple[Path, Done], tmp_path: Path
) -> None:
    counts = tmp_path / "counts.parquet"
    assert epiclick("count", world / "late.parquet", "--out", counts).code == 0
    record = epiclick("evaluate", without_features[0], counts, "--json").record
    of_log = epiclick("evaluate", without_features[0], world / "late.parquet", "--json").record
    assert record["log_likelihood"]["page"] is None
    assert of_log["log_likelihood"]["page"] is not None
    assert record["log_likelihood"]["display"] == of_log["log_likelihood"]["display"]
    assert record["by"] is None
    pages = pd.read_parquet(world / "late.parquet")["page_id"].nunique()
    assert record["backtest"]["pages"] == pages
    assert record["backtest"] == of_log["backtest"]
    table = pd.read_parquet(counts)  # as anybody else's counts, whose pages nobody knows
    table.to_csv(tmp_path / "counts.csv", index=False)
    test = epiclick("evaluate", without_features[0], tmp_path / "counts.csv", "--json").record[
        "backtest"
    ]
    assert (test["pages"], test["observed_per_page"], test["per"]) == (None, None, "display")
    assert "clicks per display" in test["words"]


def test_an_unknown_context_is_named_with_what_is_predicted(
    world: Path, marginal: tuple[Path, Done], tmp_path: Path
) -> None:
    log = pd.read_parquet(world / "late.parquet")
    log["position"] = log["position"].replace(3, 7)
    log.to_parquet(tmp_path / "log.parquet")
    given = ["evaluate", marginal[0], tmp_path / "log.parquet"]
    given += ["--features", world / "features.parquet"]
    done = epiclick(*given)
    assert done.code == 0
    assert done.err.count("epiclick: warning: ") == 1
    assert "no position bias for position 7: the mean bias" in done.err
    assert epiclick(*given, "--quiet").err == ""
    as_json = epiclick(*given, "--json")
    assert as_json.err == ""
    assert len(as_json.record["warnings"]) == 1


@pytest.mark.parametrize(
    ("arguments", "words", "error_code"),
    [
        (["LOG"], "--features", "features-needed"),
        (["nowhere.csv", "--features", "FEATURES"], "nowhere.csv", "file-missing"),
        (["LOG", "--features", "few.parquet"], "--missing-features drop", "missing-features"),
        (
            ["LOG", "--features", "narrow.parquet"],
            "The table has 3 features",
            "missing-feature-columns",
        ),
        (
            ["LOG", "--features", "FEATURES", "--by", "devise"],
            "did you mean 'device'?",
            "unknown-column",
        ),
        (
            ["LOG", "--features", "FEATURES", "--by", "device,devise"],
            "mean 'device'?",
            "unknown-column",
        ),
        (["LOG", "--features", "FEATURES", "--by", "device,device"], "'device'", "repeated-column"),
        (["LOG", "--features", "FEATURES", "--by", "query_id"], "--by query_id", "reserved-column"),
        (
            ["LOG", "--features", "FEATURES", "--against", "nowhere"],
            "no model nowhere",
            "file-missing",
        ),
        (
            ["LOG", "--features", "FEATURES", "--context", "device,position"],
            "device",
            "context-mismatch",
        ),
        (
            ["LOG", "--features", "FEATURES", "--where", "position >"],
            "SQL condition",
            "invalid-condition",
        ),
    ],
)
def test_bad_input_gives_code_2_and_one_message(
    arguments: list[str],
    words: str,
    error_code: str | None,
    world: Path,
    marginal: tuple[Path, Done],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features = pd.read_parquet(world / "features.parquet")
    features[features["query_id"] < 50].to_parquet(tmp_path / "few.parquet")
    features.drop(columns="f3").to_parquet(tmp_path / "narrow.parquet")
    monkeypatch.chdir(tmp_path)
    own = {"LOG": world / "late.parquet", "FEATURES": world / "features.parquet"}
    done = epiclick("evaluate", marginal[0], *(own.get(each, each) for each in arguments))
    done.assert_refused(words, error_code)


def test_pairs_without_features_can_be_left_out(
    world: Path, marginal: tuple[Path, Done], expected: pd.DataFrame, tmp_path: Path
) -> None:
    features = pd.read_parquet(world / "features.parquet")
    features[features["query_id"] < 50].to_parquet(tmp_path / "few.parquet")
    given = ["--features", tmp_path / "few.parquet", "--missing-features", "drop", "--json"]
    given += ["--by", "device"]
    record = epiclick("evaluate", marginal[0], world / "late.parquet", *given).record
    kept = expected[expected["query_id"] < 50]
    assert record["log_likelihood"]["display"] == pytest.approx(kept["score"].mean(), rel=1e-6)
    assert "have no features and were left out" in record["warnings"][0]
    rows = pd.DataFrame(record["by"]).set_index("device")
    assert rows["clicks"].to_dict() == kept.groupby("device")["click"].sum().to_dict()
    assert record["backtest"]["clicks"] == kept["click"].sum()
    # what is left of pages are no whole pages
    assert record["backtest"]["per"] == "display"
    assert set(rows["per"]) == {"display"}


def test_contexts_of_several_columns(world: Path) -> None:
    model, fit = fitted(world, "by_device", "--context", "device,position", "--anchor", "phone,1")
    rows = fit.record["position_bias"]
    assert [(row["device"], row["position"]) for row in rows if row["mean"] == 1] == [("phone", 1)]
    record = epiclick("evaluate", model, world / "late.parquet", "--by", "device", "--json").record
    assert [(row["device"], row["position"]) for row in record["by_position"]] == [
        (device, position) for device in ("desk", "phone") for position in (1, 2, 3)
    ]
    by_device = pd.DataFrame(record["by_position"]).groupby("device")[["displays", "clicks"]].sum()
    assert by_device.reset_index().to_dict("records") == [
        {name: row[name] for name in ("device", "displays", "clicks")} for row in record["by"]
    ]


def held_by_hand(world: Path, model: Path, level: float) -> dict[str, tuple[int, int]]:
    """Values and how many are held, by tables that the library gives to users."""
    log = world / "late.parquet"
    fitted = load(model).set_params(level=level)
    counts = read_log(log, features=world / "features.parquet")
    items = fitted.posterior(counts).merge(pd.read_parquet(world / "relevance.parquet"))
    assert len(items) == len(counts)
    bias = fitted.position_bias()[1:]
    theta = 1 / bias["position"]
    return {
        "position_bias": (len(bias), int(theta.between(bias["low"], bias["high"]).sum())),
        "relevance": (
            len(items),
            int(items["relevance"].between(items["low"], items["high"]).sum()),
        ),
    }


def test_intervals_are_held_against_the_truth(
    world: Path, marginal: tuple[Path, Done], tmp_path: Path
) -> None:
    ask = ["evaluate", marginal[0], world / "late.parquet"]
    ask += ["--features", world / "features.parquet"]
    rows = epiclick(*ask, "--truth", world, "--json").record["coverage"]
    assert [(row["quantity"], row["level"]) for row in rows] == [
        *(("position_bias", 0.5), ("position_bias", 0.9), ("relevance", 0.5), ("relevance", 0.9)),
    ]
    for row in rows:
        by_hand = held_by_hand(world, marginal[0], row["level"])[row["quantity"]]
        assert (row["values"], row["held"]) == by_hand
        assert row["share"] == row["held"] / row["values"]
    said = " ".join(epiclick(*ask, "--truth", world).out.split())
    assert f"true relevances, 50% intervals contain {rows[2]['share']:.1%}" in said
    assert epiclick(*ask, "--json").record["coverage"] is None
    # another world's truth is not held
    other = tmp_path / "other"
    true = World.load(world)
    replace(true, relevance=true.relevance[::-1]).save(other)
    wrong = epiclick(*ask, "--truth", other, "--json").record["coverage"]
    assert wrong[3]["held"] < rows[3]["held"]


def test_truth_needs_a_world_and_a_model_with_intervals(
    world: Path, marginal: tuple[Path, Done], pointwise: tuple[Path, Done], tmp_path: Path
) -> None:
    log = [world / "late.parquet", "--features", world / "features.parquet"]
    done = epiclick("evaluate", marginal[0], *log, "--truth", tmp_path)
    done.assert_refused(str(tmp_path))
    done = epiclick("evaluate", pointwise[0], *log, "--truth", world)
    done.assert_refused("no intervals", "nothing-to-cover")
