"""Time of one training step by estimator, on a 12,000-pair batch of a paper-sized world.

A step is what the training loop does with a batch: samples are drawn, the gradient is computed, and
AdamW moves the parameters.
All are timed in turn, and medians are reported. Two variants show where the time of `conditioned`
goes: inner weights in log space only, and samples drawn by jax. Prints one JSON object.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import epiclick as ec
from epiclick.batching.pairset import PairSet, fit_scaler
from epiclick.data.counts import ClickCounts
from epiclick.estimators import conditioned, sampling
from epiclick.estimators.estimator import Betas, Draws
from epiclick.estimators.sampling import Estimate, draw_relevance
from epiclick.fitting import Plan, _start
from epiclick.likelihood.pairs import PairBatch
from epiclick.plans import epistemic_plan, pointwise_plan
from epiclick.processes import one_blas_thread
from epiclick.training.loop import Training
from epiclick.training.objective import _betas

WORLD = {"queries": 10_000, "docs": 120, "features": 136, "pages": 100_000, "positions": 5}
PAIRS = 12_000
SAMPLES = 60
Run: TypeAlias = Callable[[], tuple[float, ...]]
"""Does some work and returns the seconds of each part."""

SAMPLED = ("exact", "conditioned", "self_normalized", "naive")


class InLogSpace(conditioned.Conditioned):
    """The conditioned estimator without products in float32: all inner weights in log space."""

    def estimate(
        self, relevance: Betas, position: Betas, batch: PairBatch, draws: Draws | None
    ) -> Estimate:
        """Surrogate and log-likelihood of one batch."""

        def weights(batch: PairBatch, draws: Draws) -> tuple[jax.Array, jax.Array]:
            return sampling._accumulate(batch, draws, sampling._exponentials)[:2]

        with mock.patch.object(sampling, "sampled_weights", weights):
            return super().estimate(relevance, position, batch, draws)


def training_of(plan: Plan, pairs: PairSet) -> Training:
    """The training that `fit` would start on these pairs."""
    begin = _start(plan, pairs.batches.counts, pairs.width)
    return Training(plan.objective, [begin], pairs, None, plan.training)


def plans(counts: ClickCounts) -> dict[str, Plan]:
    """The plan of each estimator, including the variant of `conditioned`."""
    made = {"pointwise": pointwise_plan(ec.PointwisePBM(), counts)}
    for name in ("marginal", *SAMPLED):
        made[name] = epistemic_plan(ec.EpistemicPBM(estimator=name, samples=SAMPLES), counts)
    usual = made["conditioned"]
    variant = replace(usual.objective, estimator=InLogSpace(SAMPLES))
    made["conditioned_in_log_space"] = replace(usual, objective=variant)
    return made


def stepper(training: Training, inputs: np.ndarray, batch: PairBatch) -> Run:
    """A function that runs one step and returns the seconds of drawing and of the rest."""
    state, rng = training.start(), np.random.default_rng(0)
    (parameters,), (memory,) = state.parameters, state.optimizers

    def step() -> tuple[float, ...]:
        start = time.perf_counter()
        draws = training.objective.draw(rng, parameters, inputs)
        drawn = time.perf_counter()
        found = training.objective.descent(parameters, inputs, batch, draws)
        training._optimizer.update(parameters, found.gradient, memory)
        return drawn - start, time.perf_counter() - drawn

    return step


@jax.jit
def jax_samples(key: jax.Array, betas: Betas) -> tuple[jax.Array, jax.Array]:
    """What `draw_relevance` draws, by jax: log zeta and log(1 - zeta), (pairs, samples) float32."""
    shape = (len(betas.alpha), SAMPLES)
    first, second = (
        jax.random.loggamma(each, parameter[:, None].astype(jnp.float32), shape, jnp.float32)
        for each, parameter in zip(jax.random.split(key), (betas.alpha, betas.beta), strict=True)
    )
    return jax.nn.log_sigmoid(first - second), jax.nn.log_sigmoid(second - first)


def timed(work: Callable[[], Any]) -> Run:
    """A function that does the work and returns its seconds."""

    def run() -> tuple[float, ...]:
        start = time.perf_counter()
        jax.block_until_ready(work())
        return (time.perf_counter() - start,)

    return run


def generators(training: Training, inputs: np.ndarray) -> dict[str, Run]:
    """The samples of relevance of one step, drawn by numpy as in training, and by jax."""
    relevance, _ = _betas(training.begin[0], inputs)
    rng, key = np.random.default_rng(0), jax.random.key(0)
    return {
        "by_numpy": timed(lambda: draw_relevance(rng, relevance, SAMPLES)),
        "by_jax": timed(lambda: jax_samples(key, relevance)),
    }


def in_turn(runs: dict[str, Run], rounds: int) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Seconds of the first run, which compiles, and of rounds in which all run in turn.

    Returns:
        seconds by name, and (rounds, parts) seconds by name.
    """
    first = {name: sum(run()) for name, run in runs.items()}
    times: dict[str, list[tuple[float, ...]]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(run())
    return first, {name: np.array(each) for name, each in times.items()}


def products_in_range(training: Training, inputs: np.ndarray, batch: PairBatch) -> bool:
    """Whether `conditioned` needs no log space on this batch."""
    rng = np.random.default_rng(0)
    draws = training.objective.draw(rng, training.begin[0], inputs)
    smallest = jax.jit(lambda b, d: sampling._accumulate(b, d, sampling._products)[2])(batch, draws)
    return bool(smallest > sampling.SMALLEST_WEIGHT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args().rounds

    counts = ec.simulate(**WORLD).counts()
    counts = counts.subset(np.arange(len(counts) // PAIRS * PAIRS))  # full batches only
    pairs = PairSet.of(counts, fit_scaler(counts), PAIRS)
    inputs, batch = next(pairs.epoch(np.random.default_rng(0)))
    with jax.enable_x64(True), one_blas_thread():
        trainings = {name: training_of(plan, pairs) for name, plan in plans(counts).items()}
        steps = {name: stepper(each, inputs, batch) for name, each in trainings.items()}
        draws = generators(trainings["conditioned"], inputs)
        compiling, times = in_turn({**steps, **draws}, rounds)
        in_range = products_in_range(trainings["conditioned"], inputs, batch)

    step = {name: 1e3 * float(np.median(each.sum(axis=1))) for name, each in times.items()}
    in_log_space = step["conditioned_in_log_space"]
    drawn_by_jax = in_log_space - step["by_numpy"] + step["by_jax"]
    ratios = {
        "marginal_to_pointwise": step["marginal"] / step["pointwise"],
        "exact_to_pointwise": step["exact"] / step["pointwise"],
        "conditioned_to_exact": step["conditioned"] / step["exact"],
        "conditioned_in_log_space_to_exact": in_log_space / step["exact"],
        "conditioned_in_log_space_drawn_by_jax_to_exact": drawn_by_jax / step["exact"],
    }
    result = {
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "world": WORLD,
        "pairs": int(np.sum(batch.weight)),
        "samples": SAMPLES,
        "rounds": rounds,
        "step_milliseconds": {name: round(step[name], 1) for name in steps},
        "share_of_drawing": {
            name: round(1e3 * float(np.median(times[name][:, 0])) / step[name], 2) for name in steps
        },
        "compile_seconds": {name: round(compiling[name], 1) for name in steps},
        "drawing_milliseconds": {name: round(step[name], 1) for name in draws},
        "conditioned_products_in_range": in_range,
        "ratios": {name: round(ratio, 2) for name, ratio in ratios.items()},
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
