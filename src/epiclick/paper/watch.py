"""Measurements and checkpoints of a cell, made where training offers its state to be kept."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import numpy as np

from epiclick.errors import InputError
from epiclick.models.parameters import Parameters
from epiclick.paper.files import CellFiles
from epiclick.paper.measuring import Measure
from epiclick.paper.record import Record
from epiclick.paper.settings import Settings
from epiclick.training.checkpoint import Checkpoint
from epiclick.training.loop import State

SECONDS_BETWEEN = 20.0
"""From one checkpoint of a cell to the next."""

Tell = Callable[[int, float], None]
"""Told the number of an epoch and the training likelihood per display."""


@dataclass(eq=False)
class Watch:
    """Whoever is given each state of a cell's training.

    Attributes:
        settings: of the reproduction.
        files: of the cell.
        measure: what is measured of parameters.
        checkpoint: where the state is kept.
        steps: of an epoch.
        tell: is told of every epoch.
        record: rows so far.
        state: what was given last.
    """

    settings: Settings
    files: CellFiles
    measure: Measure
    checkpoint: Checkpoint
    steps: int
    tell: Tell
    record: Record = field(init=False)
    state: State | None = None
    _seconds: list[float] = field(default_factory=list)
    _kept: float = field(default_factory=time.monotonic)
    _until: int = 0

    def __post_init__(self) -> None:
        """Begin without rows."""
        self.record = Record(self.files.variant.key, self.files.run)

    def resumed(self, start: State) -> State:
        """The state kept last, with the rows up to it; the start where there is none of use."""
        if not self.files.checkpoint.is_file():
            return start
        variant, run = self.files.variant, self.files.run
        try:
            state = self.checkpoint.load(start)
            epoch = len(state.history)
            self.record = Record.load(variant.key, run, self.files.partial, epoch)
        except (InputError, OSError):
            # of another version, or damaged: it only saves time
            self.files.clear()
            return start
        self.state, self._until = state, epoch
        return state

    def keep(self, state: State, urgent: bool) -> None:
        """Measure the state and keep it, each if it is time to."""
        self.state, epoch = state, len(state.history)
        if epoch > self._until:
            if epoch in self.settings.measured:
                began = time.monotonic()
                self.record.add(epoch, self._measured(state))
                self._seconds.append(time.monotonic() - began)
            self._until = epoch
            self.tell(epoch, state.history[-1].log_likelihood)
        waited = time.monotonic() - self._kept
        if epoch < self.settings.epochs and (urgent or waited >= SECONDS_BETWEEN):
            # rows first: no checkpoint stands without those up to it
            self.record.save(self.files.partial)
            self.checkpoint.keep(state, True)
            self._kept = time.monotonic()

    def give_up(self, begin: Parameters) -> int:
        """Fill what is left with NaN after training has diverged; the epoch in which it did."""
        epoch = self._until + 1
        names = {**self.measure(begin), "train": np.zeros(1), "zero_gradients": np.zeros(1)}
        for later in self.settings.measured:
            if later >= epoch:
                self.record.add(later, {k: np.full_like(v, np.nan) for k, v in names.items()})
        return epoch

    @property
    def training_seconds(self) -> float:
        """Time of training so far, compiling included, measuring not."""
        if self.state is None or not self.state.history:
            return 0.0
        epoch = len(self.state.history)
        often = sum(each <= epoch for each in self.settings.measured)
        # measurements of an earlier process took as long
        each = float(np.mean(self._seconds)) if self._seconds else 0.0
        return max(self.state.history[-1].seconds - often * each, 0.0)

    def _measured(self, state: State) -> dict[str, np.ndarray]:
        """Values by quantity."""
        epoch, history = len(state.history), state.history
        before = max((each for each in self.settings.measured if each < epoch), default=0)
        zero = [row.zero_gradients for row in history[before:epoch]]
        return {
            **self.measure(jax.tree.map(np.asarray, state.parameters)),
            "train": np.array([history[-1].log_likelihood]),
            "zero_gradients": np.array([np.mean(zero) / self.steps]),
        }
