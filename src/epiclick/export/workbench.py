"""Judgements for OpenSearch's Search Relevance Workbench, as the body of an import request.

The workbench takes one JSON object, `PUT` to `_plugins/_search_relevance/judgments`: a name, a
description, the type `IMPORT_JUDGMENT`, and for every query its ratings, numbers written as text.
It distinguishes items that are rated 0 from items that are not rated, so all items are written.
"""

import itertools
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from epiclick.data.writing import written_aside
from epiclick.errors import InputError, InputWarning, Problem

NAME = "epiclick"
LONGEST_NAME, LONGEST_DESCRIPTION, LONGEST_QUERY = 50, 250, 2_000  # limits of the workbench
REFUSED = re.compile(r'["\\<>]')  # by the workbench in names, descriptions and sets of queries


def check_name(name: str) -> str:
    """A name for the list of judgements that the workbench accepts."""
    if name and len(name) <= LONGEST_NAME and not REFUSED.search(name) and name.isprintable():
        return name
    raise InputError(
        f"the workbench accepts names of 1 to {LONGEST_NAME} characters, without quotes, "
        f"backslashes, < and >, but not {name!r}; choose another with --name",
        code="invalid-name",
    )


def write_judgements(
    path: Path,
    query_id: pa.Array,
    doc_id: pa.Array,
    grade: np.ndarray,
    *,
    name: str = NAME,
    description: str = "",
) -> None:
    """One JSON object, a line per query; (items,) each, in the order of query_id."""
    check_name(name)
    assert len(description) <= LONGEST_DESCRIPTION
    assert not REFUSED.search(description)
    queries, docs = ([str(value) for value in ids.to_pylist()] for ids in (query_id, doc_id))
    _check_ids(queries, docs)
    head = {"name": name, "description": description, "type": "IMPORT_JUDGMENT"}
    opening = json.dumps(head, ensure_ascii=False).removesuffix("}")
    with written_aside(path) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f'{opening}, "judgmentRatings": [\n')
        file.write(",\n".join(_by_query(queries, docs, grade.tolist())))
        file.write("\n]}\n")


def _by_query(queries: list[str], docs: list[str], grades: list[int]) -> Iterator[str]:
    """The ratings of each query as JSON."""
    rows = zip(queries, docs, grades, strict=True)
    for query, items in itertools.groupby(rows, key=lambda row: row[0]):
        ratings = [{"docId": doc, "rating": f"{value:.3f}"} for _, doc, value in items]
        yield json.dumps({"query": query, "ratings": ratings}, ensure_ascii=False)


def _check_ids(queries: list[str], docs: list[str]) -> None:
    """Refuse empty ids, which fail the import, and report queries that no experiment can run."""
    problems = [
        Problem(
            f"the workbench needs a text for every {name}, and these are empty",
            values.count(""),
            "item",
            remedy="Leave them out of the log with --where.",
            code="empty-id",
        )
        for name, values in (("query_id", queries), ("doc_id", docs))
        if "" in values
    ]
    if problems:
        raise InputError.of("the ids", problems)
    unusable = sorted(
        query
        for query in set(queries)
        if REFUSED.search(query) or len(query) > LONGEST_QUERY or not query.isprintable()
    )
    if unusable:
        warnings.warn(
            f"{len(unusable):,} queries contain quotes, backslashes, < or >, line breaks, or are "
            f"longer than {LONGEST_QUERY:,} characters, first {unusable[0][:40]!r}: the workbench "
            "imports their ratings, but accepts no such query in a query set",
            InputWarning,
            stacklevel=3,
        )
