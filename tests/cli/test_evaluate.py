"""`epiclick evaluate`, as a program or a person would call it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epiclick import load
from epiclick.models.uncertainty import parameter_draws, without_uncertainty

from .conftest import TRAINING, Done, epiclick, fitted


@pytest.fixture(scope="session")
def expected(world: Path, marginal: tuple[Path, Done]) -> pd.DataFrame:
    """Every display of the late pages with its probability, averaged over the model's draws."""
    model = load(marginal[0])
    uncertain, features = model.fitted_, pd.read_parquet(world / "features.parquet")
    log = pd.read_parquet(world / "late.parquet")
    draws = parameter_draws(uncertain)
    log["p"] = 0.0
    for draw in draws:
        model.fitted_ = without_uncertainty(replace(uncertain, parameters=draw))
        items = log.merge(model.relevance(features)[["query_id", "doc_id", "mean"]], how="left")
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
        "against",
        "by",
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
        "By what the model has seen of the queries",
        "Observed and predicted click rate by position",
        "By device",
        "phone",
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


def test_the_log_is_read_as_the_models_was_unless_told(world: Path, tmp_path: Path) -> None:
    log = pd.read_parquet(world / "early.parquet")
    test = log.assign(query_id=log["query_id"] + 1000, page_id=log["page_id"] + 10_000)
    log = pd.concat([log, test]).rename(columns={"position": "place"})
    log["place"] -= 1
    log.to_parquet(tmp_path / "log.parquet")
    options = ["--column", "position=place", "--position-base", 0, "--where", "query_id < 1000"]
    given = ["--out", tmp_path / "model", *TRAINING, *options]
    fit = epiclick("fit", tmp_path / "log.parquet", *given, "--json")
    assert fit.record["displays"] == 720
    same = epiclick("evaluate", tmp_path / "model", tmp_path / "log.parquet")
    assert "read as the model's own was" in same.err
    for words in ("columns position=place", "position_base 0", "where query_id < 1000"):
        assert words in same.err
    told = ["--column", "position=position", "--position-base", 1, "--where", "", "--json"]
    record = epiclick("evaluate", tmp_path / "model", world / "early.parquet", *told).record
    assert sum(row["displays"] for row in record["by_position"]) == 720


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["LOG"], "give those of the items with --features"),
        (["nowhere.csv", "--features", "FEATURES"], "no file at nowhere.csv"),
        (["LOG", "--features", "few.parquet"], "--missing-features drop"),
        (["LOG", "--features", "narrow.parquet"], "The table has 3 features"),
        (["LOG", "--features", "FEATURES", "--by", "devise"], "did you mean 'device'?"),
        (["LOG", "--features", "FEATURES", "--by", "query_id"], "--by query_id"),
        (["LOG", "--features", "FEATURES", "--against", "nowhere"], "no model nowhere"),
        (["LOG", "--features", "FEATURES", "--context", "device,position"], "knows contexts by"),
        (["LOG", "--features", "FEATURES", "--where", "position >"], "not an SQL condition"),
    ],
)
def test_bad_input_gives_code_2_and_one_message(
    arguments: list[str],
    words: str,
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
    assert done.code == 2
    assert words in done.err
    assert done.out == ""
    assert "Traceback" not in done.err


def test_pairs_without_features_can_be_left_out(
    world: Path, marginal: tuple[Path, Done], expected: pd.DataFrame, tmp_path: Path
) -> None:
    features = pd.read_parquet(world / "features.parquet")
    features[features["query_id"] < 50].to_parquet(tmp_path / "few.parquet")
    given = ["--features", tmp_path / "few.parquet", "--missing-features", "drop", "--json"]
    record = epiclick("evaluate", marginal[0], world / "late.parquet", *given).record
    kept = expected[expected["query_id"] < 50]
    assert record["log_likelihood"]["display"] == pytest.approx(kept["score"].mean(), rel=1e-6)
    assert "have no features and were left out" in record["warnings"][0]


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
