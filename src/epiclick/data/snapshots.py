"""Tables of features with a column of days: for every key, its latest row as of one day.

Clicks are counted per (query, item), over all days of a log, so a pair has one vector of features.
It must be known before the clicks it is to explain: a later snapshot of, say, a click rate contains
them. So a day is never chosen silently.
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from epiclick.data.engine import Source
from epiclick.data.feature_options import LATEST
from epiclick.errors import InputError, InputWarning, Problem

if TYPE_CHECKING:
    import ibis.expr.types as ir

NAMES = ("day", "date", "snapshot", "snapshot_date", "snapshot_day", "as_of", "ds", "dt")
"""Names of a column of days, in any case."""

TIMES = ("timestamp", "time", "ts", "event_time", "event_timestamp", "datetime")
"""Names of a column of times in a log."""

ISO_DAY = r"^\d{4}-\d{2}-\d{2}([T ].*)?$"


@dataclass(frozen=True)
class Snapshot:
    """What was chosen from a table of snapshots.

    Attributes:
        column: its column of days.
        first: earliest day of a row that is used, as text.
        last: latest one.
        later: rows of later days, which are not used.
        earlier: rows that a later one, on or before the day, has replaced.
    """

    column: str
    first: str
    last: str
    later: int
    earlier: int

    def note(self, name: str) -> str:
        """What was used, for the user."""
        days = self.last if self.first == self.last else f"{self.first} to {self.last}"
        return (
            f"{name}: snapshots of {days} are used ({self.column}); left out are {self.later:,} "
            f"rows of later days and {self.earlier:,} replaced by later ones"
        )


def day_column(opened: Source, as_of: str | None, free: Sequence[str]) -> str | None:
    """The column of days among columns that are no keys; None if there is none.

    Without `as_of` only a column of dates is one: a number called `day` may be a feature.
    """
    named = [name for name in free if name.lower() in NAMES]
    if as_of is None:
        named = [name for name in named if _is_dates(opened, name)]
    if len(named) > 1 and as_of is not None:
        raise InputError(
            f"{opened.name}: {' and '.join(named)} could each be the day of a snapshot. Rename or "
            "remove all but one.",
            code="ambiguous-column",
        )
    return named[0] if named else None


def select_as_of(
    opened: Source, column: str, keys: Sequence[str], as_of: str
) -> tuple[Source, Snapshot]:
    """The rows of a source with the latest day of their key on or before a day."""
    table = opened.table
    day, wanted = _comparable(opened, table[column], as_of)
    if without := day.isnull().sum().to_pyarrow().as_py():
        problem = Problem(
            f"{column}, the day of a snapshot, is missing or not a day",
            without,
            remedy="Fill or drop these rows.",
            code="missing-value",
        )
        raise InputError.of(opened.name, [problem])
    total = table.count().to_pyarrow().as_py()
    known = table if wanted is None else table.filter(day <= wanted)
    # rows of the same day stay, so that repeated keys are reported as in any other table
    own_day = _comparable(opened, known[column], as_of)[0]
    # the last of several in a day, if they have times
    order = own_day if own_day.type().is_integer() else known[column]
    chosen = known.filter(order == order.max().over(_by(keys)))
    own_day = _comparable(opened, chosen[column], as_of)[0]
    found = chosen.aggregate(first=own_day.min(), last=own_day.max(), rows=chosen.count())
    first, last, used = found.to_pyarrow().to_pylist()[0].values()
    if not used:
        earliest = table.aggregate(first=day.min()).to_pyarrow().to_pylist()[0]["first"]
        raise InputError(
            f"{opened.name} has no snapshot on or before {as_of}: the first is of {earliest}. Give "
            "a later day, or earlier snapshots.",
            code="no-snapshot",
        )
    later = total - known.count().to_pyarrow().as_py()
    chosen_rows = Snapshot(column, str(first), str(last), later, total - later - used)
    # a window leaves rows in any order, and results must not depend on it
    ordered = chosen.order_by(list(keys)).drop(column)
    return replace(opened, table=ordered), chosen_rows


def days_of(opened: Source, column: str) -> tuple[str, str]:
    """The first and the last day of a column of dates."""
    day, _ = _comparable(opened, opened.table[column], LATEST)
    found = opened.table.aggregate(first=day.min(), last=day.max()).to_pyarrow().to_pylist()[0]
    return str(found["first"]), str(found["last"])


def first_day(source: Any, where: str | None = None) -> str | None:
    """The first day of a log, from a column that is called and written like one; else None."""
    from epiclick.data.sources import open_source
    from epiclick.data.where import select_where

    opened = open_source(source)
    names = [name for name in opened.table.columns if name.lower() in (*NAMES, *TIMES)]
    dates = [name for name in names if _is_dates(opened, name)]
    if len(dates) != 1:
        return None
    table = opened.table if where is None else select_where(opened, where, opened.table)
    day, _ = _comparable(opened, table[dates[0]], LATEST)
    first = table.aggregate(first=day.min()).to_pyarrow().to_pylist()[0]["first"]
    return None if first is None else str(first)


def warn_if_later(as_of: str | None, first: str | None) -> None:
    """Warn if features are of a later day than the first of a log, where both are dates."""
    if as_of is None or first is None or not all(re.match(ISO_DAY, d) for d in (as_of, first)):
        return
    if as_of[:10] > first[:10]:
        warnings.warn(
            f"the features are of snapshots up to {as_of[:10]}, and the log begins on "
            f"{first[:10]}: features that depend on clicks, such as a click rate, contain those "
            "that they are to explain. Use snapshots from before the log with --features-as-of "
            "(in Python: as_of)",
            InputWarning,
            stacklevel=4,
        )


def _by(keys: Sequence[str]) -> Any:
    import ibis

    return ibis.window(group_by=list(keys))


def _is_dates(opened: Source, name: str) -> bool:
    """Whether all values of a column are dates, or text that is written as one."""
    column = opened.table[name]
    kind = column.type()
    if kind.is_date() or kind.is_timestamp():
        return True
    if not kind.is_string():
        return False
    counted = opened.table.aggregate(
        days=column.re_search(ISO_DAY).ifelse(1, 0).sum(), present=column.count()
    )
    found = counted.to_pyarrow().to_pylist()[0]
    return bool(found["present"]) and found["days"] == found["present"]


def _comparable(opened: Source, column: "ir.Value", as_of: str) -> tuple["ir.Value", Any]:
    """A column as days, and the day to compare it with; None for `latest`."""
    kind = column.type()
    if kind.is_integer():
        return column, _as_number(opened, as_of)
    if kind.is_date() or kind.is_timestamp():
        wanted = _as_day(opened, as_of)
        return column.cast("date"), wanted
    if not kind.is_string():
        raise InputError(
            f"{opened.name}: {column.get_name()} is of type {kind}, not a day. Write days as dates "
            "such as 2026-01-31.",
            code="wrong-column-type",
        )
    import ibis

    if as_of.lstrip("-").isdigit():  # days that are numbers, in a file of text
        return column.try_cast("int64"), int(as_of)
    # the days of text in ISO form are in order
    text = column.re_search(ISO_DAY).ifelse(column.substr(0, 10), ibis.null("string"))
    wanted = _as_day(opened, as_of)
    return text, None if wanted is None else wanted.isoformat()


def _as_day(opened: Source, as_of: str) -> date | None:
    if as_of == LATEST:
        return None
    try:
        return date.fromisoformat(as_of)
    except ValueError as error:
        raise _invalid(opened, as_of, "a day such as 2026-01-31") from error


def _as_number(opened: Source, as_of: str) -> int | None:
    if as_of == LATEST:
        return None
    try:
        return int(as_of)
    except ValueError as error:
        raise _invalid(opened, as_of, "a whole number, as its days are") from error


def _invalid(opened: Source, as_of: str, expected: str) -> InputError:
    return InputError(
        f"--features-as-of {as_of} (in Python: as_of): for {opened.name} write {expected}, or "
        f"{LATEST}",
        code="invalid-day",
    )
