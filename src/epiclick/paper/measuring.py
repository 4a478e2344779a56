"""What is measured of a model while it is trained: scores, time, memory."""

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import jax
import numpy as np

from epiclick.batching.batches import Batches
from epiclick.click_models.click_model import Emission
from epiclick.errors import InputError
from epiclick.evaluation.click_scores import score_clicks
from epiclick.evaluation.log_scores import SAMPLES, JointScores, joint_log_likelihood
from epiclick.fitted.parameters import Parameters
from epiclick.fitted.prediction import bias_at, bias_betas, draw_bias, relevance_by
from epiclick.fitted.state import FittedModel
from epiclick.paper.cells import CellFiles, Record
from epiclick.paper.settings import Settings
from epiclick.paper.worlds import RunData
from epiclick.training.checkpoint import Checkpoint
from epiclick.training.loop import State
from epiclick.training.objective import Diverged

_PROCESS = Path("/proc/self")


def forget_peak() -> None:
    """Count the peak from now on; on Linux only."""
    try:
        (_PROCESS / "clear_refs").write_text("5")
    except OSError:
        return


def peak_memory() -> int:
    """Bytes held at most, since `forget_peak` on Linux, else since the process began."""
    told = _status("VmHWM")
    if told is not None:
        return told
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def held_memory() -> int:
    """Bytes held now; the peak where the system does not tell."""
    told = _status("VmRSS")
    return peak_memory() if told is None else told


def _status(name: str) -> int | None:
    """A line of the kernel's account of this process, in bytes."""
    try:
        lines = (_PROCESS / "status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), None)


CHUNK = 65_536  # pairs at once


@dataclass(frozen=True, eq=False)
class Measure:
    """Test likelihood, relevance and position bias of parameters.

    Attributes:
        fitted: a model of the kind that is trained, with any parameters.
        data: the run's clicks.
        batches: how the pairs that are scored are dealt to batches.
        seed: of the biases drawn to score them. Each run has its own, so that intervals over runs
            hold the error of the draws; its methods and epochs share it.
    """

    fitted: FittedModel
    data: RunData
    batches: Batches
    seed: int

    def __call__(self, parameters: Parameters) -> dict[str, np.ndarray]:
        """Values by quantity, (indices,) each; see `paper.results`. Diverged if there are none."""
        fitted = replace(self.fitted, parameters=parameters)
        with np.errstate(over="ignore", invalid="ignore"):
            alpha, beta = self._relevance(fitted)
            nu = alpha + beta
            mu = alpha / nu
        if not np.isfinite(mu).all():
            raise Diverged("the network's outputs are beyond what numbers can hold")
        found = {"mu_mean": mu.mean(), "mu_sd": mu.std(ddof=1)}
        if fitted.relevance_head.has_uncertainty:
            found |= {"nu_mean": nu.mean(), "nu_sd": nu.std(ddof=1)}
        betas = bias_betas(fitted)
        if betas is None:
            found["theta"] = bias_at(fitted, fitted.contexts)[0]
        else:
            found |= {"theta_alpha": betas.alpha, "theta_beta": betas.beta}
        where = self.data.where
        found |= self._likelihoods(fitted, alpha[where], beta[where])
        return {name: np.atleast_1d(np.asarray(value)) for name, value in found.items()}

    def _relevance(self, fitted: FittedModel) -> tuple[np.ndarray, np.ndarray]:
        """alpha and beta of all displayed pairs, or relevance and 1 - relevance, (pairs,) each."""
        inputs, networks = self.data.inputs, [fitted.parameters.layers]
        parts = [
            relevance_by(fitted, networks, inputs[start : start + CHUNK])
            for start in range(0, len(inputs), CHUNK)
        ]
        alpha, beta = (np.concatenate(part, axis=1)[0] for part in zip(*parts, strict=True))
        return alpha, beta

    def _likelihoods(
        self, fitted: FittedModel, alpha: np.ndarray, beta: np.ndarray
    ) -> dict[str, float]:
        """The three test log-likelihoods of scored pairs, whose alpha and beta are given."""
        counts = self.data.scored
        theta, _ = bias_at(fitted, counts.contexts)
        probability = theta[counts.context] * (alpha / (alpha + beta))[counts.pair]
        display = score_clicks(counts, probability).display_log_likelihood
        if fitted.relevance_head.has_uncertainty:
            biases = Emission(*draw_bias(fitted, counts.contexts, SAMPLES, self.seed))
            joint = joint_log_likelihood(counts, biases, alpha, beta, self.batches)
        else:
            # displays are independent for a model without uncertainty
            joint = JointScores(*[display * counts.total_displays] * 2)
        return {
            "per_display": display,
            "per_pair": joint.pair / len(counts),
            "whole_set": joint.whole / counts.total_displays,
        }


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
