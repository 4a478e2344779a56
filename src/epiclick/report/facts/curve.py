"""How training went."""

from dataclasses import dataclass

import numpy as np

from epiclick.report.facts.sources import Sources

MOST_POINTS = 600


@dataclass(frozen=True)
class Curve:
    """Log-likelihood a display, epoch by epoch.

    Attributes:
        epochs: numbers of the epochs; thinned if there are many.
        train: of the pairs learned from.
        valid: of the pairs held out; NaN without any.
        best: the epoch whose parameters were kept.
        total: epochs trained.
        seconds: time it took.
    """

    epochs: tuple[int, ...]
    train: tuple[float, ...]
    valid: tuple[float, ...]
    best: int
    total: int
    seconds: float


def curve(sources: Sources) -> Curve:
    """Read the history of training."""
    training = sources.fitted.training
    history = training.history
    chosen = np.unique(np.linspace(0, len(history) - 1, min(len(history), MOST_POINTS)).astype(int))
    epochs, train = history["epoch"], history["log_likelihood"].astype(float)
    valid = history["validation"].astype(float)
    return Curve(
        epochs=tuple(int(each) for each in epochs.iloc[chosen]),
        train=tuple(train.iloc[chosen].tolist()),
        valid=tuple(valid.iloc[chosen].tolist()),
        best=training.best_epoch,
        total=training.epochs,
        seconds=training.seconds,
    )
