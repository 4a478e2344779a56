"""Time of the posterior step after a fit compared with the fit; prints one JSON object.

Both in one run, first with compilation, then again on the same log without.
"""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import epiclick as ec
from epiclick.batching.pairset import PairSet
from epiclick.data.counts import ClickCounts
from epiclick.fitting import fit_model
from epiclick.posterior.laplace import find_posterior

WORLDS: dict[str, dict[str, Any]] = {
    "small": {"queries": 800, "docs": 10, "features": 4, "pages": 12_000, "positions": 5},
    "usual": {"queries": 2_000, "docs": 20, "features": 20, "pages": 40_000, "positions": 5},
    "large": {"queries": 20_000, "docs": 20, "features": 20, "pages": 200_000, "positions": 10},
}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call takes, and what it returns."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def measure(counts: ClickCounts) -> dict[str, float | None]:
    """Seconds of fit and posterior, with compilation and without."""
    plan = replace(ec.EpistemicPBM()._plan(counts), posterior=None)
    found: dict[str, float | None] = {"pairs": len(counts)}
    for name in ("first", "again"):
        fit, fitted = timed(lambda: fit_model(plan, counts, progress=False))
        pairs = PairSet.of(counts, fitted.features.scaler, plan.training.batch_size)
        step, (_, posterior) = timed(
            lambda f=fitted, p=pairs: find_posterior(p, f.parameters, f.anchor)
        )
        found |= {f"fit_{name}": fit, f"posterior_{name}": step, f"ratio_{name}": step / fit}
    found["epochs"] = fitted.training.epochs
    found["gradient"] = posterior.gradient
    found["pareto_k"] = posterior.pareto_k
    return found


def main() -> None:
    """Measure each world."""
    results = {}
    for name, settings in WORLDS.items():
        results[name] = measure(ec.simulate(relevance="beta", seed=0, **settings).counts())
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
