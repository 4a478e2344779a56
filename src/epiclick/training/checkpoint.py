"""Continuing a training run from a checkpoint, and starting one from another model."""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from epiclick.collective import ALONE, Collective
from epiclick.data.arrays import locate_rows
from epiclick.data.checksums import (
    CHANGED,
    MALFORMED,
    check_record,
    digest_arrays,
    get,
    with_digest,
)
from epiclick.data.counts import ClickCounts
from epiclick.data.writing import written_aside
from epiclick.errors import InputError
from epiclick.fitted.parameters import Parameters, leaves, with_leaves
from epiclick.fitted.prediction import columns_of
from epiclick.fitted.state import FittedModel, given_of
from epiclick.training.loop import Epoch, State
from epiclick.training.optimizer import OptimizerState

SCHEMA_VERSION = 4
SECONDS_BETWEEN = 10.0
SAMPLED_ROWS = 1_000
DIGESTED_ROWS = 1_000_000


@dataclass(eq=False)
class Checkpoint:
    """The file that holds the state of a training run.

    Attributes:
        path: the file.
        run: a digest of each thing the run depends on; a run can be resumed only if all are equal.
    """

    path: Path
    run: Mapping[str, str]
    _written: float = field(default=-np.inf, init=False)

    def keep(self, state: State, urgent: bool) -> None:
        """Write the state, unless it is not urgent and another was written moments ago."""
        if not urgent and time.monotonic() - self._written < SECONDS_BETWEEN:
            return
        arrays = {f"{i:04d}": np.asarray(leaf, order="C") for i, leaf in enumerate(_arrays(state))}
        metadata = {
            "schema_version": SCHEMA_VERSION,
            "run": dict(self.run),
            "steps": [each.steps for each in state.optimizers],
            "best_epochs": state.best_epochs,
            "best_validations": state.best_validations,
            "history": [asdict(row) for row in state.history],
            "arrays": digest_arrays(arrays),
        }
        try:
            with written_aside(self.path) as aside:
                save_file(arrays, aside, {"epiclick": json.dumps(with_digest(metadata))})
        except (OSError, SafetensorError) as error:
            raise InputError(
                f"the checkpoint {self.path} cannot be written ({error}); an earlier one is "
                "unchanged. Free some space or choose another folder, then continue with --resume.",
                code="cannot-write",
            ) from error
        self._written = time.monotonic()

    def load(self, start: State, processes: Collective = ALONE) -> State:
        """The last state written, in the tree structure of the state a new run starts from.

        Of several processes only the first needs the file.
        """
        if processes.count > 1:
            first = self.load(start) if not processes.rank else None
            data = processes.from_first(b"" if first is None else self.path.read_bytes())
            if first is not None:
                return first
            with TemporaryDirectory() as folder:
                copy = replace(self, path=Path(folder, self.path.name))
                copy.path.write_bytes(data)
                return copy.load(start)
        try:
            with safe_open(self.path, framework="numpy") as file:
                metadata = json.loads((file.metadata() or {})["epiclick"])
                named = {name: file.get_tensor(name) for name in sorted(file.keys())}
            version = get(metadata, "schema_version", int)
        except FileNotFoundError:
            raise InputError(
                f"there is no checkpoint {self.path} to resume from; start anew without --resume",
                code="file-missing",
            ) from None
        except (OSError, *MALFORMED) as error:
            raise InputError(
                f"{self.path} is not a checkpoint of epiclick, or is damaged ({error}); "
                "leave --resume out to start anew",
                code="damaged-file",
            ) from error
        self._check_version(version)
        try:
            check_record(metadata)
            if metadata["arrays"] != digest_arrays(named):
                raise ValueError(CHANGED)
            run = dict(metadata["run"])
            history = tuple(Epoch(**row) for row in metadata["history"])
            steps = tuple(map(int, metadata["steps"]))
            best_epochs = tuple(map(int, metadata["best_epochs"]))
            best_validations = tuple(map(float, metadata["best_validations"]))
        except MALFORMED as error:
            raise InputError(
                f"{self.path} is damaged ({error}); start anew", code="damaged-file"
            ) from error
        self._check_run(run)
        arrays, expected = list(named.values()), _arrays(start)
        if [(a.shape, a.dtype) for a in arrays] != [(a.shape, a.dtype) for a in expected]:
            raise InputError(
                f"{self.path} contains parameters of another shape; start anew",
                code="checkpoint-of-another-run",
            )
        parameters, optimizers, best = _parts(start, arrays, steps)
        return State(parameters, optimizers, best, best_epochs, best_validations, history)

    def remove(self) -> None:
        """Delete the file, once the run is done."""
        self.path.unlink(missing_ok=True)

    def _check_version(self, version: int) -> None:
        """Reject a file of another version."""
        if version != SCHEMA_VERSION:
            raise InputError(
                f"{self.path} has checkpoint version {version}, this epiclick reads "
                f"{SCHEMA_VERSION}; start anew",
                code="unsupported-version",
            )

    def _check_run(self, run: Mapping[str, Any]) -> None:
        """Reject the checkpoint of a run with other data, settings or versions."""
        changed = [name for name, digest in self.run.items() if run.get(name) != digest]
        if changed:
            raise InputError(
                f"{self.path} belongs to a run that differs in its {' and '.join(changed)}; give "
                "the same again, or leave --resume out to start anew",
                code="checkpoint-of-another-run",
            )


def _arrays(state: State) -> list[np.ndarray]:
    """All arrays of a state, network by network."""
    found: list[np.ndarray] = []
    for own, memory, best in zip(state.parameters, state.optimizers, state.best, strict=True):
        found += [*leaves(own), *memory.means, *memory.squares, *leaves(best)]
    return found


def _parts(
    like: State, arrays: list[np.ndarray], steps: tuple[int, ...]
) -> tuple[tuple[Parameters, ...], tuple[OptimizerState, ...], tuple[Parameters, ...]]:
    """Parameters, memories of AdamW and best parameters of each network, from `_arrays`."""
    parameters, optimizers, best = [], [], []
    remaining = iter(arrays)
    for own, step in zip(like.parameters, steps, strict=True):
        size = len(leaves(own))
        values, means, squares, kept = ([next(remaining) for _ in range(size)] for _ in range(4))
        parameters.append(with_leaves(own, values))
        optimizers.append(OptimizerState(step, tuple(means), tuple(squares)))
        best.append(with_leaves(own, kept))
    return tuple(parameters), tuple(optimizers), tuple(best)


def digest_counts(counts: ClickCounts) -> str:
    """A digest of ids, entries, and names and some rows of the features."""
    digest = hashlib.blake2b(digest_size=16)
    for table in (pa.table({"q": counts.query_id, "d": counts.doc_id}), counts.contexts):
        digest.update(repr(table.schema).encode())
        for rows in table.to_batches(max_chunksize=DIGESTED_ROWS):
            digest.update(rows.serialize())
    for array in (counts.pair, counts.context, counts.displays, counts.clicks):
        digest.update(np.ascontiguousarray(array).tobytes())
    if counts.features is not None and counts.feature_row is not None:
        digest.update(json.dumps(counts.features.names).encode())
        step = -(-len(counts) // SAMPLED_ROWS)
        digest.update(counts.features.rows(counts.feature_row[::step]).tobytes())
    return digest.hexdigest()


def digest_settings(settings: Any) -> str:
    """A digest of anything that its `repr` describes in full, such as frozen dataclasses."""
    return hashlib.blake2b(repr(settings).encode(), digest_size=16).hexdigest()


def unfinished(path: str | os.PathLike[str]) -> Path:
    """Path of the checkpoint for a model that is to be written to `path`."""
    path = Path(path)
    return path.with_name(f"{path.name}.checkpoint")


def warm_start(init: FittedModel, start: Parameters, train: ClickCounts) -> Parameters:
    """The parameters of a fitted model, mapped to the contexts of another log.

    Contexts that the model does not know get the parameters of `start`.
    """
    if (init.features is None) != (train.features is None):
        has, lacks = ("the log", "the model") if init.features is None else ("the model", "the log")
        raise InputError(
            f"{has} has features and {lacks} has none; starting from a model needs both or neither",
            code="init-feature-mismatch",
        )
    if train.features is not None and columns_of(init, train.features) is not None:
        raise InputError(
            "the model to start from was trained on features in another order; use its order",
            code="init-feature-mismatch",
        )
    alike = init.features is None or _shapes(init.parameters) == _shapes(start)
    if not alike or init.parameters.position.is_point != start.position.is_point:
        raise InputError(
            "the model to start from has other hidden layers or another kind of estimator; use its "
            f"settings: {dict(init.settings)}",
            code="init-layer-mismatch",
        )
    names, before = train.contexts.column_names, init.options.click_model
    if before != train.options.click_model:
        raise InputError(
            f"the model to start from is a {before}, and the log was counted for a "
            f"{train.options.click_model}; both must have the same click model",
            code="init-click-model-mismatch",
        )
    if init.contexts.column_names != names:
        raise InputError(
            f"the model to start from knows contexts by {', '.join(init.contexts.column_names)}, "
            f"the log by {', '.join(names)}",
            code="init-context-mismatch",
        )

    def mapped(old: Any, new: Any, row: np.ndarray) -> np.ndarray:
        """Values of the old model in the contexts it knows, else new ones."""
        known = (row >= 0).reshape(-1, *[1] * (np.ndim(new) - 1))
        return np.where(known, np.asarray(old)[row], new)

    row = _located(train.contexts, init.contexts)
    # a click model has one or several parameters for each context, one kind after the other
    kinds = len(start.position[0]) // len(train.contexts)
    row = np.concatenate(
        [np.where(row >= 0, row + kind * len(init.contexts), -1) for kind in range(kinds)]
    )
    values = zip(init.parameters.position, start.position, strict=True)
    position = type(start.position)(*(mapped(old, new, row) for old, new in values))
    # the last layer of a model with a posterior is float64
    layers = tuple(
        (np.asarray(weight, np.float32), np.asarray(bias, np.float32))
        for weight, bias in init.parameters.layers
    )
    if init.features is None:
        ((weight, bias),), ((first, _),) = layers, start.layers
        given = _located(train.given[0], given_of(init)[0])
        layers = ((mapped(weight, first, given), bias),)
    return Parameters(layers, position)


def _located(contexts: pa.Table, among: pa.Table) -> np.ndarray:
    """(contexts,) row of each context in another table, -1 where it is absent."""
    names = contexts.column_names
    return locate_rows(*({name: table[name] for name in names} for table in (contexts, among)))


def _shapes(parameters: Parameters) -> list[tuple[int, ...]]:
    return [np.shape(part) for layer in parameters.layers for part in layer]
