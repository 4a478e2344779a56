"""Fits shared by processes, real ones on loopback or threads that stand for them, against one."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epiclick as ec
from epiclick.api import EPISTEMIC
from epiclick.batching import shares
from epiclick.collective import Alone, Collective
from epiclick.distributed import ADDRESS, COUNT, JOB_INDEX, NUMBER, Place, _place

from .raising import raises_code

AGREE = 1e-6
SMALL = 40  # pairs of a shard, so that batches of small logs have several

PROGRAM = f"""
import os, signal
from epiclick.batching import shares
from epiclick.cli.main import run
from epiclick.training import checkpoint, loop

shares.LEAST_SHARD = {SMALL}
checkpoint.SECONDS_BETWEEN = 0.0
whole = loop.Training._epoch

def epoch(self, objective, state, *rest):
    if str(len(state.history)) == os.environ.get("DIES_AFTER"):
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(self, objective, state, *rest)

loop.Training._epoch = epoch
run()
"""


@dataclass(eq=False)
class Threads:
    """Processes that are threads of this one; a collective for each of them."""

    count: int
    barrier: threading.Barrier = field(init=False)
    given: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.count, timeout=60)

    def run(self, fit: Callable[[Collective], Any]) -> list[Any]:
        """What each of them returns, or the error that it raises."""
        found: list[Any] = [None] * self.count

        def one(rank: int) -> None:
            try:
                found[rank] = fit(OneThread(self, rank))
            except ec.InputError as error:
                found[rank] = error

        threads = [threading.Thread(target=one, args=(i,)) for i in range(self.count)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return found

    def exchange(self, rank: int, own: Any) -> list[Any]:
        self.given[rank] = own
        self.barrier.wait()
        every = [self.given[i] for i in range(self.count)]
        self.barrier.wait()
        return every


@dataclass(frozen=True, eq=False)
class OneThread:
    threads: Threads
    rank: int

    @property
    def count(self) -> int:
        return self.threads.count

    def sum(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        every = self.threads.exchange(self.rank, [np.array(each, float) for each in arrays])
        return [np.sum(each, axis=0) for each in zip(*every, strict=True)]

    def from_first(self, data: bytes) -> bytes:
        return self.threads.exchange(self.rank, data)[0]

    def close(self) -> None: ...


class Forgetful:
    """One of two processes, which adds nothing of the other."""

    count, rank = 2, 0

    def sum(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return list(arrays)

    def from_first(self, data: bytes) -> bytes:
        return data

    def close(self) -> None: ...


@pytest.fixture(scope="module")
def world() -> ec.World:
    return ec.simulate(
        queries=150, docs=8, features=4, pages=2_500, positions=4, relevance="beta", seed=5
    )


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "LEAST_SHARD", SMALL)


def counts_of(world: ec.World, kind: str, *, bare: bool, **options: Any) -> ec.ClickCounts:
    counts = world.counts(click_model=kind, **options)
    return replace(counts, features=None, feature_row=None) if bare else counts


def answers(model: Any, counts: ec.ClickCounts) -> dict[str, np.ndarray]:
    """All that a fit finds: parameters, posterior, position bias, relevance of items."""
    fitted = model.fitted_
    return {
        **{f"layer {i}": weight for i, (weight, _) in enumerate(fitted.parameters.layers)},
        "clicks": fitted.parameters.position.points.logit,
        "mean": fitted.posterior.mean,
        "bayes": fitted.posterior.bayes,
        "robust": fitted.posterior.robust,
        "bias": model.position_bias().filter(["mean", "low", "high"]).to_numpy(),
        "items": model.posterior(counts).filter(["mean", "low", "high"]).to_numpy(),
        "history": model.history_.filter(["log_likelihood", "validation"]).to_numpy(),
    }


def differences(one: Mapping[str, np.ndarray], two: Mapping[str, np.ndarray]) -> dict[str, float]:
    assert one.keys() == two.keys()
    return {
        name: float(np.nanmax(np.abs(one[name] - two[name]) / np.maximum(1, np.abs(one[name]))))
        if one[name].shape == two[name].shape
        else np.inf
        for name in one
    }


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


def start(
    arguments: Sequence[object], processes: int, **environment: Mapping[str, str]
) -> list[subprocess.CompletedProcess[str]]:
    """The command in several processes; `environment` is more of it for process_0, process_1."""
    address, begun = f"127.0.0.1:{free_port()}", []
    for number in range(processes):
        own = {ADDRESS: address, COUNT: str(processes), NUMBER: str(number)}
        begun.append(
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *map(str, arguments)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, **own, **environment.get(f"process_{number}", {})},
            )
        )
    done = []
    try:
        for each in begun:
            out, err = each.communicate(timeout=150)
            done.append(subprocess.CompletedProcess(each.args, each.returncode, out, err))
    finally:
        for each in begun:
            each.kill()  # does nothing to a process that has ended
    return done


@pytest.fixture(scope="module")
def folder(world: ec.World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    world.save(folder)
    return folder


def command(folder: Path, out: Path, *, bare: bool, more: Sequence[object]) -> list[object]:
    features = [] if bare else ["--features", folder / "features.parquet"]
    return ["fit", folder / "clicks.parquet", "--out", out, *features, *more, "--distributed"]


WITH_FEATURES = ["--epochs", 6, "--hidden", "8,4", "--json"]


@pytest.fixture(scope="module")
def by_two(folder: Path) -> Path:
    """A model that two processes have fitted, and a third fit has not disturbed."""
    out = folder / "by_two"
    done = start(command(folder, out, bare=False, more=WITH_FEATURES), 2)
    assert [each.returncode for each in done] == [0, 0], done
    assert done[0].stdout.count("\n") == 1, "the first prints one record"
    assert (done[1].stdout, done[1].stderr) == ("", ""), "the other is silent"
    return out


@pytest.mark.slow
def test_two_processes_give_the_model_of_one_with_features(world: ec.World, by_two: Path) -> None:
    counts = counts_of(world, "pbm", bare=False)
    alone = ec.EpistemicPBM(epochs=6, hidden=(8, 4)).fit(counts, progress=False, processes=Alone())
    found = differences(answers(alone, counts), answers(ec.load(by_two), counts))
    assert max(found.values()) < AGREE, found
    # below the last layer there is no rounding to differ by, either
    assert found["layer 0"] == found["layer 1"] == 0


@pytest.mark.slow
def test_two_processes_give_the_model_of_one_without_features(
    world: ec.World, folder: Path
) -> None:
    out = folder / "bare"
    done = start(command(folder, out, bare=True, more=["--click-model", "ubm"]), 2)
    assert [each.returncode for each in done] == [0, 0], done
    counts = counts_of(world, "ubm", bare=True)
    alone = ec.EpistemicUBM().fit(counts, progress=False)
    found = differences(answers(alone, counts), answers(ec.load(out), counts))
    assert max(found.values()) < AGREE, found


@pytest.mark.slow
def test_a_fit_goes_on_after_a_process_was_killed(folder: Path, by_two: Path) -> None:
    out = folder / "killed"
    arguments = command(folder, out, bare=False, more=WITH_FEATURES)
    done = start(arguments, 2, process_1={"DIES_AFTER": "3"})
    assert done[1].returncode == -signal.SIGKILL
    assert (done[0].returncode, done[0].stdout) == (1, ""), done[0].stderr
    (message,) = done[0].stderr.splitlines()
    assert "another process of this fit has ended" in message
    assert not out.exists()
    assert out.with_name("killed.checkpoint").exists()
    resumed = start([*arguments, "--resume"], 2)
    assert [each.returncode for each in resumed] == [0, 0], resumed
    assert not out.with_name("killed.checkpoint").exists()
    names = [each.name for each in by_two.glob("*.safetensors")]
    assert "posterior.safetensors" in names
    for name in names:
        assert (out / name).read_bytes() == (by_two / name).read_bytes(), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "bare", "count", "cluster"),
    [
        ("pbm", False, 3, "page"),
        ("pbm", True, 2, "page"),
        ("ubm", False, 2, "query"),
        ("trust", True, 2, "query"),
    ],
)
def test_threads_give_the_model_of_one(
    world: ec.World, kind: str, bare: bool, count: int, cluster: str
) -> None:
    counts = counts_of(world, kind, bare=bare, cluster=cluster)
    assert (counts.clusters is None) == (cluster == "query")
    settings = {} if bare else {"epochs": 3, "hidden": (8, 4)}

    def fit(processes: Collective) -> Any:
        return EPISTEMIC[kind](**settings).fit(counts, progress=False, processes=processes)

    expected = answers(fit(Alone()), counts)
    for model in Threads(count).run(fit):
        found = differences(expected, answers(model, counts))
        assert max(found.values()) < AGREE, found


@pytest.mark.slow
@pytest.mark.parametrize("bare", [True, False])
def test_a_process_that_adds_nothing_of_the_other_is_noticed(world: ec.World, bare: bool) -> None:
    counts = counts_of(world, "pbm", bare=bare)
    settings = {} if bare else {"epochs": 3, "hidden": (8, 4)}
    whole, half = (
        ec.EpistemicPBM(**settings).fit(counts, progress=False, **more)
        for more in ({"processes": Alone()}, {"processes": Forgetful()})
    )
    found = differences(answers(whole, counts), answers(half, counts))
    assert min(found["mean"], found["bias"], found["robust"]) > 100 * AGREE, found


def test_processes_with_other_logs_are_refused_in_all(world: ec.World) -> None:
    counts = counts_of(world, "pbm", bare=True)
    fewer = counts.subset(np.arange(len(counts) - 1))
    found = Threads(3).run(
        lambda own: ec.EpistemicPBM().fit(
            fewer if own.rank == 2 else counts, progress=False, processes=own
        )
    )
    assert [error.code for error in found] == ["processes-differ"] * 3
    assert "process 2" in str(found[0])


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (ec.EpistemicDCM(), "dcm"),
        (ec.EpistemicPBM(members=2), "pbm"),
        (ec.EpistemicPBM(estimator="exact"), "pbm"),
    ],
)
def test_what_several_processes_cannot_fit_is_refused(
    world: ec.World, model: Any, kind: str
) -> None:
    with raises_code("not-distributed"):
        model.fit(counts_of(world, kind, bare=False), processes=Forgetful())


def test_every_pair_is_in_one_share_and_one_shard(world: ec.World) -> None:
    counts = counts_of(world, "pbm", bare=True)
    rng = np.random.default_rng(0)
    batch = np.r_[rng.permutation(len(counts))[:300], [-1, -1]]
    for count in (1, 2, 3, 8):
        each = [share_of(counts, count, rank, shards=4) for rank in range(count)]
        dealt = [pairs for own in each for pairs in own.own_shards(batch)]
        assert sorted(np.concatenate(dealt)) == sorted(batch[:-2])
        whole = [set(counts.query[pairs]) for pairs in dealt]
        assert sum(map(len, whole)) == len(set.union(*whole)), "a query is in one shard"
        shared = [share_of(counts, count, rank).own_pairs(batch) for rank in range(count)]
        assert sorted(p for own in shared for p in own if p >= 0) == sorted(batch[:-2])


def share_of(counts: ec.ClickCounts, count: int, rank: int, **how: Any) -> shares.Share:
    return shares.Share.of(counts, OneThread(Threads(count), rank), **how)


def test_a_query_is_in_the_same_share_in_any_part_of_a_log(world: ec.World) -> None:
    counts = counts_of(world, "pbm", bare=True)
    some = np.arange(40, len(counts), 3)
    whole, part = (shares.Share.of(each) for each in (counts, counts.subset(some)))
    assert np.array_equal(whole.number[some], part.number)


def test_shards_of_two_processes_are_added_as_those_of_one() -> None:
    rng = np.random.default_rng(1)
    found = list(rng.standard_normal((8, 1000)) * np.exp(5 * rng.standard_normal((8, 1))))
    one = shares.sum_shards(found)
    two = shares.sum_shards(found[0::2]) + shares.sum_shards(found[1::2])
    assert np.array_equal(one, two)
    # the control: in the order of the shards, sums differ in the last digit
    assert not np.array_equal(one, np.sum(found, axis=0))


CLUSTER = {ADDRESS: "10.0.0.1:1234", COUNT: "4", NUMBER: "3"}


def test_where_processes_meet() -> None:
    meet = Place("10.0.0.1:1234", 4, 3)
    assert _place({}, None, None, None) is None
    assert _place(CLUSTER, None, None, None) == meet
    assert _place({}, "10.0.0.1:1234", 4, 3) == meet
    assert _place({**CLUSTER, NUMBER: "1"}, None, None, 3) == meet
    pod = {name: value for name, value in CLUSTER.items() if name != NUMBER}
    assert _place({**pod, JOB_INDEX: "3"}, None, None, None) == meet


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({NUMBER: ""}, "incomplete-cluster"),
        ({ADDRESS: "", NUMBER: ""}, "incomplete-cluster"),
        ({ADDRESS: "10.0.0.1"}, "invalid-cluster"),
        ({COUNT: "many"}, "invalid-cluster"),
        ({COUNT: "-4"}, "invalid-cluster"),
        ({NUMBER: "4"}, "invalid-cluster"),
        ({COUNT: "0"}, "invalid-cluster"),
    ],
)
def test_bad_settings_are_refused(changed: dict[str, str], code: str) -> None:
    with raises_code(code):
        _place({**CLUSTER, **changed}, None, None, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "words"),
    [({COUNT: "", ADDRESS: "", NUMBER: ""}, "no cluster was found"), ({NUMBER: "7"}, "is 7 of 1")],
)
def test_the_command_refuses_bad_settings(
    folder: Path, tmp_path: Path, changed: dict[str, str], words: str
) -> None:
    (done,) = start(command(folder, tmp_path / "out", bare=True, more=[]), 1, process_0=changed)
    assert (done.returncode, done.stdout) == (2, "")
    (message,) = done.stderr.splitlines()
    assert words in message


def test_number_of_shards_is_a_power_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "LEAST_SHARD", 2_000)
    assert [shares.shards_of(n) for n in (1, 3_999, 4_000, 12_000, 100_000)] == [1, 1, 2, 4, 32]
