"""The public models: fit, predict, save, load, and errors for bad input."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

import epiclick as ec
from epiclick.errors import InputError
from epiclick.evaluation.log_scores import evaluate
from epiclick.fitted.parameters import without_uncertainty
from epiclick.fitted.state import FittedModel

from .before_clicks import before_clicks
from .raising import raises_code

pytestmark = pytest.mark.slow

COLUMNS = ["query_id", "doc_id", "mean", "low", "high", "alpha", "beta"]


@pytest.fixture(scope="module")
def world() -> ec.World:
    return ec.simulate(queries=60, docs=8, features=4, pages=400, positions=3, seed=3)


@pytest.fixture(scope="module")
def model(world: ec.World) -> ec.EpistemicPBM:
    return ec.EpistemicPBM(epochs=3, hidden=(8,)).fit(world.counts())


@pytest.fixture(scope="module")
def bare(world: ec.World) -> ec.ClickCounts:
    return replace(world.counts(), features=None, feature_row=None)


@pytest.fixture(scope="module")
def by_ids(bare: ec.ClickCounts) -> ec.EpistemicPBM:
    return ec.EpistemicPBM(epochs=5).fit(bare)


def sure(model: ec.EpistemicPBM) -> ec.EpistemicPBM:
    """The model as if its parameters were known, which leaves nothing to average over."""
    copy = clone(model)
    copy.fitted_ = without_uncertainty(model.fitted_)
    return copy


def test_scikit_learn_can_clone_and_set(model: ec.EpistemicPBM) -> None:
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "fitted_")
    assert copy.set_params(epochs=7).epochs == 7
    assert repr(copy) == "EpistemicPBM(hidden=(8,), epochs=7)"
    with raises_code("unknown-parameter") as caught:
        copy.set_params(epoch=7)
    assert "'epoch' (did you mean 'epochs'?)" in str(caught.value)


def test_an_unfitted_model_is_refused() -> None:
    with raises_code("not-fitted"):
        ec.EpistemicPBM().position_bias()


def test_relevance_of_items_is_a_beta_with_its_interval(
    model: ec.EpistemicPBM, world: ec.World
) -> None:
    table = sure(model).relevance(world.features)
    assert list(table.columns) == COLUMNS
    assert len(table) == len(world.features)
    betas = ec.Beta(table["alpha"].to_numpy(), table["beta"].to_numpy())
    np.testing.assert_allclose(table["mean"], betas.mean, rtol=1e-12)
    np.testing.assert_allclose(table[["low", "high"]].to_numpy().T, betas.interval(0.9), rtol=1e-12)


def test_order_of_items_does_not_matter(model: ec.EpistemicPBM, world: ec.World) -> None:
    features = world.features
    order = np.random.default_rng(0).permutation(len(features))
    moved = ec.FeatureTable(features.keys.take(order), features.names, features.matrix[order])
    one = model.relevance(moved)
    pd.testing.assert_frame_equal(
        one, model.relevance(features).iloc[order].reset_index(drop=True), rtol=1e-5
    )


def test_features_are_found_by_name_whatever_their_order(
    model: ec.EpistemicPBM, world: ec.World
) -> None:
    features = world.features
    turned = ec.FeatureTable(features.keys, features.names[::-1], features.matrix[:, ::-1])
    pd.testing.assert_frame_equal(model.relevance(turned), model.relevance(features))


def test_features_of_another_width_or_name_are_refused(
    model: ec.EpistemicPBM, world: ec.World
) -> None:
    features = world.features
    fewer = ec.FeatureTable(features.keys, features.names[:-1], features.matrix[:, :-1])
    with raises_code("missing-feature-columns") as caught:
        model.relevance(fewer)
    assert "1 feature, first 'f3'" in str(caught.value)
    renamed = ec.FeatureTable(features.keys, ("F0", *features.names[1:]), features.matrix)
    with raises_code("missing-feature-columns") as caught:
        model.relevance(renamed)
    assert "did you mean 'F0'" in str(caught.value)
    more = ec.FeatureTable(
        features.keys,
        (*features.names, "extra"),
        np.c_[features.matrix, features.matrix[:, 0]],
    )
    with pytest.warns(ec.InputWarning, match="left out: extra"):
        table = model.relevance(more)
    pd.testing.assert_frame_equal(table, model.relevance(features))


def test_counts_without_features_are_refused(model: ec.EpistemicPBM, bare: ec.ClickCounts) -> None:
    with raises_code("features-needed") as caught:
        model.score(bare)
    assert "features" in str(caught.value)


def test_an_unknown_context_is_named_with_what_is_predicted(
    model: ec.EpistemicPBM, world: ec.World
) -> None:
    model, counts = sure(model), world.counts()
    deeper = replace(counts, contexts=pa.table({"position": [1, 2, 9]}), placement=counts.placed)
    with pytest.warns(ec.InputWarning, match="no position bias for position 9: the mean bias"):
        predicted = model.predict_clicks(deeper)
    bias = model.position_bias()["mean"].to_numpy()
    known = model.predict_clicks(counts)
    at = counts.context == 2
    np.testing.assert_allclose(predicted[~at], known[~at])
    np.testing.assert_allclose(predicted[at], known[at] * bias.mean() / bias[2])


def test_clicks_follow_the_position_based_model(model: ec.EpistemicPBM, world: ec.World) -> None:
    model, counts = sure(model), world.counts()
    zeta = before_clicks(model.fitted_, counts)["mean"].to_numpy()
    theta = model.position_bias()["mean"].to_numpy()
    expected = theta[counts.context] * zeta[counts.pair]
    np.testing.assert_allclose(model.predict_clicks(counts), expected, rtol=1e-5)
    clicks, shown = counts.clicks, counts.displays
    total = clicks @ np.log(expected) + (shown - clicks) @ np.log1p(-expected)
    assert model.score(counts) == pytest.approx(total / shown.sum(), rel=1e-6)


def test_own_clicks_move_relevance_the_right_way(model: ec.EpistemicPBM, world: ec.World) -> None:
    counts = world.counts()
    after = model.posterior(counts)
    assert list(after.columns) == COLUMNS
    assert counts.feature_row is not None
    before = model.relevance(world.features).iloc[counts.feature_row].reset_index(drop=True)
    displays, clicks = counts.dense()
    never = (clicks.sum(axis=1) == 0) & (displays[:, 0] > 0)
    assert never.any()
    assert np.all(after["mean"][never] < before["mean"][never])
    always = (displays == clicks).all(axis=1)
    assert np.all(after["mean"][always] > before["mean"][always])


def test_without_features_items_of_the_log_are_known_by_their_clicks(
    by_ids: ec.EpistemicPBM, bare: ec.ClickCounts
) -> None:
    items = by_ids.relevance()
    pd.testing.assert_frame_equal(items, by_ids.posterior(bare), rtol=1e-9)
    zeta, by_ids = items["mean"].to_numpy(), sure(by_ids)
    theta = by_ids.position_bias()["mean"].to_numpy()
    np.testing.assert_allclose(
        by_ids.predict_clicks(bare), theta[bare.context] * zeta[bare.pair], rtol=1e-9
    )
    stranger = replace(bare, query_id=pa.array(np.arange(len(bare)) + 10_000))
    fresh = by_ids.predict_clicks(stranger)
    assert np.ptp(fresh[stranger.context == 0]) < np.ptp(by_ids.predict_clicks(bare))
    with raises_code("trained-without-features"):
        by_ids.relevance(pd.DataFrame({"query_id": [1], "doc_id": [1], "f0": [0.5]}))


@pytest.mark.parametrize("which", ["model", "by_ids"])
def test_a_saved_model_answers_the_same_without_jax(
    which: str, world: ec.World, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    fitted: ec.EpistemicPBM = request.getfixturevalue(which)
    fitted.save(tmp_path / "model")
    back = ec.load(tmp_path / "model")
    assert back.get_params() == fitted.get_params()
    pd.testing.assert_frame_equal(back.position_bias(), fitted.position_bias())
    pd.testing.assert_frame_equal(back.history_, fitted.history_)
    features = world.features if which == "model" else None
    pd.testing.assert_frame_equal(back.relevance(features), fitted.relevance(features))
    code = (
        "import sys, epiclick as ec, numpy as np\n"
        f"model = ec.load({str(tmp_path / 'model')!r}); model.position_bias()\n"
        "slow = {'jax', 'ibis', 'duckdb', 'sqlglot', 'scipy.stats', 'scipy.optimize'}\n"
        "assert not slow & set(sys.modules), 'too much was loaded'\n"
        "if model.fitted_.features is not None: model.relevance(np.ones((3, 4)))\n"
        "assert not {'jax', 'ibis', 'duckdb'} & set(sys.modules), 'too much was loaded'\n"
        "if model.fitted_.features is None: model.relevance()\n"
        "else:\n"
        "    import pandas as pd\n"
        "    f = pd.DataFrame(np.ones((3, 4)), columns=['f0', 'f1', 'f2', 'f3'])\n"
        "    model.relevance(f.assign(query_id=[1, 2, 3], doc_id=[1, 2, 3]))\n"
        "assert 'jax' not in sys.modules, 'jax was loaded'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def assert_same_bias(one: ec.EpistemicPBM, other: ec.EpistemicPBM, positions: int = 3) -> None:
    """The same to a thousandth of the interval: the Hessian is taken near the mode, not at it."""
    a, b = (each.position_bias()[:positions] for each in (one, other))
    assert np.all(abs(a["mean"] - b["mean"]) <= 1e-3 * (b["high"] - b["low"]))


def test_a_start_from_another_model_is_where_training_begins(
    model: ec.EpistemicPBM, by_ids: ec.EpistemicPBM, world: ec.World, bare: ec.ClickCounts
) -> None:
    barely = {"learning_rate": 1e-12, "weight_decay": 0.0, "epochs": 1}
    again = ec.EpistemicPBM(hidden=(8,), **barely).fit(world.counts(), init=model)
    assert_same_bias(again, model)
    # contexts the model does not know start anew
    deeper = replace(bare, contexts=pa.table({"position": [1, 2, 9]}))
    moved = ec.EpistemicPBM(**barely).fit(deeper, init=by_ids)
    assert_same_bias(moved, by_ids, 2)
    with raises_code("init-layer-mismatch"):
        ec.EpistemicPBM(hidden=(4, 4)).fit(world.counts(), init=model)
    with raises_code("init-feature-mismatch"):
        ec.EpistemicPBM(hidden=(8,)).fit(bare, init=model)


def test_validation_that_shares_queries_or_shows_other_positions(world: ec.World) -> None:
    counts = world.counts()
    quick = ec.EpistemicPBM(epochs=1, hidden=(8,))
    with pytest.warns(
        ec.InputWarning, match="60 queries of the validation set are in the training"
    ):
        quick.fit(counts, counts)
    train, valid = counts.split(0.8, 0.2)
    # contexts may be numbered otherwise in another log
    swapped = pa.table({"position": [3, 1, 2]})
    renumbered = replace(valid, contexts=swapped, context=np.array([1, 2, 0])[valid.context])
    one, other = (quick.fit(train, each).history_["validation"] for each in (valid, renumbered))
    assert one.iloc[0] == other.iloc[0]
    deeper = replace(valid, contexts=pa.table({"position": [1, 2, 9]}))
    with raises_code("unknown-context") as caught:
        quick.fit(train, deeper)
    assert "position 9" in str(caught.value)


def test_held_out_queries_are_kept_and_labelled(model: ec.EpistemicPBM, world: ec.World) -> None:
    fitted: FittedModel = model.fitted_
    train, held_out = (
        set(ids.to_pylist()) for ids in (fitted.queries.train, fitted.queries.held_out)
    )
    assert len(held_out) == 6
    assert not train & held_out
    counts = world.counts()
    assert train | held_out == set(counts.query_id.to_pylist())
    stranger = replace(
        counts, query_id=pa.array(counts.query_id.to_numpy() + np.where(counts.query < 10, 0, 1000))
    )
    parts = evaluate(fitted, stranger).by_queries
    assert set(parts) <= {"train", "held-out", "new"}
    total = sum(part.by_context["displays"].sum() for part in parts.values())
    assert total == counts.total_displays


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "EpistemicPBM: epochs .* 1, not 0"),
        ({"holdout": 1.0}, "EpistemicPBM: holdout .* 0 to .* 1, not 1.0"),
        ({"level": 1.5}, "EpistemicPBM: level .* 0 and 1, not 1.5"),
        ({"estimator": "exakt"}, "did you mean 'exact'"),
        ({"baseline": True}, "baseline does not apply"),
        ({"estimator": "exact", "anchor": 1}, "needs estimator='marginal'"),
        ({"anchor": 9}, "anchor 9 is not a context of the log"),
    ],
)
def test_invalid_parameters_are_refused(world: ec.World, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ec.EpistemicPBM(**options).fit(world.counts())


def test_pointwise_needs_features(bare: ec.ClickCounts) -> None:
    with raises_code("features-needed") as caught:
        ec.PointwisePBM().fit(bare)
    assert "PointwisePBM" in str(caught.value)


def test_another_anchor_is_the_one_at_one(bare: ec.ClickCounts) -> None:
    model = ec.EpistemicPBM(epochs=2, anchor=2).fit(bare)
    bias = model.position_bias()
    assert bias["mean"][1] == bias["relative"][1] == 1
    assert any(
        "at position 1 is at its bound" in words
        and words.endswith("--anchor 1 (in Python: anchor=1)")
        for words in model.fitted_.training.warnings
    )


def test_a_single_position_and_contexts_of_several_columns(bare: ec.ClickCounts) -> None:
    table = bare.to_table()
    first = table.filter(pa.compute.equal(table["position"], 1))
    alone = ec.EpistemicPBM(epochs=2).fit(ec.ClickCounts.from_table(first))
    assert alone.position_bias()["mean"].tolist() == [1.0]
    device = pa.array(np.where(np.arange(len(table)) % 3 == 0, "phone", "desk"))
    both = ec.ClickCounts.from_table(
        table.append_column("device", device), context=("device", "position")
    )
    model = ec.EpistemicPBM(epochs=2).fit(both)
    bias = model.position_bias()
    assert list(bias.columns[:2]) == ["device", "position"]
    anchored = bias[bias["mean"] == 1]
    assert anchored[["device", "position"]].to_numpy().tolist() == [["desk", 1]]


def test_without_features_the_mode_is_found_from_any_start(bare: ec.ClickCounts) -> None:
    far, near = (ec.EpistemicPBM(epochs=epochs).fit(bare, progress=False) for epochs in (1, None))
    assert far.fitted_.training.epochs == 1 < near.fitted_.training.epochs < 60
    here, there = far.fitted_.posterior, near.fitted_.posterior
    sd = np.sqrt(np.diag(there.bayes))
    np.testing.assert_allclose((here.mean - there.mean) / sd, 0, atol=1e-3)
    np.testing.assert_allclose(np.diag(here.robust), np.diag(there.robust), rtol=1e-2)
    history = near.history_
    assert (history["log_likelihood"].diff().dropna() > -1e-6).all()
    assert history["validation"].notna().all()
    # without a search for the mode, training has to converge
    assert ec.EpistemicPBM(estimator="exact")._plan(bare).training.epochs == 300


def test_an_array_is_scored_like_a_table_and_in_milliseconds(
    model: ec.EpistemicPBM, world: ec.World
) -> None:
    table = model.relevance(world.features, above=0.3)
    matrix = world.features.rows(np.arange(len(world.features)))
    array = model.relevance(matrix, above=0.3)
    pd.testing.assert_frame_equal(array, table.drop(columns=["query_id", "doc_id"]))
    seconds = []
    for _ in range(20):
        begun = time.process_time()
        model.relevance(matrix[:20])
        seconds.append(time.process_time() - begun)
    assert min(seconds) < 0.005


def test_arrays_that_cannot_be_scored_are_refused(model: ec.EpistemicPBM) -> None:
    for wrong in (np.ones((3, 5)), np.ones(4), np.full((3, 4), "x"), np.ones((0, 4))):
        with raises_code("wrong-feature-count"):
            model.relevance(wrong)
    with raises_code("feature-not-finite") as caught:
        model.relevance(np.array([[0.0, 1, 2, 3], [0, np.nan, 2, np.inf]]))
    assert "2 values of the array are missing or infinite, first item 1, feature f1" in str(
        caught.value
    )
