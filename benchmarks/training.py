"""Memory and time of training; prints one JSON object.

`fit` is a full fit of a simulated log of 165,000 pairs or more, `epochs` the time of an epoch by
number of pairs, `together` several runs in one program against one after the other. `large`, 20
million pairs, takes half an hour and 11 GB of disk: it runs only by its name or with --full. What
memory is measured of runs in a process of its own.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import epiclick as ec
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable

WORLD = {"queries": 30_000, "docs": 30, "features": 136, "pages": 100_000, "positions": 5}
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
EPOCHS = 9
LARGE = int(os.environ.get("LARGE", 20_000_000))
LARGE_FEATURES = 100
DISK = 20e9
CHUNK = 500_000
THETA = 1 / np.arange(1, 6)
DOCS = 10
RUNS = 4
ROUNDS = 15
BATCHES = (1_000, 12_000)


def write_features(path: Path, pairs: int, features: int, rng: np.random.Generator) -> np.ndarray:
    """Write normal features as a float32 matrix, some rows at a time; relevance of each row."""
    relevance = np.empty(pairs)
    shape = (pairs, features)
    matrix = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    for start in range(0, pairs, CHUNK):
        rows = rng.standard_normal((min(CHUNK, pairs - start), features), dtype=np.float32)
        matrix[start : start + CHUNK] = rows
        relevance[start : start + CHUNK] = 1 / (1 + np.exp(1 - rows[:, 0] - rows[:, 1]))
    matrix.flush()
    return relevance


def draw_counts(relevance: np.ndarray, rng: np.random.Generator) -> ClickCounts:
    """Counts of pairs with the given relevance: most are seen once or twice, some very often."""
    pairs = len(relevance)
    shown = rng.random((pairs, len(THETA)), dtype=np.float32) < 0.15
    shown[np.arange(pairs), rng.integers(len(THETA), size=pairs)] = True
    pair, context = np.nonzero(shown)
    displays = np.minimum(rng.zipf(2.2, len(pair)), 10_000)
    clicks = rng.binomial(displays, THETA[context] * relevance[pair])
    return ClickCounts(
        query_id=pa.array(np.arange(pairs) // DOCS),
        doc_id=pa.array(np.arange(pairs)),
        contexts=pa.table({"position": np.arange(1, len(THETA) + 1)}),
        pair=pair,
        context=context,
        displays=displays,
        clicks=clicks,
    )


def mapped_features(folder: Path, counts: ClickCounts) -> FeatureTable:
    """The features that `write_features` wrote for all pairs of some counts."""
    matrix = np.load(folder / "features.npy", mmap_mode="r")
    keys = pa.table({"query_id": counts.query_id, "doc_id": counts.doc_id})
    return FeatureTable(keys, tuple(f"f{i}" for i in range(matrix.shape[1])), matrix)


def write_synthetic(folder: Path, pairs: int, features: int, seed: int = 0) -> None:
    """Counts and features of so many pairs."""
    rng = np.random.default_rng(seed)
    relevance = write_features(folder / "features.npy", pairs, features, rng)
    draw_counts(relevance, rng).to_parquet(folder / "counts.parquet")


def write_world(folder: Path) -> None:
    """The log and the features of a simulated world."""
    ec.simulate(**WORLD).save(folder / "world")


def read_synthetic(folder: Path) -> ClickCounts:
    """The counts that `write_synthetic` wrote, with features joined."""
    counts = ClickCounts.from_parquet(folder / "counts.parquet")
    return counts.with_features(mapped_features(folder, counts))


def read_world(folder: Path) -> ClickCounts:
    """The log of the simulated world, counted and with features joined."""
    world = folder / "world"
    return ec.read_log(world / "clicks.parquet", features=world / "features.parquet")


def resident(kind: str) -> int:
    """Resident bytes of this process, now ("RSS") or at most ("HWM"), pages of files included."""
    status = Path("/proc/self/status").read_text()
    return int(next(row.split()[1] for row in status.splitlines() if f"Vm{kind}" in row)) * 1024


def measured_fit(read: Callable[[Path], ClickCounts], folder: Path, **options: Any) -> None:
    """Read and fit in this process, and print the time and the peak memory of either."""
    told: dict[str, Any] = {}

    def stage(name: str, work: Callable[[], Any]) -> Any:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        start = time.perf_counter()
        result = work()
        told[f"{name}_seconds"] = round(time.perf_counter() - start, 1)
        told[f"{name}_peak_gb"] = round(resident("HWM") / 1e9, 2)
        return result

    counts = stage("read", lambda: read(folder))
    told["counts_gb"] = round(resident("RSS") / 1e9, 2)
    model = stage("fit", lambda: ec.EpistemicPBM(**options).fit(counts))
    training = model.fitted_.training
    told["peak_gb"] = max(told["read_peak_gb"], told["fit_peak_gb"])
    told["training_pairs"], told["epochs"] = training.pairs, training.epochs
    told["training_loop_seconds"] = round(training.seconds, 1)
    told["features"] = len(model.feature_names_in_)
    told["position_bias"] = model.position_bias()["mean"].round(3).tolist()
    print(json.dumps(told))


CHILDREN: dict[str, Callable[[Path], None]] = {
    "write-world": write_world,
    "fit-world": partial(measured_fit, read_world),
    "write-large": lambda folder: write_synthetic(folder, LARGE, LARGE_FEATURES),
    "fit-large": partial(measured_fit, read_synthetic, epochs=1, holdout=0.01),
}


def in_own_process(child: str, folder: str) -> Any:
    """What a new process prints that runs one of CHILDREN."""
    command = [sys.executable, __file__, "--child", child, "--folder", folder]
    environment = {**os.environ, "EPICLICK_CACHE": str(Path(folder) / "cache")}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(done.stdout or "null")


def fit() -> dict[str, Any]:
    """A default fit from the files of a log and its features."""
    with tempfile.TemporaryDirectory() as folder:
        in_own_process("write-world", folder)
        return {"world": WORLD, **in_own_process("fit-world", folder)}


def large() -> dict[str, Any]:
    """An epoch of 20 million pairs whose features are on disk."""
    with tempfile.TemporaryDirectory() as folder:
        free = shutil.disk_usage(folder).free
        if free < DISK:
            return {"skipped": f"{free / 1e9:.0f} GB of disk are free, {DISK / 1e9:.0f} are needed"}
        in_own_process("write-large", folder)
        return {"pairs": LARGE, **in_own_process("fit-large", folder)}


def synthetic(pairs: int, features: int) -> ClickCounts:
    """Counts with features in memory, of which two make relevance."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((pairs, features), dtype=np.float32)
    counts = draw_counts(1 / (1 + np.exp(1 - matrix[:, 0] - matrix[:, 1])), rng)
    keys = pa.table({"query_id": counts.query_id, "doc_id": counts.doc_id})
    return counts.with_features(FeatureTable(keys, tuple(f"f{i}" for i in range(features)), matrix))


def epochs() -> dict[str, Any]:
    """Seconds of an epoch by number of pairs, without the first, which compiles."""
    seconds = {}
    for pairs in SIZES:
        model = ec.EpistemicPBM(epochs=EPOCHS, patience=None, holdout=0.0)
        history = model.fit(synthetic(pairs, 20)).history_
        seconds[pairs] = statistics.median(np.diff(history["seconds"]))
    exponent = np.polyfit(np.log(list(seconds)), np.log(list(seconds.values())), 1)[0]
    return {
        "features": 20,
        "seconds": {pairs: round(each, 4) for pairs, each in seconds.items()},
        "microseconds_a_pair": {
            pairs: round(1e6 * each / pairs, 2) for pairs, each in seconds.items()
        },
        "exponent": round(float(exponent), 3),
    }


def together() -> dict[str, Any]:
    """Steps of four runs in one program, against four steps one after the other."""
    import jax

    from epiclick.plans import epistemic_plan
    from epiclick.training.inputs import fit_scaler
    from epiclick.training.loop import _step
    from epiclick.training.pairset import PairSet
    from estimators import training_of

    def measure(size: int) -> dict[str, float]:
        counts = synthetic(RUNS * size, 136)
        pairs = PairSet.of(counts, fit_scaler(counts), size)
        training = training_of(epistemic_plan(ec.EpistemicPBM(), counts), pairs)
        batches = list(pairs.epoch(np.random.default_rng(0)))
        state = training.start()
        states = [(state.parameters, state.optimizer)] * RUNS

        def stack(*leaves: Any) -> np.ndarray:
            return np.stack([np.asarray(leaf) for leaf in leaves])

        stacked_states = jax.tree.map(stack, *states)
        stacked_batches = jax.tree.map(stack, *batches)
        step = partial(_step, training.objective, training._optimizer)
        own = jax.jit(jax.vmap(lambda state, batch: step(*state, *batch, None)))
        shared = jax.jit(
            jax.vmap(lambda state, batch: step(*state, *batch, None), in_axes=(0, None))
        )
        ways = {
            "one_after_the_other": lambda: [
                step(*state, *batch, None) for state, batch in zip(states, batches, strict=True)
            ],
            "one_program": lambda: own(stacked_states, stacked_batches),
            "one_program_one_batch": lambda: shared(stacked_states, batches[0]),
        }
        compiling, times = {}, {name: [] for name in ways}
        for turn in range(ROUNDS + 1):
            for name, way in ways.items():
                start = time.perf_counter()
                jax.block_until_ready(way())
                seconds = time.perf_counter() - start
                if turn:
                    times[name].append(seconds)
                else:
                    compiling[name] = seconds
        medians = {name: 1e3 * statistics.median(each) for name, each in times.items()}
        base = medians["one_after_the_other"]
        return {
            **{f"{name}_milliseconds": round(each, 2) for name, each in medians.items()},
            **{f"{name}_compile_seconds": round(each, 1) for name, each in compiling.items()},
            "one_program_ratio": round(medians["one_program"] / base, 2),
            "one_program_one_batch_ratio": round(medians["one_program_one_batch"] / base, 2),
        }

    with jax.enable_x64(True):
        return {"runs": RUNS, "features": 136, "pairs": {size: measure(size) for size in BATCHES}}


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "fit": fit,
    "epochs": epochs,
    "together": together,
    "large": large,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(PARTS)}; all but large")
    parser.add_argument("--full", action="store_true", help="large too")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        CHILDREN[given.child](given.folder)
        return
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    usual = [name for name in PARTS if name != "large" or given.full]
    result = {name: PARTS[name]() for name in given.parts or usual}
    print(json.dumps({"cores": os.cpu_count(), **result}, indent=1))


if __name__ == "__main__":
    main()
