"""A training set for a LightGBM ranker: features, labels, weights and groups, row by row alike."""

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.data.atomic import written_aside
from epiclick.errors import InputError

UNNAMEABLE = str.maketrans(dict.fromkeys('",:[]{}', "_"))


@dataclass(frozen=True, eq=False)
class LightGBMData:
    """What a ranker is trained on; rows are sorted by (query_id, doc_id).

    Attributes:
        X: (rows, features) float32, in the order of `feature_names`.
        y: (rows,) int32; grades 0 to 4, or 1 for clicks and 0 for displays without.
        weight: (rows,) float64.
        group: (queries,) number of rows of each query.
        query_id: (rows,) int64 or string.
        doc_id: (rows,) likewise.
        feature_names: the model's, or the table's if the model has no features.
        how: "posterior" or "propensity".
        cuts: means that part the grades, for "posterior".
        clip: largest weight of a click, for "propensity".
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    group: np.ndarray
    query_id: pa.Array
    doc_id: pa.Array
    feature_names: tuple[str, ...]
    how: str
    cuts: tuple[float, ...] | None = None
    clip: float | None = None

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.y)

    def dataset(self, **options: Any) -> Any:
        """A `lightgbm.Dataset`; options are its own, such as `params` or `reference`.

        LightGBM takes no `"`, `,`, `:`, brackets or braces in names of features: they become `_`.
        """
        require_lightgbm()
        import lightgbm

        plain = [name.translate(UNNAMEABLE) for name in self.feature_names]
        names: list[str] | str = plain if len(set(plain)) == len(plain) else "auto"
        return lightgbm.Dataset(
            self.X,
            label=self.y,
            weight=self.weight,
            group=self.group,
            **{"feature_name": names, **options},
        )

    def to_table(self) -> pa.Table:
        """query_id, doc_id, label, weight and the features, row by row.

        A feature that bears one of these names gets `feature_` before it.
        """
        columns: dict[str, Any] = {
            "query_id": self.query_id,
            "doc_id": self.doc_id,
            "label": self.y,
            "weight": self.weight,
        }
        for i, name in enumerate(self.feature_names):
            while name in columns:
                name = f"feature_{name}"
            columns[name] = self.X[:, i]
        return pa.table(columns)

    def to_parquet(self, path: str | Path) -> None:
        """Write `to_table` as one Parquet file; how it came about is in its metadata."""
        about = {"how": self.how, "cuts": self.cuts, "clip": self.clip}
        table = self.to_table().replace_schema_metadata({"epiclick": json.dumps(about)})
        with written_aside(path) as aside:
            pq.write_table(table, aside, compression="zstd")


def require_lightgbm() -> None:
    """Refuse to go on without lightgbm."""
    if find_spec("lightgbm") is None:
        raise InputError(
            "a Dataset needs lightgbm, which is not installed; install it with "
            '`pip install "epiclick[lightgbm]"`, or take X, y, weight and group to another tool'
        )
