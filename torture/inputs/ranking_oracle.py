"""What a ranking says, by plain Python: the lists of each query, or why it must be refused."""

import math
import re
from collections import defaultdict
from typing import Any

from torture.inputs.event_values import Unsure
from torture.inputs.oracle import NAMES, Bad, as_id

Row = dict[str, Any]
Lists = dict[tuple[str, str], list[str]]
"""Items in their order, by query and id of the list ("" if there is one per query)."""


def lists_of(rows: list[Row], score: str | None = None) -> Lists:
    """Lists of a table of a ranking."""
    if not rows:
        raise Bad("no rows")
    names = list(dict.fromkeys(name for row in rows for name in row))
    known = {name: (name, *NAMES[name]) for name in ("query_id", "doc_id", "page_id", "position")}
    known["score"] = ("score",)
    own = {role: [n for n in names if n.lower() in found] for role, found in known.items()}
    if score is not None:
        own |= {"position": [], "score": [score] if score in names else []}
    by = "position" if own["position"] else "score"
    for role in ("query_id", "doc_id", by):
        if len(own[role]) != 1:
            raise Bad(f"{len(own[role])} columns for {role}")
    if len(own["page_id"]) > 1:
        raise Bad("two columns for page_id")
    entries: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    for row in rows:
        page = as_id(row.get(own["page_id"][0])) if own["page_id"] else ""
        query, doc = as_id(row.get(own["query_id"][0])), as_id(row.get(own["doc_id"][0]))
        entries[query, page].append((number(row.get(own[by][0])), doc))
    return {key: in_order(own, by == "score") for key, own in entries.items()}


def in_order(entries: list[tuple[float, str]], by_score: bool) -> list[str]:
    """The items of a list."""
    docs = [doc for _, doc in entries]
    if len(set(docs)) < len(docs):
        raise Bad("an item twice in a list")
    if by_score:
        if all(re.fullmatch(r"0|-?[1-9]\d{0,17}", doc, re.ASCII) for doc in docs):
            return [d for _, d in sorted(entries, key=lambda each: (-each[0], int(each[1])))]
        if len({value for value, _ in entries}) < len(entries):
            raise Unsure("ties of ids that are text")
        return [doc for _, doc in sorted(entries, key=lambda each: -each[0])]
    if sorted(value for value, _ in entries) != list(range(1, len(entries) + 1)):
        raise Bad("positions are not 1, 2, ...")
    return [doc for _, doc in sorted(entries)]


def number(value: Any) -> float:
    """A finite number, or Bad."""
    written = str(value).strip().lower()
    if isinstance(value, bool) or written in ("true", "false"):
        return float(written == "true")
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", written, re.ASCII):
        raise Bad(f"{value!r} is no number")
    if math.isinf(float(written)):
        raise Bad("infinite")
    return float(written)


def run_lists(content: bytes) -> Lists:
    """Lists of a TREC run."""
    try:
        decoded = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Bad("not UTF-8") from error
    rows = []
    for line in decoded.split("\n"):
        words = re.split(r"[ \t\n\r\f\v]+", line.strip(" \t\n\r\f\v"))
        if words == [""]:
            continue
        if len(words) != 6 or not re.fullmatch(r"0|-?[1-9]\d*", words[3], re.ASCII):
            raise Bad("not the columns of a run")
        rows.append((words[0], words[2], int(words[3]), number(words[4])))
    by_query: dict[str, list[tuple[str, int, float]]] = defaultdict(list)
    for query, doc, rank, score in rows:
        by_query[query].append((doc, rank, score))
    if not by_query:
        raise Bad("no lines")
    for first in (0, 1):
        if all(
            sorted(rank for _, rank, _ in own) == list(range(first, first + len(own)))
            for own in by_query.values()
        ):
            ranked = {
                q: [(float(r - first + 1), doc) for doc, r, _ in own] for q, own in by_query.items()
            }
            return {(query, ""): in_order(own, False) for query, own in ranked.items()}
    scored = {query: [(score, doc) for doc, _, score in own] for query, own in by_query.items()}
    return {(query, ""): in_order(own, True) for query, own in scored.items()}
