"""Inspect a log: read it as `read_log` would, but report what is wrong instead of refusing it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from epiclick.data.counts import ClickCounts
from epiclick.data.engine import Source, engine_errors, quote_name, stoppable
from epiclick.data.files import paths_in, unchanged
from epiclick.data.log_formats.flaws import OWN_COLUMNS
from epiclick.data.log_formats.log_registry import open_rows
from epiclick.data.readers import LogReport, count_log, counts_files, open_log
from epiclick.data.row_rule import number
from epiclick.data.schema import (
    ALIASES,
    DISPLAY_COLUMNS,
    OUTCOMES,
    LogColumns,
    LogOptions,
    options_of,
)
from epiclick.data.sources import held
from epiclick.errors import InputError, Problem
from epiclick.identification.identifiability import identifiability, named
from epiclick.identification.unbounded import unbounded_bias
from epiclick.inspection.inspected import Inspection, Learnable, LogColumn
from epiclick.inspection.next_command import fit_command
from epiclick.inspection.page_shapes import page_shapes, shape_problems, users_of
from epiclick.inspection.telling_columns import (
    applied,
    dates_of,
    other_uses,
    proposals,
)

LONG = 5_000_000
"""Rows of a log from which on a sample of its queries is inspected, about this many rows."""

MOST_PAIRS = 200_000
"""Pairs that errors of position bias are estimated from; of more, those of some queries."""

HINTS = ("bad-rows", "not-droppable", "too-many-bad-rows")
"""Codes of remarks about problems, which are none themselves."""

REMEDIES: Mapping[str, Mapping[str, Any]] = {
    "clicks-exceed-displays": {"clip_clicks": True},
    "mixed-types": {"ids": "string"},
    "id-too-large": {"ids": "string"},
    "page-number-below-base": {"page_number_base": 0},
}
"""Code of a problem -> the settings that solve it."""


def inspect(source: Any, *, options: LogOptions | None = None, **settings: Any) -> Inspection:
    """Look into a log before anything is fitted: columns, sizes, flaws, and what can be learned.

    Nothing is changed, and bad rows are reported instead of refused. Options that the log clearly
    calls for, such as `position_base=0`, are part of `command`, and used for all numbers.

    Args:
        source: anything `read_log` reads.
        options: how to read it, as for `read_log`.
        **settings: fields of `LogOptions`, which override those of `options`.
    """
    chosen = options_of(options, settings)
    with unchanged(source):
        return _inspected(source, chosen)


@dataclass
class _Findings:
    """What is found on the way.

    Attributes:
        options: to read the log with.
        problems: what is wrong, by code.
        advice: sentences.
    """

    options: LogOptions
    problems: dict[str, Problem] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)

    def add(self, error: InputError) -> list[Problem]:
        """Note the problems of an error; those that are new."""
        found = [*error.problems] or [Problem(str(error).rstrip("."), code=error.code)]
        new = [each for each in found if each.code not in (*HINTS, *self.problems)]
        self.problems |= {each.code: each for each in new}
        return new


def _inspected(source: Any, options: LogOptions) -> Inspection:
    findings = _Findings(options)
    opened = open_rows(source, options)
    try:
        _, _, columns = open_log(opened, options)
    except InputError as error:
        findings.add(error)
        return _unread(opened, findings)
    with stoppable(opened.table), engine_errors(opened.name):
        rows = opened.table.count().to_pyarrow().as_py()
        one_in = 1
        is_counted = bool(counts_files(source))
        # whatever is not in files is in memory, or in the hands of an engine that is not ours
        if paths_in(source) and not is_counted:
            one_in = max(-(-rows // LONG), 1)
            query = quote_name(columns.found["query_id"])
            opened = held(opened, f"hash({query}) % {one_in} = 0" if one_in > 1 else "TRUE")
        proposed = [] if is_counted else list(proposals(opened.table, columns, options))
        dates = dates_of(opened)
    findings.options = applied(options, proposed)
    findings.advice += [f"{each.why}: {_as_options(each.settings)}." for each in proposed]
    counted = _counted(source if is_counted else opened, findings)
    parts: dict[str, Any] = {}
    _, log, columns = open_log(opened, _of_pages(findings.options))
    with stoppable(opened.table), engine_errors(opened.name):
        if "page_id" in columns.found and not columns.counted:
            parts["shapes"] = page_shapes(log, findings.options)
        if not columns.counted:
            parts["users"] = users_of(log, columns)
    if shapes := parts.get("shapes"):
        known = findings.problems
        findings.problems |= {p.code: p for p in shape_problems(shapes) if p.code not in known}
    if counted is not None:
        counts, report = counted
        parts |= _sizes(counts)
        parts["learnable"] = learnable = _learnable(counts)
        robots = () if report.robots is None else (report.robots.message,)
        parts["warnings"] = (*report.warnings, *robots)
        final = _final(findings.options, options, report, counts, columns, rows)
        if len(counts.given[0]) > 1:
            parts["command"] = fit_command(source, final)
        findings.advice += _advice(final, learnable)
    else:
        findings.advice.append("The log cannot be fitted until these problems are solved.")
    _, _, columns = open_log(opened, findings.options)
    with stoppable(opened.table), engine_errors(opened.name):
        uses = other_uses(opened.table, columns, findings.options)
    return Inspection(
        source=opened.name,
        columns=tuple(_roles(opened, columns, findings.options)),
        rows=rows,
        dates=dates,
        problems=tuple(findings.problems.values()),
        advice=(*findings.advice, *uses),
        one_in=one_in,
        **parts,
    )


def _of_pages(options: LogOptions) -> LogOptions:
    """The options to read whole pages with: what was not viewed, or paid for, was on them still."""
    if options.sponsored_as == "context":
        return replace(options, viewed=None)
    return replace(options, viewed=None, sponsored=None)


def _unread(opened: Source, findings: _Findings) -> Inspection:
    """A log whose columns are not clear: these, and how to name them."""
    with stoppable(opened.table), engine_errors(opened.name):
        rows = opened.table.count().to_pyarrow().as_py()
        dates = dates_of(opened)
    return Inspection(
        source=opened.name,
        columns=tuple(_candidates(opened, findings.options)),
        rows=rows,
        dates=dates,
        problems=tuple(findings.problems.values()),
        advice=("Inspect the log again with the options that the problems name.",),
    )


def _as_options(settings: Mapping[str, Any]) -> str:
    """Settings as options of the command line."""
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in settings.items())


def _counted(source: Any, findings: _Findings) -> tuple[ClickCounts, LogReport] | None:
    """The counts, with options added until nothing is refused; None if that is not possible."""
    while True:
        try:
            return count_log(source, findings.options)
        except InputError as error:
            new = findings.add(error)
            changes: dict[str, Any] = {}
            for problem in new:
                changes |= REMEDIES.get(problem.code, {})
                if problem.code == "position-below-base" and _counts_from_zero(source, findings):
                    changes["position_base"] = 0
            if not changes and error.problems and all(each.droppable for each in error.problems):
                changes = {"on_bad": "drop", "max_bad": 1.0}
            if not changes or replace(findings.options, **changes) == findings.options:
                return None
            findings.options = replace(findings.options, **changes)


def _counts_from_zero(source: Any, findings: _Findings) -> bool:
    """Whether positions count from 0: as many displays are at 0 as are usual at a position."""
    opened, log, _ = open_log(source, findings.options)
    with stoppable(opened.table), engine_errors(opened.name):
        place = number(log.position)
        (found,) = (
            log.aggregate(zero=log.count(where=place == 0), one=log.count(where=place == 1))
            .to_pyarrow()
            .to_pylist()
        )
    return bool(2 * found["zero"] >= found["one"] and found["zero"])


def _final(
    used: LogOptions,
    given: LogOptions,
    report: LogReport,
    counts: ClickCounts,
    columns: LogColumns,
    rows: int,
) -> LogOptions:
    """The options for a fit: those used, dropping no more bad rows than there are."""
    if used.max_bad == given.max_bad:
        return used
    total = rows if columns.counted else report.dropped + counts.total_displays
    share = report.dropped / max(total, 1)
    if share <= given.max_bad:
        return replace(used, max_bad=given.max_bad)
    return replace(used, max_bad=min(math.ceil(100 * share * 1.01) / 100, 1.0))


def _sizes(counts: ClickCounts) -> dict[str, Any]:
    return {
        "pages": counts.pages,
        "queries": counts.num_queries,
        "pairs": len(counts),
        "displays": counts.total_displays,
        "clicks": counts.total_clicks,
        "by_position": counts.by_given().by_context(),
    }


def _learnable(counts: ClickCounts) -> Learnable:
    """Which positions items link, and how precisely their bias can be estimated."""
    found = identifiability(counts)
    plain = counts.by_given()
    step = -(-len(plain) // MOST_PAIRS)
    if step > 1:
        plain = plain.subset(plain.query % step == 0)
    bias = unbounded_bias(plain)
    reference = max(found.largest, key=lambda k: found.displays[k])
    errors = [
        0.0 if k == reference else bias.ratio(k, reference).error / math.sqrt(step)
        for k in range(len(plain.contexts))
    ]
    table = plain.contexts.to_pandas().assign(
        relative_error=[None if not math.isfinite(error) else error for error in errors],
        clicked_items_moved=found.clicked_linking_pairs,
    )
    return Learnable(
        found.to_dict(),
        tuple(found.summary().splitlines()),
        table,
        named(plain.contexts, [reference]),
    )


def _advice(final: LogOptions, learnable: Learnable) -> list[str]:
    """What the problems and the links between positions call for."""
    advice = []
    if final.position_base == 0:
        advice.append("Positions count from 0: --position-base 0.")
    if final.on_bad == "drop":
        advice.append(
            "Bad rows are left out by --on-bad drop, up to --max-bad "
            f"{100 * final.max_bad:.12g}% of all; fix them at their source if you can."
        )
    if len(learnable.errors) == 1:
        advice.append("All displays are in one position, so there is no position bias to fit.")
    elif not learnable.record["linked_share"]:
        advice.append(
            "No item was shown at two positions, so position bias cannot be told from relevance: "
            "give features of the items (--features), or show items at different positions."
        )
    return advice


def _candidates(opened: Source, options: LogOptions) -> Iterator[LogColumn]:
    """Every column, and what it may be taken for; with a question mark if there are several."""
    given = {own: name for name, own in options.columns.items()}
    free = [name for name in opened.table.columns if name not in given]
    for name in opened.table.columns:
        kind, role, how = str(opened.table[name].type()), given.get(name), "option"
        for canonical, known in ALIASES.items():
            if role is None and canonical not in options.columns and name.lower() in known:
                several = sum(other.lower() in known for other in free) > 1
                role = canonical + ("?" if several else "")
                how = "name" if name == canonical else "alias"
        yield LogColumn(name, kind, role, how if role else None)


def _roles(opened: Source, columns: LogColumns, options: LogOptions) -> list[LogColumn]:
    """Every column of the log, and what it is taken for."""
    roles: dict[str, list[str]] = {}
    for role, own in {**columns.found, **columns.contexts}.items():
        roles.setdefault(own, []).append(role)
    named = [getattr(options, each) for each in (*OUTCOMES, *DISPLAY_COLUMNS, "part", "cluster")]
    named += [*options.columns.values(), *(each for each in options.context if each != "position")]

    def described(name: str) -> LogColumn:
        kind, taken = str(opened.table[name].type()), roles.get(name, [])
        if not taken:
            return LogColumn(name, kind)
        how = "option" if name in named else "name" if name in taken else "alias"
        return LogColumn(name, kind, ", ".join(taken), how)

    return [described(name) for name in opened.table.columns if name not in OWN_COLUMNS]
