"""From any log to counts: open it, find its columns, count, check, report all problems."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.arguments import check_choice
from epiclick.click_models.registry import click_model
from epiclick.data.clusters import read_clusters
from epiclick.data.counting import (
    bad_rows,
    canonical_log,
    count_expression,
    diagnose,
    row_rules,
    with_history,
)
from epiclick.data.counts import ClickCounts
from epiclick.data.counts_metadata import CountsMetadata
from epiclick.data.engine import Source, engine_errors, stoppable
from epiclick.data.features import read_features
from epiclick.data.files import damage, find_files, kind_of, paths_in, repeated_files, unchanged
from epiclick.data.ids import settle_types, similar_queries, type_problems
from epiclick.data.pages import (
    PAGE_ID_PRESENT,
    PageClicks,
    count_pages,
    diagnose_pages,
    kept_rows,
    without_bad_pages,
)
from epiclick.data.results import fetch
from epiclick.data.robots import Suspicion, busy_users, left_out, suspicious_pages, without_robots
from epiclick.data.schema import LogColumns, LogOptions, options_of, resolve_columns
from epiclick.data.sources import open_source
from epiclick.errors import InputError, InputWarning, Problem

if TYPE_CHECKING:
    import ibis.expr.types as ir

FEW_WITHOUT_CLICK = 0.05
MANY_SINGLE_PAGES = 0.90
FIXED_BY_COUNTING = (
    "click_model",
    "where",
    "part",
    "page_parts",
    "max_clicks_per_page",
    "drop_busiest",
    "ids",
    "conversion",
    "value",
    "cluster",
)
"""Options besides the context that cannot be changed once a log is counted."""


@dataclass(frozen=True)
class LogReport:
    """How a log was read.

    Attributes:
        aliases: columns found under another name -> that name.
        dropped: bad rows that were left out.
        capped: counted rows whose clicks were capped at their displays.
        warnings: why results from this log may mislead, and what was dropped or capped.
        robots: pages that look like those of robots, if there are any.
    """

    aliases: Mapping[str, str]
    dropped: int
    capped: int
    warnings: tuple[str, ...]
    robots: Suspicion | None = None


def read_log(
    source: Any,
    *,
    features: Any = None,
    missing_features: Literal["error", "drop"] = "error",
    options: LogOptions | None = None,
    **settings: Any,
) -> ClickCounts:
    """Count a click log, and join the features of its items if they are given.

    Args:
        source: a Parquet, CSV or JSON-lines file, a folder or glob of them, a table of a DuckDB or
            SQLite file (`"shop.duckdb:searches"`), a list of these, a pandas, polars or Spark
            DataFrame, an Arrow table or dataset, an Ibis table; one row per display, or counted
            rows.
        features: any of these, with `query_id`, `doc_id` and one column per feature.
        missing_features: what to do with pairs without features.
        options: how to read the log; single settings can be given by name instead, such as
            `position_base=0` or `where="day >= '2026-01-01'"` (see `LogOptions`).
        **settings: fields of `LogOptions`, which override those of `options`.
    """
    check_choice("missing_features", missing_features, ("error", "drop"))
    counts, report = count_log(source, options_of(options, settings))
    robots = () if report.robots is None else (report.robots.message,)
    for message in (*report.warnings, *robots):
        warnings.warn(message, InputWarning, stacklevel=2)
    if features is None:
        return counts
    return counts.with_features(
        read_features(features, ids=counts.options.ids), missing=missing_features
    )


def count_log(source: Any, options: LogOptions) -> tuple[ClickCounts, LogReport]:
    """Count a log and report how it was read; `read_log` turns the report into warnings."""
    with unchanged(source):
        files = counts_files(source)
        return _add_up(files, options) if files else _count_rows(source, options)


def _count_rows(source: Any, options: LogOptions) -> tuple[ClickCounts, LogReport]:
    """Count a log that is not a file of counts."""
    opened, log, columns = open_log(source, options)
    with stoppable(opened.table), engine_errors(opened.name):
        counted, pages, dropped = _count(opened, log, columns, options)
        typed = settle_types(counted, columns, options, text=opened.text)
        _refuse_empty(typed, opened.name, options, dropped)
        counts = ClickCounts.from_table(
            typed,
            context=tuple(columns.contexts),
            pages=None if pages is None else pages[0],
            page_clicks=None if pages is None else pages[1],
            options=options,
        )
        if click_model(options.click_model).has_latent_state:
            from epiclick.data.page_lists import read_lists

            rows = kept_rows(log, columns, options) if dropped else log
            lists = read_lists(rows, columns, options, counts, text=opened.text)
            counts = replace(counts, lists=lists)
        elif pages is not None and "position" in columns.given:
            from epiclick.data.page_sample import read_sample

            rows = kept_rows(log, columns, options) if dropped else log
            sample = read_sample(rows, columns, options, counts, text=opened.text)
            counts = replace(counts, sample=sample)
        if options.cluster != "query":
            rows = kept_rows(log, columns, options) if dropped else log
            clusters = read_clusters(rows, columns, options, counts, text=opened.text)
            counts = replace(counts, clusters=clusters)
        notes = list(opened.notes)
        whole = replace(options, max_clicks_per_page=None, drop_busiest=0.0)
        if whole != options:
            notes += left_out(open_log(source, whole)[1], options)
        if dropped:
            notes.append(f"{dropped:,} bad rows were left out")
        capped = pc.sum(counted["capped"]).as_py() if "capped" in counted.column_names else 0
        if capped:
            notes.append(f"{capped:,} rows had more clicks than displays; their clicks were capped")
        notes += _caveats(counts)
        if "user_id" in columns.found and not columns.counted:
            busy = busy_users(log, counts.pages)
            notes += [] if busy is None else [busy.message]
    robots = suspicious_pages(counts)
    return counts, LogReport(columns.aliases, dropped, capped, tuple(notes), robots)


def open_log(source: Any, options: LogOptions) -> "tuple[Source, ir.Table, LogColumns]":
    """Open a log and find its columns: the source, its canonical rows, where the columns were."""
    opened = open_source(source, options.header)
    columns = resolve_columns(opened.table.columns, options, opened.name)
    if problems := type_problems(opened, opened.table, columns, options):
        raise InputError.of(opened.name, problems)
    # before any row is left out: a click on a row that is not counted is still history
    table = with_history(opened.table, columns, options)
    if options.where is not None:
        from epiclick.data.where import select_where  # whose parser is slow to import

        table = select_where(opened, options.where, table)
    log = canonical_log(table, columns, options)
    return opened, without_robots(log, options), columns


def _count(
    opened: Source, log: "ir.Table", columns: LogColumns, options: LogOptions
) -> tuple[pa.Table, tuple[int, PageClicks] | None, int]:
    """Counted rows, pages and their clicks, rows dropped; refuses or drops bad rows."""
    rules = row_rules(log, columns, options)
    given = tuple(columns.given)
    paged = "page_id" in columns.found and not columns.counted

    def attempt(rows: "ir.Table") -> tuple[pa.Table, tuple[int, PageClicks] | None, bool]:
        counted = fetch(count_expression(rows, columns, options, rules))
        bad = pc.any(counted["bad"]).as_py()
        if bad or not paged or not counted.num_rows:
            return counted, None, not bad
        longest = None
        if "position" in given:
            extent = pc.min_max(counted["position"]).as_py()
            longest = extent["max"] - extent["min"] + 1
        pages = count_pages(rows, given, longest)
        return counted, pages, pages is not None

    counted, pages, clean = attempt(log)
    unreadable = opened.unreadable()
    if clean and not unreadable:
        return counted, pages, 0

    every_rule = [PAGE_ID_PRESENT, *rules] if paged else rules
    keeping = log.filter(~bad_rows(log, every_rule))
    places = ["page_id", "query_id", "doc_id", *given, "displays"]
    problems = [*unreadable, *diagnose(log, every_rule, places)]
    if paged:
        problems += diagnose_pages(keeping, given)
        keeping = without_bad_pages(keeping, given)
    if not all(problem.droppable for problem in problems):
        what = "an unknown number of good rows would be lost, so none can be dropped"
        raise InputError.of(opened.name, [*problems, Problem(what, code="not-droppable")])
    if options.on_bad == "error":
        raise InputError.of(opened.name, [*problems, _dropping(options)])
    lines = sum(problem.count or 0 for problem in unreadable)
    total = lines + _rows(counted)
    counted, pages, clean = attempt(keeping)
    assert clean, "bad rows are left after dropping"
    dropped = total - _rows(counted)
    if dropped > options.max_bad * total:
        limit = Problem(
            f"{dropped:,} of {total:,} rows ({dropped / total:.2%}) are bad, more than the "
            f"{options.max_bad:.2%} that may be dropped",
            remedy="Fix them, or raise --max-bad (in Python: max_bad).",
            code="too-many-bad-rows",
        )
        raise InputError.of(opened.name, [*problems, limit])
    return counted, pages, dropped


def _rows(counted: pa.Table) -> int:
    """Number of the log's rows behind counted ones; without it, each display is a row."""
    column = "rows" if "rows" in counted.column_names else "displays"
    return pc.sum(counted[column]).as_py() or 0


def _dropping(options: LogOptions) -> Problem:
    """The hint that bad rows can be dropped."""
    return Problem(
        f"to go on without the bad rows, up to {options.max_bad:.1%} of all, use --on-bad drop",
        code="bad-rows",
    )


def _refuse_empty(counted: pa.Table, name: str, options: LogOptions, dropped: int) -> None:
    displays = pc.sum(counted["displays"]).as_py() or 0
    if not displays:
        why = "no row meets the condition of where" if options.where else "it has no rows"
        if dropped:
            why = f"all of its {dropped:,} rows are bad"
        raise InputError(f"{name} has no displays: {why}.", code="no-displays")
    if not pc.sum(counted["clicks"]).as_py():
        raise InputError(
            f"{name} has no click in {displays:,} displays, so nothing can be learned from it. "
            "Is the right column used for clicks? Choose it with --column click=NAME.",
            code="no-clicks",
        )


def _caveats(counts: ClickCounts) -> list[str]:
    """What may mislead in a log that breaks no rule."""
    caveats = []
    if len(counts.given[0]) == 1:
        caveats.append(
            "all displays share one position (context), so position bias cannot be learned"
        )
    pages = counts.page_clicks
    if pages is not None and pages.without_click < FEW_WITHOUT_CLICK:
        caveats.append(
            f"only {pages.without_click:.1%} of pages are without a click; if pages without clicks "
            "were not logged, relevance is overestimated"
        )
    if single := _mostly_single_pages(counts):
        caveats.append(
            f"{single:.1%} of queries were shown on a single page; is query_id the id of the page? "
            "Clicks accumulate only for queries that repeat"
        )
    return [*caveats, *similar_queries(counts.query_id)]


def _mostly_single_pages(counts: ClickCounts) -> float | None:
    """Share of queries with one page, if it is above 90 %; else None.

    A query has one page if none of its contexts was filled more than once.
    """
    repeated = np.zeros(counts.num_queries, bool)
    # a sample of the entries is enough for almost every log
    for step in (64, 1):
        often = np.flatnonzero(counts.displays[::step] > 1) * step
        repeated[counts.query[counts.pair[often]]] = True
        if repeated.mean() >= 1 - MANY_SINGLE_PAGES:
            return None
    query = counts.query[counts.pair]
    contexts, context = counts.given
    slot = np.sort((query * len(contexts) + context[counts.context])[~repeated[query]])
    repeated[slot[1:][slot[1:] == slot[:-1]] // len(contexts)] = True
    share = 1 - float(repeated.mean())
    return share if share > MANY_SINGLE_PAGES else None


def counts_files(source: Any) -> list[tuple[Path, CountsMetadata]]:
    """Files of counts with their metadata; none if the source has any other file."""
    found, others = [], False
    for file in find_files(paths_in(source)):
        readable = kind_of(file) == "Parquet" and damage(file, "Parquet") is None
        metadata = CountsMetadata.of(file) if readable else None
        if metadata is None:
            others = True  # or damaged, which is reported when it is opened as a log
        else:
            found.append((file, metadata))
    if others:
        for file, metadata in found:
            metadata.read_rows(file)  # refuse damaged counts before they are read as a log
        return []
    return found


def _add_up(
    found: Sequence[tuple[Path, CountsMetadata]], options: LogOptions
) -> tuple[ClickCounts, LogReport]:
    """Sum files of counts; options that determine what was counted must match."""
    default = LogOptions()
    for file, metadata in found:
        used = {name: getattr(metadata.options, name) for name in FIXED_BY_COUNTING}
        for name, counted in {"context": metadata.given, **used}.items():
            wanted = getattr(options, name)
            if name == "cluster" and wanted == "query":
                continue  # which all counts have
            if wanted not in (getattr(default, name), counted):
                raise InputError(
                    f"{file} was counted with {name} {counted}, so it cannot be read with "
                    f"{wanted}; count the log itself again",
                    code="options-differ",
                )
    files = [file for file, _ in found]
    counts = ClickCounts.concat([ClickCounts.from_parquet(file) for file in files])
    if options.cluster == "query":
        counts = replace(counts, clusters=None)
    warned = (*repeated_files(files), *_caveats(counts))
    return counts, LogReport({}, 0, 0, warned, suspicious_pages(counts))
