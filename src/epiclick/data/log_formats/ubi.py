"""OpenSearch User Behavior Insights, schema 1.3: queries and events.

`query_id` identifies one search, so it is the page; `user_query` is the query. Documents of both
indices may be in one file or several, each line a document, or in the bulk format (an action line,
then the document).
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from epiclick.data.engine import engine_errors, stored
from epiclick.data.log_formats.attributed import Events, one_based, zero_remark
from epiclick.data.log_formats.log_format import Columns
from epiclick.data.log_formats.nested import (
    column_of,
    seen_text,
    text_at,
    texts_of,
    time_of,
    whole_number,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from epiclick.data.engine import Source
    from epiclick.data.schema import LogOptions

CLICKS = ("click", "click_through", "item_click")
CONVERSIONS = ("add_to_cart", "purchase")
IMPRESSION = "impression"
BULK = ("index", "create")
"""Keys of the action lines of the bulk format."""

NO_APPLICATION = "(none)"
MOST_NAMED = 4  # kinds of events in a message


@dataclass(frozen=True)
class Ubi:
    """Displays are impression events where an application sends them, else the engine's hits.

    Attributes:
        name: name of the format.
        only_hits: take all displays from `query_response_hit_ids`.
    """

    name: str = "ubi"
    only_hits: bool = False
    times_clicks: bool = True

    def recognises(self, columns: Columns) -> bool:
        """Events are unmistakable; queries alone have no clicks."""
        return not self.only_hits and {"action_name", "event_attributes", "query_id"} <= {*columns}

    def rows(self, source: "Source", options: "LogOptions") -> "Source":
        """Displays with clicks, `add_to_cart` and `purchase`, of all applications."""
        with engine_errors(source.name):
            documents = _documents(source)
            events, lowest = one_based(
                documents.filter(documents.action.notnull()),
                "position",
                "application",
                options.position_base,
            )
            queries = documents.filter(documents.action.isnull() & documents.page_id.notnull())
            pages = _pages(queries)
            impressions = events.filter(events.action == IMPRESSION)
            by_hits = pages
            if not self.only_hits:
                by_hits = pages.anti_join(impressions, "application")
            displays = _from_hits(by_hits, options)
            if not self.only_hits:
                displays = _from_impressions(impressions, pages).union(displays)
            acts = events.filter(events.action.isin([*CLICKS, *CONVERSIONS]))
            is_click = acts.action.isin(CLICKS)
            acts = acts.mutate(action=is_click.ifelse("click", acts.action))
            joined = Events(
                displays=stored(source, displays),
                actions=stored(source, acts),
                conversions=CONVERSIONS,
                asked=options.conversion,
                window=options.click_window,
            )
            rows = stored(source, joined.rows())

        def remarks() -> list[str]:
            found = [*source.remarks(), *joined.remarks(), *_queries_remark(queries)]
            if not self.only_hits:
                found += _impressions_remark(impressions)
            found += _applications_remark(lowest, by_hits)
            return found + _unused_remark(documents, self.only_hits)

        return replace(source, table=rows, mixed=(), partial={}, remarks=remarks)


def _documents(source: "Source") -> "ir.Table":
    """Queries (without an action) and events, under our names."""
    table = source.table
    for line in BULK:
        if line in table.columns and table[line].type().is_struct():
            table = table.filter(table[line].isnull())
    attributes = column_of(table, "event_attributes")
    ordinal = whole_number(text_at(attributes, "position", "ordinal"))
    # versions 1.0 to 1.2 of the schema
    earlier = whole_number(text_at(attributes, "position", "ordinal", "index"))
    hits = column_of(table, "query_response_hit_ids")
    import ibis

    documents = table.select(
        page_id=seen_text(text_at(table.query_id)),
        query_id=seen_text(text_at(column_of(table, "user_query"))),
        doc_id=seen_text(text_at(attributes, "object", "object_id")),
        position=ibis.coalesce(ordinal, earlier),
        action=seen_text(text_at(table.action_name)),
        application=ibis.coalesce(
            seen_text(text_at(column_of(table, "application"))), NO_APPLICATION
        ),
        user_id=seen_text(text_at(column_of(table, "client_id"))),
        session_id=seen_text(text_at(column_of(table, "session_id"))),
        timestamp=time_of(column_of(table, "timestamp")),
        hits=ibis.null("array<string>") if hits is None else texts_of(hits),
    )
    return stored(source, documents)


def _pages(queries: "ir.Table") -> "ir.Table":
    """One row per page: the first text and the first list of hits among its query documents."""
    import ibis

    order = ibis.coalesce(queries.timestamp, ibis.timestamp("1970-01-01"))
    return queries.group_by("page_id").aggregate(
        query_id=queries.query_id.argmin(order, where=queries.query_id.notnull()),
        hits=queries.hits.argmin(order, where=queries.hits.length() > 0),
        application=queries.application.argmin(order),
        user_id=queries.user_id.argmin(order),
        timestamp=queries.timestamp.min(),
    )


DISPLAY = ("page_id", "query_id", "doc_id", "position", "application", "user_id", "timestamp")


def _from_impressions(impressions: "ir.Table", pages: "ir.Table") -> "ir.Table":
    """Displays from impression events; a result that is scrolled into view again counts once."""
    import ibis

    shown = impressions.group_by(["page_id", "doc_id", "position"]).aggregate(
        event_query=impressions.query_id.min(),
        application=impressions.application.min(),
        user_id=impressions.user_id.min(),
        timestamp=impressions.timestamp.min(),
    )
    text = pages.select(of_page="page_id", text="query_id")
    joined = shown.left_join(text, shown.page_id == text.of_page)
    return joined.mutate(query_id=ibis.coalesce(joined.text, joined.event_query)).select(*DISPLAY)


def _from_hits(pages: "ir.Table", options: "LogOptions") -> "ir.Table":
    """Displays from the results that the engine returned, in their order."""
    listed = pages.unnest("hits", offset="place")
    first = options.position_base
    listed = listed.mutate(doc_id=listed.hits, position=(listed.place + first).cast("int64"))
    return listed.select(*DISPLAY)


def _queries_remark(queries: "ir.Table") -> list[str]:
    """Pages with several query documents."""
    page = queries.group_by("page_id").aggregate(
        documents=queries.count(), texts=queries.query_id.nunique()
    )
    several = page.filter(page.documents > 1)
    found = several.aggregate(pages=several.count(), differ=(several.texts > 1).sum())
    counted = found.to_pyarrow().to_pylist()[0]
    if not counted["pages"]:
        return []
    differ = f", in {counted['differ']:,} with different texts" if counted["differ"] else ""
    return [
        f"{counted['pages']:,} query_ids have several query documents{differ}; the first text and "
        "the first list of hits were used"
    ]


def _impressions_remark(impressions: "ir.Table") -> list[str]:
    shown = impressions.group_by(["page_id", "doc_id", "position"]).aggregate(
        times=impressions.count()
    )
    again = (shown.times - 1).sum().fill_null(0).to_pyarrow().as_py()
    if not again:
        return []
    return [f"{again:,} impressions of items already shown on their page; each counts once"]


def _applications_remark(lowest: "ir.Table", by_hits: "ir.Table") -> list[str]:
    """Applications whose positions were shifted, or whose displays are the engine's hits."""
    remarks = zero_remark(lowest, "application", "application")
    hits = by_hits.filter(by_hits.hits.length() > 0).select("application").distinct()
    names = hits.order_by("application").application.to_pyarrow().to_pylist()
    return remarks + [
        f"application {name}: displays are the results in query_response_hit_ids, whether they "
        "came into view or not"
        for name in names
    ]


def _unused_remark(documents: "ir.Table", only_hits: bool) -> list[str]:
    """Events that say nothing about displays and clicks."""
    used = [*CLICKS, *CONVERSIONS, *(() if only_hits else (IMPRESSION,))]
    other = documents.filter(documents.action.notnull() & ~documents.action.isin(used))
    counted = other.group_by("action").aggregate(events=other.count())
    kinds: list[dict[str, Any]] = counted.to_pyarrow().to_pylist()
    if not kinds:
        return []
    kinds.sort(key=lambda kind: (-kind["events"], kind["action"]))
    named = ", ".join(f"{kind['action']} {kind['events']:,}" for kind in kinds[:MOST_NAMED])
    more = ", ..." if len(kinds) > MOST_NAMED else ""
    total = sum(kind["events"] for kind in kinds)
    return [f"{total:,} events of other kinds were not used: {named}{more}"]
