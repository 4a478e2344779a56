"""Categories and missing values: read as they are, encoded as pandas would."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.raising import raises_code

from epiclick.data.feature_encoding import Category, FeatureEncoding, Number
from epiclick.data.features import FeatureTable, read_features
from epiclick.errors import InputError, InputWarning


def frame(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """Numbers with holes, and text with holes."""
    rng = np.random.default_rng(seed)
    price = np.exp(rng.normal(size=rows)) * rng.choice([-1, 1], rows)
    return pd.DataFrame(
        {
            "query_id": np.arange(rows) // 5,
            "doc_id": [f"d{i % 5}" for i in range(rows)],
            "bm25": rng.normal(size=rows),
            "price": np.where(rng.random(rows) < 0.2, np.nan, price),
            "brand": rng.choice(np.array(["acme", "zeta", "kilo", None]), rows),
        }
    )


def log_mean(values: pd.Series) -> float:
    """The mean on the scale of the signed logarithm, by hand."""
    mean = np.mean([np.sign(v) * np.log(1 + abs(v)) for v in values.dropna()])
    return float(np.sign(mean) * (np.exp(abs(mean)) - 1))


def by_pandas(table: pd.DataFrame, fill: float) -> pd.DataFrame:
    """The encoded columns, by pandas."""
    encoded = pd.DataFrame({"bm25": table["bm25"], "price": table["price"].fillna(fill)})
    encoded["price missing"] = table["price"].isna()
    for value in ("acme", "kilo", "zeta"):
        encoded[f"brand={value}"] = table["brand"] == value
    encoded["brand missing"] = table["brand"].isna()
    return encoded.astype(np.float32)


def encoded_like(table: FeatureTable, rows: np.ndarray) -> tuple[FeatureTable, FeatureEncoding]:
    encoding = table.learn_encoding(rows)
    assert encoding is not None
    return table.encoded(encoding), encoding


@pytest.mark.parametrize("name", ["frame", "a.parquet", "a.csv"])
def test_encoded_rows_are_those_of_pandas(tmp_path: Path, name: str) -> None:
    table = frame()
    if name.endswith("parquet"):
        table.to_parquet(tmp_path / name)
    elif name.endswith("csv"):
        table.to_csv(tmp_path / name, index=False)
    source = table if name == "frame" else tmp_path / name
    read = read_features(source, missing_values="impute")
    assert read.missing == {"price": table["price"].isna().sum(), "brand": table.brand.isna().sum()}
    assert read.categories == {"brand": table["brand"].value_counts().sort_index().to_dict()}
    # only the first rows are for training: the fill value is theirs
    view, _ = encoded_like(read, np.arange(100))
    expected = by_pandas(table, log_mean(table["price"][:100]))
    assert view.names == tuple(expected.columns)
    index = np.array([0, 299, 7, 7, 120])
    np.testing.assert_allclose(view.rows(index), expected.to_numpy()[index], rtol=1e-6)
    assert read.rows(index)[:, 0] == pytest.approx(table["bm25"].to_numpy()[index])


def test_a_later_table_is_encoded_with_the_values_of_training() -> None:
    training = frame()
    _, encoding = encoded_like(read_features(training, missing_values="impute"), np.arange(300))
    later = frame(seed=1)[::-1].reset_index(drop=True)[
        ["brand", "price", "query_id", "doc_id", "bm25"]
    ]
    later["price"] *= 100
    later.loc[:9, "brand"] = "omega"
    later.loc[10:11, "brand"] = "psi"
    later.loc[:2, "bm25"] = np.nan
    expected = by_pandas(later.assign(bm25=later["bm25"].fillna(log_mean(training["bm25"]))), 0.0)
    expected["price"] = later["price"].fillna(log_mean(training["price"])).astype(np.float32)
    for options in ({"like": encoding}, {"missing_values": "impute"}):
        table = read_features(later, **options)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            view = table.encoded(encoding)
            assert table.encoded(encoding) is view  # which warns once
        unseen, missing = map(str, (each.message for each in caught))
        present = later["brand"].notna().sum()
        assert f"brand: 12 of {present} rows have a value that was not in training" in unseen
        assert "omega, psi" in unseen
        assert "bm25: 3" in missing
        np.testing.assert_allclose(view.rows(np.arange(300)), expected.to_numpy(), rtol=1e-6)


def test_levels_outside_the_training_rows_are_not_learned() -> None:
    table = frame().assign(brand="acme", price=1.0)
    table.loc[200:, "brand"] = "late"
    with pytest.warns(InputWarning, match="100 of 300 rows"):
        _, encoding = encoded_like(read_features(table), np.arange(200))
    assert encoding.columns["brand"] == Category(("acme",))
    assert encoding.columns["price"] == Number()  # missing values are refused


def test_plain_numbers_need_no_encoding() -> None:
    table = read_features(frame()[["query_id", "doc_id", "bm25"]])
    assert table.is_plain
    assert table.learn_encoding(np.arange(10)) is None


def test_missing_values_are_refused_by_default_with_the_remedy() -> None:
    with raises_code("feature-not-finite") as caught:
        read_features(frame())
    message = str(caught.value)
    assert 'missing_values="impute"' in message
    assert f"price: {frame()['price'].isna().sum()}" in message
    assert f"brand: {frame()['brand'].isna().sum()}" in message
    with raises_code("feature-not-finite"):
        read_features(frame().assign(bm25=np.inf), missing_values="impute")


def test_too_many_categories_are_refused_with_the_remedy() -> None:
    titled = frame().assign(title=[f"title {i % 51}" for i in range(300)])
    with raises_code("too-many-categories") as caught:
        read_features(titled, missing_values="impute")
    assert "51 different values, more than the 50" in str(caught.value)
    assert 'ignore=["title"]' in str(caught.value)
    more = read_features(titled, missing_values="impute", max_categories=51)
    assert len(more.categories["title"]) == 51
    assert "title" not in read_features(titled, missing_values="impute", ignore=["title"]).names


def test_a_model_of_numbers_ignores_text_and_refuses_missing_values() -> None:
    plain = FeatureEncoding.plain(["bm25", "price"])
    titled = frame().fillna({"price": 1.0}).assign(title=[f"title {i}" for i in range(300)])
    with pytest.warns(InputWarning, match="left out: brand, title"):
        assert read_features(titled, like=plain).names == ("bm25", "price")
    holes = read_features(frame(), missing_values="impute")
    with raises_code("feature-not-finite"):
        holes.encoded(plain)


def test_columns_that_changed_their_kind_or_are_missing_are_refused() -> None:
    encoding = FeatureEncoding({"brand": Category(("7", "8")), "size": Number()})
    table = frame()[["query_id", "doc_id"]].assign(brand=7, size="large")
    with raises_code("feature-kind-differs") as caught:
        read_features(table).encoded(encoding)
    assert [problem.code for problem in caught.value.problems] == ["feature-kind-differs"] * 2
    # read for the model, numbers are the text of its categories
    again = read_features(table.assign(size=1.0), like=encoding)
    np.testing.assert_array_equal(again.encoded(encoding).rows([0]), [[1, 0, 1]])
    with raises_code("missing-feature-columns"):
        read_features(table.drop(columns="brand").assign(size=1)).encoded(encoding)


def test_encodings_are_stored_without_loss_and_damage_is_noticed() -> None:
    encoding = FeatureEncoding(
        {"price": Number(0.1 + 0.2, marked=True), "brand": Category(("", "a=b"), marked=True)},
        "impute",
        ("title",),
    )
    again = FeatureEncoding.from_dict(encoding.to_dict())
    assert (again.columns, again.missing_values, again.ignored) == (
        encoding.columns,
        "impute",
        ("title",),
    )
    assert again.inputs == ("price", "price missing", "brand=", "brand=a=b", "brand missing")
    assert again.is_binary.tolist() == [False, True, True, True, True]
    for damage in ({"missing_values": "x"}, {"columns": [{"name": 1}]}, {"ignored": 3}):
        with pytest.raises((ValueError, LookupError, TypeError)):
            FeatureEncoding.from_dict({**encoding.to_dict(), **damage})


def test_one_table_serves_models_of_different_categories() -> None:
    first = FeatureEncoding({"brand": Category(("acme",))})
    second = FeatureEncoding({"brand": Category(("zeta",)), "price": Number(0.0)}, "impute")
    both = FeatureEncoding.union([first, second])
    whole = frame().dropna().reset_index(drop=True).drop(columns="bm25")
    table = read_features(whole, like=both)
    brand = whole["brand"]
    with pytest.warns(InputWarning, match="not in training"):
        own = table.encoded(second).rows(np.arange(len(whole)))[:, 0]
    np.testing.assert_array_equal(own, brand == "zeta")


def test_options_are_checked() -> None:
    for options in ({"missing_values": "mean"}, {"max_categories": -1}, {"ignore": [3]}):
        with pytest.raises(InputError):
            read_features(frame(), **options)
    with raises_code("invalid-type"):
        read_features(frame(), like="model")
