"""The training loop: shuffled batches, AdamW, early stopping that restores the best weights.

It trains one network, or several of an ensemble on the same batches, each with its own weights of
pairs and its own early stopping; the first is the model's own network.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from types import FrameType
from typing import Any

import numpy as np

from epiclick.batching.pairset import PairSet
from epiclick.batching.shares import sum_shards
from epiclick.errors import InputError
from epiclick.fitted.parameters import Parameters, leaves
from epiclick.likelihood.pairs import PairBatch
from epiclick.training.objective import Descent, Diverged, Objective
from epiclick.training.optimizer import Optimizer, OptimizerState, TrainingSettings
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
class Trained:
    """The result of training.

    Attributes:
        networks: parameters of the model's own network, then of the members of an ensemble.
        history: one row per epoch, at least one.
        best_epoch: number of the epoch whose parameters the model's own network has.
    """

    networks: Sequence[Parameters]
    history: Sequence[Epoch]
    best_epoch: int


@dataclass(frozen=True, eq=False)
class State:
    """Everything the loop carries from one epoch to the next.

    Attributes:
        parameters: the current ones of each network.
        optimizers: AdamW's state for each network.
        best: parameters to keep: of the best epoch so far, or the current ones without patience.
        best_epochs: their epoch's number, for each network.
        best_validations: validation likelihood at that epoch, for each network.
        history: one row per epoch.
    """

    parameters: tuple[Parameters, ...]
    optimizers: tuple[OptimizerState, ...]
    best: tuple[Parameters, ...]
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
        begin: the parameters that each network starts from.
        train: pairs to learn from.
        valid: held-out pairs for early stopping, or None.
        settings: number of epochs, learning rates, early stopping.
        keep: callback with the state after each epoch, and when interrupted; for checkpoints.
        progress: callbacks after steps and epochs.
    """

    objective: Objective
    begin: Sequence[Parameters]
    train: PairSet
    valid: PairSet | None
    settings: TrainingSettings
    keep: Callable[[State, bool], None] | None = None
    progress: Progress = field(default_factory=Silent)

    def start(self) -> State:
        """The state before the first epoch."""
        begin, count = tuple(self.begin), len(self.begin)
        optimizers = tuple(self._optimizer.init(each) for each in begin)
        return State(begin, optimizers, begin, (0,) * count, (-np.inf,) * count)

    def run(self, state: State) -> State:
        """Train until the last epoch, or until validation stops improving for all networks.

        Returns the last state; its `best` holds the parameters to use.
        """
        objective = self.objective.started(self._first_log_likelihood)
        began = time.monotonic() - (state.history[-1].seconds if state.history else 0)
        try:
            # a diverging run is reported by its first number that is not finite
            with deferred_interrupts() as check, np.errstate(all="ignore"):
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

    def _stopped(self, state: State) -> np.ndarray:
        """Whether early stopping has ended the training of each network, (networks,)."""
        if self.settings.patience is None:
            return np.zeros(len(self.begin), bool)
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
        draws = self.objective.draw(self._rngs(SAMPLE, 0)[0], self.begin[0], inputs)
        batch = _weighted(batch, 0)
        return self.objective.descent(self.begin[0], inputs, batch, draws).log_likelihood

    def _epoch(
        self, objective: Objective, state: State, began: float, check: Callable[[], None]
    ) -> State:
        number = len(state.history) + 1
        networks = range(len(self.begin))
        parameters, optimizers = list(state.parameters), list(state.optimizers)
        samples, optimizer = self._rngs(SAMPLE, number), self._optimizer
        steps: list[list[tuple[float, float]]] = []
        for shards in self.train.sharded_epoch(self._rngs(SHUFFLE, number)[0]):
            steps.append([])
            for i in networks:
                try:
                    found = self._descent(objective, samples[i], parameters[i], shards, i)
                except Diverged:
                    self._check_finite(number, steps[:-1])  # names the step
                    raise
                largest = max(float(np.abs(leaf).max(initial=0)) for leaf in found.gradient)
                steps[-1].append((found.log_likelihood, largest))
                parameters[i], optimizers[i] = optimizer.update(
                    parameters[i], found.gradient, optimizers[i]
                )
            self.progress.step()
            check()
        likelihoods, gradients = self._check_finite(number, steps)
        validation = self._validate(parameters)
        self._check_held_out(number, validation)
        likelihood = likelihoods.sum(axis=0) / self.train.displays  # (networks,)
        ensemble = len(networks) > 1
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
            validation = np.full(len(networks), -np.inf)
        elif self.settings.patience is not None:
            better &= validation > state.best_validations
        return State(
            tuple(parameters),
            tuple(optimizers),
            tuple(parameters[i] if better[i] else state.best[i] for i in networks),
            tuple(np.where(better, number, state.best_epochs).tolist()),
            tuple(np.where(better, validation, state.best_validations).tolist()),
            (*state.history, row),
        )

    def _descent(
        self,
        objective: Objective,
        rng: np.random.Generator,
        parameters: Parameters,
        shards: Sequence[tuple[np.ndarray, PairBatch]],
        network: int,
    ) -> Descent:
        """The sum over all shards of a batch, those of other processes included."""
        found = []
        for inputs, batch in shards:
            draws = objective.draw(rng, parameters, inputs)
            batch = _weighted(batch, network)
            found.append(objective.descent(parameters, inputs, batch, draws))
        processes = self.train.processes
        if processes.count == 1 and len(found) == 1:
            return found[0]
        # one array, so that processes exchange one
        parts = [np.r_[each.log_likelihood, *map(np.ravel, each.gradient)] for each in found]
        like = leaves(parameters)
        own = sum_shards(parts) if parts else np.zeros(1 + sum(map(np.size, like)))
        (whole,) = processes.sum([own])
        ends = np.cumsum([1, *map(np.size, like)])
        gradient = np.split(whole, ends[:-1])[1:]
        return Descent(
            float(whole[0]),
            [part.reshape(np.shape(leaf)) for part, leaf in zip(gradient, like, strict=True)],
        )

    def _validate(self, parameters: Sequence[Parameters]) -> np.ndarray | None:
        """Log-likelihood of the held-out pairs under each network, per display."""
        if self.valid is None:
            return None
        rngs = self._rngs(VALIDATE, 0)  # the same samples each time, to make epochs comparable
        total = np.zeros(len(parameters))
        for inputs, batch in self.valid.epoch():
            for i, (rng, own) in enumerate(zip(rngs, parameters, strict=True)):
                bias = self.objective.draw_bias(rng, own, inputs)
                total[i] += self.objective.score(own, inputs, batch, bias)
        (total,) = self.valid.processes.sum([total])
        return total / self.valid.displays

    @property
    def _checkpoint_kept(self) -> str:
        return "" if self.keep is None else "The last checkpoint is kept."

    def _rngs(self, stream: int, epoch: int) -> list[np.random.Generator]:
        """Generators of one stream in one epoch, for each network; stateless, for resuming."""
        first = [self.settings.seed, stream, epoch]
        others = ([*first, i] for i in range(1, len(self.begin)))
        return [np.random.default_rng(seed) for seed in (first, *others)]

    def _check_finite(
        self, epoch: int, steps: Sequence[Sequence[tuple[float, float]]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log-likelihoods and largest derivatives, (steps, networks) each, all finite."""
        values = np.array(steps).reshape(len(steps), len(self.begin), 2)
        bad = np.argwhere(~np.isfinite(values).all(axis=2))
        if len(bad):
            step, network = bad[0].tolist()
            likelihood, largest = values[step, network]
            member = f" of member {network}" if network else ""
            raise Diverged(
                f"training{member} diverged in epoch {epoch}, step {step + 1} of {len(steps)}: the "
                f"log-likelihood is {likelihood:g} and the largest derivative {largest:g}. The "
                f"likely cause is a learning rate that is too high (it is "
                f"{self.settings.learning_rate:g}); try a tenth of it. {self._checkpoint_kept}",
                code="training-diverged",
            )
        return values[..., 0], values[..., 1]

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


def _weighted(batch: PairBatch, network: int) -> PairBatch:
    """The batch with the weights that one network gives to its pairs."""
    if batch.weight.ndim == 1:
        return batch
    whole = None if batch.whole is None else batch.whole[network]
    return replace(batch, weight=batch.weight[network], whole=whole)
