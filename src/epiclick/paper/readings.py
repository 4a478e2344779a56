"""Numbers that claims are about, once a run, from the table of results."""

from collections.abc import Sequence

import numpy as np

from epiclick.beta import Beta
from epiclick.paper.checks import Check, Undecidable
from epiclick.paper.results import Results

METRICS: dict[str, str] = {
    "whole_set": "whole test set, as published",
    "per_display": "a display",
    "per_pair": "a pair",
}
PUBLISHED = "whole_set"

# Nats a display (a pair, for that metric). A thousandth changes perplexity by 0.1 %: less is no
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


def first_epoch_within(
    results: Results, method: str, metric: str = PUBLISHED, margin: float = LIKELIHOOD_MARGIN
) -> np.ndarray:
    """(runs,) the first recorded epoch with a likelihood within the margin of the last one's."""
    epochs, values = results.of(method, metric)
    near = np.abs(values - values[:, -1:]) <= margin
    found = epochs[near.argmax(axis=1)].astype(float)
    # after a divergence nothing is near, not even the last value to itself
    return np.where(near.any(axis=1), found, np.nan)


def epoch_stays_within(
    results: Results, method: str, metric: str = PUBLISHED, margin: float = LIKELIHOOD_MARGIN
) -> np.ndarray:
    """(runs,) the first recorded epoch from which on all are within the margin of the last."""
    epochs, values = results.of(method, metric)
    far = ~(np.abs(values - values[:, -1:]) <= margin)
    beyond = np.where(far.any(axis=1), far.shape[1] - far[:, ::-1].argmax(axis=1), 0)
    found = epochs[np.minimum(beyond, len(epochs) - 1)].astype(float)
    return np.where(beyond < len(epochs), found, np.nan)


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
