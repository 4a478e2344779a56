"""Rules for pages, the number of pages, and the distribution of their clicks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from epiclick.data.counting import RowRule, bad_rows, number, row_rules
from epiclick.data.page_clicks import LEVELS, SAMPLED_PAGES, PageClicks, least_level
from epiclick.data.page_runs import ordered_runs
from epiclick.data.schema import GRID, LogColumns, LogOptions
from epiclick.errors import Problem

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

PROVABLE_PAGE_LENGTH = 20
"""Longest page for the fast proof, which compares all rows at most this far apart."""

BATCH = 1 << 17
"""Rows of a log that are checked at a time: few enough to stay in a processor's cache."""

PAGE_ID_PRESENT = RowRule.present("page_id")


@dataclass(frozen=True)
class PageRule:
    """Columns whose values must not repeat on a page, and how to report pages where they do."""

    what: str
    columns: tuple[str, ...]
    remedy: str
    code: str


def page_rules(contexts: Sequence[str]) -> list[PageRule]:
    """A page shows each document once and fills each position (in its context) once."""
    remedy = (
        "If page_id identifies a session of several pages, name the column with the id of the page "
        "with --column page_id=NAME; if positions start again on page 2, use --page-number or "
        "--offset; if rows were logged twice, keep one of each."
    )
    rules = [PageRule("one document twice on a page", ("doc_id",), remedy, "repeated-document")]
    if "position" in contexts or set(GRID) <= set(contexts):
        slot = "position" if tuple(contexts) == ("position",) else f"({', '.join(contexts)})"
        what = f"one {slot} twice on a page"
        rules.append(PageRule(what, tuple(contexts), remedy, "repeated-position"))
    return rules


def count_pages(
    log: "ir.Table",
    contexts: Sequence[str],
    longest: int | None = None,
    in_order: "ir.Table | None" = None,
) -> tuple[int, PageClicks] | None:
    """Number of pages and their clicks; None if a page breaks the rules.

    Logs are usually written page by page, positions ascending. If the rows are in such an order,
    one pass over them proves the rules at a fraction of the cost of grouping by page; otherwise
    rows are grouped.

    Args:
        log: a canonical log.
        contexts: its context columns.
        longest: range of positions, first to last, if already known.
        in_order: pages, documents and positions of the same rows, in an order that a join may have
            lost.
    """
    rows = log if in_order is None else in_order
    if (proven := _proven_pages(rows, contexts, longest)) is not None:
        return proven, clicks_of_pages(log, proven)
    clean = not log.page_id.isnull().any().to_pyarrow().as_py() and all(
        _repeats(log, rule).count().to_pyarrow().as_py() == 0 for rule in page_rules(contexts)
    )
    if not clean:
        return None
    pages = log.page_id.nunique().to_pyarrow().as_py()
    return pages, clicks_of_pages(log, pages)


def diagnose_pages(log: "ir.Table", contexts: Sequence[str]) -> list[Problem]:
    """Count the pages that break each rule, and show the first of each."""
    problems = []
    for rule in page_rules(contexts):
        repeats = _repeats(log, rule)
        if total := repeats.page_id.nunique().to_pyarrow().as_py():
            rows = repeats.order_by(["page_id", *rule.columns]).limit(3).to_pyarrow().to_pylist()
            examples = [
                f"(page {row['page_id']}): "
                + ", ".join(
                    f"{name.removesuffix('_id')} {_formatted(row[name])}" for name in rule.columns
                )
                + f", {row['times']} times"
                for row in rows
            ]
            problems.append(
                Problem(rule.what, total, "page", examples, rule.remedy, code=rule.code)
            )
    return problems


def _formatted(value: object) -> str:
    """A value as in the log; positions are compared as numbers, which turns 1 into 1.0."""
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def kept_rows(log: "ir.Table", columns: LogColumns, options: LogOptions) -> "ir.Table":
    """The rows of a canonical log that are counted: without bad ones, and pages, to be dropped."""
    if options.on_bad != "drop":
        return log
    rules = row_rules(log, columns, options)
    if "page_id" not in columns.found or columns.counted:
        return log.filter(~bad_rows(log, rules))
    bad = bad_rows(log, [PAGE_ID_PRESENT, *rules])
    return without_bad_pages(log.filter(~bad), tuple(columns.given))


def without_bad_pages(log: "ir.Table", contexts: Sequence[str]) -> "ir.Table":
    """The log without the pages that break a rule."""
    for rule in page_rules(contexts):
        log = log.anti_join(_repeats(log, rule), "page_id")
    return log


def clicks_of_pages(log: "ir.Table", pages: int) -> PageClicks:
    """The clicks of the pages of a log, by grouping; of a sample if there are many pages."""
    least = least_level(pages)
    return PageClicks.from_table(**tallied(log, least)[0], least=least)


def tallied(log: "ir.Table", least: int, *also: str) -> "tuple[dict[str, np.ndarray], pa.Table]":
    """Number of pages with each number of displays and clicks, by level from the least on.

    The table has the further columns by which pages were also grouped.
    """
    hashed = _hash_of(log)
    if hashed is not None and least:
        log = log.filter(hashed(log.page_id) % (1 << least) == 0)
    page = log.group_by(["page_id", *also]).aggregate(
        displays=log.count(), clicks=number(log.click).sum().cast("int64")
    )
    lowest: Any = 0
    if hashed is not None:
        own = (hashed(page.page_id) % (1 << (LEVELS - 1))).cast("int64")
        lowest = own & -own  # the lowest bit of the hash, 0 where all of these are
    page = page.mutate(lowest=lowest)
    keys = [*also, "lowest", "displays", "clicks"]
    table = page.group_by(keys).aggregate(pages=page.count()).to_pyarrow()
    columns = {name: table[name].to_numpy() for name in ("displays", "clicks", "pages")}
    bit = table["lowest"].to_numpy()
    columns["level"] = np.where(bit == 0, LEVELS - 1, np.frexp(bit)[1] - 1)
    return columns, table.select(list(also))


def _hash_of(log: "ir.Table") -> "Callable[[ir.Value], ir.NumericValue] | None":
    """The engine's hash of a value; None if it has none."""
    import ibis.expr.types as ir  # slow to import
    from ibis.expr.operations import Hash

    backend = log.get_backend()
    if not backend.has_operation(Hash):
        return None
    # Ibis makes DuckDB convert each hash to text and back, which takes three times as long
    return _duckdb_hash() if backend.name == "duckdb" else ir.Value.hash


def sampled_pages(log: "ir.Table", pages: int, most: int | None = None) -> "ir.Table":
    """The rows of about `most` pages of a log, default SAMPLED_PAGES, or of all if it has fewer."""
    one_in, hashed = pages // (most or SAMPLED_PAGES), _hash_of(log)
    if one_in < 2 or hashed is None:
        return log
    if log.get_backend().name != "duckdb":
        return log.filter(hashed(log.page_id) % one_in == 0)
    # DuckDB selects rows before it joins them only by conditions that cannot fail, as % could
    import ibis

    return log.filter(hashed(log.page_id) < ibis.literal(2**64 // one_in, "uint64"))


@cache
def _duckdb_hash() -> Any:
    """DuckDB's own hash of a value of any type, as a function of Ibis."""
    import ibis
    import ibis.expr.datatypes as dt

    @ibis.udf.scalar.builtin(name="hash")
    def own_hash(value) -> dt.uint64:  # type: ignore[no-untyped-def]
        """Compiled to a call of the engine's function."""

    return own_hash


def _repeats(log: "ir.Table", rule: PageRule) -> "ir.Table":
    """Pages and the values that repeat on them."""
    if "position" in rule.columns:
        log = log.mutate(position=number(log.position))  # "1" and "1.0" are the same position
    grouped = log.group_by(["page_id", *rule.columns]).aggregate(times=log.count())
    return grouped.filter(grouped.times > 1)


def _proven_pages(
    log: "ir.Table", contexts: Sequence[str], longest: int | None = None
) -> int | None:
    """Number of pages if one pass over the rows proves that all follow the rules, else None.

    If pages ascend (or there are as many runs of equal page_id as pages), the rows of a page are
    contiguous, and it is enough to check each run. This holds for any order of the rows, so an
    engine that reorders them cannot let an invalid log pass. Only our own DuckDB streams rows fast
    enough; other engines group.
    """
    backend = log.get_backend()
    if backend.name != "duckdb" or tuple(contexts) != ("position",):
        return None
    if not log.position.type().is_integer():
        return None
    if longest is None:
        longest = (log.position.max() - log.position.min() + 1).to_pyarrow().as_py()
    if longest > PROVABLE_PAGE_LENGTH:
        return None
    if log.page_id.type().is_floating():
        return None  # NaN and -0.0 are equal to other values in DuckDB, but not in Arrow
    page = log.page_id if log.page_id.type().is_integer() else log.page_id.cast("string")
    doc = log.doc_id if log.doc_id.type().is_integer() else _duckdb_hash()(log.doc_id)
    rows = backend.compile(log.select(page_id=page, position=log.position, doc=doc))
    found = ordered_runs(backend.raw_sql(rows).fetch_record_batch(BATCH), longest)
    if found is None:
        return None
    runs, ascending = found
    if ascending or runs == log.page_id.nunique().to_pyarrow().as_py():
        return runs
    return None
