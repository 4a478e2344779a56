"""Quepid's ratings: a CSV file of query, docid, rating."""

import csv
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa

from epiclick.data.atomic import written_aside
from epiclick.errors import InputWarning

HEADER = ("query", "docid", "rating")  # Quepid takes these words only, in this order


def write_ratings(path: Path, query_id: pa.Array, doc_id: pa.Array, grade: np.ndarray) -> None:
    """One line an item, (items,) each; queries are what users typed, as Quepid runs them."""
    queries, docs = ([str(value) for value in ids.to_pylist()] for ids in (query_id, doc_id))
    quoted = {value for value in (*queries, *docs) if set(value) & set(',"\r\n')}
    if quoted:
        warnings.warn(
            f"{len(quoted):,} ids hold commas, quotes or line breaks, first {sorted(quoted)[0]!r}: "
            "they are quoted as CSV wants it, but Quepid's import in the browser counts commas "
            "within quotes too and may refuse them",
            InputWarning,
            stacklevel=2,
        )
    with written_aside(path) as aside, aside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(zip(queries, docs, grade.tolist(), strict=True))
