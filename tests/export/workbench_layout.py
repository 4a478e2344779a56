"""The layout that the Search Relevance Workbench documents for `IMPORT_JUDGMENT`, as a check.

Written from its documentation and its source, not from our writer: `judgmentRatings` is a list of
`{"query": text, "ratings": [{"docId": text, "rating": number as text}]}`. An import fails for an
empty docId, a rating that is missing or no number, and one that is not text (it is cast); a query
that is listed twice loses its first ratings, and so does a docId within a query.
"""

import re
from typing import Any

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
FIELDS = {"name", "description", "type", "judgmentRatings"}


def violations(record: Any) -> list[str]:
    """What is wrong with a request; empty if the workbench takes all of it."""
    if not isinstance(record, dict):
        return ["not an object"]
    found = [f"unknown field {name}" for name in record.keys() - FIELDS]
    for name, longest in (("name", 50), ("description", 250)):
        text = record.get(name)
        if name == "description" and text is None:
            continue
        if not isinstance(text, str) or not 0 < len(text) <= longest or re.search(r'["\\<>]', text):
            found.append(name)
    if record.get("type") != "IMPORT_JUDGMENT":
        found.append("type")
    judged = record.get("judgmentRatings")
    if not isinstance(judged, list) or not judged:
        return [*found, "judgmentRatings"]
    queries = [each.get("query") if isinstance(each, dict) else None for each in judged]
    if not all(isinstance(query, str) and query for query in queries):
        found.append("query")
    elif len(set(queries)) < len(queries):
        found.append("query twice")
    for each in judged:
        found += _of_ratings(each)
    return found


def _of_ratings(each: Any) -> list[str]:
    ratings = each.get("ratings") if isinstance(each, dict) else None
    if not isinstance(ratings, list) or not ratings:
        return ["ratings"]
    if set(each) != {"query", "ratings"}:
        return ["fields of a query"]
    if not all(isinstance(one, dict) and set(one) == {"docId", "rating"} for one in ratings):
        return ["fields of a rating"]
    found = []
    docs = [one["docId"] for one in ratings]
    if not all(isinstance(doc, str) and doc for doc in docs):
        found.append("docId")
    elif len(set(docs)) < len(docs):
        found.append("docId twice")
    texts = [one["rating"] for one in ratings]
    if not all(isinstance(text, str) and NUMBER.fullmatch(text) for text in texts):
        found.append("rating")
    return found
