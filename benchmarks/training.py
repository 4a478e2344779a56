"""Memory and time of training; prints one JSON object.

`fit` is a default fit of a simulated log with more than 165,000 pairs, `epochs` the time of an
epoch by number of pairs.
`large`, 20 million pairs, takes minutes and 8 GB of disk: it runs only by name or with --full.
Fits whose memory is measured run in their own process.
"""

import argparse
import json
import os
import shutil
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
from epiclick.batching.pairset import PairSet, fit_scaler
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.fitting import pairs_per_batch
from epiclick.plans import epistemic_plan
from epiclick.processes import one_blas_thread
from estimators import Run, in_turn, timed, training_of

WORLD = {"queries": 30_000, "docs": 30, "features": 136, "pages": 100_000, "positions": 5}
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
LARGE = 20_000_000
LARGE_FEATURES = 100
DISK = 20e9
CHUNK = 500_000
THETA = 1 / np.arange(1, 6)
DOCS = 10
ROUNDS = 5


def relevance_of(rows: np.ndarray) -> np.ndarray:
    """(rows,) relevance, from the first two features."""
    return 1 / (1 + np.exp(1 - rows[:, 0] - rows[:, 1]))


def write_features(path: Path, pairs: int, features: int, rng: np.random.Generator) -> np.ndarray:
    """Write normal features as a float32 matrix, in chunks; returns the relevance of each row."""
    relevance = np.empty(pairs)
    shape = (pairs, features)
    matrix = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    for start in range(0, pairs, CHUNK):
        part = slice(start, min(start + CHUNK, pairs))
        matrix[part] = rng.standard_normal((part.stop - start, features), dtype=np.float32)
        relevance[part] = relevance_of(matrix[part])
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


def with_matrix(counts: ClickCounts, matrix: np.ndarray) -> ClickCounts:
    """The counts with a row of features for each pair, joined by their ids."""
    keys = pa.table({"query_id": counts.query_id, "doc_id": counts.doc_id})
    names = tuple(f"f{i}" for i in range(matrix.shape[1]))
    return counts.with_features(FeatureTable(keys, names, matrix))


def synthetic(pairs: int, features: int) -> ClickCounts:
    """Counts of that many pairs, with features in memory."""
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((pairs, features), dtype=np.float32)
    return with_matrix(draw_counts(relevance_of(matrix), rng), matrix)


def write_large(folder: Path) -> None:
    """Counts and features of 20 million pairs."""
    rng = np.random.default_rng(0)
    relevance = write_features(folder / "features.npy", LARGE, LARGE_FEATURES, rng)
    draw_counts(relevance, rng).to_parquet(folder / "counts.parquet")


def read_large(folder: Path) -> ClickCounts:
    """The counts written by `write_large`; the features stay on disk."""
    counts = ClickCounts.from_parquet(folder / "counts.parquet")
    return with_matrix(counts, np.load(folder / "features.npy", mmap_mode="r"))


def write_world(folder: Path) -> None:
    """The log and the features of a simulated world."""
    ec.simulate(**WORLD).save(folder / "world")


def read_world(folder: Path) -> ClickCounts:
    """The log of the simulated world, counted and with features joined."""
    world = folder / "world"
    return ec.read_log(world / "clicks.parquet", features=world / "features.parquet")


def resident(kind: str) -> int:
    """Resident bytes of this process, now ("RSS") or at the peak ("HWM"), mapped files included.

    `getrusage` would return the peak of the parent process, if that was higher.
    """
    status = Path("/proc/self/status").read_text()
    return int(next(row.split()[1] for row in status.splitlines() if f"Vm{kind}" in row)) * 1024


def measured_fit(read: Callable[[Path], ClickCounts], folder: Path, **options: Any) -> None:
    """Read and fit in this process, and print the time and the peak memory of each."""
    result: dict[str, Any] = {}

    def stage(name: str, work: Callable[[], Any]) -> Any:
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak
        start = time.perf_counter()
        returned = work()
        result[f"{name}_seconds"] = round(time.perf_counter() - start, 1)
        result[f"{name}_peak_gb"] = round(resident("HWM") / 1e9, 2)
        return returned

    counts = stage("read", lambda: read(folder))
    result["counts_gb"] = round(resident("RSS") / 1e9, 2)
    model = stage("fit", lambda: ec.EpistemicPBM(**options).fit(counts))
    training = model.fitted_.training
    result["peak_gb"] = max(result["read_peak_gb"], result["fit_peak_gb"])
    result["training_pairs"], result["epochs"] = training.pairs, training.epochs
    result["training_loop_seconds"] = round(training.seconds, 1)
    result["features"] = len(model.feature_names_in_)
    result["position_bias"] = model.position_bias()["mean"].round(3).tolist()
    print(json.dumps(result))


CHILDREN: dict[str, Callable[[Path], None]] = {
    "write-world": write_world,
    "fit-world": partial(measured_fit, read_world),
    "write-large": write_large,
    "fit-large": partial(measured_fit, read_large, epochs=1, holdout=0.01),
}


def in_own_process(child: str, folder: str) -> Any:
    """The JSON printed by a new process that runs one of CHILDREN."""
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


def epochs() -> dict[str, Any]:
    """Seconds per epoch by number of pairs."""
    with one_blas_thread():
        _, times = in_turn({str(pairs): epoch_of(pairs, 20) for pairs in SIZES}, ROUNDS)
    seconds = {pairs: float(np.median(times[str(pairs)])) for pairs in SIZES}

    def exponent(least: int) -> float:
        used = [pairs for pairs in SIZES if pairs >= least]
        slope = np.polyfit(np.log(used), np.log([seconds[pairs] for pairs in used]), 1)[0]
        return round(float(slope), 3)

    return {
        "features": 20,
        "seconds": {pairs: round(each, 4) for pairs, each in seconds.items()},
        "microseconds_per_pair": {
            pairs: round(1e6 * each / pairs, 2) for pairs, each in seconds.items()
        },
        "exponent": exponent(SIZES[0]),
        "exponent_from_100000": exponent(100_000),
    }


def epoch_of(pairs: int, features: int) -> Run:
    """A function that trains for an epoch on that many pairs, in the batches of a default fit."""
    counts = synthetic(pairs, features)
    plan = epistemic_plan(ec.EpistemicPBM(), counts)
    batched = PairSet.of(counts, fit_scaler(counts), pairs_per_batch(plan, pairs))
    training = training_of(plan, batched)
    state = training.start()
    return timed(lambda: training._epoch(training.objective, state, 0.0, lambda: None).parameters)


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "fit": fit,
    "epochs": epochs,
    "large": large,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "parts", nargs="*", help=f"some of {', '.join(PARTS)}; default: all but large"
    )
    parser.add_argument("--full", action="store_true", help="include large")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        CHILDREN[given.child](given.folder)
        return
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    default = [name for name in PARTS if name != "large" or given.full]
    result = {name: PARTS[name]() for name in given.parts or default}
    print(json.dumps({"cores": os.cpu_count(), **result}, indent=1))


if __name__ == "__main__":
    main()
