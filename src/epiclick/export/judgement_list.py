"""Judgement lists of learning-to-rank plugins: `grade qid:N # doc_id`, as RankLib reads them.

Queries are numbers there; a header `# qid:N: text` names the query of each. Features are logged by
the search engine and added to the lines later.
"""

import re
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.data.arrays import changes
from epiclick.data.writing import written_aside
from epiclick.errors import InputError, InputWarning, Problem
from epiclick.export.judgements import check_ids

LINE_BREAK = re.compile(r"[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
WORD = re.compile(r"\w+", re.ASCII)


def write_judgement_list(
    path: Path, query_id: pa.Array, doc_id: pa.Array, grade: np.ndarray
) -> None:
    """A header line per query, then a line per item; (items,) each, in the order of query_id.

    Query ids that are whole numbers keep their numbers; others are numbered from 1.
    """
    check_ids("a judgement list", doc_id=doc_id)
    first = changes(query_id)
    queries = query_id.filter(pa.array(first)).to_pylist()
    numbers = _numbers(query_id, queries)
    docs = [str(value) for value in doc_id.to_pylist()]
    _check_readable([str(query) for query in queries], docs)
    rows = zip(grade.tolist(), (np.cumsum(first) - 1).tolist(), docs, strict=True)
    with written_aside(path) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"# qid:{n}: {text}\n" for n, text in zip(numbers, queries, strict=True))
        file.write("#\n")
        file.writelines(f"{value} qid:{numbers[query]} # {doc}\n" for value, query, doc in rows)


def _numbers(query_id: pa.Array, queries: list[object]) -> list[int]:
    """The number of each query."""
    if pa.types.is_integer(query_id.type) and len(query_id) and pc.min(query_id).as_py() >= 0:
        return [int(str(query)) for query in queries]
    return list(range(1, len(queries) + 1))


def _check_readable(queries: list[str], docs: list[str]) -> None:
    """Refuse queries of several lines, and report ids that common parsers would cut off."""
    if broken := [query for query in queries if LINE_BREAK.search(query)]:
        problem = Problem(
            "a judgement list has one line per query, and these contain line breaks",
            len(broken),
            "query_id",
            [repr(query) for query in broken[:3]],
            "Leave them out with --where, or export to srw, whose JSON takes any text.",
            code="id-with-line-break",
        )
        raise InputError.of("the ids", [problem])
    cut = sorted(doc for doc in set(docs) if not WORD.fullmatch(doc))
    starred = sorted(query for query in queries if "*" in query)
    for what, ids, why in (
        ("doc ids contain other characters than letters, digits and _", cut, "cut them off there"),
        ("queries contain *", starred, "take what follows for a weight"),
    ):
        if ids:
            warnings.warn(
                f"{len(ids):,} {what}, first {ids[0]!r}: RankLib reads them, but scripts that come "
                f"with learning-to-rank plugins {why}",
                InputWarning,
                stacklevel=3,
            )
