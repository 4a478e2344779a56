"""Files of the Text REtrieval Conference: judgements (qrels) and rankings (runs)."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.data.atomic import written_aside
from epiclick.errors import InputError, Problem
from epiclick.export.judgements import ids_of

BLANK = r"[\s\x0b\x1c-\x1f\x{85}\p{Z}]"  # all that Python, too, splits lines and words at
TAG = "epiclick"


def write_qrels(path: Path, query_id: pa.Array, doc_id: pa.Array, grade: np.ndarray) -> None:
    """`query_id 0 doc_id grade`, one line an item; (items,) each."""
    check_ids("qrels", query_id, doc_id)
    rows = zip(query_id.to_pylist(), doc_id.to_pylist(), grade.tolist(), strict=True)
    with written_aside(path) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{query} 0 {doc} {value}\n" for query, doc, value in rows)


def write_run(path: Path, ranking: pd.DataFrame) -> None:
    """`query_id Q0 doc_id rank score epiclick`, one line an item, as `rank` gives them.

    Scores have all their digits: trec_eval sorts by them, and not by rank.
    """
    query_id, doc_id = ids_of(ranking["query_id"]), ids_of(ranking["doc_id"])
    check_ids("a run", query_id, doc_id)
    position, score = ranking["position"].tolist(), ranking["score"].tolist()
    rows = zip(query_id.to_pylist(), doc_id.to_pylist(), position, score, strict=True)
    with written_aside(path) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(
            f"{query} Q0 {doc} {place} {value!r} {TAG}\n" for query, doc, place, value in rows
        )


def check_ids(what: str, query_id: pa.Array, doc_id: pa.Array) -> None:
    """Refuse ids that a file parted by blanks cannot hold."""
    problems = []
    for name, ids in (("query_id", query_id), ("doc_id", doc_id)):
        if pa.types.is_integer(ids.type):
            continue
        values = pc.unique(ids)
        bad = values.filter(pc.or_(pc.match_substring_regex(values, BLANK), pc.equal(values, "")))
        if len(bad):
            problems.append(
                Problem(
                    f"{what} of TREC is parted by blanks, and these hold blanks or are empty",
                    len(bad),
                    name,
                    [repr(value) for value in bad[:3].to_pylist()],
                    "Number the queries, or export to quepid, whose CSV takes text.",
                )
            )
    if problems:
        raise InputError.of("the ids", problems)
