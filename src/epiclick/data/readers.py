"""From any log to counts: open it, find its columns, count, check, report all problems."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from epiclick.data.counts_sums import uncertain_sums
from epiclick.data.displays import as_displayed, left_out_displays, merged_queries, only_displays
from epiclick.data.engine import MatchedClicks, Source, engine_errors, stoppable, stored
from epiclick.data.features import FeatureTable, read_features
from epiclick.data.files import damage, find_files, kind_of, paths_in, repeated_files, unchanged
from epiclick.data.ids import settle_types, similar_queries, type_problems
from epiclick.data.log_formats.attributed import CLICK
from epiclick.data.log_formats.log_format import ROWS
from epiclick.data.log_formats.log_registry import open_rows
from epiclick.data.page_clicks import PageClicks, least_level
from epiclick.data.pages import (
    PAGE_ID_PRESENT,
    clicks_of_pages,
    count_pages,
    diagnose_pages,
    without_bad_pages,
)
from epiclick.data.results import fetch
from epiclick.data.robots import Suspicion, busy_users, left_out, suspicious_pages, without_robots
from epiclick.data.schema import LogColumns, LogOptions, options_of, resolve_columns
from epiclick.data.two_sources import TwoTables
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
    *("page_number", "page_size", "page_number_base", "offset"),
    *("viewed", "sponsored", "sponsored_as", "grid", "normalise_queries"),
    "click_window",
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
        reused: options of counts with which the rest of the log was read.
        own: how many of the warnings, the first, are about rows and users, which counts lack.
        format: name of the format that the log was in.
    """

    aliases: Mapping[str, str]
    dropped: int
    capped: int
    warnings: tuple[str, ...]
    robots: Suspicion | None = None
    reused: Mapping[str, Any] = field(default_factory=dict)
    own: int = 0
    format: str = ROWS


def read_log(
    source: Any,
    *,
    clicks: Any = None,
    features: Any = None,
    missing_features: Literal["error", "drop"] = "error",
    options: LogOptions | None = None,
    **settings: Any,
) -> ClickCounts:
    """Count a click log, and join the features of its items if they are given.

    Args:
        source: a Parquet, CSV or JSON-lines file, a folder or glob of them, a table of a DuckDB or
            SQLite file (`"shop.duckdb:searches"`), a list of these, a pandas, polars or Spark
            DataFrame, an Arrow table or dataset, an Ibis table; one row per display, counted rows,
            or one of the formats of `docs/formats.md`.
        clicks: any of these, one row per click, where `source` has impressions without clicks:
            they are joined on page and item.
        features: any of these, with `query_id`, `doc_id` and one column per feature; a list of
            tables keyed by query, item or both; or what `read_features` has read with its options.
        missing_features: what to do with pairs without features.
        options: how to read the log; single settings can be given by name instead, such as
            `position_base=0` or `where="day >= '2026-01-01'"` (see `LogOptions`).
        **settings: fields of `LogOptions`, which override those of `options`.
    """
    check_choice("missing_features", missing_features, ("error", "drop"))
    source = source if clicks is None else TwoTables(source, clicks)
    counts, report = count_log(source, options_of(options, settings))
    robots = () if report.robots is None else (report.robots.message,)
    for message in (*report.warnings, *robots):
        warnings.warn(message, InputWarning, stacklevel=2)
    if features is None:
        return counts
    table = read_features(features, ids=counts.options.ids)
    warn_of_later_snapshots(table, counts, source)
    return counts.with_features(table, missing=missing_features)


def warn_of_later_snapshots(table: FeatureTable, counts: ClickCounts, source: Any) -> None:
    """Warn if features are of a later day than the first of the log they are joined to."""
    if table.as_of is None:
        return
    from epiclick.data.snapshots import first_day, warn_if_later

    first = None
    if counts.parts is not None and counts.options.page_parts is None:
        first = min((str(day) for day in counts.parts.to_pylist() if day is not None), default=None)
    elif not counts_files(source):
        first = first_day(source, counts.options.where)
    warn_if_later(table.as_of, first)


def count_log(source: Any, options: LogOptions) -> tuple[ClickCounts, LogReport]:
    """Count a log and report how it was read; `read_log` turns the report into warnings."""
    with unchanged(source):
        files = counts_files(source)
        if not files:
            return _count_rows(source, options)
        counted = {file for file, _ in files}
        others = [file for file in find_files(paths_in(source)) if file not in counted]
        return _add_log(files, others, options) if others else _add_up(files, options)


@dataclass(frozen=True)
class _Counted:
    """Rows that were counted and checked.

    Attributes:
        table: their counts.
        rows: the rows themselves.
        dropped: bad rows that are not among them.
        pages: number of their pages, if they have any.
        page_clicks: clicks of their pages.
        sample: rows of at least as many pages as checks take for a sample; stored if they come from
            a join, so that it is not repeated.
        matched: displays with a click, if clicks were joined and no row is left out.
    """

    table: pa.Table
    rows: "ir.Table"
    dropped: int
    pages: int | None = None
    page_clicks: PageClicks | None = None
    sample: "ir.Table | None" = None
    matched: MatchedClicks | None = None


def _count_rows(
    source: Any, options: LogOptions, *, alone: bool = True
) -> tuple[ClickCounts, LogReport]:
    """Count a log that is not a file of counts; without clicks only if it is not alone."""
    opened, log, columns = open_log(source, options)
    with stoppable(opened.table), engine_errors(opened.name):
        found = _count(opened, log, columns, options)
        typed = settle_types(found.table, columns, options, text=opened.text)
        _refuse_empty(typed, opened.name, options, found.dropped, alone=alone)
        counts = ClickCounts.from_table(
            typed,
            context=tuple(columns.contexts),
            pages=found.pages,
            page_clicks=found.page_clicks,
            options=options,
        )
        if counts.parts is not None and found.pages is not None:
            from epiclick.data.part_pages import read_part_pages

            by_part = read_part_pages(found.rows, columns, options, counts, text=opened.text)
            counts = counts.paged_by_part(by_part)
        if click_model(options.click_model).has_latent_state:
            from epiclick.data.page_lists import read_lists

            lists = read_lists(found.rows, columns, options, counts, text=opened.text)
            counts = replace(counts, lists=lists)
        elif found.sample is not None and "position" in columns.given:
            from epiclick.data.page_sample import read_sample

            sample = read_sample(found.sample, columns, options, counts, text=opened.text)
            counts = replace(counts, sample=sample)
        if options.cluster != "query":
            clusters = read_clusters(found.rows, columns, options, counts, text=opened.text)
            counts = replace(counts, clusters=clusters)
        before = "before where: " if options.where else ""  # formats read all rows
        remarks = [*opened.remarks()]
        if opened.joined is not None:
            remarks += opened.joined.remarks(found.matched)
        notes = [*opened.notes, *(f"{before}{remark}" for remark in remarks)]
        notes += _adaptations(source, options)
        whole = replace(options, max_clicks_per_page=None, drop_busiest=0.0)
        if whole != options:
            notes += left_out(open_log(source, whole)[1], options)
        if found.dropped:
            notes.append(f"{found.dropped:,} bad rows were left out")
        capped = _total(found.table, "capped")
        if capped:
            notes.append(f"{capped:,} rows had more clicks than displays; their clicks were capped")
        if "user_id" in columns.found and not columns.counted:
            busy = busy_users(log, counts.pages)
            notes += [] if busy is None else [busy.message]
        own = len(notes)
        notes += _caveats(counts)
    robots = suspicious_pages(counts)
    report = LogReport(
        columns.aliases, found.dropped, capped, tuple(notes), robots, own=own, format=opened.format
    )
    return counts, report


def open_log(source: Any, options: LogOptions) -> "tuple[Source, ir.Table, LogColumns]":
    """Open a log and find its columns: the source, its canonical rows, where the columns were."""
    opened, log, columns = _open_rows(source, options)
    return opened, without_robots(only_displays(log, options), options), columns


def _open_rows(source: Any, options: LogOptions) -> "tuple[Source, ir.Table, LogColumns]":
    """The same with all rows, also those that are not displays, or of robots."""
    opened = open_rows(source, options)
    columns = resolve_columns(opened.table.columns, options, opened.name)
    # a column of the impressions may have been named as that of clicks
    joined = opened.joined is not None and columns.found.get("click") == CLICK
    columns = replace(columns, joined=joined)
    if problems := type_problems(opened, opened.table, columns, options):
        raise InputError.of(opened.name, problems)
    table, places = as_displayed(opened.table, columns, options)
    # before any row is left out: a click on a row that is not counted is still history
    table = with_history(table, places, options)
    if options.where is not None:
        from epiclick.data.where import select_where  # whose parser is slow to import

        table = select_where(opened, options.where, table)
    return opened, canonical_log(table, places, options), columns


def _adaptations(source: Any, options: LogOptions) -> list[str]:
    """What the options on displays and queries leave out or merge, as sentences."""
    if options.viewed is None and options.sponsored is None and not options.normalise_queries:
        return []
    opened, log, columns = _open_rows(source, options)
    notes = left_out_displays(log, options)
    if options.normalise_queries:
        notes += merged_queries(opened.table[columns.found["query_id"]])
    return notes


def _count(opened: Source, log: "ir.Table", columns: LogColumns, options: LogOptions) -> _Counted:
    """Count rows and check pages; refuses or drops bad rows."""
    rules = row_rules(log, columns, options)
    given = tuple(columns.given)
    paged = "page_id" in columns.found and not columns.counted
    in_order = _in_order(opened, columns, options) if paged else None

    def attempt(rows: "ir.Table") -> tuple[pa.Table, int | None, bool]:
        counted = fetch(count_expression(rows, columns, options, rules))
        bad = pc.any(counted["bad"]).as_py()
        if bad or not paged or not counted.num_rows:
            return counted, None, not bad
        pages = count_pages(rows, given, counted, in_order if rows is log else None)
        return counted, pages, pages is not None

    counted, pages, clean = attempt(log)
    unreadable, matched = [*opened.unreadable()], None
    if opened.joined is not None:
        if columns.joined and pages is not None and not _leaves_out(options):
            matched = MatchedClicks(_total(counted, "clicks"), _total(counted, "late"))
        unreadable += opened.joined.orphans(matched)
    if clean and not unreadable:
        return _with_pages(_Counted(counted, log, 0, pages, matched=matched), opened)

    every_rule = [PAGE_ID_PRESENT, *rules] if paged else rules
    problems, keeping = list(unreadable), log
    if not clean:
        keeping = log.filter(~bad_rows(log, every_rule))
        places = ["page_id", "query_id", "doc_id", *given, "displays"]
        problems += diagnose(log, every_rule, places)
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
    if not clean:
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
    return _with_pages(_Counted(counted, keeping, dropped, pages, matched=matched), opened)


def _with_pages(counted: _Counted, opened: Source) -> _Counted:
    """The same with the clicks of its pages, and a sample of them."""
    if counted.pages is None:
        return counted
    sample = counted.rows
    if opened.joined is not None:
        sample = stored(opened, opened.joined.sampled(sample, least_level(counted.pages)))
    clicks = clicks_of_pages(sample, counted.pages)
    return replace(counted, page_clicks=clicks, sample=sample)


def _leaves_out(options: LogOptions) -> bool:
    """Whether the options count only some rows of a log."""
    o = options
    return bool(o.where or o.max_clicks_per_page or o.drop_busiest or o.viewed or o.sponsored)


def _in_order(opened: Source, columns: LogColumns, options: LogOptions) -> "ir.Table | None":
    """Pages, documents and positions of all rows as they were written, if no row is left out."""
    moves = options.page_number or options.offset or options.grid
    unsuited = _leaves_out(options) or moves or "position" not in columns.given
    if opened.displays is None or unsuited:
        return None
    found = {name: columns.found[name] for name in ("page_id", "doc_id", "position")}
    return opened.displays.select(**found)


def _rows(counted: pa.Table) -> int:
    """Number of the log's rows behind counted ones; without it, each display is a row."""
    return _total(counted, "rows" if "rows" in counted.column_names else "displays")


def _total(counted: pa.Table, column: str) -> int:
    """Sum of a column of counted rows; 0 if they do not have it."""
    return (pc.sum(counted[column]).as_py() or 0) if column in counted.column_names else 0


def _dropping(options: LogOptions) -> Problem:
    """The hint that bad rows can be dropped."""
    return Problem(
        f"to go on without the bad rows, up to {options.max_bad:.1%} of all, use --on-bad drop",
        code="bad-rows",
    )


def _refuse_empty(
    counted: pa.Table, name: str, options: LogOptions, dropped: int, *, alone: bool
) -> None:
    displays = pc.sum(counted["displays"]).as_py() or 0
    if not displays:
        why = "no row meets the condition of where" if options.where else "it has no rows"
        if dropped:
            why = f"all of its {dropped:,} rows are bad"
        raise InputError(f"{name} has no displays: {why}.", code="no-displays")
    if alone and not pc.sum(counted["clicks"]).as_py():
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
    """The files of counts of a source, with their metadata."""
    found = []
    for file in find_files(paths_in(source)):
        readable = kind_of(file) == "Parquet" and damage(file, "Parquet") is None
        metadata = CountsMetadata.of(file) if readable else None
        # any other file is a log, or damaged, which is reported when it is opened as a log
        if metadata is not None:
            found.append((file, metadata))
    return found


def _check_options(found: Sequence[tuple[Path, CountsMetadata]], options: LogOptions) -> None:
    """Refuse options that determine what was counted, unless they match."""
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


def _add_up(
    found: Sequence[tuple[Path, CountsMetadata]],
    options: LogOptions,
    more: Sequence[ClickCounts] = (),
) -> tuple[ClickCounts, LogReport]:
    """Sum files of counts, and counts of what is not counted yet."""
    _check_options(found, options)
    files = [file for file, _ in found]
    several = [*(ClickCounts.from_parquet(file) for file in files), *more]
    counts = ClickCounts.concat(several)
    if options.cluster == "query":
        counts = replace(counts, clusters=None)
    warned = (*repeated_files(files), *uncertain_sums(counts, several), *_caveats(counts))
    return counts, LogReport({}, 0, 0, warned, suspicious_pages(counts))


def _add_log(
    found: Sequence[tuple[Path, CountsMetadata]], log: Sequence[Path], options: LogOptions
) -> tuple[ClickCounts, LogReport]:
    """Sum files of counts and a log, which is read as the log of the first counts was."""
    _check_options(found, options)
    file, metadata = found[0]
    if metadata.options.drop_busiest:
        raise InputError(
            f"{file} was counted without the busiest users of its log; who is among the busiest of "
            "both logs is not known. Count the logs themselves, or without --drop-busiest",
            code="not-additive",
        )
    default, own = LogOptions(), replace(metadata.options, context=metadata.given)
    given = {
        name: value
        for name in LogOptions.__dataclass_fields__
        if (value := getattr(options, name)) != getattr(default, name)
    }
    reused = {
        name: value
        for name in LogOptions.__dataclass_fields__
        if name not in given and (value := getattr(own, name)) != getattr(default, name)
    }
    counts, report = _count_rows(list(log), replace(own, **given), alone=False)
    total, of_total = _add_up(found, options, [counts])
    # caveats of the log alone may not apply to all counts together
    warned = dict.fromkeys((*report.warnings[: report.own], *of_total.warnings))
    return total, replace(report, warnings=tuple(warned), robots=of_total.robots, reused=reused)
