"""Impressions and clicks in two tables, joined on page and item by the engine that holds them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from epiclick.data.engine import engine_errors, stored
from epiclick.data.log_formats.attributed import late_remark
from epiclick.data.log_formats.flaws import FLAWS, LATE
from epiclick.data.log_formats.log_format import Columns
from epiclick.data.log_formats.nested import time_of
from epiclick.errors import InputError, Problem

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from epiclick.data.engine import MatchedClicks, Source
    from epiclick.data.schema import LogOptions

TIMES = ("timestamp", "time", "ts", "datetime", "event_time", "event_timestamp")


@dataclass(frozen=True)
class TwoTablesJoined:
    """Every impression is a display; it was clicked if the clicks have its page and item."""

    name: str = "two-tables"
    times_clicks: bool = True

    def recognises(self, columns: Columns) -> bool:
        """Never: the clicks are named apart from the impressions."""
        return False

    def rows(self, source: "Source", options: "LogOptions") -> "Source":
        """The columns of the impressions, and the click."""
        if source.beside is None:
            raise InputError(
                "the format two-tables needs clicks as well: --impressions FILE --clicks FILE (in "
                "Python: read_log(impressions, clicks=...))",
                code="impressions-need-clicks",
            )
        clicks = source.beside
        with engine_errors(source.name):
            join = _Join.of(source, clicks, options)
            rows = join.rows()

        def unreadable() -> list[Problem]:
            return [*source.unreadable(), *clicks.unreadable()]

        notes = (*source.notes, *clicks.notes)
        return replace(
            source,
            table=rows,
            unreadable=unreadable,
            notes=notes,
            displays=source.table,
            beside=None,
            joined=join,
        )


@dataclass(frozen=True)
class _Join:
    """Two tables and the columns by which they belong together.

    Attributes:
        impressions: one row per display, with its own columns.
        keys: the names of page and item in the impressions.
        clicks: `page`, `doc`, where needed `clicked_at`, and outcomes of clicks.
        once: the clicks, one row per page and item; stored, as several passes join it.
        outcomes: columns of the clicks that the options name -> how clicks on one item add up.
        shown_at: column with the time of an impression, if clicks may come too late.
        window: seconds after an impression in which a click counts.
    """

    impressions: "ir.Table"
    keys: tuple[str, str]
    clicks: "ir.Table"
    once: "ir.Table"
    outcomes: dict[str, str]
    shown_at: str | None
    window: float | None

    @classmethod
    def of(cls, source: "Source", beside: "Source", options: "LogOptions") -> "_Join":
        """Find the columns of both tables; all that is missing is reported together."""
        shown, clicked = source.table, beside.table
        found: dict[tuple[str, str], str] = {}
        problems: list[Problem] = []
        wanted = ("page_id", "doc_id", *(("timestamp",) if options.click_window else ()))
        for role, opened in (("impressions", source), ("clicks", beside)):
            for canonical in wanted:
                match = _found(canonical, opened, role, options)
                if isinstance(match, Problem):
                    problems.append(match)
                else:
                    found[role, canonical] = match
        problems += _clashes(shown, clicked)
        if problems:
            raise InputError.of(f"{source.name} and {beside.name}", problems)
        keys = (found["impressions", "page_id"], found["impressions", "doc_id"])
        sums = {options.conversion: "max", options.value: "sum"}
        outcomes = {
            name: how
            for name, how in sums.items()
            if name is not None and name in clicked.columns and name not in shown.columns
        }
        columns: dict[str, Any] = {
            "page": clicked[found["clicks", "page_id"]],
            "doc": clicked[found["clicks", "doc_id"]],
            **{name: _number(clicked[name]) for name in outcomes},
        }
        if options.click_window is not None:
            columns["clicked_at"] = time_of(clicked[found["clicks", "timestamp"]])
        clicks = clicked.select(**columns)
        return cls(
            shown,
            keys,
            clicks,
            stored(source, _once(clicks, outcomes)),
            outcomes,
            found.get(("impressions", "timestamp")),
            options.click_window,
        )

    def rows(self) -> "ir.Table":
        """The impressions with their clicks: one join."""
        import ibis

        joined = self._joined()
        click = joined.page.notnull()
        further = {}
        if self.window is not None:
            further[LATE] = self._is_late(joined)
            click &= ~further[LATE]
        further |= {name: ibis.ifelse(click, joined[name], 0) for name in self.outcomes}
        return joined.select(*self.impressions.columns, click=click.cast("int8"), **further)

    def orphans(self, matched: "MatchedClicks | None") -> list[Problem]:
        """Clicks without an impression; they are searched for only if their number is not 0."""
        if matched is not None and self._is_exact:
            items = self.once.count().to_pyarrow().as_py()
            if matched.counted + matched.late == items:
                return []
        left = self.clicks.anti_join(self.impressions, self._same(self.clicks))
        total = left.count().to_pyarrow().as_py()
        if not total:
            return []
        first = left.select("page", "doc").order_by(["page", "doc"]).limit(3).to_pyarrow()
        examples = [f"(page {row['page']}, doc {row['doc']})" for row in first.to_pylist()]
        code = "click-without-display"
        what, remedy = FLAWS[code]
        return [Problem(what, total, "click", examples, remedy, code=code)]

    def remarks(self, matched: "MatchedClicks | None") -> list[str]:
        """Clicks on items already clicked, and clicks that came too late."""
        every, items = (each.count().to_pyarrow().as_py() for each in (self.clicks, self.once))
        again = every - items
        found = []
        if again:
            found.append(
                f"{again:,} further clicks on items already clicked on their page; each item "
                "counts as clicked once"
            )
        if self.window is not None:
            found += late_remark(self._late() if matched is None else matched.late, self.window)
        return found

    def sampled(self, rows: "ir.Table", least: int) -> "ir.Table":
        """The rows of the pages from a level on; other pages' clicks are left out of the join."""
        from epiclick.data.pages import from_level

        chosen = from_level(rows, least)
        # engines may hash 1 of one type and 1 of another differently
        if self.impressions[self.keys[0]].type() != self.clicks.page.type():
            return chosen
        once = from_level(self.once, least, "page")
        return chosen.op().replace({self.once.op(): once.op()}).to_expr()

    def _late(self) -> int:
        joined = self._joined()
        return joined.filter(self._is_late(joined)).count().to_pyarrow().as_py()

    @property
    def _is_exact(self) -> bool:
        """Whether ids that differ in one table cannot be equal to one id of the other."""
        both = [
            {self.impressions[own].type(), self.clicks[other].type()}
            for own, other in zip(self.keys, ("page", "doc"), strict=True)
        ]
        return all(
            all(kind.is_integer() for kind in kinds) or all(kind.is_string() for kind in kinds)
            for kinds in both
        )

    def _joined(self) -> "ir.Table":
        return self.impressions.left_join(self.once, self._same(self.once))

    def _same(self, clicks: "ir.Table") -> list[Any]:
        """Whether a click and an impression are of one page and item."""
        pairs = zip(self.keys, (clicks.page, clicks.doc), strict=True)
        return [_equal(self.impressions[own], other) for own, other in pairs]

    def _is_late(self, joined: "ir.Table") -> "ir.BooleanValue":
        import ibis

        assert self.window is not None
        assert self.shown_at is not None
        limit = time_of(joined[self.shown_at]) + ibis.interval(seconds=int(self.window))
        return (joined.clicked_at > limit).fill_null(False)


def _once(clicks: "ir.Table", outcomes: dict[str, str]) -> "ir.Table":
    """One row per page and item: several clicks on an item must not multiply its impression."""
    sums: dict[str, Any] = {name: getattr(clicks[name], how)() for name, how in outcomes.items()}
    if "clicked_at" in clicks.columns:
        sums["clicked_at"] = clicks.clicked_at.min()
    return clicks.group_by(["page", "doc"]).aggregate(**sums)


def _equal(one: "ir.Value", other: "ir.Value") -> "ir.BooleanValue":
    """Whether two ids are equal; an id of a text file is compared with a number by its text."""
    if one.type().is_string() != other.type().is_string():
        one, other = one.cast("string"), other.cast("string")
    return one == other


def _number(value: "ir.Value") -> "ir.Value":
    from epiclick.data.counting import number

    return number(value)


def _found(canonical: str, opened: "Source", role: str, options: "LogOptions") -> "str | Problem":
    """The name of a column in one of the tables."""
    from epiclick.data.schema import ALIASES

    names = opened.table.columns
    known = TIMES if canonical == "timestamp" else ALIASES[canonical]
    chosen = options.columns.get(canonical)
    if chosen is not None and chosen in names:
        return chosen
    matches = [name for name in names if name.lower() in known]
    if len(matches) == 1:
        return matches[0]
    listed = f"The {role} have {', '.join(names)}."
    if matches:
        what = f"the {role} have {' and '.join(matches)}, which could each be {canonical}"
        return Problem(what, remedy="Rename one of them.", code="ambiguous-column")
    what = f"the {role} have no column for {canonical} (known names: {', '.join(known)})"
    return Problem(what, remedy=listed, code="missing-column")


def _clashes(impressions: "ir.Table", clicks: "ir.Table") -> Iterator[Problem]:
    """Columns of the impressions that are already those of clicks."""
    from epiclick.data.schema import ALIASES

    taken = [name for name in impressions.columns if name.lower() in ALIASES["click"]]
    if taken:
        yield Problem(
            f"the impressions already have a column {' and '.join(taken)}",
            remedy="Read them alone, as a log, or leave that column out.",
            code="reserved-column",
        )
