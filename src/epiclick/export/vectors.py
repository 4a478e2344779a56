"""Feature vectors of given items, in the model's order of features."""

import numpy as np
import pyarrow as pa

from epiclick.data.features import FeatureTable
from epiclick.errors import InputError, Problem
from epiclick.models.fitted import FittedModel
from epiclick.models.prediction import columns_of


def feature_vectors(
    fitted: FittedModel, table: FeatureTable, query_id: pa.Array, doc_id: pa.Array
) -> tuple[np.ndarray, tuple[str, ...]]:
    """(items, features) float32 as they stand in the table, not scaled; and their names.

    In the table's order if the model was trained without features.
    """
    row = table.locate(query_id, doc_id)
    without = np.flatnonzero(row < 0)
    if len(without):
        problem = Problem(
            "every item to train on must have features, and these have none",
            len(without),
            "item",
            [f"query {query_id[int(i)]}, doc {doc_id[int(i)]}" for i in without[:3]],
            "Add them to the table, or leave the items out of the log.",
        )
        raise InputError.of("features", [problem])
    vectors = table.rows(row)
    if fitted.features is None:
        return vectors, table.names
    columns = columns_of(fitted, table)
    return (vectors if columns is None else vectors[:, columns]), fitted.features.names
