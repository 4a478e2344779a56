"""Ids that a person would take for one another."""

import pyarrow as pa
import pyarrow.compute as pc

from epiclick.data.arrays import changes

SPACES = r"[\s\p{Z}]+"


def similar_queries(query_id: pa.Array) -> list[str]:
    """A warning if queries differ from one another by case or spaces alone; `query_id` is sorted.

    >>> similar_queries(pa.array(["A ", "a", "b"]))[0].split(";")[0]
    "2 of 3 queries differ by upper and lower case or by spaces alone, such as 'A ' and 'a'"
    """
    if not (pa.types.is_string(query_id.type) or pa.types.is_large_string(query_id.type)):
        return []
    queries = query_id.filter(pa.array(changes(query_id)))
    spaced = pc.utf8_trim_whitespace(pc.replace_substring_regex(queries, SPACES, " "))
    alike = pc.utf8_lower(spaced).dictionary_encode()
    if len(alike.dictionary) == len(queries):
        return []
    times = pc.value_counts(alike.indices)
    shared = times.filter(pc.greater(times.field("counts"), 1))
    number = pc.sum(shared.field("counts")).as_py()
    one, other = queries.filter(pc.equal(alike.indices, shared.field("values")[0]))[:2].to_pylist()
    return [
        f"{number:,} of {len(queries):,} queries differ by upper and lower case or by spaces "
        f"alone, such as {one!r} and {other!r}; each is counted as a query of its own. Normalise "
        "query_id before reading the log, unless they are meant to be different queries"
    ]
