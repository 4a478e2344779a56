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
from epiclick.simulate.clicks import USERS
from epiclick.simulate.examination import examination_at, examination_table
from epiclick.simulate.storage import (
    MEND,
    RELEVANCE,
    TRUTH,
    position_bias_of,
    read_truth_file,
    users_of_world,
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
        users: how users click, as in `simulate`.
    """

    position_bias: np.ndarray
    keys: pa.Table
    relevance: np.ndarray
    users: str = "pbm"

    def bias_at(self, contexts: pa.Table) -> np.ndarray:
        """(contexts,) true bias; NaN where the contexts are not those of this world."""
        return examination_at(examination_table(self.users, self.position_bias), contexts)

    def click_chances(
        self, page: np.ndarray, position: np.ndarray, relevance: np.ndarray
    ) -> np.ndarray:
        """True probability of a click at each slot of some pages, whatever happens above it.

        Positions below the last of this world are looked at as that one is.

        Args:
            page: (slots,) number of each slot's page: 0, 1, ...
            position: (slots,) from 1.
            relevance: (slots,) of the item.
        """
        below = max(int(position.max()) - len(self.position_bias), 0)
        theta = np.append(self.position_bias, np.repeat(self.position_bias[-1:], below))
        pages = np.zeros((int(page.max()) + 1, len(theta)))  # nobody clicks where nothing is
        pages[page, position - 1] = relevance
        return USERS[self.users].probability(pages, theta)[page, position - 1]

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
        bias, users = position_bias_of(truth), users_of_world(truth)
    return Truth(bias, table.select(["query_id", "doc_id"]), relevance, users)
