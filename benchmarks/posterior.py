"""Time of the posterior step after a fit compared with the fit; prints one JSON object.

Processor seconds of both, in one run.
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
from epiclick.processes import one_blas_thread

WORLDS: dict[str, dict[str, Any]] = {
    "small": {"queries": 800, "docs": 10, "features": 4, "pages": 12_000, "positions": 5},
    "usual": {"queries": 2_000, "docs": 20, "features": 20, "pages": 40_000, "positions": 5},
    "large": {"queries": 20_000, "docs": 20, "features": 20, "pages": 200_000, "positions": 10},
}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds that a call takes, and what it returns."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def measure(counts: ClickCounts) -> dict[str, float | None]:
    """Processor seconds of fit and posterior."""
    plan = replace(ec.EpistemicPBM()._plan(counts), posterior=None)
    fit, fitted = timed(lambda: fit_model(plan, counts, progress=False))
    pairs = PairSet.of(counts, fitted.features.scaler, plan.training.batch_size)

    @one_blas_thread()
    def step() -> tuple[Any, Any]:
        return find_posterior(pairs, fitted.parameters, fitted.clicks, fitted.anchor)

    seconds, (_, posterior) = timed(step)
    return {
        "pairs": len(counts),
        "epochs": fitted.training.epochs,
        "fit": fit,
        "posterior": seconds,
        "ratio": seconds / fit,
        "gradient": posterior.gradient,
        "pareto_k": posterior.pareto_k,
    }


def main() -> None:
    """Measure each world."""
    results = {}
    for name, settings in WORLDS.items():
        results[name] = measure(ec.simulate(relevance="beta", seed=0, **settings).counts())
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
