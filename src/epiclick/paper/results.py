"""All measurements of a reproduction, in one long table, and access to them.

| column | meaning |
|---|---|
| `method` | key of a variant, see `paper.variants` |
| `run` | number of the run, from 0 |
| `epoch` | number of the epoch, from 1 |
| `quantity` | what was measured, see `QUANTITIES` |
| `index` | position (from 1) or ranker (from 0), else 0 |
| `value` | the measurement; NaN after training has diverged |

Rows are sorted by method, run, epoch, quantity and index; samples keep the order in which they
were drawn.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.data.writing import written_aside
from epiclick.errors import InputError
from epiclick.paper.settings import Settings

SCHEMA = pa.schema(
    {
        "method": pa.string(),
        "run": pa.int32(),
        "epoch": pa.int32(),
        "quantity": pa.string(),
        "index": pa.int32(),
        "value": pa.float64(),
    }
)

QUANTITIES: dict[str, str] = {
    "per_display": "test log-likelihood per display, from the expected click probability",
    "per_pair": "test log-likelihood per pair, all clicks of a pair jointly",
    "whole_set": "joint test log-likelihood of all pairs, as published, divided by displays",
    "train": "training log-likelihood per display, as estimated during training",
    "zero_gradients": "share of steps since the previous row whose gradient was exactly 0",
    "mu_mean": "mean over displayed pairs of the expected relevance",
    "mu_sd": "its sample standard deviation",
    "nu_mean": "mean over displayed pairs of the confidence in relevance",
    "nu_sd": "its sample standard deviation",
    "theta_alpha": "first parameter of the Beta of a position's bias",
    "theta_beta": "second parameter",
    "theta": "position bias, where it is a point estimate",
    "posterior_theta": "position bias at the mean of its posterior, where there is one",
    "posterior_per_display": "per_display of the model at that mean",
    "ranker_truth": "true expected clicks per page of a ranker by a single feature",
    "ranker_value": "its mean under the model",
    "ranker_sample": "its samples under the model",
}

KEYS = ("method", "run", "epoch", "quantity", "index")


@dataclass(frozen=True)
class Cost:
    """Cost of a cell: wall-clock seconds of training and in total, and peak memory in bytes."""

    method: str
    run: int
    training_seconds: float
    seconds: float
    memory: int


@dataclass(frozen=True, eq=False)
class Results:
    """The measurements of a reproduction.

    Attributes:
        table: the rows, sorted; see the module.
        settings: of the reproduction.
        truth: (positions,) the true position bias.
        costs: time and memory of the cells, where known.
        rankers: names of the features that rankers sort by, in the order of their index.
    """

    table: pa.Table
    settings: Settings
    truth: np.ndarray
    costs: tuple[Cost, ...] = ()
    rankers: tuple[str, ...] = field(default=())

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """Keys of the variants, in the order of `VARIANTS`, then others."""
        from epiclick.paper.variants import VARIANTS

        present = {method for method, _ in self._parts}
        known = [key for key in VARIANTS if key in present]
        return (*known, *sorted(present - set(known)))

    @cached_property
    def runs(self) -> tuple[int, ...]:
        """Numbers of the runs, the same for all methods."""
        return tuple(np.unique(self.table["run"].to_numpy()).tolist())

    def has(self, method: str, quantity: str) -> bool:
        """Whether a quantity was measured for a method."""
        return (method, quantity) in self._parts

    def of(self, method: str, quantity: str, index: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Epochs (E,) and the values of each run at them, (runs, E)."""
        part = self._part(method, quantity)
        chosen = part["index"] == index
        epochs = np.unique(part["epoch"][chosen])
        values = part["value"][chosen]
        if len(values) != len(self.runs) * len(epochs) or not len(values):
            raise InputError(
                f"{method} has {len(values)} values of {quantity} at index {index}, expected "
                f"{len(self.runs)} runs x {len(epochs)} epochs",
                code="incomplete-results",
            )
        return epochs, values.reshape(len(self.runs), len(epochs))

    def last(self, method: str, quantity: str) -> np.ndarray:
        """Values at the last epoch, (runs, indices)."""
        part = self._part(method, quantity)
        final = part["epoch"] == part["epoch"].max()
        indices = np.unique(part["index"][final])
        return part["value"][final].reshape(len(self.runs), len(indices))

    def point_bias(self, method: str) -> np.ndarray:
        """Point estimates of position bias, (runs, positions): of the posterior, if there is one.

        Otherwise those after the last epoch.
        """
        has_posterior = self.has(method, "posterior_theta")
        return self.last(method, "posterior_theta" if has_posterior else "theta")

    def samples(self, method: str, quantity: str) -> np.ndarray:
        """Samples of each run and index, at the last epoch: (runs, indices, samples)."""
        part = self._part(method, quantity)
        final = part["epoch"] == part["epoch"].max()
        indices = np.unique(part["index"][final])
        return part["value"][final].reshape(len(self.runs), len(indices), -1)

    def _part(self, method: str, quantity: str) -> Mapping[str, np.ndarray]:
        if (method, quantity) not in self._parts:
            raise InputError(
                f"{quantity} of {method} was not measured in this reproduction",
                code="quantity-not-measured",
            )
        return self._parts[method, quantity]

    @cached_property
    def _parts(self) -> dict[tuple[str, str], dict[str, np.ndarray]]:
        """run, epoch, index and value of each method and quantity, still sorted."""
        codes = [self.table[n].combine_chunks().dictionary_encode() for n in ("method", "quantity")]
        method, quantity = (code.indices.to_numpy() for code in codes)
        names = [code.dictionary.to_pylist() for code in codes]
        columns = {n: self.table[n].to_numpy() for n in ("run", "epoch", "index", "value")}
        both = method.astype(np.int64) * max(len(names[1]), 1) + quantity
        order = np.argsort(both, kind="stable")
        found, start = np.unique(both[order], return_index=True)
        parts = {}
        for code, rows in zip(found.tolist(), np.split(order, start[1:]), strict=True):
            key = names[0][code // len(names[1])], names[1][code % len(names[1])]
            parts[key] = {name: column[rows] for name, column in columns.items()}
        return parts

    def save(self, path: str | Path) -> None:
        """Write the table as Parquet; equal results give equal files."""
        with written_aside(path) as aside:
            pq.write_table(self.table, aside, compression="zstd")


def sorted_table(table: pa.Table) -> pa.Table:
    """The rows sorted by `KEYS`, stable."""
    columns = [table[name].to_numpy(zero_copy_only=False) for name in KEYS]
    coded = [np.unique(c.astype(str), return_inverse=True)[1] if c.dtype == object else c
             for c in columns]  # fmt: skip
    return table.take(pa.array(np.lexsort(coded[::-1])))
