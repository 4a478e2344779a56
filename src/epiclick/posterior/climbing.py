"""Parameters without features, straight from the log to the mode of their posterior.

A model without features has a handful of parameters, and its likelihood depends on distinct vectors
of counts only (`batching.distinct`). Its mode is found in a few steps of BFGS over all of them; no
mini-batch training comes before.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from epiclick.batching.batches import Batches
from epiclick.batching.pairset import PairSet
from epiclick.click_models.registry import click_model
from epiclick.collective import ALONE, Collective
from epiclick.data.counts import ClickCounts
from epiclick.fitted.parameters import Parameters, from_vector, to_vector
from epiclick.posterior.density import Density
from epiclick.posterior.laplace import KnownBias, find_mode_and_prior, make_density
from epiclick.posterior.mode import climb
from epiclick.training.loop import Epoch, Trained, deferred_interrupts
from epiclick.training.optimizer import TrainingSettings
from epiclick.training.progress import TrainingBar


@dataclass(frozen=True, eq=False)
class Climb:
    """A fit without features.

    Attributes:
        clicks: name of the click model.
        anchor: context whose bias is 1, or None.
        known: position bias known from elsewhere.
        settings: the number of epochs is that of steps, at most.
        progress: whether to show a progress bar, on a terminal.
        processes: that share the work.
    """

    clicks: str
    anchor: int | None
    known: KnownBias | None
    settings: TrainingSettings
    progress: bool
    processes: Collective = ALONE

    def run(
        self,
        train: ClickCounts,
        held_out: ClickCounts | None,
        starts: Sequence[Parameters],
        weight: np.ndarray | None,
    ) -> Trained:
        """Parameters near the mode given the training pairs, and members at theirs.

        Args:
            train: pairs to learn from.
            held_out: pairs whose likelihood the history shows, or None.
            starts: initial parameters of the model's own, then of the members of an ensemble.
            weight: (networks, pairs) weights of the training pairs for each; None for 1.
        """
        clicks = click_model(self.clicks)
        affine = clicks.is_affine
        size, processes = self.settings.batch_size, self.processes
        pairs = PairSet.distinct(train, size, affine=affine, processes=processes)
        density = make_density(pairs, starts[0], clicks, self.anchor, self.known)
        valid = None
        if held_out is not None:
            of_held_out = PairSet.distinct(held_out, size, affine=affine, processes=processes)
            valid = make_density(of_held_out, starts[0], clicks, self.anchor, self.known)
        history: list[Epoch] = []
        began = time.monotonic()

        def add_row(vector: np.ndarray, value: float) -> None:
            likelihood = (value - density.prior.log_density(vector)) / train.total_displays
            validation = None
            if valid is not None and held_out is not None:
                score = valid.value(vector[None])[0] - valid.prior.log_density(vector)
                validation = float(score / held_out.total_displays)
            seconds = time.monotonic() - began
            history.append(Epoch(len(history) + 1, float(likelihood), validation, 0, seconds))
            bar.step()
            bar.epoch(float(likelihood), validation)
            check()

        with (
            TrainingBar(self.settings.epochs, 1, shown=self.progress) as bar,
            deferred_interrupts() as check,
        ):
            start = to_vector(starts[0], clicks, self.anchor)
            own = climb(density, start, self.settings.epochs, add_row)
            networks = [from_vector(starts[0], clicks, self.anchor, own)]
            for i in range(1, len(starts)):
                share = density if weight is None else _reweighted(density, weight[i])
                vector = find_mode_and_prior(share, own)[1].vector
                networks.append(from_vector(starts[i], clicks, self.anchor, vector))
                check()
        return Trained(networks, history, len(history))


def _reweighted(density: Density, weight: np.ndarray) -> Density:
    """The density of the pairs that an `origin` has, with these weights (pairs,)."""
    pairs = density.pairs
    assert pairs.origin is not None
    own = np.bincount(pairs.origin.row, weight, len(pairs.batches.counts))
    batches: Batches = replace(pairs.batches, weight=own)
    origin = pairs.origin._replace(weight=weight)
    return replace(density, pairs=replace(pairs, batches=batches, origin=origin))
