r"""Judgements of items for other tools: grades, TREC qrels and runs, Quepid ratings.

An item's grade is the number of cut-offs below its mean. Its weight is, up to a factor,

.. math:: w = \frac{s^2}{s^2 + v},

with v the variance of its posterior and s^2 the variance of all means: the share of the item's
variance that is due to relevance and not to its uncertainty. It is the weight of least squares if
an item deviates from what its features predict by a variance of s^2 plus its own v. It lies between
0 and 1 before scaling to a mean of 1, so no item outweighs all others, however certain.
"""

import csv
import itertools
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.data.arrays import as_array
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.data.writing import written_aside
from epiclick.errors import InputError, InputWarning, Problem
from epiclick.fitted.prediction import columns_of, seen_by
from epiclick.fitted.state import FittedModel
from epiclick.posterior.items import judged_items

GRADES = 5
QUANTILES = (0.5, 0.75, 0.9, 0.97)
"""Default cut-offs, as quantiles of the means."""

LEAST_SPREAD = 1e-12  # total variance where all items are certain and equal


def cut_offs(means: np.ndarray, cuts: Sequence[float] | None = None) -> tuple[float, ...]:
    """The given cut-offs, validated; default the `QUANTILES` of the means (items,)."""
    if cuts is None:
        return tuple(float(cut) for cut in np.quantile(means, QUANTILES))
    given = tuple(float(cut) for cut in cuts)
    inside = all(0 < cut < 1 for cut in given)
    rising = all(one < other for one, other in itertools.pairwise(given))
    if len(given) != GRADES - 1 or not inside or not rising:
        raise InputError(
            f"cuts must be {GRADES - 1} increasing probabilities between 0 and 1, which separate "
            f"the grades 0 to {GRADES - 1}, such as 0.1, 0.2, 0.4, 0.6; "
            f"not {', '.join(f'{cut:g}' for cut in given) or 'none'}",
            code="invalid-cuts",
        )
    return given


def grades(means: np.ndarray, cuts: Sequence[float]) -> np.ndarray:
    """(items,) int32: number of cut-offs below each mean.

    >>> grades(np.array([0.05, 0.1, 0.3, 0.9]), (0.1, 0.2, 0.4, 0.6))
    array([0, 0, 2, 4], dtype=int32)
    """
    return np.searchsorted(np.asarray(cuts), means, side="left").astype(np.int32)


def certainty_weights(means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """(items,) float64 of mean 1; the more certain an item's posterior, the larger."""
    weights = 1 / np.maximum(np.var(means) + variances, LEAST_SPREAD)
    return weights / weights.mean()


def feature_vectors(
    fitted: FittedModel, table: FeatureTable, query_id: pa.Array, doc_id: pa.Array
) -> tuple[np.ndarray, tuple[str, ...]]:
    """(items, features) float32 as in the table, not scaled; and their names.

    In the table's order if the model was trained without features. Categories are one-hot, and
    missing values filled, as the model has learned it, or else from these items.
    """
    table = table.including(query_id, doc_id)
    row = table.locate(query_id, doc_id)
    without = np.flatnonzero(row < 0)
    if len(without):
        problem = Problem(
            "every item to train on must have features, and these have none",
            len(without),
            "item",
            [f"query {query_id[int(i)]}, doc {doc_id[int(i)]}" for i in without[:3]],
            "Add them to the table, or leave the items out of the log.",
            code="items-without-features",
        )
        raise InputError.of("features", [problem])
    if fitted.features is None:
        encoding = table.learn_encoding(row)
        table = table if encoding is None else table.encoded(encoding)
        return table.rows(row), table.names
    table = seen_by(fitted, table)
    vectors = table.rows(row)
    columns = columns_of(fitted, table)
    return (vectors if columns is None else vectors[:, columns]), fitted.features.names


LEVEL = 0.9  # of intervals, which are not used here


@dataclass(frozen=True, eq=False)
class Judgements:
    """Relevance of items, sorted by (query_id, doc_id); (items,) each.

    Attributes:
        query_id: int64 or string.
        doc_id: int64 or string.
        mean: expected relevance.
        variance: of relevance; NaN for a pointwise model, which has none.
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
    """Items of the features and of the counts; those with clicks are judged by them, too.

    With neither, a model without features judges the items of its own log.
    """
    frame = judged_items(fitted, features, counts, LEVEL)
    if not len(frame):
        raise InputError(
            "there is nothing to export: neither the log nor the features have any rows",
            code="nothing-to-export",
        )
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


BLANK = r"[\s\x0b\x1c-\x1f\x{85}\p{Z}]"  # everything that Python splits lines or words at, too
TAG = "epiclick"


def write_qrels(path: Path, query_id: pa.Array, doc_id: pa.Array, grade: np.ndarray) -> None:
    """`query_id 0 doc_id grade`, one line per item; (items,) each."""
    check_ids("qrels of TREC", query_id=query_id, doc_id=doc_id)
    rows = zip(query_id.to_pylist(), doc_id.to_pylist(), grade.tolist(), strict=True)
    with written_aside(path) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{query} 0 {doc} {value}\n" for query, doc, value in rows)


def write_run(path: Path, ranking: pd.DataFrame) -> None:
    """`query_id Q0 doc_id rank score epiclick`, one line per item, as `rank` returns them.

    Scores are written in full precision: trec_eval sorts by them, and not by rank.
    """
    query_id, doc_id = ids_of(ranking["query_id"]), ids_of(ranking["doc_id"])
    check_ids("a run of TREC", query_id=query_id, doc_id=doc_id)
    position, score = ranking["position"].tolist(), ranking["score"].tolist()
    rows = zip(query_id.to_pylist(), doc_id.to_pylist(), position, score, strict=True)
    with written_aside(path) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(
            f"{query} Q0 {doc} {place} {value!r} {TAG}\n" for query, doc, place, value in rows
        )


def check_ids(what: str, **columns: pa.Array) -> None:
    """Reject ids that cannot be written to a file separated by whitespace."""
    problems = []
    for name, ids in columns.items():
        if pa.types.is_integer(ids.type):
            continue
        values = pc.unique(ids)
        bad = values.filter(pc.or_(pc.match_substring_regex(values, BLANK), pc.equal(values, "")))
        if len(bad):
            problems.append(
                Problem(
                    f"{what} is separated by whitespace, but these contain some or are empty",
                    len(bad),
                    name,
                    [repr(value) for value in bad[:3].to_pylist()],
                    "Number them, or export to quepid or srw, whose files take text.",
                    code="id-with-whitespace",
                )
            )
    if problems:
        raise InputError.of("the ids", problems)


HEADER = ("query", "docid", "rating")  # Quepid accepts only these, in this order
FORMULA = re.compile(r"\s*[=+\-@]")
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def is_formula(value: str) -> bool:
    """Whether a spreadsheet that opens a CSV file would compute this value."""
    return FORMULA.match(value) is not None and NUMBER.fullmatch(value) is None


def write_ratings(
    path: Path,
    query_id: pa.Array,
    doc_id: pa.Array,
    grade: np.ndarray,
    *,
    escape_formulas: bool = False,
) -> None:
    """One line per item, (items,) each; queries are what users typed, as Quepid runs them.

    Args:
        path: the file.
        query_id: of the items.
        doc_id: of the items.
        grade: of the items.
        escape_formulas: put an apostrophe before ids that spreadsheets would take for formulas.
            It becomes part of the id for all other readers.
    """
    queries, docs = ([str(value) for value in ids.to_pylist()] for ids in (query_id, doc_id))
    formulas = {value for value in (*queries, *docs) if is_formula(value)}
    if escape_formulas:
        queries, docs = ([f"'{v}" if v in formulas else v for v in ids] for ids in (queries, docs))
    elif formulas:
        warnings.warn(
            f"{len(formulas):,} ids look like formulas, first {sorted(formulas)[0]!r}: a "
            "spreadsheet that opens the file computes them. For a file that only spreadsheets "
            "read, --escape-formulas puts an apostrophe before them",
            InputWarning,
            stacklevel=2,
        )
    quoted = {value for value in (*queries, *docs) if set(value) & set(',"\r\n')}
    if quoted:
        warnings.warn(
            f"{len(quoted):,} ids contain commas, quotes or line breaks, first "
            f"{sorted(quoted)[0]!r}: they are quoted as CSV requires, but Quepid's import in the "
            "browser counts commas within quotes, too, and may reject them",
            InputWarning,
            stacklevel=2,
        )
    with written_aside(path) as aside, aside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(zip(queries, docs, grade.tolist(), strict=True))
