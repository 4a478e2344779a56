"""Samples for ArviZ: joint draws with the means and spreads of the model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray

import epiclick as ec
from epiclick.export.arviz import to_inference_data, write_inference_data
from epiclick.fitted.parameters import BetaLookup, Parameters, parameter_draws

from ..raising import raises_code
from .conftest import Misled

pytestmark = pytest.mark.slow

DRAWS = 400


@pytest.fixture(scope="module")
def data(model: ec.EpistemicPBM, misled: Misled) -> Any:
    return to_inference_data(model, misled.counts, draws=DRAWS, items=12, seed=1)


def test_position_bias_is_as_spread_as_the_model_says(model: ec.EpistemicPBM, data: Any) -> None:
    found = data.posterior["position_bias"]
    assert found.dims == ("chain", "draw", "position")
    assert found.shape == (1, DRAWS, 4)
    assert found["position"].to_numpy().tolist() == [1, 2, 3, 4]
    values = found.to_numpy()[0]
    assert np.all(values[:, 0] == 1)  # the anchor
    table = model.position_bias("robust")
    sd = values.std(axis=0, ddof=1)
    error = 4 * sd / np.sqrt(DRAWS)
    assert np.all(abs(values.mean(axis=0) - table["mean"]) <= error)
    inside = (values > table["low"].to_numpy()) & (values < table["high"].to_numpy())
    # 90 % intervals: four standard errors of a share
    assert np.all(abs(inside[:, 1:].mean(axis=0) - 0.9) < 4 * np.sqrt(0.09 / DRAWS))
    # mirrored draws would be correlated
    assert abs(np.corrcoef(values[: DRAWS // 2, 1], values[DRAWS // 2 :, 1])[0, 1]) < 0.3


def test_relevance_is_that_of_the_most_displayed_items_given_their_clicks(
    model: ec.EpistemicPBM,
    misled: Misled,
    data: Any,
) -> None:
    found = data.posterior["relevance"]
    assert found.dims == ("chain", "draw", "item")
    assert data.posterior.attrs["items"] == f"12 of {len(misled.counts)}"
    pairs = list(
        zip(found["query_id"].values.tolist(), found["doc_id"].values.tolist(), strict=True)
    )
    assert found["item"].values.tolist() == [f"{query}/{doc}" for query, doc in pairs]
    table = misled.counts.to_table().to_pandas()
    shown = table.groupby(["query_id", "doc_id"])["displays"].sum()
    others = shown.drop(pairs)
    assert len(pairs) == 12
    assert shown[pairs].min() >= others.max()
    known = model.posterior(misled.counts).set_index(["query_id", "doc_id"]).loc[pairs]
    values = found.to_numpy()[0]
    # beyond the sampling error, the model itself averages over few draws of its parameters
    error = 4 * values.std(axis=0, ddof=1) / np.sqrt(DRAWS) + 0.005
    assert np.all(abs(values.mean(axis=0) - known["mean"]) < error)
    inside = (values > known["low"].to_numpy()) & (values < known["high"].to_numpy())
    assert abs(inside.mean() - 0.9) < 0.03
    by_features = model.relevance(misled.features).set_index(["query_id", "doc_id"]).loc[pairs]
    assert not np.all(abs(values.mean(axis=0) - by_features["mean"]) < error)


def test_features_alone_give_the_first_items(model: ec.EpistemicPBM, misled: Misled) -> None:
    data = to_inference_data(model, features=misled.features, draws=DRAWS, items=7)
    found = data.posterior["relevance"].to_numpy()[0]
    known = model.relevance(misled.features)[:7]
    assert data.posterior["item"].values.tolist() == [f"0/{doc}" for doc in range(7)]
    error = 4 * found.std(axis=0, ddof=1) / np.sqrt(DRAWS) + 0.005
    assert np.all(abs(found.mean(axis=0) - known["mean"]) < error)


def test_samples_are_joint(model: ec.EpistemicPBM, misled: Misled) -> None:
    """In an ensemble of two, relevance and bias of a draw come from the same member."""
    one, other = parameter_draws(model.fitted_, 2)
    shifted = one.layers[-1][1] + np.array([3.0, 5.0])
    high = Parameters((*one.layers[:-1], (one.layers[-1][0], shifted)), one.position)
    ensemble = ec.EpistemicPBM()
    ensemble.fitted_ = replace(model.fitted_, members=(high, other))
    data = to_inference_data(ensemble, features=misled.features, draws=100, items=40)
    bias = data.posterior["position_bias"].to_numpy()[0, :, 1]
    relevance = data.posterior["relevance"].to_numpy()[0].mean(axis=1)
    first = bias == bias[0]
    assert 20 < first.sum() < 80
    assert len(set(bias.tolist())) == 2
    low, top = sorted([relevance[first], relevance[~first]], key=np.mean)
    assert low.max() < top.min()


def test_a_file_is_read_by_others(data: Any, tmp_path: Path) -> None:
    path = tmp_path / "samples.nc"
    write_inference_data(path, data)
    with h5py.File(path) as file:
        values = file["posterior/position_bias"][()]
    np.testing.assert_array_equal(values, data.posterior["position_bias"].to_numpy())
    with xarray.open_datatree(path, engine="h5netcdf") as tree:
        np.testing.assert_array_equal(
            tree["posterior"]["relevance"].to_numpy(), data.posterior["relevance"].to_numpy()
        )
    assert [file.name for file in tmp_path.iterdir()] == ["samples.nc"]


def test_several_contexts_and_betas_of_bias(model: ec.EpistemicPBM) -> None:
    paper = ec.EpistemicPBM(estimator="exact")
    contexts = model.fitted_.contexts.append_column("device", [["phone", "tv", "phone", "tv"]])
    lookup = BetaLookup(np.array([1.0, 0.0, -1.0, -2.0]), np.full(4, 9.0))
    paper.fitted_ = replace(
        model.fitted_,
        anchor=None,
        posterior=None,
        contexts=contexts,
        parameters=model.fitted_.parameters._replace(position=lookup),
    )
    found = to_inference_data(paper, draws=DRAWS).posterior["position_bias"]
    assert found["context"].values.tolist() == ["1/phone", "2/tv", "3/phone", "4/tv"]
    mean = 1 / (1 + np.exp(-lookup.mean_logit))
    sd = np.sqrt(mean * (1 - mean) / 11)  # confidence 9 + 1
    assert np.all(abs(found.to_numpy()[0].mean(axis=0) - mean) < 4 * sd / np.sqrt(DRAWS))


def test_seeds_decide(model: ec.EpistemicPBM) -> None:
    one, same, other = (
        to_inference_data(model, draws=20, seed=seed).posterior["position_bias"].to_numpy()
        for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(one, same)
    assert np.all(one[..., 1:] != other[..., 1:])


def test_what_has_no_samples_is_refused(
    model: ec.EpistemicPBM,
    by_ids: ec.EpistemicPBM,
    misled: Misled,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    certain = ec.EpistemicPBM()
    certain.fitted_ = replace(model.fitted_, posterior=None)
    with raises_code("no-samples"):
        to_inference_data(certain)
    with raises_code("not-fitted"):
        to_inference_data(ec.EpistemicPBM())
    with raises_code("trained-without-features"):
        to_inference_data(by_ids, features=misled.features)
    with raises_code("draws-out-of-range") as error:
        to_inference_data(model, draws=0)
    assert "not 0 and 100" in str(error.value)
    with raises_code("items-out-of-range"):
        to_inference_data(model, items=0)
    with raises_code("unknown-kind") as error:
        to_inference_data(model, kind="evidential")
    assert "robust, bayes, not 'evidential'" in str(error.value)
    monkeypatch.setattr("epiclick.arguments.find_spec", lambda name: None)
    with raises_code("missing-extra") as error:
        to_inference_data(model)
    assert 'pip install "epiclick[arviz]"' in str(error.value)
