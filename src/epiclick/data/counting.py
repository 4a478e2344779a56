"""Counting as one Ibis expression, and the rules that every row of a log must follow.

The expression runs on DuckDB by default and compiles unchanged for Spark, BigQuery and every other
backend of Ibis: it uses plain SQL only (grouping, filtered counts and casts).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from epiclick.click_models.registry import click_model
from epiclick.data.conversions import NUMBER, VALUE
from epiclick.data.displays import RANK, display_rules
from epiclick.data.log_formats.flaws import FLAW, FLAWS, LATE, OWN_COLUMNS
from epiclick.data.row_rule import RowRule, not_binary, number, number_rules, whole
from epiclick.data.schema import LogColumns, LogOptions
from epiclick.errors import Problem

if TYPE_CHECKING:
    import ibis.expr.types as ir


MOST_VALUE = 1e12
"""Values of single rows are below this, so that their sums are exact decimals."""

DECIMAL = "decimal(38, 6)"


def canonical_log(table: "ir.Table", columns: LogColumns, options: LogOptions) -> "ir.Table":
    """The log under its canonical column names, values unchanged."""
    chosen = {name: table[own] for name, own in columns.found.items()}
    chosen |= {name: table[own] for name, own in columns.contexts.items()}
    if "part" in chosen and chosen["part"].type().is_timestamp():
        chosen["part"] = chosen["part"].cast("date")
    chosen |= {name: table[name] for name in OWN_COLUMNS if name in table.columns}
    if options.page_parts is not None:
        chosen["part"] = page_fold(chosen["page_id"], options.page_parts)
    return table.select(**chosen)


def page_fold(page_id: "ir.Value", folds: int) -> "ir.IntegerValue":
    """The fold of a page, from the engine's own hash of its id as text.

    Engines hash differently, so folds depend on the engine; total counts do not.
    """
    # the remainder of a negative hash is negative in SQL, so it is shifted
    return (page_id.cast("string").hash() % folds + folds) % folds


def count_expression(
    log: "ir.Table",
    columns: LogColumns,
    options: LogOptions,
    rules: Sequence[RowRule],
    *,
    also: Sequence[str] = (),
) -> "ir.Table":
    """Displays and clicks per (query, doc, context[, part][, also]), in the order of these keys.

    `rows` is the number of rows in a group, `bad` whether one of them breaks a rule, `capped` how
    many had more clicks than displays, `late` how many were clicked too late. `log` comes from
    `canonical_log`.
    """
    part = ["part"] if "part" in log.columns else []
    keys = ["query_id", "doc_id", *columns.contexts, *part, *also]
    if not columns.counted:
        clicked = number(log.click) == 1
        counted = {"displays": log.count(), "clicks": log.count(where=clicked)}
    else:
        shown, clicked = whole(log.displays), whole(log.clicks)
        counted = {
            "displays": shown.sum().cast("int64"),
            "clicks": clicked.sum().cast("int64"),
            "rows": log.count(),
        }
        if options.clip_clicks:
            import ibis  # slow to import

            counted["clicks"] = ibis.least(shown, clicked).sum().cast("int64")
            counted["capped"] = log.count(where=clicked > shown)
    if LATE in log.columns:
        counted["late"] = log.count(where=log[LATE])
    counted |= _conversions(log, columns)
    # keys are checked and converted once per group, not once per row
    of_rows = [rule for rule in rules if rule.value not in keys]
    of_keys = [rule for rule in rules if rule.value in keys]
    if of_rows:
        counted["bad"] = bad_rows(log, of_rows).any()
    grouped = log.group_by(keys).aggregate(**counted)
    bad = bad_rows(grouped, of_keys)
    grouped = grouped.mutate(bad=grouped.bad | bad if of_rows else bad)
    if "position" in columns.contexts:
        position = whole(grouped.position)
        grouped = grouped.mutate(position=position + 1 if options.position_base == 0 else position)
    # the keys alone determine the order; DuckDB sorts text faster if no column is merely carried
    return grouped.order_by([*keys, *(name for name in grouped.columns if name not in keys)])


def _conversions(log: "ir.Table", columns: LogColumns) -> "dict[str, ir.IntegerScalar]":
    """Conversions and their value in each group, if the log has them."""
    counted: dict[str, Any] = {}
    if "conversion" not in columns.found:
        return counted
    # a missing conversion stands for none: rules allow it where there is no click
    converted = number(log.conversion).fill_null(0)
    counted[NUMBER] = converted.sum().cast("int64").fill_null(0)
    if "value" in columns.found:
        # sums of decimals, unlike those of floats, do not depend on the order of the rows
        worth = number(log.value).try_cast(DECIMAL)
        counted[VALUE] = worth.sum(where=converted > 0).cast("float64").fill_null(0.0)
    return counted


def row_rules(log: "ir.Table", columns: LogColumns, options: LogOptions) -> list[RowRule]:
    """The rules for this log, given its columns and their types."""
    others = (c for c in columns.given if c != "position" and c not in columns.computed)
    keys = ["query_id", "doc_id", *others]
    if "part" in log.columns and options.page_parts is None:
        keys.append("part")
    rules = [*_flaw_rules(log), *(RowRule.present(key) for key in keys)]
    rules += _cluster_rules(columns, options)
    rules += display_rules(log, columns, options)
    if "position" in log.columns:
        first = options.position_base
        # positions that were derived are whole numbers if those of the log are
        own = RANK if RANK in log.columns else "position"
        rules += number_rules(log, own, "position")
        rules.append(
            RowRule(
                f"position must be {first} or more",
                lambda t: number(t[own]) < first,
                own,
                "If positions count from 0, use --position-base 0." if first else "",
                code="position-below-base",
            )
        )
    if not columns.counted:
        rules += [] if columns.joined else _click_rules()
        return rules + _conversion_rules(columns) + _value_rules(log, columns)
    for name in ("displays", "clicks"):
        rules += number_rules(log, name)
        rules.append(
            RowRule(
                f"{name} must not be negative",
                lambda t, n=name: number(t[n]) < 0,  # type: ignore[misc]
                name,
                code="negative-count",
            )
        )
    if not options.clip_clicks:
        rules.append(
            RowRule(
                "clicks must not exceed displays",
                lambda t: number(t.clicks) > number(t.displays),
                "clicks",
                "Were repeated clicks counted? Use --clip-clicks to cap them.",
                code="clicks-exceed-displays",
            )
        )
    return rules + _counted_conversion_rules(log, columns, options) + _value_rules(log, columns)


def _click_rules() -> list[RowRule]:
    """The rules for the click of a single display."""
    return [
        RowRule.present("click"),
        RowRule(
            "click must be 0 or 1",
            lambda t: not_binary(t.click),
            "click",
            "If rows are already counted, name the columns displays and clicks.",
            code="click-not-binary",
        ),
    ]


def _flaw_rules(log: "ir.Table") -> list[RowRule]:
    """The rules that a format's rows have none of its flaws."""
    if FLAW not in log.columns:
        return []
    return [
        RowRule(what, lambda t, c=code: t[FLAW] == c, "", remedy, code=code)  # type: ignore[misc]
        for code, (what, remedy) in FLAWS.items()
    ]


def _cluster_rules(columns: LogColumns, options: LogOptions) -> list[RowRule]:
    """The rule that clusters are known; pages of single displays have it already."""
    column = options.cluster_column
    if column is None or (column == "page_id" and not columns.counted):
        return []
    own = columns.found[column]
    remedy = "Name another column with --cluster, or leave it out."
    return [replace(RowRule.present(column), what=f"cluster ({own}) is missing", remedy=remedy)]


def _conversion_rules(columns: LogColumns) -> list[RowRule]:
    """The rules for a conversion of single displays: 0 or 1, and only after a click."""
    if "conversion" not in columns.found:
        return []
    own = columns.found["conversion"]
    return [
        RowRule(
            f"conversion ({own}) is missing after a click",
            lambda t: t.conversion.isnull() & (number(t.click) == 1),
            "conversion",
            "Write 0 for a click without a conversion.",
            code="missing-value",
        ),
        RowRule(
            f"conversion ({own}) must be 0 or 1",
            lambda t: not_binary(t.conversion),
            "conversion",
            "Numbers and amounts belong in a column of their own: --value.",
            code="conversion-not-binary",
        ),
        RowRule(
            f"conversion ({own}) without a click",
            lambda t: (number(t.conversion) == 1) & (number(t.click) == 0),
            "conversion",
            "A conversion counts for the display whose click led to it: attribute it to that row, "
            "or set it to 0 if it has another origin.",
            code="conversion-without-click",
        ),
    ]


def _counted_conversion_rules(
    log: "ir.Table", columns: LogColumns, options: LogOptions
) -> list[RowRule]:
    """The rules for numbers of conversions: at most as many as clicks."""
    if "conversion" not in columns.found:
        return []
    own = columns.found["conversion"]

    def exceeds(table: "ir.Table") -> "ir.BooleanValue":
        import ibis  # slow to import

        clicks = number(table.clicks)
        if options.clip_clicks:
            clicks = ibis.least(clicks, number(table.displays))
        return number(table.conversion) > clicks

    return [
        *number_rules(log, "conversion"),
        RowRule(
            f"conversions ({own}) must not be negative",
            lambda t: number(t.conversion) < 0,
            "conversion",
            code="negative-count",
        ),
        RowRule(
            f"conversions ({own}) must not exceed clicks",
            exceeds,
            "conversion",
            "Count only conversions that follow a click, at most one for each.",
            code="conversions-exceed-clicks",
        ),
    ]


def _value_rules(log: "ir.Table", columns: LogColumns) -> list[RowRule]:
    """The rules for the value of conversions: a number from 0 on, and none without a conversion."""
    if "value" not in columns.found:
        return []
    own, kind = columns.found["value"], log.value.type()
    rules = [
        RowRule(
            f"value ({own}) is missing for a conversion",
            lambda t: t.value.isnull() & _converted(t),
            "value",
            "Write 0 for a conversion that is worth nothing.",
            code="missing-value",
        ),
        RowRule(
            f"value ({own}) must be finite, and below {MOST_VALUE:.0e}",
            lambda t: _converted(t) & _is_beyond(number(t.value)),
            "value",
            code="value-out-of-range",
        ),
        RowRule(
            f"value ({own}) must not be negative",
            lambda t: number(t.value) < 0,
            "value",
            "Leave out refunds, or subtract them from the conversion they belong to.",
            code="negative-value",
        ),
        RowRule(
            f"value ({own}) without a conversion",
            lambda t: ~_converted(t) & (number(t.value) > 0),
            "value",
            "Only conversions have a value: write 0 or nothing elsewhere.",
            code="value-without-conversion",
        ),
    ]
    if kind.is_string() or kind.is_json():
        rules.insert(
            1,
            RowRule(
                f"value ({own}) must be a number, not text",
                lambda t: t.value.notnull() & number(t.value).isnull(),
                "value",
                code="not-a-number",
            ),
        )
    return rules


def _is_beyond(value: "ir.NumericValue") -> "ir.BooleanValue":
    """Whether a number is too large to be summed exactly, infinite, or not a number."""
    beyond = value >= MOST_VALUE
    return beyond | value.isnan() if value.type().is_floating() else beyond


def _converted(table: "ir.Table") -> "ir.BooleanValue":
    """Whether a row has a conversion."""
    return (number(table.conversion) > 0).fill_null(False)


def bad_rows(log: "ir.Table", rules: Sequence[RowRule]) -> "ir.BooleanValue":
    """True where a row breaks any rule, false elsewhere."""
    return reduce(or_, (rule.broken(log) for rule in rules)).fill_null(False)


def diagnose(log: "ir.Table", rules: Sequence[RowRule], shown: Sequence[str]) -> list[Problem]:
    """Count the rows that break each rule, and show the first of each; a second pass."""
    broken = {f"rule_{i}": rule.broken(log).fill_null(False) for i, rule in enumerate(rules)}
    counts = log.aggregate(**{name: log.count(where=b) for name, b in broken.items()})
    totals = counts.to_pyarrow().to_pylist()[0]
    problems = []
    for i, rule in enumerate(rules):
        if total := totals[f"rule_{i}"]:
            places = [name for name in shown if name in log.columns]
            rows = (
                log.filter(broken[f"rule_{i}"]).order_by(places).limit(3).to_pyarrow().to_pylist()
            )
            examples = [_place(row, places, rule.value) for row in rows]
            problems.append(Problem(rule.what, total, "row", examples, rule.remedy, code=rule.code))
    return problems


def _place(row: dict[str, object], places: Sequence[str], value: str) -> str:
    """A row as shown in an error: (query 12, doc 7, position 4): clicks 9."""
    named = [f"{name.removesuffix('_id')} {row[name]}" for name in places if name != value]
    place = f"({', '.join(named)})"
    return f"{place}: {value} {row[value]}" if value else place


def with_history(table: "ir.Table", columns: LogColumns, options: LogOptions) -> "ir.Table":
    """The rows of a log with the history columns of the click model, if it has any.

    History does not depend on which rows are counted later, so it must be computed over all rows,
    before any is left out. A click at an invalid position is not part of the history.

    Args:
        table: the log with its original columns.
        columns: where its columns are.
        options: how it is read.
    """
    if not columns.history:
        return table
    import ibis  # slow to import

    place, first = number(table[columns.found["position"]]), options.position_base
    whole = place.try_cast("int64")
    is_place = (whole == place) & (whole >= first)
    # the log's own column names may clash with those that the click model needs
    own = {f"own_{i}": table[name] for i, name in enumerate(table.columns)}
    rows = table.select(
        **own,
        page_id=table[columns.found["page_id"]],
        position=ibis.ifelse(is_place, whole + (1 - first), ibis.null("int64")),
        clicked=(number(table[columns.found["click"]]) == 1).fill_null(False),
    )
    history = click_model(options.click_model).history_columns(rows)
    restored = {name: rows[kept] for name, kept in zip(table.columns, own, strict=True)}
    return rows.select(**restored, **{name: history[name] for name in columns.history})
