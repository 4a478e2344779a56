"""The training loop: shuffled batches, AdamW, early stopping that restores the best weights.

It trains one network, or an ensemble at once: results come as arrays (networks,) whose first
element is the model's own network. Each network has its own early stopping.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from epiclick.batching.pairset import PairSet
from epiclick.errors import InputError
from epiclick.fitted.parameters import Parameters
from epiclick.training.ensemble import Networks, Single
from epiclick.training.objective import Diverged, Objective
from epiclick.training.optimizer import Optimizer, TrainingSettings
from epiclick.training.progress import Progress, Silent


@contextmanager
def deferred_interrupts() -> Iterator[Callable[[], None]]:
    """Defer Ctrl-C until the yielded function is called; a second one takes effect at once.

    Inside a numpy conversion an interrupt becomes another error, and while a lock is being acquired
    it may leave the lock held for ever, blocking the thread that loads batches.
    """
    pressed = False

    def defer(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    def check() -> None:
        if pressed:
            raise KeyboardInterrupt

    # only the main thread can set handlers; those of another program are left in place
    main = threading.current_thread() is threading.main_thread()
    ours = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, defer)
    try:
        yield check
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    check()


# streams of random numbers, each seeded per epoch
SHUFFLE, SAMPLE, VALIDATE = 1, 2, 3


@dataclass(frozen=True)
class Epoch:
    """One row of the history, for the model's own network; likelihoods are per display.

    Attributes:
        epoch: number, from 1.
        log_likelihood: of the training pairs, estimated batch by batch during the epoch.
        validation: of the held-out pairs after the epoch; None without any.
        zero_gradients: steps whose gradient was exactly 0.
        seconds: since training began.
        members_log_likelihood: mean over the members of an ensemble, each on its own bootstrap;
            None without members.
        members_validation: mean over the members, of the held-out pairs.
    """

    epoch: int
    log_likelihood: float
    validation: float | None
    zero_gradients: int
    seconds: float
    members_log_likelihood: float | None = None
    members_validation: float | None = None

    def record(self) -> dict[str, Any]:
        """The row as the history shows it, without members where there are none."""
        alone = self.members_log_likelihood is None
        return {k: v for k, v in asdict(self).items() if not (alone and k.startswith("members"))}


@dataclass(frozen=True, eq=False)
class State:
    """Everything the loop carries from one epoch to the next.

    Attributes:
        parameters: the current ones.
        optimizer: AdamW's state.
        best: parameters to keep: of the best epoch so far, or the current ones without patience.
        best_epochs: their epoch's number, for each network.
        best_validations: validation likelihood at that epoch, for each network.
        history: one row per epoch.
    """

    parameters: Parameters
    optimizer: Any
    best: Parameters
    best_epochs: tuple[int, ...]
    best_validations: tuple[float, ...]
    history: tuple[Epoch, ...] = ()

    @property
    def best_epoch(self) -> int:
        """Number of the epoch whose parameters the model keeps."""
        return self.best_epochs[0]


@dataclass(frozen=True, eq=False)
class Training:
    """A training run that can be continued from any of its states.

    Attributes:
        objective: what is maximised.
        begin: the parameters to start from.
        train: pairs to learn from.
        valid: held-out pairs for early stopping, or None.
        settings: number of epochs, learning rates, early stopping.
        keep: callback with the state after each epoch, and when interrupted; for checkpoints.
        progress: callbacks after steps and epochs.
        networks: one network or an ensemble, whose parameters have a leading axis.
    """

    objective: Objective
    begin: Parameters
    train: PairSet
    valid: PairSet | None
    settings: TrainingSettings
    keep: Callable[[State, bool], None] | None = None
    progress: Progress = field(default_factory=Silent)
    networks: Networks = field(default_factory=Single)

    def start(self) -> State:
        """The state before the first epoch."""
        count = self.networks.count
        with jax.enable_x64(True):
            parameters = jax.tree.map(jnp.asarray, self.begin)
            optimizer = self.networks.init_optimizer(self._optimizer, parameters)
            return State(parameters, optimizer, parameters, (0,) * count, (-np.inf,) * count)

    def run(self, state: State) -> State:
        """Train until the last epoch, or until validation stops improving for all networks.

        Returns the last state; its `best` holds the parameters to use.
        """
        # products over clicks underflow in float32; the network itself stays in float32
        with jax.enable_x64(True):
            objective = self.objective.started(self._first_log_likelihood)
            began = time.monotonic() - (state.history[-1].seconds if state.history else 0)
            try:
                with deferred_interrupts() as check:
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
        """Whether training is complete."""
        return len(state.history) >= self.settings.epochs or bool(self._stopped(state).all())

    def trained(self, state: State) -> list[Parameters]:
        """The parameters to use for each network, as numpy arrays."""
        return self.networks.unstack(state.best)

    def _stopped(self, state: State) -> np.ndarray:
        """Whether early stopping has ended the training of each network, (networks,)."""
        if self.settings.patience is None:
            return np.zeros(self.networks.count, bool)
        return len(state.history) - np.array(state.best_epochs) >= self.settings.patience

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
        """Log-likelihood of a batch before any step, for estimators that scale by it."""
        inputs, batch = next(self.train.epoch())
        begin, weight = self.networks.unstack(self.begin)[0], np.atleast_2d(batch.weight)[0]
        draws = self.objective.draw(self._rngs(SAMPLE, 0)[0], begin, inputs)
        batch = replace(batch, weight=weight)
        return float(jax.jit(self.objective.loss)(begin, inputs, batch, draws)[1].log_likelihood)

    def _epoch(
        self, objective: Objective, state: State, began: float, check: Callable[[], None]
    ) -> State:
        number = len(state.history) + 1
        parameters, optimizer = state.parameters, state.optimizer
        samples = self._rngs(SAMPLE, number)
        steps: list[tuple[Any, Any]] = []
        for inputs, batch in self.train.epoch(self._rngs(SHUFFLE, number)[0]):
            try:
                draws = self.networks.draw(objective.draw, samples, parameters, inputs)
            except Diverged:
                self._check_finite(number, *self._by_step(steps))  # names the step
                raise
            parameters, optimizer, log_likelihood, largest = self.networks.step(
                objective, self._optimizer, parameters, optimizer, inputs, batch, draws
            )
            steps.append((log_likelihood, largest))
            self.progress.step()
            check()
        likelihoods, gradients = self._by_step(steps)
        self._check_finite(number, likelihoods, gradients)
        validation = self._validate(parameters)
        self._check_held_out(number, validation)
        likelihood = likelihoods.sum(axis=0) / self.train.displays  # (networks,)
        ensemble = self.networks.count > 1
        row = Epoch(
            number,
            float(likelihood[0]),
            None if validation is None else float(validation[0]),
            int(np.sum(gradients[:, 0] == 0)),
            time.monotonic() - began,
            float(likelihood[1:].mean()) if ensemble else None,
            float(validation[1:].mean()) if ensemble and validation is not None else None,
        )
        self.progress.epoch(row.log_likelihood, row.validation)
        # a network that has stopped keeps its parameters, even if later ones would be better
        better = ~self._stopped(state)
        if validation is None:
            validation = np.full(self.networks.count, -np.inf)
        elif self.settings.patience is not None:
            better &= validation > state.best_validations
        return State(
            parameters,
            optimizer,
            self.networks.select(better, parameters, state.best),
            tuple(np.where(better, number, state.best_epochs).tolist()),
            tuple(np.where(better, validation, state.best_validations).tolist()),
            (*state.history, row),
        )

    def _by_step(self, steps: Sequence[tuple[Any, Any]]) -> tuple[np.ndarray, np.ndarray]:
        """Log-likelihoods and largest derivatives, (steps, networks) each."""
        values = np.array([[np.ravel(part) for part in step] for step in steps])
        values = values.reshape(len(steps), 2, self.networks.count)
        return values[:, 0], values[:, 1]

    def _validate(self, parameters: Parameters) -> np.ndarray | None:
        """Log-likelihood of the held-out pairs under each network, per display."""
        if self.valid is None:
            return None
        rngs = self._rngs(VALIDATE, 0)  # the same samples each time, to make epochs comparable
        total = np.zeros(self.networks.count)
        for inputs, batch in self.valid.epoch():
            bias = self.networks.draw(self.objective.draw_bias, rngs, parameters, inputs)
            total += self.networks.score(self.objective, parameters, inputs, batch, bias)
        return total / self.valid.displays

    @property
    def _checkpoint_kept(self) -> str:
        return "" if self.keep is None else "The last checkpoint is kept."

    def _rngs(self, stream: int, epoch: int) -> list[np.random.Generator]:
        """Generators of one stream in one epoch, for each network; stateless, for resuming."""
        first = [self.settings.seed, stream, epoch]
        others = ([*first, i] for i in range(1, self.networks.count))
        return [np.random.default_rng(seed) for seed in (first, *others)]

    def _check_finite(self, epoch: int, likelihoods: np.ndarray, gradients: np.ndarray) -> None:
        bad = np.argwhere(~np.isfinite(likelihoods) | ~np.isfinite(gradients))
        if len(bad):
            step, network = bad[0].tolist()
            member = f" of member {network}" if network else ""
            raise Diverged(
                f"training{member} diverged in epoch {epoch}, step {step + 1} of "
                f"{len(likelihoods)}: the log-likelihood is {likelihoods[step, network]:g} and the "
                f"largest derivative {gradients[step, network]:g}. The likely cause is a learning "
                f"rate that is too high (it is {self.settings.learning_rate:g}); try a tenth of "
                f"it. {self._checkpoint_kept}",
                code="training-diverged",
            )

    def _check_held_out(self, epoch: int, validation: np.ndarray | None) -> None:
        if validation is None or np.isfinite(validation).all():
            return
        value = validation[~np.isfinite(validation)][0]
        raise InputError(
            f"the held-out pairs have a log-likelihood of {value} after epoch {epoch}: "
            "the model rules out what happened there. The likely cause is a feature "
            "with extreme values among them, or a learning rate that is too high (it is "
            f"{self.settings.learning_rate:g}). {self._checkpoint_kept}",
            code="validation-not-finite",
        )
