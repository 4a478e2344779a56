"""A whole fit in one process on one core, and in two processes on one core each.

Every process reads the same counts and features from files, on its core (`taskset`), and fits the
default model; one process also in the arithmetic of several. Reported are processor and wall
seconds of the fits themselves, by process, ratios to the ordinary fit of one process, and how far
two models of the same arithmetic are apart.

    python benchmarks/distributed.py [--queries 10000 --features 136 --pages 50000]
"""

import argparse
import json
import os
import resource
import socket
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import epiclick as ec
from epiclick.collective import Alone

SHARDS = "BENCHMARK_IN_SHARDS"
POSITIONS, DOCS = 10, 20


def fit_here(folder: Path, out: Path) -> dict[str, Any]:
    """One process of a fit, shared if the environment says so."""
    shared = "JAX_COORDINATOR_ADDRESS" in os.environ
    processes: dict[str, Any] = {"processes": ec.distributed()} if shared else {}
    if SHARDS in os.environ:
        processes = {"processes": Alone()}
    counts = ec.read_log(folder / "clicks.parquet", features=folder / "features.parquet")
    import_module("epiclick.conversion_fit")  # with all that a fit loads, which is no part of it
    began, used = time.perf_counter(), _processor()
    model = ec.EpistemicPBM().fit(counts, progress=False, **processes)
    record = {
        "wall": round(time.perf_counter() - began, 2),
        "processor": round(_processor() - used, 2),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "pairs": len(counts),
        "epochs": model.fitted_.training.epochs,
    }
    np.savez(
        out,
        bias=model.position_bias()[["mean", "low", "high"]].to_numpy(),
        parameters=model.fitted_.posterior.mean,
        covariance=model.fitted_.posterior.robust,
        relevance=model.posterior(counts)[["mean", "low", "high"]].to_numpy(),
    )
    if shared:
        processes["processes"].close()
    return record


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run(folder: Path, count: int, *, in_shards: bool = False) -> list[dict[str, Any]]:
    """The records of `count` processes that start together, each pinned to a core of its own."""
    cores = sorted(os.sched_getaffinity(0))[:count]
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{place.getsockname()[1]}"
    begun = []
    for number, core in enumerate(cores):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        if count > 1:
            environment |= {
                "JAX_COORDINATOR_ADDRESS": address,
                "JAX_NUM_PROCESSES": str(count),
                "JAX_PROCESS_ID": str(number),
            }
        out = folder / f"{count}-{number}.npz"
        if in_shards:
            environment[SHARDS] = "1"
        command = ["taskset", "-c", str(core), sys.executable, __file__, "--one", folder, out]
        begun.append(
            subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, env=environment)
        )
    printed = [each.communicate()[0] for each in begun]
    assert all(each.returncode == 0 for each in begun)
    return [json.loads(text.splitlines()[-1]) for text in printed]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--pages", type=int, default=50_000)
    parser.add_argument("--one", nargs=2, type=Path)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(fit_here(*asked.one)))
        return
    with TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["EPICLICK_CACHE"] = str(folder / "cache")
        world = ec.simulate(
            queries=asked.queries,
            docs=DOCS,
            features=asked.features,
            pages=asked.pages,
            positions=POSITIONS,
        )
        world.save(folder)
        ec.read_features(folder / "features.parquet")  # which caches them for all
        (one,), two = run(folder, 1), run(folder, 2)
        (in_shards,) = run(folder, 1, in_shards=True)
        first, second = (np.load(folder / f"{count}-0.npz") for count in (1, 2))
        apart = {name: float(np.nanmax(np.abs(first[name] - second[name]))) for name in first}
    record = {
        "displays": asked.pages * POSITIONS,
        "features": asked.features,
        "load": os.getloadavg()[0],
        "one_process": one,
        "one_process_in_shards": in_shards,
        "two_processes": two,
        "speed_up": round(one["wall"] / max(each["wall"] for each in two), 2),
        "speed_up_processor": round(one["processor"] / max(each["processor"] for each in two), 2),
        "largest_difference": apart,
    }
    print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
