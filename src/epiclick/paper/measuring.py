"""Measurements during the training of a cell: scores, time, memory; and its checkpoints."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from epiclick.batching.batches import Batches
from epiclick.errors import InputError
from epiclick.evaluation.click_scores import score_clicks
from epiclick.evaluation.log_scores import SAMPLES, JointScores, joint_log_likelihood
from epiclick.fitted.parameters import Parameters
from epiclick.fitted.prediction import bias_betas, draw_emission, emission_at, relevance_by
from epiclick.fitted.state import FittedModel
from epiclick.paper.cells import CellFiles, Record
from epiclick.paper.settings import Settings
from epiclick.paper.worlds import RunData
from epiclick.training.checkpoint import Checkpoint
from epiclick.training.loop import State
from epiclick.training.objective import Diverged

CHUNK = 65_536  # pairs at once


@dataclass(frozen=True, eq=False)
class Measure:
    """Test likelihood, relevance and position bias of parameters.

    Attributes:
        fitted: a model of the kind that is trained, with any parameters.
        data: the run's clicks.
        batches: the pairs that are scored, in batches.
        seed: of the draws of position bias used to score them. Each run has its own, so that
            intervals over runs include the error of the draws; its methods and epochs share it.
    """

    fitted: FittedModel
    data: RunData
    batches: Batches
    seed: int

    def __call__(self, parameters: Parameters) -> dict[str, np.ndarray]:
        """Values by quantity, (indices,) each, see `paper.results`; Diverged if they overflow."""
        fitted = replace(self.fitted, parameters=parameters)
        with np.errstate(over="ignore", invalid="ignore"):
            alpha, beta = self._relevance(fitted)
            nu = alpha + beta
            mu = alpha / nu
        if not np.isfinite(mu).all():
            raise Diverged("the network's outputs overflow", code="training-diverged")
        found = {"mu_mean": mu.mean(), "mu_sd": mu.std(ddof=1)}
        if fitted.relevance_head.has_uncertainty:
            found |= {"nu_mean": nu.mean(), "nu_sd": nu.std(ddof=1)}
        betas = bias_betas(fitted)
        if betas is None:
            found["theta"] = emission_at(fitted, fitted.contexts).attractive
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
        """The three test log-likelihoods of the scored pairs, given their alpha and beta."""
        counts = self.data.scored
        theta = emission_at(fitted, counts.contexts).attractive
        probability = theta[counts.context] * (alpha / (alpha + beta))[counts.pair]
        display = score_clicks(counts, probability).display_log_likelihood
        if fitted.relevance_head.has_uncertainty:
            biases = draw_emission(fitted, counts.contexts, SAMPLES, self.seed)
            joint = joint_log_likelihood(counts, biases, alpha, beta, self.batches)
        else:
            # displays are independent for a model without uncertainty
            joint = JointScores(*[display * counts.total_displays] * 2)
        return {
            "per_display": display,
            "per_pair": joint.pair / len(counts),
            "whole_set": joint.whole / counts.total_displays,
        }


CHECKPOINT_SECONDS = 20.0
"""Time between checkpoints of a cell."""

OnEpoch = Callable[[int, float], None]
"""Callback given the number of an epoch and its training log-likelihood per display."""


@dataclass(eq=False)
class CellRecorder:
    """Training callback that measures a cell's states and writes its checkpoints.

    Attributes:
        settings: of the reproduction.
        files: of the cell.
        measure: the measurements of parameters.
        checkpoint: of the state of training.
        steps: per epoch.
        on_epoch: called after every epoch.
        record: rows so far.
        state: the latest state.
    """

    settings: Settings
    files: CellFiles
    measure: Measure
    checkpoint: Checkpoint
    steps: int
    on_epoch: OnEpoch
    record: Record = field(init=False)
    state: State | None = None
    _seconds: list[float] = field(default_factory=list)
    _saved_at: float = field(default_factory=time.monotonic)
    _recorded: int = 0  # epochs

    def __post_init__(self) -> None:
        """Start without rows."""
        self.record = Record(self.files.variant.key, self.files.run)

    def resumed(self, start: State) -> State:
        """The state of the last checkpoint, with the rows up to it; `start` if none is usable."""
        if not self.files.checkpoint.is_file():
            return start
        variant, run = self.files.variant, self.files.run
        try:
            state = self.checkpoint.load(start)
            epoch = len(state.history)
            self.record = Record.load(variant.key, run, self.files.partial, epoch)
        except (InputError, OSError):
            # of another version, or damaged: a checkpoint only saves time
            self.files.clear()
            return start
        self.state, self._recorded = state, epoch
        return state

    def keep(self, state: State, urgent: bool) -> None:
        """Measure the state and write a checkpoint, each when due."""
        self.state, epoch = state, len(state.history)
        if epoch > self._recorded:
            if epoch in self.settings.measured:
                began = time.monotonic()
                self.record.add(epoch, self._measured(state))
                self._seconds.append(time.monotonic() - began)
            self._recorded = epoch
            self.on_epoch(epoch, state.history[-1].log_likelihood)
        waited = time.monotonic() - self._saved_at
        if epoch < self.settings.epochs and (urgent or waited >= CHECKPOINT_SECONDS):
            # rows first: a checkpoint without the rows up to it could not be resumed
            self.record.save(self.files.partial)
            self.checkpoint.keep(state, True)
            self._saved_at = time.monotonic()

    def fill_diverged(self, initial: Parameters) -> int:
        """Fill the remaining rows with NaN after training has diverged; return the epoch."""
        epoch = self._recorded + 1
        names = {**self.measure(initial), "train": np.zeros(1), "zero_gradients": np.zeros(1)}
        for later in self.settings.measured:
            if later >= epoch:
                self.record.add(later, {k: np.full_like(v, np.nan) for k, v in names.items()})
        return epoch

    @property
    def training_seconds(self) -> float:
        """Time of training so far, including compilation but not measurements."""
        if self.state is None or not self.state.history:
            return 0.0
        epoch = len(self.state.history)
        # an epoch's time is taken before it is measured
        measurements = sum(measured < epoch for measured in self.settings.measured)
        # assumes that measurements of an earlier process took as long
        each = float(np.mean(self._seconds)) if self._seconds else 0.0
        return max(self.state.history[-1].seconds - measurements * each, 0.0)

    def _measured(self, state: State) -> dict[str, np.ndarray]:
        """Values by quantity."""
        epoch, history = len(state.history), state.history
        before = max((each for each in self.settings.measured if each < epoch), default=0)
        zero = [row.zero_gradients for row in history[before:epoch]]
        return {
            **self.measure(state.parameters[0]),
            "train": np.array([history[-1].log_likelihood]),
            "zero_gradients": np.array([np.mean(zero) / self.steps]),
        }
