"""What a user waits for: whole commands, from start to end; prints one JSON object.

Each command runs in a process of its own, `--rounds` times, and medians of processor and wall-clock
seconds are reported; `first` is the first round, with an empty cache. Logs are simulated; the
longest has 100 million displays, and is counted before.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import epiclick as ec
from epiclick.batching.distinct import distinct_counts
from epiclick.data.counts import ClickCounts

LARGE = {"queries": 10_000, "docs": 20, "features": 136, "pages": 100_000, "positions": 5}
EPICLICK = [sys.executable, "-m", "epiclick"]


def measured(command: list[str], folder: Path, rounds: int) -> dict[str, float]:
    """Medians over rounds, and the first round."""
    times = [timed(command, folder) for _ in range(rounds)]
    processor, wall = (statistics.median(each) for each in zip(*times, strict=True))
    return {"processor": processor, "wall": wall, "first_processor": times[0][0]}


def timed(command: list[str], folder: Path) -> tuple[float, float]:
    """Processor and wall-clock seconds of a command."""
    environment = {**os.environ, "EPICLICK_CACHE": str(folder / "cache")}
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    after, wall = os.times(), time.perf_counter() - start
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system, wall


def long_tail(pairs: int) -> ClickCounts:
    """Counts of pairs with a long tail of displays, each at two positions, without features."""
    rng = np.random.default_rng(0)
    total = np.minimum(rng.zipf(1.75, pairs), 20_000)
    first = rng.integers(9, size=pairs)
    above = rng.binomial(total, 0.5)
    displays = np.stack([above, total - above], axis=1).ravel()
    position = np.stack([first, first + 1], axis=1).ravel()
    relevance = np.repeat(rng.beta(1, 4, pairs), 2)
    clicks = rng.binomial(displays, relevance / (1 + position))
    shown = displays > 0
    return ClickCounts(
        query_id=pa.array(np.arange(pairs) // 20),
        doc_id=pa.array(np.arange(pairs)),
        contexts=pa.table({"position": np.arange(1, 11)}),
        pair=np.repeat(np.arange(pairs), 2)[shown],
        context=position[shown],
        displays=displays[shown],
        clicks=clicks[shown],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tail-pairs", type=int, default=5_000_000)
    given = parser.parse_args()
    results: dict[str, object] = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world = ec.simulate(queries=50, docs=20, features=5, pages=35_000, positions=10, seed=0)
        world.save(folder / "ids")
        log, demo = folder / "ids" / "clicks.parquet", folder / "demo"
        fit = [*EPICLICK, "fit", "--overwrite", "--quiet"]
        results["fit without features"] = measured(
            [*fit, str(log), "--out", str(folder / "by_ids")], folder, given.rounds
        )
        results["demo"] = measured([*EPICLICK, "demo", "--out", str(demo)], folder, 1)
        features, clicks = demo / "world" / "features.parquet", demo / "world" / "clicks.parquet"
        model, train, test = (
            str(demo / each) for each in ("model", "train.parquet", "test.parquet")
        )
        with_features = ["--features", str(features)]
        rankings = ["--ranking", f"live={clicks}", "--ranking", f"f1={features}:f1", "--depth", "5"]
        verbs = {
            "fit with features": [*fit, train, *with_features, "--out", str(folder / "m")],
            "position-bias": [*EPICLICK, "position-bias", model],
            "relevance": [
                *(*EPICLICK, "relevance", model, *with_features),
                *("--out", str(folder / "relevance.parquet")),
            ],
            "evaluate": [*EPICLICK, "evaluate", model, test, *with_features],
            "compare": [*EPICLICK, "compare", model, *rankings, *with_features, "--clicks", train],
            "report": [
                *(*EPICLICK, "report", model, train, *with_features, *rankings),
                *("--out", str(folder / "report.html")),
            ],
        }
        for verb, command in verbs.items():
            results[verb] = measured(command, folder, given.rounds)
        # as large as the log that peers are compared on
        large = ec.simulate(**LARGE, seed=0)
        large.save(folder / "large")
        log, features = (folder / "large" / f"{name}.parquet" for name in ("clicks", "features"))
        results["fit with 136 features, 500,000 displays"] = measured(
            [*fit, str(log), "--features", str(features), "--out", str(folder / "l")],
            folder,
            given.rounds,
        )
    print(json.dumps(results), file=sys.stderr)  # kept if the last fit is stopped
    counts = long_tail(given.tail_pairs)
    start = time.process_time()
    ec.EpistemicPBM().fit(counts, progress=False)
    results["long tail"] = {
        "pairs": len(counts),
        "vectors": len(distinct_counts(counts).first),
        "displays": counts.total_displays,
        "processor": time.process_time() - start,
    }
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
