"""Training sets for LightGBM: every row has the values of its own query and document."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import epiclick as ec
from epiclick.errors import InputWarning
from epiclick.export.lightgbm import LightGBMData

from ..raising import raises_code
from .conftest import DOCS, FEW, Misled

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def jumbled(misled: Misled) -> ec.FeatureTable:
    """Features of more queries, with rows and columns shuffled and one column too many."""
    rng = np.random.default_rng(5)
    rows, columns = rng.permutation((FEW + 5) * DOCS), rng.permutation(6)
    matrix = misled.features.matrix[np.ix_(rows, columns)]
    names = [misled.features.names[i] for i in columns]
    return ec.FeatureTable(
        misled.features.keys.take(rows),
        (*names, "unknown"),
        np.column_stack([matrix, rng.normal(size=len(rows)).astype(np.float32)]),
    )


def pairs_of(data: LightGBMData) -> list[tuple[int, int]]:
    return list(zip(data.query_id.to_pylist(), data.doc_id.to_pylist(), strict=True))


def assert_in_order(data: LightGBMData) -> None:
    """Sorted by query, in groups that add up to the rows, one for each query."""
    queries = data.query_id.to_pylist()
    assert queries == sorted(queries)
    assert data.group.tolist() == pd.Series(queries).value_counts(sort=False).tolist()
    assert len(data) == len(data.X) == len(data.weight) == len(data.doc_id) == data.group.sum()
    assert data.X.dtype == np.float32


def vector(misled: Misled, query: int, doc: int) -> list[float]:
    """As the world made it: row by row in the order of (query, doc)."""
    return misled.items.matrix[query * DOCS + doc].tolist()


def test_posterior_rows_have_their_own_items(
    model: ec.EpistemicPBM, misled: Misled, few: ec.ClickCounts, jumbled: ec.FeatureTable
) -> None:
    with pytest.warns(InputWarning, match="does not know are left out: unknown"):
        data = model.to_lightgbm(few, jumbled)
    assert_in_order(data)
    assert data.feature_names == misled.features.names
    assert (data.how, data.clip) == ("posterior", None)
    known = {}
    for table in (
        model.relevance(misled.features),
        model.posterior(few.with_features(misled.features)),  # takes the place of the former
    ):
        for row in table.itertuples():
            total = row.alpha + row.beta
            variance = row.alpha * row.beta / (total**2 * (total + 1))
            known[row.query_id, row.doc_id] = (row.mean, variance)
    expected = sorted((q, d) for q in range(FEW + 5) for d in range(DOCS))
    assert pairs_of(data) == expected
    means = np.array([known[pair][0] for pair in expected])
    assert data.cuts is not None
    np.testing.assert_allclose(data.cuts, np.quantile(means, [0.5, 0.75, 0.9, 0.97]), rtol=1e-6)
    raw = [1 / (np.var(means) + known[pair][1]) for pair in expected]
    for i, pair in enumerate(expected):
        assert data.X[i].tolist() == vector(misled, *pair)
        assert data.y[i] == sum(known[pair][0] > cut for cut in data.cuts)
        assert data.weight[i] == pytest.approx(raw[i] * len(raw) / sum(raw), rel=1e-5)
    assert data.weight.mean() == pytest.approx(1)
    assert set(data.y.tolist()) == {0, 1, 2, 3, 4}


def test_clicked_items_are_judged_by_their_clicks(
    model: ec.EpistemicPBM, misled: Misled, few: ec.ClickCounts
) -> None:
    with_clicks = model.to_lightgbm(few.with_features(misled.features))
    assert len(with_clicks) == len(few)
    items = ec.FeatureTable(
        pa.table({"query_id": few.query_id, "doc_id": few.doc_id}),
        misled.features.names,
        misled.features.rows(misled.features.locate(few.query_id, few.doc_id)),
    )
    by_features = model.to_lightgbm(features=items)
    assert pairs_of(with_clicks) == pairs_of(by_features)
    assert np.any(with_clicks.y != by_features.y)


def test_propensity_rows_have_their_own_clicks(
    model: ec.EpistemicPBM, misled: Misled, few: ec.ClickCounts, jumbled: ec.FeatureTable
) -> None:
    with pytest.warns(InputWarning, match="unknown"):
        data = model.to_lightgbm(few, jumbled, how="propensity", clip=4)
    assert_in_order(data)
    assert (data.how, data.cuts, data.clip) == ("propensity", None, 4.0)
    relative = model.position_bias().set_index("position")["relative"]
    assert relative[4] < 1 / 4 < relative[2]  # so that the bound binds, and not everywhere
    shown: dict[tuple[int, int], float] = {}
    clicked: dict[tuple[int, int], float] = {}
    for row in few.to_table().to_pylist():
        pair = row["query_id"], row["doc_id"]
        shown[pair] = shown.get(pair, 0) + row["displays"]
        weight = min(1 / relative[row["position"]], 4)
        clicked[pair] = clicked.get(pair, 0) + row["clicks"] * weight
    expected = {}
    for pair in sorted(shown):
        expected[*pair, 0] = shown[pair] - clicked[pair]
        expected[*pair, 1] = clicked[pair]
    expected = {key: weight for key, weight in expected.items() if weight > 0}
    found = [(*pair, y) for pair, y in zip(pairs_of(data), data.y.tolist(), strict=True)]
    assert found == list(expected)
    np.testing.assert_allclose(data.weight, list(expected.values()), rtol=1e-12)
    for x, (query, doc, _) in zip(data.X, found, strict=True):
        assert x.tolist() == vector(misled, query, doc)


def test_a_dataset_has_the_same_values(
    model: ec.EpistemicPBM, misled: Misled, few: ec.ClickCounts
) -> None:
    data = model.to_lightgbm(few.with_features(misled.features))
    named = replace(data, feature_names=("tf:idf", "a,b", *data.feature_names[2:]))
    dataset = named.dataset(params={"verbose": -1}, free_raw_data=False).construct()
    np.testing.assert_array_equal(dataset.get_data(), data.X)
    np.testing.assert_array_equal(dataset.get_label(), data.y)
    np.testing.assert_allclose(dataset.get_weight(), data.weight, rtol=1e-6)
    np.testing.assert_array_equal(dataset.get_group(), data.group)
    assert dataset.get_feature_name()[:2] == ["tf_idf", "a_b"]


def test_without_lightgbm_the_error_names_the_remedy(
    model: ec.EpistemicPBM,
    misled: Misled,
    few: ec.ClickCounts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = model.to_lightgbm(few.with_features(misled.features))
    monkeypatch.setattr("epiclick.arguments.find_spec", lambda name: None)
    with raises_code("missing-extra") as error:
        data.dataset()
    assert 'pip install "epiclick[lightgbm]"' in str(error.value)


def test_making_a_training_set_does_not_load_lightgbm() -> None:
    code = "import sys, epiclick.export.lightgbm; print('lightgbm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr


def test_a_file_has_the_rows_and_the_method_in_its_metadata(
    model: ec.EpistemicPBM, misled: Misled, few: ec.ClickCounts, tmp_path: Path
) -> None:
    data = model.to_lightgbm(few.with_features(misled.features), cuts=(0.1, 0.2, 0.4, 0.6))
    named = replace(data, feature_names=("weight", "feature_weight", *data.feature_names[2:]))
    named.to_parquet(tmp_path / "train.parquet")
    names = ["feature_weight", "feature_feature_weight", *data.feature_names[2:]]
    table = pd.read_parquet(tmp_path / "train.parquet")
    assert list(table.columns) == ["query_id", "doc_id", "label", "weight", *names]
    np.testing.assert_array_equal(table[names].to_numpy(), data.X)
    np.testing.assert_array_equal(table["label"], data.y)
    np.testing.assert_array_equal(table["weight"], data.weight)
    groups = table.groupby("query_id", sort=False).size()
    assert groups.tolist() == data.group.tolist()
    about = pq.read_schema(tmp_path / "train.parquet").metadata[b"epiclick"]
    assert about == b'{"how": "posterior", "cuts": [0.1, 0.2, 0.4, 0.6], "clip": null}'


def test_a_model_without_features_takes_those_of_a_table(
    by_ids: ec.EpistemicPBM, misled: Misled, few: ec.ClickCounts, jumbled: ec.FeatureTable
) -> None:
    own = by_ids.to_lightgbm(features=jumbled)
    given = by_ids.to_lightgbm(few, jumbled)
    assert own.feature_names == given.feature_names == jumbled.names
    assert (
        pairs_of(own)
        == pairs_of(given)
        == list(zip(few.query_id.to_pylist(), few.doc_id.to_pylist(), strict=True))
    )
    order = [jumbled.names.index(name) for name in misled.features.names]
    for x, pair in zip(own.X, pairs_of(own), strict=True):
        assert x[order].tolist() == vector(misled, *pair)
    with raises_code("features-needed"):
        by_ids.to_lightgbm(few)


def test_items_without_features_are_counted_and_named(
    by_ids: ec.EpistemicPBM, misled: Misled, few: ec.ClickCounts
) -> None:
    features = misled.features
    fewer = ec.FeatureTable(features.keys.slice(DOCS), features.names, features.matrix[DOCS:])
    missing = int(np.sum(few.query == 0))
    with raises_code("items-without-features") as error:
        by_ids.to_lightgbm(few, fewer)
    assert f": {missing} items, first query 0, doc" in str(error.value)


@pytest.mark.parametrize(
    ("options", "code", "named"),
    [
        ({"how": "posteriors"}, "unknown-method", "did you mean 'posterior'"),
        ({"how": "both"}, "unknown-method", "one of posterior, propensity"),
        (
            {"how": "propensity", "cuts": (0.1, 0.2, 0.4, 0.6)},
            "cuts-without-posterior",
            "how='posterior'",
        ),
        ({"how": "posterior", "clip": 10}, "clip-without-propensity", "how='propensity'"),
        ({"how": "propensity", "clip": 0.5}, "clip-out-of-range", "not 0.5"),
        ({"cuts": (0.1, 0.2)}, "invalid-cuts", "not 0.1, 0.2"),
    ],
)
def test_invalid_options_are_refused(
    options: dict, code: str, named: str, model: ec.EpistemicPBM, misled: Misled
) -> None:
    with raises_code(code) as error:
        model.to_lightgbm(misled.counts, **options)
    assert named in str(error.value)


def test_nothing_to_export_is_refused(model: ec.EpistemicPBM, misled: Misled) -> None:
    with raises_code("missing-clicks") as error:
        model.to_lightgbm(features=misled.features, how="propensity")
    assert "give counts" in str(error.value)
    with raises_code("features-needed") as error:
        model.to_lightgbm()
    assert "features" in str(error.value)
    nothing = misled.counts.subset([])
    for how in ("posterior", "propensity"):
        with raises_code("nothing-to-export"):
            model.to_lightgbm(nothing, how=how)


def test_a_pointwise_model_exports_propensity_weights_only(
    model: ec.EpistemicPBM, misled: Misled
) -> None:
    points = ec.PointwisePBM()
    layers = model.fitted_.parameters.layers
    head = tuple(part[..., :1] for part in layers[-1])
    points.fitted_ = replace(
        model.fitted_,
        kind="PointwisePBM",
        head="point",
        posterior=None,
        parameters=model.fitted_.parameters._replace(layers=(*layers[:-1], head)),
    )
    with raises_code("pointwise-model"):
        points.to_lightgbm(features=misled.features)
    assert len(points.to_lightgbm(misled.counts, how="propensity"))
