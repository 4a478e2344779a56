"""A model of categories and missing values is the model of their columns, encoded by hand."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.raising import raises_code

import epiclick as ec
from epiclick.errors import InputWarning
from epiclick.fitted.metadata import describe, rebuild
from epiclick.fitted.validation import validate

FEW = {"epochs": 2, "hidden": (6,), "seed": 1}


@pytest.fixture(scope="module")
def world() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A log, and a table of features with categories and missing values."""
    made = ec.simulate(queries=60, docs=8, features=3, pages=800, positions=4, seed=2)
    keys = made.features.keys.select(["query_id", "doc_id"]).to_pandas()
    table = keys.assign(**dict(zip(made.features.names, made.features.matrix.T, strict=True)))
    rng = np.random.default_rng(0)
    table["brand"] = rng.choice(np.array(["acme", "zeta", None]), len(table))
    table.loc[rng.random(len(table)) < 0.2, "f1"] = np.nan
    return made.log.to_pandas(), table


@pytest.fixture(scope="module")
def model(world) -> ec.EpistemicPBM:
    log, table = world
    counts = ec.read_log(log, features=ec.read_features(table, missing_values="impute"))
    return ec.EpistemicPBM(**FEW).fit(counts, progress=False)


def by_hand(model: ec.EpistemicPBM, table: pd.DataFrame) -> pd.DataFrame:
    """The table with encoded columns; fill values are those the model has stored."""
    fill = model.fitted_.features.encoding.columns["f1"].fill
    made = table[["query_id", "doc_id", "f0"]].assign(f1=table["f1"].fillna(fill))
    made["f1 missing"] = table["f1"].isna().astype(float)
    made["f2"] = table["f2"]
    for value in ("acme", "zeta"):
        made[f"brand={value}"] = (table["brand"] == value).astype(float)
    made["brand missing"] = table["brand"].isna().astype(float)
    return made


@pytest.mark.slow
def test_relevance_is_that_of_columns_encoded_by_hand(world, model) -> None:
    log, table = world
    encoded = by_hand(model, table)
    other = ec.EpistemicPBM(**FEW).fit(ec.read_log(log, features=encoded), progress=False)
    assert other.fitted_.features.names == model.fitted_.features.names
    assert model.feature_names_in_.tolist() == ["f0", "f1", "f2", "brand"]
    pd.testing.assert_frame_equal(model.relevance(table), other.relevance(encoded))
    pd.testing.assert_frame_equal(model.position_bias(), other.position_bias())


def test_the_fill_value_is_that_of_the_training_pairs(world, model) -> None:
    log, table = world
    trained = log[log["query_id"].isin(model.fitted_.queries.train.to_pylist())]
    pairs = trained[["query_id", "doc_id"]].drop_duplicates().merge(table)
    x = pairs["f1"].dropna().to_numpy(np.float32).astype(float)
    mean = np.mean(np.sign(x) * np.log1p(np.abs(x)))
    expected = np.sign(mean) * np.expm1(abs(mean))
    assert model.fitted_.features.encoding.columns["f1"].fill == pytest.approx(expected)


def test_it_is_stored_and_new_tables_are_treated_alike(tmp_path: Path, world, model) -> None:
    _, table = world
    model.save(tmp_path / "model")
    again = ec.load(tmp_path / "model")
    new = table.sample(frac=1, random_state=0).reset_index(drop=True)
    new.loc[:4, "brand"] = "omega"
    with pytest.warns(InputWarning, match=r"brand: 5 of .* not in training \(omega\)"):
        found = again.relevance(new)
    blank = by_hand(model, new)
    assert (blank.loc[:4, ["brand=acme", "brand=zeta", "brand missing"]] == 0).all(axis=None)
    with pytest.warns(InputWarning):
        pd.testing.assert_frame_equal(model.relevance(new), found)
    unchanged = found.iloc[5:].reset_index(drop=True)
    whole = again.relevance(table).merge(unchanged[["query_id", "doc_id"]])
    both = unchanged.merge(whole, on=["query_id", "doc_id"])
    np.testing.assert_allclose(both["mean_x"], both["mean_y"], rtol=1e-6)


def test_a_damaged_encoding_is_refused(model) -> None:
    record = json.loads(json.dumps(describe(model.fitted_)))
    record["features"]["encoding"]["columns"][0]["marked"] = True
    fitted = model.fitted_
    damaged = rebuild(record, fitted.parameters, fitted.queries, None)
    with raises_code("shape-mismatch"):
        validate(damaged, "model", "Save it again.")


def test_a_model_continues_with_the_encoding_it_has(world, model) -> None:
    log, table = world
    later = table.assign(brand=table["brand"].replace("zeta", "acme"))
    counts = ec.read_log(log, features=ec.read_features(later, like=model))
    again = ec.EpistemicPBM(**FEW).fit(counts, init=model, progress=False)
    assert again.fitted_.features.encoding is model.fitted_.features.encoding


def test_exported_vectors_are_encoded(world, model) -> None:
    log, table = world
    data = model.to_lightgbm(ec.read_log(log), table)
    assert np.isfinite(data.X).all()
    assert data.feature_names == model.fitted_.features.names


def test_conversions_share_the_encoding_of_clicks(world) -> None:
    log, table = world
    rng = np.random.default_rng(4)
    log = log.assign(bought=log["click"] * (rng.random(len(log)) < 0.4))
    features = ec.read_features(table, missing_values="impute")
    counts = ec.read_log(log, features=features, conversion="bought")
    model = ec.EpistemicPBM(**FEW).fit(counts, progress=False)
    conversion = model.fitted_.conversion
    assert conversion.features.encoding is model.fitted_.features.encoding
