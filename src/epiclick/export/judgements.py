"""What a model holds of items, in the order of (query_id, doc_id): mean and variance of each."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.data.arrays import as_array
from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError
from epiclick.models.fitted import FittedModel
from epiclick.posterior.judged import judged_items

LEVEL = 0.9  # of intervals, which are not used here


@dataclass(frozen=True, eq=False)
class Judgements:
    """Relevance of items, sorted by (query_id, doc_id); (items,) each.

    Attributes:
        query_id: int64 or string.
        doc_id: likewise.
        mean: expected relevance.
        variance: how unsure it is; NaN for a pointwise model, which does not say.
    """

    query_id: pa.Array
    doc_id: pa.Array
    mean: np.ndarray
    variance: np.ndarray

    def __len__(self) -> int:
        """Number of items."""
        return len(self.mean)

    def take(self, rows: np.ndarray) -> "Judgements":
        """Some of the items, in the order given."""
        return Judgements(
            self.query_id.take(pa.array(rows)),
            self.doc_id.take(pa.array(rows)),
            self.mean[rows],
            self.variance[rows],
        )


def judge(fitted: FittedModel, counts: ClickCounts | None, features: Any) -> Judgements:
    """Items of the features and of the counts; those with clicks are judged by them too.

    With neither, a model without features tells of the items of its own log.
    """
    frame = judged_items(fitted, features, counts, LEVEL)
    if not len(frame):
        raise InputError("there is nothing to export: neither the log nor the features hold a row")
    query_id, doc_id = (ids_of(frame[name]) for name in ("query_id", "doc_id"))
    alpha, beta = frame["alpha"].to_numpy(), frame["beta"].to_numpy()
    total = alpha + beta
    found = Judgements(
        query_id,
        doc_id,
        mean=frame["mean"].to_numpy(),
        variance=(alpha / total) * (beta / total) / (total + 1),
    )
    keys = pa.table({"query_id": query_id, "doc_id": doc_id})
    order = pc.sort_indices(keys, [("query_id", "ascending"), ("doc_id", "ascending")])
    return found.take(order.to_numpy())


def ids_of(column: pd.Series) -> pa.Array:
    """Ids of a table as one array, int64 or string."""
    return as_array(pa.chunked_array([pa.array(column)]))
