"""The training loop: shuffled batches, AdamW, early stopping that restores the best weights."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from epiclick.errors import InputError
from epiclick.estimators.base import Draws
from epiclick.likelihood.pairs import PairBatch
from epiclick.models.parameters import Parameters
from epiclick.training.interrupt import held_interrupts
from epiclick.training.objective import Objective
from epiclick.training.optimizer import Optimizer
from epiclick.training.pairset import PairSet
from epiclick.training.progress import Progress, Silent
from epiclick.training.settings import TrainingSettings

# streams of random numbers, each with a seed of its own for every epoch
SHUFFLE, SAMPLE, VALIDATE = 1, 2, 3

MOST_NATS = 300.0  # of a factor on the gradient, whose square float64 can hold


@dataclass(frozen=True)
class Epoch:
    """One row of the history; likelihoods are per display.

    Attributes:
        epoch: number, from 1.
        log_likelihood: of the training pairs, as estimated while they were learned from.
        validation: of the held-out pairs after the epoch; None without any.
        zero_gradients: steps whose gradient was exactly 0.
        seconds: since training began.
    """

    epoch: int
    log_likelihood: float
    validation: float | None
    zero_gradients: int
    seconds: float


@dataclass(frozen=True, eq=False)
class State:
    """All that the loop carries from one epoch to the next.

    Attributes:
        parameters: the current ones.
        optimizer: what AdamW remembers.
        best: parameters to keep: of the best epoch so far, or the current ones without patience.
        best_epoch: number of their epoch.
        history: one row per epoch.
    """

    parameters: Parameters
    optimizer: Any
    best: Parameters
    best_epoch: int = 0
    history: tuple[Epoch, ...] = ()

    @property
    def best_validation(self) -> float:
        """Validation likelihood of the epoch whose parameters are kept."""
        if not self.best_epoch:
            return -np.inf
        validation = self.history[self.best_epoch - 1].validation
        return -np.inf if validation is None else validation


@dataclass(frozen=True, eq=False)
class Training:
    """A run of training that can be continued from any of its states.

    Attributes:
        objective: what is maximised.
        begin: the parameters to start from.
        train: pairs to learn from.
        valid: held-out pairs for early stopping, or None.
        settings: how long and how fast.
        keep: called with the state after each epoch, and when interrupted; for checkpoints.
        progress: told about steps and epochs.
    """

    objective: Objective
    begin: Parameters
    train: PairSet
    valid: PairSet | None
    settings: TrainingSettings
    keep: Callable[[State, bool], None] | None = None
    progress: Progress = field(default_factory=Silent)

    def start(self) -> State:
        """The state before the first epoch."""
        with jax.enable_x64(True):
            parameters = jax.tree.map(jnp.asarray, self.begin)
            return State(parameters, self._optimizer.make().init(_wide(parameters)), parameters)

    def run(self, state: State) -> State:
        """Train until the last epoch, or until validation stops improving.

        Returns the last state; its `best` holds the parameters to use.
        """
        # clicks multiply up to probabilities that float32 cannot tell from 0; the network itself
        # stays in float32
        with jax.enable_x64(True):
            objective = self.objective.started(self._first_log_likelihood)
            began = time.monotonic() - (state.history[-1].seconds if state.history else 0)
            try:
                with held_interrupts() as check:
                    while not self.done(state):
                        state = self._epoch(objective, state, began, check)
                        if self.keep is not None:
                            self.keep(state, self.done(state))
            except KeyboardInterrupt:
                if self.keep is not None:
                    self.keep(state, True)
                raise
        return state

    def done(self, state: State) -> bool:
        """Whether no further epoch is wanted."""
        epochs, patience = len(state.history), self.settings.patience
        waited = patience is not None and epochs - state.best_epoch >= patience
        return epochs >= self.settings.epochs or waited

    @property
    def _optimizer(self) -> Optimizer:
        settings = self.settings
        return Optimizer(
            settings.learning_rate,
            settings.position_rate,
            settings.weight_decay,
            settings.epochs * len(self.train.batches) if settings.decay else None,
            network=self.train.inputs is not None,
        )

    def _first_log_likelihood(self) -> float:
        """Likelihood of a batch before any step, for estimators that scale by it."""
        inputs, batch = next(self.train.epoch())
        draws = self.objective.draw(self._rng(SAMPLE, 0), self.begin, inputs)
        return float(
            jax.jit(self.objective.loss)(self.begin, inputs, batch, draws)[1].log_likelihood
        )

    def _epoch(
        self, objective: Objective, state: State, began: float, check: Callable[[], None]
    ) -> State:
        number = len(state.history) + 1
        parameters, optimizer = state.parameters, state.optimizer
        samples = self._rng(SAMPLE, number)
        told = []
        for inputs, batch in self.train.epoch(self._rng(SHUFFLE, number)):
            draws = objective.draw(samples, parameters, inputs)
            parameters, optimizer, log_likelihood, largest = _step(
                objective, self._optimizer, parameters, optimizer, inputs, batch, draws
            )
            told.append((log_likelihood, largest))
            self.progress.step()
            check()
        likelihoods, gradients = np.asarray(told, float).T
        self._check_finite(number, likelihoods, gradients)
        validation = self._validate(parameters)
        if validation is not None and not np.isfinite(validation):
            raise InputError(
                f"the held-out pairs have a log-likelihood of {validation} after epoch {number}: "
                "the model is sure of what did not happen there. The likely cause is a feature "
                "with extreme values among them, or a learning rate that is too high (it is "
                f"{self.settings.learning_rate:g}). {self._kept}"
            )
        row = Epoch(
            number,
            float(likelihoods.sum() / self.train.displays),
            validation,
            int(np.sum(gradients == 0)),
            time.monotonic() - began,
        )
        self.progress.epoch(row.log_likelihood, row.validation)
        after = replace(
            state, parameters=parameters, optimizer=optimizer, history=(*state.history, row)
        )
        waiting = self.settings.patience is not None and validation is not None
        if waiting and (validation or 0.0) <= state.best_validation:
            return after
        return replace(after, best=parameters, best_epoch=number)

    def _validate(self, parameters: Parameters) -> float | None:
        """Log-likelihood of the held-out pairs, per display."""
        if self.valid is None:
            return None
        rng = self._rng(VALIDATE, 0)  # the same samples each time, so that epochs compare
        total = sum(
            self.objective.score(rng, parameters, inputs, batch)
            for inputs, batch in self.valid.epoch()
        )
        return total / self.valid.displays

    @property
    def _kept(self) -> str:
        return "" if self.keep is None else "The last checkpoint is kept."

    def _rng(self, stream: int, epoch: int) -> np.random.Generator:
        """Random numbers of one stream in one epoch: no state to be kept between them."""
        return np.random.default_rng([self.settings.seed, stream, epoch])

    def _check_finite(self, epoch: int, likelihoods: np.ndarray, gradients: np.ndarray) -> None:
        bad = np.flatnonzero(~np.isfinite(likelihoods) | ~np.isfinite(gradients))
        if len(bad):
            step = int(bad[0])
            raise InputError(
                f"training diverged in epoch {epoch}, step {step + 1} of {len(likelihoods)}: the "
                f"log-likelihood is {likelihoods[step]:g} and the largest derivative "
                f"{gradients[step]:g}. The likely cause is a learning rate that is too high (it is "
                f"{self.settings.learning_rate:g}); try a tenth of it. {self._kept}"
            )


@jax.jit(static_argnums=(0, 1))
def _step(
    objective: Objective,
    optimizer: Optimizer,
    parameters: Parameters,
    memory: Any,
    inputs: jax.Array,
    batch: PairBatch,
    draws: Draws | None,
) -> tuple[Parameters, Any, jax.Array, jax.Array]:
    """One step of AdamW, with the batch's likelihood and its largest partial derivative."""
    (_, told), gradient = jax.value_and_grad(objective.loss, has_aux=True)(
        parameters, inputs, batch, draws
    )
    scale = jnp.exp(jnp.minimum(told.log_scale, MOST_NATS))
    gradient = jax.tree.map(lambda leaf: leaf * scale, _wide(gradient))
    largest = jnp.stack(
        [jnp.max(jnp.abs(leaf), initial=0.0) for leaf in jax.tree.leaves(gradient)]
    ).max()
    updates, memory = optimizer.make().update(gradient, memory, _wide(parameters))
    return optax.apply_updates(parameters, updates), memory, told.log_likelihood, largest


def _wide(tree: Any) -> Any:
    """The same in float64, in which AdamW remembers: gradients may differ by hundreds of nats."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), tree)
