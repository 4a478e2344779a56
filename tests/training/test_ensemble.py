"""An ensemble equals separate runs of its networks, each with its own weights and stopping."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import epiclick as ec
from epiclick.batching.pairset import PairSet, fit_scaler
from epiclick.click_models.pbm import PositionBased
from epiclick.data.features import FeatureTable
from epiclick.estimators.names import make_estimator
from epiclick.fitted.parameters import Parameters, PointLookup, init_betas, leaves, with_leaves
from epiclick.relevance.network import init_relevance
from epiclick.training.checkpoint import Checkpoint
from epiclick.training.ensemble import bootstrap_weights
from epiclick.training.loop import State, Training
from epiclick.training.objective import EpistemicObjective, Objective, PointwiseObjective
from epiclick.training.optimizer import TrainingSettings

from ..raising import raises_code

pytestmark = pytest.mark.slow

SETTINGS = TrainingSettings(
    epochs=12,
    batch_size=150,
    learning_rate=5e-2,
    position_rate=10.0,
    weight_decay=1e-2,
    patience=2,
    decay=False,  # so that runs of any length share a program
    seed=0,
)
MEMBERS = 3
Make = Callable[..., Training]


def objective_of(estimator: str, entropy: float = 0.0) -> Objective:
    if estimator == "pointwise":
        return PointwiseObjective(PositionBased(), 0)
    anchor = 0 if estimator == "marginal" else None
    return EpistemicObjective(
        make_estimator(estimator, samples=8), entropy, PositionBased(), anchor, 8
    )


def begin_of(estimator: str, counts: ec.ClickCounts, seed: int) -> Parameters:
    outputs = 1 if estimator == "pointwise" else 2
    layers = init_relevance(np.random.default_rng(seed), 4, (8,), outputs=outputs, mean=0.4)
    rate = counts.by_context()["click_rate"].to_numpy()
    point = estimator in ("marginal", "pointwise")
    return Parameters(
        layers, PointLookup(PositionBased().start(rate, 0)) if point else init_betas(3)
    )


@pytest.fixture(scope="module")
def make(small_counts: ec.ClickCounts) -> Make:
    """An ensemble, or the lone run of one of its networks."""
    train, valid = small_counts.split(0.7, 0.3, seed=1)
    scaler = fit_scaler(train)
    weight = bootstrap_weights(train, MEMBERS, seed=0)

    def training(estimator: str, alone: int | None = None, **options) -> Training:
        settings = replace(SETTINGS, **options.pop("settings", {}))
        begins = [begin_of(estimator, train, i) for i in range(1 + MEMBERS)]
        several = alone is None
        own = weight if several else weight[alone]
        return Training(
            objective_of(estimator),
            begins if several else [begins[alone]],
            PairSet.of(train, scaler, settings.batch_size, weight=options.pop("weight", own)),
            PairSet.of(valid, scaler, settings.batch_size),
            settings,
            **options,
        )

    return training


@pytest.fixture(scope="module")
def ensemble(make: Make) -> State:
    training = make("marginal")
    return training.run(training.start())


def assert_close(one: Parameters, other: Parameters) -> None:
    for a, b in zip(*map(leaves, (one, other)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5)


def test_each_network_is_what_it_would_be_alone(make: Make, ensemble: State) -> None:
    """Parameters that are kept, and when they were best; the history is of the first."""
    trained = ensemble.best
    epochs = []
    for i in range(1 + MEMBERS):
        lone = make("marginal", alone=i)
        state = lone.run(lone.start())
        assert_close(trained[i], state.best[0])
        assert ensemble.best_epochs[i] == state.best_epoch
        assert ensemble.best_validations[i] == pytest.approx(state.best_validations[0], rel=1e-6)
        epochs.append(len(state.history))
        if i == 0:
            for ours, own in zip(ensemble.history, state.history, strict=False):
                assert ours.log_likelihood == pytest.approx(own.log_likelihood, rel=1e-6)
                assert ours.validation == pytest.approx(own.validation, rel=1e-6)
                assert ours.zero_gradients == own.zero_gradients
    # all go on until the last one stops
    assert len(ensemble.history) == max(epochs) > min(epochs)
    with pytest.raises(AssertionError):
        assert_close(trained[1], trained[2])


def test_history_has_the_mean_over_members(make: Make, ensemble: State) -> None:
    last = ensemble.history[-1]
    training = make("marginal")
    validation = training._validate(ensemble.parameters)
    assert validation is not None
    assert last.validation == validation[0]
    assert last.members_validation == pytest.approx(validation[1:].mean(), rel=1e-12)
    assert list(last.record())[-2:] == ["members_log_likelihood", "members_validation"]
    lone = make("marginal", alone=0, settings={"epochs": 1})
    row = lone.run(lone.start()).history[0]
    assert [*row.record()] == ["epoch", "log_likelihood", "validation", "zero_gradients", "seconds"]


@pytest.mark.parametrize("estimator", ["exact", "pointwise"])
def test_other_estimators_train_each_network_as_alone(make: Make, estimator: str) -> None:
    """Draws of the model's own network are those it would have alone; members have their own."""
    short = {"epochs": 2, "patience": None}
    training = make(estimator, settings=short)
    both = training.run(training.start()).best
    lone = make(estimator, alone=0, settings=short)
    assert_close(both[0], lone.run(lone.start()).best[0])


def test_without_weights_members_differ_by_their_first_weights_alone(make: Make) -> None:
    short = {"epochs": 2, "patience": None}
    training = make("pointwise", weight=None, settings=short)
    trained = training.run(training.start()).best
    lone = make("pointwise", alone=2, weight=None, settings=short)
    assert_close(trained[2], lone.run(lone.start()).best[0])
    with pytest.raises(AssertionError):
        assert_close(trained[1], trained[2])


class Stop(Exception):
    pass


@pytest.mark.parametrize("estimator", ["marginal", "exact"])
def test_an_ensemble_cut_short_goes_on_to_the_same_bits(
    make: Make, estimator: str, tmp_path: Path
) -> None:
    whole = make(estimator, settings={"epochs": 4})
    expected = whole.run(whole.start())
    checkpoint = Checkpoint(tmp_path / "run", {})

    def keep(state: State, urgent: bool) -> None:
        checkpoint.keep(state, True)
        if len(state.history) == 2:
            raise Stop

    cut = make(estimator, settings={"epochs": 4}, keep=keep)
    with pytest.raises(Stop):
        cut.run(cut.start())
    resumed = whole.run(checkpoint.load(whole.start()))
    for i in range(1 + MEMBERS):
        kept = [
            [
                *leaves(state.parameters[i]),
                *leaves(state.best[i]),
                *state.optimizers[i].means,
                *state.optimizers[i].squares,
            ]
            for state in (resumed, expected)
        ]
        for a, b in zip(*kept, strict=True):
            assert a.tobytes() == b.tobytes()
        assert resumed.optimizers[i].steps == expected.optimizers[i].steps
    assert resumed.best_epochs == expected.best_epochs
    assert resumed.best_validations == expected.best_validations
    rows = [[replace(row, seconds=0) for row in s.history] for s in (resumed, expected)]
    assert rows[0] == rows[1]


def test_a_batch_that_a_bootstrap_leaves_out_moves_nothing(make: Make) -> None:
    weight = np.ones((1 + MEMBERS, len(make("marginal").train.batches.counts)), np.uint8)
    weight[1] = 0
    for estimator in ("marginal", "pointwise", "exact"):
        training = make(estimator, weight=weight, settings={"epochs": 1, "patience": None})
        training = replace(training, valid=None)
        with np.errstate(invalid="ignore"):  # its likelihood per display is 0 / 0
            trained = training.run(training.start()).best
        start = training.begin[1]
        # but for weight decay, which pulls matrices towards 0 by 1e-2 of the rate at each step
        shrunk = (1 - 1e-2 * SETTINGS.learning_rate) ** len(training.train.batches)
        for (weights, bias), (first, first_bias) in zip(
            trained[1].layers, start.layers, strict=True
        ):
            np.testing.assert_allclose(weights, shrunk * first, rtol=1e-5)
            np.testing.assert_array_equal(bias, first_bias)
        with pytest.raises(AssertionError):
            assert_close(trained[2], training.begin[2])


def test_a_member_that_diverges_is_named(make: Make) -> None:
    training = make("marginal")
    begin = list(training.begin)
    broken = [np.array(leaf) for leaf in leaves(begin[2])]
    broken[-2][...] = np.nan  # the bias of the last layer
    begin[2] = with_leaves(begin[2], broken)
    training = replace(training, begin=begin)
    with raises_code("training-diverged") as caught:
        training.run(training.start())
    assert "member 2 diverged in epoch 1" in str(caught.value)


def doubled(counts: ec.ClickCounts, query: int) -> ec.ClickCounts:
    """The log with all rows of one query repeated under another name."""
    table = counts.to_table()
    own = counts.query_id[np.flatnonzero(counts.query == query)[0]]
    again = table.filter(pc.equal(table["query_id"], own))
    name = pa.array(np.full(len(again), 10_000))
    again = again.set_column(0, "query_id", name)
    assert counts.features is not None
    assert counts.feature_row is not None
    rows = np.flatnonzero(counts.query == query)
    ids = pa.concat_arrays([counts.query_id, pa.array(np.full(len(rows), 10_000))])
    docs = pa.concat_arrays([counts.doc_id, counts.doc_id.take(rows)])
    values = counts.features.rows(counts.feature_row[np.r_[np.arange(len(counts)), rows]])
    keys = pa.table({"query_id": ids, "doc_id": docs})
    features = FeatureTable(keys, counts.features.names, values)
    return ec.ClickCounts.from_table(pa.concat_tables([table, again])).with_features(features)


@pytest.mark.parametrize(("estimator", "entropy"), [("marginal", 0.5), ("pointwise", 0.0)])
def test_a_weight_of_two_is_a_query_that_is_there_twice(
    small_counts: ec.ClickCounts, estimator: str, entropy: float
) -> None:
    counts = small_counts
    scaler = fit_scaler(counts)
    weight = np.where(counts.query == 7, 2, 1)
    objective, begin = objective_of(estimator, entropy), begin_of(estimator, counts, 0)
    more = doubled(counts, 7)
    sets = [
        PairSet.of(each, scaler, 10_000, weight=own)
        for each, own in ((counts, weight), (more, None), (counts, None))
    ]
    assert len(more) > len(counts)
    np.testing.assert_array_equal(sets[0].displays, sets[1].displays)

    def evaluated(pairs: PairSet) -> tuple[float, np.ndarray]:
        (batch,) = pairs.epoch()
        found = objective.descent(begin, *batch, None)
        return found.log_likelihood, np.concatenate([np.ravel(leaf) for leaf in found.gradient])

    weighted, twice, once = map(evaluated, sets)
    assert weighted[0] == pytest.approx(twice[0], rel=1e-6)
    np.testing.assert_allclose(weighted[1], twice[1], rtol=1e-4, atol=1e-7)
    assert abs(once[0] - twice[0]) > 1e-3 * abs(twice[0])
    assert np.max(np.abs(once[1] - twice[1])) > 1e-4
