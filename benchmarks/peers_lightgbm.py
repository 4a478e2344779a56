"""LightGBM's side of the peer benchmark; runs in its own environment.

It ranks and does not predict clicks, so only its position biases are compared. It reports them only
in its debug log, as terms added to a score of a pairwise logistic loss. The exponential of their
difference is an odds ratio, which for small click probabilities is the ratio of position biases.
"""

import math
import os

import lightgbm as lgb
import numpy as np

from peers_side import Fit, fitted_now, parse_fit

ROUNDS = 100  # its default


class Log:
    """Keeps the last logged bias of each position."""

    def __init__(self) -> None:
        """Start without any bias."""
        self.bias: dict[int, float] = {}

    def info(self, message: str) -> None:
        """Parse a line of two numbers as a position and its bias."""
        words = message.replace("[LightGBM] [Debug]", "").split()
        if len(words) == 2 and words[0].isdigit():
            self.bias[int(words[0])] = float(words[1])

    def warning(self, message: str) -> None:
        """Ignored; the logger interface requires it."""


def main(fit: Fit) -> None:
    log = Log()
    lgb.register_logger(log)
    pages = fit.pages("train")
    positions = pages.pair.shape[1]
    data = lgb.Dataset(
        fit.features()[pages.pair.ravel()],
        label=pages.click.ravel(),
        group=np.full(len(pages), positions),
        position=pages.positions.ravel() - 1,
    )
    options = {"objective": "lambdarank", "verbosity": 2, "num_threads": os.cpu_count()}
    rounds = fit.epochs or ROUNDS
    lgb.train({**options, "seed": fit.seed}, data, num_boost_round=rounds)
    done = fitted_now()
    bias = [log.bias[k] for k in range(positions)]
    relative = [math.exp(each - bias[0]) for each in bias]
    fit.write(None, **done, epochs=rounds, epoch_seconds=None, relative=relative)


if __name__ == "__main__":
    main(parse_fit())
