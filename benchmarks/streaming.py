"""Relevance of 1 and 10 million items from their own clicks, streamed to Parquet; prints JSON.

Memory is reported before items are judged, with the log and the features loaded, and at its peak
while they are judged and written.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import epiclick as ec
from epiclick.cli.relevance import write_frames
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.paper.measuring import current_memory, peak_memory, reset_peak_memory

SIZES = (1_000_000, 10_000_000)
POSITIONS, FEATURES, MOST_SHOWN = 5, 4, 12


def synthetic(pairs: int, seed: int = 0) -> ClickCounts:
    """A synthetic log of that many items, each shown 1 to 12 times at one position."""
    rng = np.random.default_rng(seed)
    number = np.arange(pairs)
    displays = rng.integers(1, MOST_SHOWN + 1, pairs)
    names = tuple(f"f{i}" for i in range(FEATURES))
    matrix = rng.standard_normal((pairs, FEATURES), dtype=np.float32)
    keys = pa.table({"query_id": number // 20, "doc_id": number % 20})
    return ClickCounts(
        query_id=keys["query_id"].combine_chunks(),
        doc_id=keys["doc_id"].combine_chunks(),
        contexts=pa.table({"position": np.arange(1, POSITIONS + 1)}),
        pair=number,
        context=rng.integers(0, POSITIONS, pairs),
        displays=displays,
        clicks=rng.binomial(displays, 0.3),
    ).with_features(FeatureTable(keys, names, matrix))


def measure(pairs: int) -> dict[str, float]:
    """Judge that many items, in this process."""
    world = ec.simulate(queries=500, features=FEATURES, pages=5_000, positions=POSITIONS, seed=0)
    model = ec.EpistemicPBM(epochs=3).fit(world.counts(), progress=False)
    counts = synthetic(pairs)
    before = current_memory()
    reset_peak_memory()
    start, busy = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "relevance.parquet"
        rows = write_frames(model.posterior_chunks(counts), out)
        size = out.stat().st_size
    return {
        "rows": rows,
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - busy,
        "gigabytes_before": before / 1e9,
        "gigabytes_added_at_peak": (peak_memory() - before) / 1e9,
        "gigabytes_written": size / 1e9,
    }


def main() -> None:
    """Measure each size in its own process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, help="one size, in this process")
    given = parser.parse_args()
    if given.pairs:
        print(json.dumps(measure(given.pairs)))
        return
    results = {}
    for pairs in SIZES:
        command = [sys.executable, __file__, "--pairs", str(pairs)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        results[f"{pairs}"] = json.loads(done.stdout)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
