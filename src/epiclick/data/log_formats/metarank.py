"""Metarank events: `ranking`, what was shown in its order, and `interaction`, what was done."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from epiclick.data.engine import engine_errors, stored
from epiclick.data.log_formats.attributed import CLICK, Events
from epiclick.data.log_formats.flaws import OWN_COLUMNS
from epiclick.data.log_formats.log_format import Columns
from epiclick.data.log_formats.nested import column_of, elements_of, seen_text, text_at, time_of
from epiclick.data.schema import ALIASES

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from epiclick.data.engine import Source
    from epiclick.data.schema import LogOptions

QUERY_FIELDS = ("query", "search", "search_query", "search_term", "q")
MOST_TYPES = 20  # of interactions that become columns
DISPLAY = ("page_id", "query_id", "doc_id", "position", "user_id", "session_id", "timestamp")


@dataclass(frozen=True)
class Metarank:
    """A page is a `ranking`, its query the field of that name; `click` interactions are clicks."""

    name: str = "metarank"
    times_clicks: bool = True

    def recognises(self, columns: Columns) -> bool:
        """The columns of rankings and of interactions."""
        return {"event", "items", "ranking", "item", "type"} <= {*columns}

    def rows(self, source: "Source", options: "LogOptions") -> "Source":
        """Displays with clicks and, of each other type of interaction, a column."""
        with engine_errors(source.name):
            table = source.table
            displays = stored(source, _displays(table, options))
            acts = stored(source, _actions(table))
            types = acts.action.topk(MOST_TYPES).action.to_pyarrow().to_pylist()
            joined = Events(
                displays=displays,
                actions=acts,
                conversions=_as_columns(types, options.conversion),
                asked=options.conversion,
                window=options.click_window,
            )
            rows = stored(source, joined.rows())
        return replace(
            source,
            table=rows,
            mixed=(),
            partial={},
            remarks=lambda: [*source.remarks(), *joined.remarks()],
        )


def _as_columns(types: Sequence[str | None], asked: str | None) -> list[str]:
    """Types of interactions that become columns: none called like another column, in any case."""
    taken = {CLICK, *ALIASES, *chain.from_iterable(ALIASES.values()), *DISPLAY, "day", *OWN_COLUMNS}
    columns: dict[str, str] = {}
    for name in sorted(filter(None, types), key=lambda each: (each != asked, each)):
        if name.lower() not in taken and "\0" not in name:
            columns.setdefault(name.lower(), name)
    return sorted(columns.values())


def _displays(table: "ir.Table", options: "LogOptions") -> "ir.Table":
    import ibis

    rankings = table.filter(table.event == "ranking")
    events = rankings.select(
        page_id=seen_text(text_at(rankings["id"])),
        query_id=_query(column_of(rankings, "fields")),
        user_id=seen_text(text_at(column_of(rankings, "user"))),
        session_id=seen_text(text_at(column_of(rankings, "session"))),
        timestamp=time_of(column_of(rankings, "timestamp")),
        item=elements_of(rankings["items"]),
    ).unnest("item", offset="place")
    first = ibis.literal(options.position_base)
    shown = events.mutate(
        doc_id=seen_text(text_at(events["item"], "id")),
        position=(events.place + first).cast("int64"),
    )
    return shown.select(*DISPLAY)


def _actions(table: "ir.Table") -> "ir.Table":
    done = table.filter(table.event == "interaction")
    return done.select(
        page_id=seen_text(text_at(done.ranking)),
        doc_id=seen_text(text_at(done["item"])),
        action=seen_text(text_at(done["type"])),
        user_id=seen_text(text_at(column_of(done, "user"))),
        timestamp=time_of(column_of(done, "timestamp")),
    )


def _query(fields: "ir.Value | None") -> "ir.StringValue":
    """The field of a ranking that is its query; NULL where it has none."""
    import ibis

    if fields is None:
        return ibis.null("string")
    listed = elements_of(fields)
    found = [
        text_at(listed.filter(lambda each, n=name: text_at(each, "name") == n)[0], "value")
        for name in QUERY_FIELDS
    ]
    return seen_text(ibis.coalesce(*found))
