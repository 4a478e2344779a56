"""The truth of a simulated world, to hold a model's intervals against."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.data.damage import reading
from epiclick.data.matching import locate_rows
from epiclick.data.nearest_path import did_you_mean_path
from epiclick.errors import InputError
from epiclick.simulate.storage import (
    MEND,
    RELEVANCE,
    TRUTH,
    position_bias_of,
    read_truth_file,
    world_file,
)

FILES = (TRUTH, RELEVANCE)


@dataclass(frozen=True, eq=False)
class Truth:
    """What is true in a simulated world.

    Attributes:
        position_bias: (positions,) from position 1 on.
        keys: query_id and doc_id of the items.
        relevance: (items,) probability of a click if looked at.
    """

    position_bias: np.ndarray
    keys: pa.Table
    relevance: np.ndarray

    def bias_at(self, contexts: pa.Table) -> np.ndarray:
        """(contexts,) true bias; NaN where the contexts are not positions of this world."""
        names, size = contexts.column_names, len(self.position_bias)
        nothing = np.full(len(contexts), np.nan)
        if names != ["position"] or not pa.types.is_integer(contexts["position"].type):
            return nothing
        position = contexts["position"].to_numpy()
        inside = (position >= 1) & (position <= size)
        return np.where(inside, self.position_bias[np.where(inside, position, 1) - 1], nothing)

    def relevance_of(self, query_id: pa.Array, doc_id: pa.Array) -> np.ndarray:
        """(pairs,) true relevance; NaN for pairs that are not in this world."""
        row = locate_rows(
            {"query_id": query_id, "doc_id": doc_id},
            {name: self.keys[name] for name in ("query_id", "doc_id")},
        )
        return np.where(row >= 0, self.relevance[row], np.nan)


def read_truth(folder: str | Path) -> Truth:
    """The truth in a folder that `epiclick simulate` wrote."""
    folder = Path(folder)
    missing = [name for name in FILES if not (folder / name).is_file()]
    if not folder.exists():
        near = did_you_mean_path(folder)
        raise InputError(
            f"--truth {folder} is not there{near}. Give the folder that `epiclick simulate --out` "
            "wrote"
        )
    if missing:
        raise InputError(
            f"--truth {folder} is no simulated world: it has no {' and no '.join(missing)}. Give "
            "the folder that `epiclick simulate --out` wrote"
        )
    truth = read_truth_file(folder)
    with world_file(folder, truth, RELEVANCE) as path:
        table = pq.read_table(path, columns=["query_id", "doc_id", "relevance"], partitioning=None)
        relevance = table["relevance"].to_numpy().astype(float)
    with reading(folder / TRUTH, MEND):
        bias = position_bias_of(truth)
    return Truth(bias, table.select(["query_id", "doc_id"]), relevance)
