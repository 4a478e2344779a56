"""Numbers that claims are about, once a run, from the table of results."""

from collections.abc import Callable, Sequence

import numpy as np

from epiclick.beta import Beta
from epiclick.paper.checks import Check, Undecidable
from epiclick.paper.results import Results

METRICS: dict[str, str] = {
    "whole_set": "as published: whole test set, per display",
    "per_display": "expected clicks, per display",
    "per_pair": "all clicks of a pair, per pair",
}
PUBLISHED = "whole_set"
FLAT = 0.2  # standard deviation; a uniform distribution has 0.289

Checks = Callable[[Results], list[Check]]

# Nats per display (per pair, for that metric). A thousandth changes perplexity by 0.1 %: less is no
# difference that a reader of the paper's curves could see.
LIKELIHOOD_MARGIN = 0.001
FINAL = "Test log-likelihood after the last epoch, as published (the other two metrics beside)."


def final(results: Results, method: str, quantity: str) -> np.ndarray:
    """(runs,) a quantity after the last epoch."""
    return results.last(method, quantity)[:, 0]


def bias(results: Results, method: str) -> Beta:
    """(runs, positions) the Betas of position bias after the last epoch."""
    alpha, beta = results.last(method, "theta_alpha"), results.last(method, "theta_beta")
    sound = np.isfinite(alpha) & np.isfinite(beta) & (alpha > 0) & (beta > 0)
    if not sound.all():
        broken = int((~sound.all(axis=1)).sum())
        raise Undecidable(f"{method} has no position bias in {broken} of {len(alpha)} runs")
    return Beta(alpha, beta)


def bias_mean(results: Results, method: str) -> np.ndarray:
    """(runs, positions) expected position bias after the last epoch, also of point estimates."""
    if results.has(method, "theta_alpha"):
        return bias(results, method).mean
    return results.last(method, "theta")


def bias_error(results: Results, method: str) -> np.ndarray:
    """(runs,) mean absolute error of expected position bias, over positions."""
    return np.abs(bias_mean(results, method) - results.truth).mean(axis=1)


def epoch_near_best(results: Results, method: str, metric: str = PUBLISHED) -> np.ndarray:
    """(runs,) the first recorded epoch with a likelihood within the margin of the run's best."""
    epochs, values = results.of(method, metric)
    return _first(epochs, values >= values.max(axis=1, keepdims=True) - LIKELIHOOD_MARGIN)


def epoch_near_last(results: Results, method: str) -> np.ndarray:
    """(runs,) the first recorded epoch with a likelihood within the margin of the last one's."""
    epochs, values = results.of(method, PUBLISHED)
    return _first(epochs, _near_last(values))


def epoch_stays_near_last(results: Results, method: str) -> np.ndarray:
    """(runs,) the first recorded epoch from which on all are within the margin of the last."""
    epochs, values = results.of(method, PUBLISHED)
    backwards = np.logical_and.accumulate(_near_last(values)[:, ::-1], axis=1)
    return _first(epochs, backwards[:, ::-1])


def _near_last(values: np.ndarray) -> np.ndarray:
    return np.abs(values - values[:, -1:]) <= LIKELIHOOD_MARGIN


def _first(epochs: np.ndarray, found: np.ndarray) -> np.ndarray:
    """(runs,) the first epoch of each run; NaN where there is none, as after a divergence."""
    return np.where(found.any(axis=1), epochs[found.argmax(axis=1)].astype(float), np.nan)


def flat_bias(method: str) -> Checks:
    """Whether even the narrowest of the position-bias distributions is all but flat."""
    return lambda r: [
        Check(f"least standard deviation over positions, {method}",
              runs_of(bias(r, method).sd.min(axis=1)), above=FLAT)
    ]  # fmt: skip


def gains(
    results: Results,
    better: str,
    worse: str,
    *,
    above: float = -np.inf,
    below: float = np.inf,
    deciding: Sequence[str] = (PUBLISHED,),
) -> list[Check]:
    """Differences of final likelihood, better - worse, in all three metrics."""
    return [
        Check(
            f"log-likelihood ({words}), {better} - {worse}",
            runs_of(final(results, better, metric) - final(results, worse, metric)),
            above=above,
            below=below,
            decides=metric in deciding,
        )
        for metric, words in METRICS.items()
    ]


def runs_of(values: np.ndarray) -> tuple[float, ...]:
    """Values of the runs as plain numbers."""
    return tuple(np.asarray(values, float).tolist())
