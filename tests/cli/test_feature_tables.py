"""Every verb with --features takes several tables, snapshots, categories and missing values."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import epiclick

import epiclick as ec

FEW = ("--epochs", 2, "--hidden", "6", "--seed", 1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two days, snapshots of items, a table of queries and one of pairs."""
    folder = tmp_path_factory.mktemp("tables")
    world = ec.simulate(queries=60, docs=8, features=4, pages=800, positions=4, seed=2)
    keys = world.features.keys.select(["query_id", "doc_id"]).to_pandas()
    table = keys.assign(**dict(zip(world.features.names, world.features.matrix.T, strict=True)))
    log = world.log.to_pandas()
    for each in (table, log):
        each["doc_id"] = [f"q{q}d{d}" for q, d in zip(each.query_id, each.doc_id, strict=True)]
    log.assign(day="2026-10-02").to_parquet(folder / "log.parquet")
    rng = np.random.default_rng(0)
    items = table[["doc_id", "f0"]].assign(brand=rng.choice(["acme", "zeta"], len(table)))
    items["title"] = "the " + items["doc_id"]
    items.loc[rng.random(len(items)) < 0.1, "f0"] = np.nan
    days = [
        items.assign(day=day, ctr=rng.random(len(items))) for day in ("2026-10-01", "2026-10-03")
    ]
    pd.concat(days).to_csv(folder / "items.csv", index=False)
    words = pd.DataFrame({"query": table["query_id"].unique()}).assign(words=lambda t: t.index % 7)
    words.to_parquet(folder / "queries.parquet")
    table[["query_id", "doc_id", "f1", "f2"]].to_parquet(folder / "pairs.parquet")
    for name in ("f1", "f3"):
        table[["query_id", "doc_id"]].assign(score=table[name]).to_parquet(
            folder / f"{name}.parquet"
        )
    return folder


def tables(data: Path, *names: str) -> list[object]:
    names = names or ("items.csv", "queries.parquet", "pairs.parquet")
    return [word for name in names for word in ("--features", data / name)]


HOW = ("--features-as-of", "2026-10-01", "--missing-values", "impute", "--ignore-feature", "title")


@pytest.fixture(scope="module")
def model(data: Path) -> Path:
    done = epiclick("fit", data / "log.parquet", *tables(data), *HOW, *FEW, "--out", data / "model")
    assert done.code == 0, done.err
    assert "snapshots of 2026-10-01 are used (day)" in done.err
    assert "f0 " in done.err
    assert "the log begins on" not in done.err
    return data / "model"


@pytest.mark.slow
def test_each_choice_that_is_needed_is_asked_for(data: Path, tmp_path: Path) -> None:
    fit = ("fit", data / "log.parquet", *tables(data), "--out", tmp_path / "model")
    done = epiclick(*fit)
    done.assert_refused("--features-as-of DAY", "snapshots-need-a-day")
    assert "--ignore-feature title" in done.err  # all problems at once
    epiclick(*fit, *HOW[:2]).assert_refused("--max-categories", "too-many-categories")
    left_out = (*HOW[:2], *HOW[4:])
    epiclick(*fit, *left_out).assert_refused("--missing-values impute", "feature-not-finite")
    epiclick(
        "fit", data / "log.parquet", "--max-categories", 9, "--out", tmp_path / "m"
    ).assert_refused("--features", "option-does-not-apply")


@pytest.mark.slow
def test_a_later_snapshot_is_reported(data: Path, model: Path) -> None:
    how = ("--features-as-of", "latest")
    done = epiclick("evaluate", model, data / "log.parquet", *tables(data), *how, "--json")
    assert any("the log begins on 2026-10-02" in w for w in done.record["warnings"])


@pytest.mark.slow
def test_all_verbs_read_the_tables_as_the_model_does(
    data: Path, model: Path, tmp_path: Path
) -> None:
    given = (*tables(data), *HOW[:2])  # the rest is the model's
    log = data / "log.parquet"
    rankings = ("--ranking", data / "f1.parquet", "--ranking", data / "f3.parquet", "--depth", 4)
    relevance = epiclick("relevance", model, *given, "--out", tmp_path / "r.parquet", "--json")
    assert relevance.record == {
        "schema_version": 1,
        "rows": len(pd.read_parquet(data / "pairs.parquet")),
        "warnings": [],
    }
    assert epiclick("evaluate", model, log, *given, "--json").record["warnings"] == []
    compared = epiclick("compare", model, *given, *rankings, "--clicks", log, "--json")
    assert len(compared.record["rankers"]) == 2
    planned = epiclick("plan", model, *given, *rankings, "--clicks", log, "--json")
    assert planned.code == 0, planned.err
    page = tmp_path / "report.html"
    reported = epiclick("report", model, log, *given, "--out", page)
    assert reported.code == 0, reported.err
    exported = ("--to", "lightgbm", "--out", tmp_path / "train.parquet")
    assert epiclick("export", model, *given, *exported, "--clicks", log).code == 0
    assert "brand=acme" in pd.read_parquet(tmp_path / "train.parquet").columns
    selected = epiclick("select", log, *tables(data), *HOW, "--models", "pbm,cascade", "--json")
    assert selected.code == 0, selected.err


@pytest.mark.slow
def test_tables_of_items_alone_take_candidates_from_log_and_rankings(
    data: Path, tmp_path: Path
) -> None:
    log, model = data / "log.parquet", tmp_path / "model"
    given = (*tables(data, "items.csv", "queries.parquet"), *HOW[:2])
    fitted = epiclick("fit", log, *given, *HOW[2:], *FEW, "--out", model, "--json")
    assert any("that the log and the rankings show" in w for w in fitted.record["warnings"])
    rankings = ("--ranking", data / "f1.parquet", "--ranking", data / "f3.parquet", "--depth", 4)
    done = epiclick("compare", model, *given, *rankings, "--clicks", log, "--json")
    assert not any("have no features" in note for note in done.record["notes"])
    out = ("--out", tmp_path / "r.parquet")
    epiclick("relevance", model, *given, *out).assert_refused(
        "query_id and doc_id", "candidates-needed"
    )
    pairs = pd.read_parquet(data / "pairs.parquet")[["query_id", "doc_id"]]
    pairs.to_csv(tmp_path / "candidates.csv", index=False)
    given = (*given, "--features", tmp_path / "candidates.csv")
    assert epiclick("relevance", model, *given, *out, "--json").record["rows"] == len(pairs)
