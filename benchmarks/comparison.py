"""Time and memory of comparing rankers: 10,000 queries x 3 rankers x 2,500 samples, as JSON."""

import json
import resource
import time

import numpy as np
import pyarrow as pa

import epiclick as ec

QUERIES, DOCS, POSITIONS = 10_000, 20, 5


def ranking(score: np.ndarray) -> pa.Table:
    """The best documents of every query by (pairs,) scores."""
    best = np.argsort(-score.reshape(QUERIES, DOCS), axis=1)[:, :POSITIONS]
    return pa.table(
        {
            "query_id": np.repeat(np.arange(QUERIES), POSITIONS),
            "doc_id": best.ravel(),
            "position": np.tile(np.arange(1, POSITIONS + 1), QUERIES),
        }
    )


def memory() -> float:
    """Peak memory so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    """Fit once, compare twice: with compilation and without."""
    world = ec.simulate(queries=QUERIES, docs=DOCS, features=20, pages=200_000, seed=0)
    counts = world.counts()
    model = ec.EpistemicPBM(epochs=3).fit(counts, progress=False)
    values = world.features.rows(np.arange(len(world.features)))
    rankings = {f"feature {i}": ranking(values[:, i]) for i in range(3)}
    found: dict[str, float | str] = {"pairs": len(counts), "gigabytes_before": memory()}
    for name in ("first", "again"):
        start = time.perf_counter()
        result = ec.compare(model, rankings, clicks=counts)
        found[f"seconds_{name}"] = time.perf_counter() - start
    found["gigabytes_after"] = memory()
    found["slots_seen"] = float(result.seen.mean())
    found["verdict"] = result.verdict
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
