"""Displays and what was done with them, from events, as one table of displays with outcomes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from epiclick.data.log_formats.flaws import FLAW, UNKNOWN

if TYPE_CHECKING:
    import ibis.expr.types as ir

KEYS = ("page_id", "doc_id")
CLICK = "click"


@dataclass(frozen=True)
class Events:
    """Displays, and actions on displayed items.

    Attributes:
        displays: `page_id`, `query_id`, `doc_id`, `position`, `timestamp`, and further columns.
        actions: `page_id`, `doc_id`, `action` (`click`, or a conversion), `timestamp`, and what is
            known of the further columns.
        conversions: the actions that are conversions; each becomes a column of 0 and 1.
        asked: the conversion that is counted: only those without a display are flaws.
        window: seconds after a display in which a click counts; None for any time.
    """

    displays: "ir.Table"
    actions: "ir.Table"
    conversions: Sequence[str] = ()
    asked: str | None = None
    window: float | None = None

    def rows(self) -> "ir.Table":
        """One row per display with its outcomes, and a flawed row for each action without one."""
        import ibis

        shown = self.displays
        done, late = self._joined()
        outcomes = {
            name: ibis.coalesce(done[f"any_{name}"], 0).cast("int8") for name in self.outcomes
        }
        outcomes[CLICK] = ibis.ifelse(late, 0, outcomes[CLICK]).cast("int8")
        flawless = ibis.null("string").name(FLAW)
        day = done.timestamp.date()
        rows = done.select(*shown.columns, day=day, **outcomes, **{FLAW: flawless})
        return rows.union(self._orphans(rows.schema()))

    def remarks(self) -> list[str]:
        """How many actions were repeated or too late."""
        clicks = self.actions.filter(self.actions.action == CLICK)
        pairs = clicks.group_by(KEYS).aggregate(times=clicks.count())
        pairs = pairs.semi_join(self.displays, KEYS)
        counted = pairs.aggregate(items=pairs.count(), clicks=pairs.times.sum().fill_null(0))
        found = counted.to_pyarrow().to_pylist()[0]
        remarks = []
        if again := found["clicks"] - found["items"]:
            remarks.append(
                f"{again:,} further clicks on items already clicked on their page; each item "
                "counts as clicked once"
            )
        if self.window is not None:
            done, is_late = self._joined()
            late = done.filter(is_late).count().to_pyarrow().as_py()
            remarks += late_remark(late, self.window)
        return remarks

    def _joined(self) -> "tuple[ir.Table, ir.BooleanValue]":
        """The displays with the actions on them, and whether a click was too late."""
        import ibis

        shown, acts = self.displays, self.actions
        kinds = {f"any_{n}": (acts.action == n).any().cast("int8") for n in self.outcomes}
        first = acts.timestamp.min(where=acts.action == CLICK)
        done = acts.group_by(KEYS).aggregate(**kinds, first_click=first)
        done = done.rename(done_page="page_id", done_doc="doc_id")
        same = [shown.page_id == done.done_page, shown.doc_id == done.done_doc]
        joined = shown.left_join(done, same)
        if self.window is None:
            return joined, ibis.literal(False)
        limit = joined.timestamp + ibis.interval(seconds=int(self.window))
        return joined, (joined.first_click > limit).fill_null(False)

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The columns of outcomes: the click and the conversions."""
        return (CLICK, *self.conversions)

    def _orphans(self, schema: Any) -> "ir.Table":
        """Actions on items that were not displayed, in the columns of the rows."""
        import ibis

        acts = self.actions.filter(self.actions.action.isin([CLICK, self.asked or CLICK]))
        left = acts.anti_join(self.displays, KEYS)
        known: dict[str, Any] = {name: left[name] for name in left.columns}
        known["day"] = left.timestamp.date()
        known |= {name: (left.action == name).cast("int8") for name in self.conversions}
        known[CLICK] = ibis.literal(1)  # so that no rule but that of the flaw is broken
        is_click = left.action == CLICK
        known[FLAW] = ibis.ifelse(is_click, "click-without-display", "conversion-without-display")
        known["position"] = ibis.coalesce(known.get("position", ibis.null("int64")), 1)
        for name in ("page_id", "query_id", "doc_id"):
            known[name] = ibis.coalesce(known.get(name, ibis.null("string")), UNKNOWN)
        return left.select(
            **{name: known.get(name, ibis.null(kind)).cast(kind) for name, kind in schema.items()}
        )


def late_remark(late: int, window: float) -> list[str]:
    """The message that some clicks came too late to count."""
    if not late:
        return []
    return [f"{late:,} clicks came more than {window:,g} seconds after the display; not counted"]


def one_based(
    table: "ir.Table", position: str, group: str, position_base: int
) -> "tuple[ir.Table, ir.Table]":
    """Positions from `position_base` on, if each group may count them from 0 or from 1.

    A group in which a position is 0 counts from 0. With `position_base` 0 all groups do.

    Returns:
        the table with its positions shifted, and the lowest position of each group.
    """
    import ibis

    lowest = table.group_by(group).aggregate(lowest=table[position].min())
    if position_base == 0:
        return table, lowest.mutate(lowest=ibis.literal(1))
    zero = lowest.filter(lowest.lowest == 0).select(zero_group=group)
    joined = table.left_join(zero, table[group] == zero.zero_group)
    shifted = joined[position] + joined.zero_group.notnull().cast("int64")
    return joined.select(**{**{n: joined[n] for n in table.columns}, position: shifted}), lowest


def of_latest_display(actions: "ir.Table", displays: "ir.Table", keys: Sequence[str]) -> "ir.Table":
    """Actions with the page of the latest display that has the same keys, at or before their time.

    For events that share no id with the list they came from, only the user, the list and the item.
    `page_id` is NULL where there is no such display; actions that agree in keys and time are one.

    Args:
        actions: the keys, `action`, `timestamp`, and no `page_id`.
        displays: the keys, `page_id`, `timestamp`.
        keys: columns of both, of text.
    """
    import ibis

    shown = displays.select(
        **{f"of_{key}": displays[key].fill_null("") for key in keys},
        of_page="page_id",
        shown_at="timestamp",
    )
    acts = actions.mutate(**{f"to_{key}": actions[key].fill_null("") for key in keys})
    same: list[Any] = [acts[f"to_{key}"] == shown[f"of_{key}"] for key in keys]
    joined = acts.left_join(shown, [*same, shown.shown_at <= acts.timestamp])
    known = [name for name in actions.columns if name not in ("timestamp", "action", *keys)]
    grouped = joined.group_by(["action", "timestamp", *keys]).aggregate(
        page_id=joined.of_page.argmax(
            ibis.coalesce(joined.shown_at, ibis.timestamp("1970-01-01")),
            where=joined.of_page.notnull(),
        ),
        **{name: joined[name].min() for name in known},
    )
    return grouped


def unattributed(actions: "ir.Table") -> "tuple[ir.Table, ir.Table]":
    """Clicks, and conversions with a page; and the conversions without one.

    A shop sells also what it did not show in a list, so that such a conversion is no mistake.
    """
    without = (actions.action != CLICK) & actions.page_id.isnull()
    return actions.filter(~without), actions.filter(without)


def unattributed_remark(without: "ir.Table") -> list[str]:
    """The message that some conversions follow no display."""
    total = without.count().to_pyarrow().as_py()
    if not total:
        return []
    return [f"{total:,} conversions of items that no list had shown before were not used"]


def zero_remark(lowest: "ir.Table", group: str, what: str) -> list[str]:
    """Messages on groups whose positions were shifted, because they count from 0."""
    zero = lowest.filter(lowest.lowest == 0).order_by(group)[group].to_pyarrow().to_pylist()
    return [f"{what} {name} counts positions from 0; they were read as from 1" for name in zero]
