"""Training restores the best weights, repeats by seed, and resumes to the same bits."""

import errno
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import epiclick as ec
from epiclick.batching.batches import Shapes
from epiclick.batching.pairset import PairSet, fit_scaler
from epiclick.click_models.pbm import PositionBased
from epiclick.data import writing
from epiclick.estimators.names import make_estimator
from epiclick.fitted.parameters import Parameters, PointLookup, init_betas, leaves
from epiclick.relevance.network import init_relevance
from epiclick.training.checkpoint import Checkpoint, digest_counts
from epiclick.training.loop import Epoch, State, Training
from epiclick.training.objective import EpistemicObjective, PointwiseObjective
from epiclick.training.optimizer import TrainingSettings

from ..damaging import assert_damage_is_found
from ..raising import raises_code

pytestmark = pytest.mark.slow

SETTINGS = TrainingSettings(
    epochs=6,
    batch_size=150,
    learning_rate=1e-2,
    position_rate=10.0,
    weight_decay=1e-2,
    patience=None,
    decay=True,
    seed=0,
)
Make = Callable[..., Training]


@pytest.fixture(scope="module")
def make(small_counts: ec.ClickCounts) -> Make:
    train, valid = small_counts.split(0.7, 0.3, seed=1)
    scaler = fit_scaler(train)
    rate = train.by_context()["click_rate"].to_numpy()

    def training(estimator: str = "marginal", **options) -> Training:
        settings = replace(SETTINGS, **options.pop("settings", {}))
        point = estimator in ("marginal", "pointwise")
        objective = (
            PointwiseObjective(PositionBased(), 0)
            if estimator == "pointwise"
            else EpistemicObjective(
                make_estimator(estimator, samples=8, literal=options.pop("literal", False)),
                0.0,
                PositionBased(),
                0 if point else None,
                8,
            )
        )
        layers = init_relevance(
            np.random.default_rng(settings.seed),
            4,
            (8,),
            outputs=1 if estimator == "pointwise" else 2,
            mean=0.4,
        )
        begin = Parameters(
            layers, PointLookup(PositionBased().start(rate, 0)) if point else init_betas(3)
        )
        sets = [PairSet.of(counts, scaler, settings.batch_size) for counts in (train, valid)]
        return Training(objective, [begin], *sets, settings, **options)

    return training


def arrays(state: State) -> list[np.ndarray]:
    (memory,) = state.optimizers
    kept = [*leaves(state.parameters[0]), *leaves(state.best[0])]
    return [*kept, np.array(memory.steps), *memory.means, *memory.squares]


def assert_same(one: State, other: State) -> None:
    for a, b in zip(arrays(one), arrays(other), strict=True):
        assert a.tobytes() == b.tobytes()
    assert [replace(row, seconds=0) for row in one.history] == [
        replace(row, seconds=0) for row in other.history
    ]


@pytest.mark.parametrize("estimator", ["marginal", "pointwise", "exact"])
def test_training_improves_the_likelihood_and_a_seed_repeats_it(make: Make, estimator: str) -> None:
    training = make(estimator)
    state = training.run(training.start())
    history = state.history
    assert len(history) == 6
    assert history[-1].validation > history[0].validation
    assert [row.zero_gradients for row in history] == [0] * 6
    assert_same(state, training.run(training.start()))


def test_another_seed_is_another_run(make: Make) -> None:
    one, other = (make(settings={"seed": seed}) for seed in (0, 1))
    states = [training.run(training.start()) for training in (one, other)]
    assert states[0].history[-1].validation != states[1].history[-1].validation


def test_early_stopping_brings_the_best_weights_back(make: Make) -> None:
    # a rate this high makes validation go up and down
    training = make(settings={"epochs": 30, "patience": 3, "learning_rate": 0.1, "decay": False})
    state = training.run(training.start())
    scores = [row.validation for row in state.history]
    assert len(scores) < 30
    assert state.best_epoch == int(np.argmax(scores)) + 1 == len(scores) - 3
    assert training._validate(state.best) == max(scores)
    assert training._validate(state.parameters) == scores[-1] < max(scores)


def test_without_patience_the_last_weights_are_kept(make: Make) -> None:
    training = make(settings={"learning_rate": 0.1, "decay": False})
    state = training.run(training.start())
    assert state.best_epoch == 6
    for best, last in zip(*map(leaves, (state.best[0], state.parameters[0])), strict=True):
        np.testing.assert_array_equal(best, last)


def test_the_literal_naive_estimator_never_moves(make: Make) -> None:
    """The likelihood of a batch underflows to 0, and so does its gradient; an offset fixes it."""
    training = make("naive", literal=True, settings={"weight_decay": 0.0, "epochs": 2})
    counts = training.train.batches.counts
    often = replace(counts, displays=5 * counts.displays, clicks=5 * counts.clicks)
    assert training.train.inputs is not None
    many = PairSet.of(often, training.train.inputs.scaler, 150)
    training = replace(training, train=many, valid=None)
    state = training.run(training.start())
    assert all(row.zero_gradients == len(training.train.batches) for row in state.history)
    for begin, end in zip(*map(leaves, (training.begin[0], state.parameters[0])), strict=True):
        np.testing.assert_array_equal(end, begin)
    moving = make("naive", settings={"epochs": 2})
    moving = replace(moving, train=many, valid=None)
    assert sum(row.zero_gradients for row in moving.run(moving.start()).history) < 2 * len(
        moving.train.batches
    )


class Stop(Exception):
    pass


@pytest.mark.parametrize("estimator", ["marginal", "exact", "naive"])
def test_a_run_cut_short_goes_on_to_the_same_bits(
    make: Make, estimator: str, tmp_path: Path
) -> None:
    whole = make(estimator)
    expected = whole.run(whole.start())
    checkpoint = Checkpoint(tmp_path / "run", {"log": "a"})

    def keep(state: State, urgent: bool) -> None:
        checkpoint.keep(state, True)
        if len(state.history) == 3:
            raise Stop

    cut = make(estimator, keep=keep)
    with pytest.raises(Stop):
        cut.run(cut.start())
    resumed = checkpoint.load(whole.start())
    assert len(resumed.history) == 3
    assert_same(whole.run(resumed), expected)


def test_an_interrupted_run_keeps_its_last_whole_epoch(make: Make, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "run", {})

    class Impatient:
        def __init__(self) -> None:
            self.steps = 0

        def step(self) -> None:
            self.steps += 1
            if self.steps == 5:
                raise KeyboardInterrupt

        def epoch(self, log_likelihood: float, validation: float | None) -> None:
            pass

    training = make(keep=checkpoint.keep, progress=Impatient())
    with pytest.raises(KeyboardInterrupt):
        training.run(training.start())
    kept = checkpoint.load(training.start())
    assert len(kept.history) == 5 // len(training.train.batches)


def test_another_log_or_setting_is_refused(make: Make, tmp_path: Path) -> None:
    training = make()
    start = training.start()
    Checkpoint(tmp_path / "run", {"log": "a", "settings": "b"}).keep(start, True)
    for part, run in (("log", {"log": "x", "settings": "b"}), ("settings", {"log": "a"})):
        with raises_code("checkpoint-of-another-run") as caught:
            Checkpoint(tmp_path / "run", {"settings": "x", **run}).load(start)
        assert f"differs in its {part};" in str(caught.value)


@pytest.mark.parametrize("damage", ["cut", "text", "absent"])
def test_a_damaged_checkpoint_is_reported(make: Make, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "run"
    start = make().start()
    Checkpoint(path, {}).keep(start, True)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-40])
    elif damage == "text":
        path.write_text("not a checkpoint")
    else:
        path.unlink()
    with raises_code("file-missing" if damage == "absent" else "damaged-file") as caught:
        Checkpoint(path, {}).load(start)
    assert "resume=True" in str(caught.value)


def test_no_flip_or_cut_of_a_checkpoint_is_read_as_another_state(
    make: Make, tmp_path: Path
) -> None:
    start = make().start()
    row = Epoch(1, -0.5, None, 0, 0.25)
    kept = replace(start, best_epochs=(1,), best_validations=(-np.inf,), history=(row,))
    checkpoint = Checkpoint(tmp_path / "run", {"log": "a"})
    checkpoint.keep(kept, True)

    def check() -> None:
        found = checkpoint.load(start)
        assert_same(found, kept)
        assert found.history == kept.history
        assert found.best_epochs == kept.best_epochs
        assert found.best_validations == kept.best_validations

    refused, _ = assert_damage_is_found(tmp_path / "run", check)
    assert refused > 250


def test_a_full_disk_leaves_the_earlier_checkpoint(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Checkpoint(tmp_path / "run", {})
    start = make().start()
    checkpoint.keep(start, True)
    before = (tmp_path / "run").read_bytes()

    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing.os, "replace", full)
    with raises_code("cannot-write") as caught:
        checkpoint.keep(replace(start, best_epochs=(1,)), True)
    assert "No space left" in str(caught.value)
    assert (tmp_path / "run").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_divergence_names_the_step_and_the_cause(make: Make) -> None:
    training = make(settings={"learning_rate": 1e30, "decay": False})
    with raises_code("training-diverged") as caught:
        training.run(training.start())
    assert re.search(r"epoch 1, step \d of \d.*learning rate", str(caught.value))


def test_digests_of_logs_differ(small_counts: ec.ClickCounts) -> None:
    same = small_counts.subset(np.arange(len(small_counts)))
    assert digest_counts(same) == digest_counts(small_counts)
    other = replace(small_counts, clicks=np.where(np.arange(len(same.clicks)) == 3, 0, same.clicks))
    bare = replace(small_counts, features=None, feature_row=None)
    digests = {digest_counts(counts) for counts in (small_counts, other, bare, same.subset([0, 1]))}
    assert len(digests) == 4


def test_held_out_pairs_that_the_model_rules_out_are_reported(make: Make) -> None:
    training = make(settings={"patience": 3})
    assert training.valid is not None
    assert training.valid.inputs is not None
    impossible = replace(training.valid.inputs)
    shape = impossible.take(np.arange(len(impossible.counts))).shape
    impossible.__dict__["_cached"] = np.full(shape, 1e30, np.float32)
    extreme = replace(training, valid=replace(training.valid, inputs=impossible))
    with raises_code("validation-not-finite") as caught:
        extreme.run(extreme.start())
    assert re.search("(nan|-inf) after epoch 1", str(caught.value))


def test_padding_changes_no_result(make: Make) -> None:
    """Nor does a bucket that is empty but for padding, such as that of heads."""
    training = make()
    assert training.valid is not None

    def few(pairs: PairSet) -> PairSet:
        """Pairs with few unclicked displays."""
        counts = pairs.batches.counts
        displays, clicks = counts.dense()
        counts = counts.subset(np.flatnonzero((displays - clicks).sum(axis=1) <= 2))
        assert pairs.inputs is not None
        return PairSet.of(counts, pairs.inputs.scaler, 100)

    def padded(pairs: PairSet) -> PairSet:
        room = tuple(room and room + 5 for room in pairs.batches.capacity)
        assert room[-1] == 0
        shapes = Shapes(len(pairs.batches), (*room[:-1], 3))
        return replace(pairs, batches=replace(pairs.batches, shapes=shapes))

    training = replace(training, train=few(training.train), valid=few(training.valid))
    wide = replace(training, train=padded(training.train), valid=padded(training.valid))
    one, other = (each.run(each.start()) for each in (training, wide))
    # the network sums gradients over pairs in float32, in an order that depends on their number
    for a, b in zip(*(leaves(state.best[0]) for state in (one, other)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    for a, b in zip(one.history, other.history, strict=True):
        assert a.validation == pytest.approx(b.validation, rel=1e-7)
