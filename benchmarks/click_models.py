"""Time and memory of fitting a user browsing and a position-based model to the same log.

Prints JSON: for 10 and 20 positions (55 and 210 contexts), seconds, processor seconds and peak
memory of fits without features, each in its own process, and their ratios.
"""

import json
import resource
import subprocess
import sys
import time

PAGES, QUERIES, DOCS = 40_000, 400, 40


def fit(click_model: str, positions: int) -> dict[str, float]:
    import warnings

    import epiclick as ec
    from epiclick.api import EPISTEMIC

    warnings.simplefilter("ignore", ec.InputWarning)
    theta = tuple(round(0.95**k, 4) for k in range(positions))
    world = ec.simulate(
        queries=QUERIES,
        docs=DOCS,
        features=4,
        pages=PAGES,
        theta=theta,
        relevance="beta",
        users="ubm",
        seed=0,
    )
    counts = ec.read_log(world.log, click_model=click_model)
    began, used = time.perf_counter(), time.process_time()
    model = EPISTEMIC[click_model]().fit(counts, progress=False)
    return {
        "contexts": len(model.fitted_.contexts),
        "pairs": len(counts),
        "displays": counts.total_displays,
        "seconds": round(time.perf_counter() - began, 2),
        "processor_seconds": round(time.process_time() - used, 2),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(fit(sys.argv[1], int(sys.argv[2]))))
        return
    results: dict[str, object] = {}
    for positions in (10, 20):
        found = {}
        for name in ("pbm", "ubm"):
            command = [sys.executable, __file__, name, str(positions)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found[name] = json.loads(done.stdout)
        ratios = {
            key: round(found["ubm"][key] / found["pbm"][key], 2)
            for key in ("seconds", "processor_seconds", "peak_gb")
        }
        results[f"{positions} positions"] = {**found, "ratio": ratios}
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
