"""One row per page: its items, and which of them were clicked, as lists."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from epiclick.data.engine import engine_errors
from epiclick.data.log_formats.flaws import FLAW, UNKNOWN
from epiclick.data.log_formats.log_format import Columns
from epiclick.data.log_formats.nested import texts_of
from epiclick.errors import InputError, Problem

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from epiclick.data.engine import Source
    from epiclick.data.schema import LogOptions

NAMES = {
    "doc_id": (
        "items",
        "item_ids",
        "doc_ids",
        "docs",
        "results",
        "products",
        "product_ids",
        "urls",
    ),
    "click": ("clicks", "clicked", "clicked_items", "clicked_ids", "clicked_item_ids", "click"),
    "position": ("positions", "ranks"),
}
"""Names of the lists, ignoring case."""

SEPARATORS = r"[\s,]+"
SHOWN, CLICKED, PLACES, PLACE = (f"epiclick_{name}" for name in ("shown", "clicked", "at", "place"))


@dataclass(frozen=True)
class ListColumns:
    """Clicks are the ids of clicked items, or one 0 or 1 per item; positions are the order."""

    name: str = "list-columns"
    times_clicks: bool = False

    def recognises(self, columns: Columns) -> bool:
        """A list of items and a list of clicks; as text, only where there is no single item."""
        lists = {role: _matches(role, list(columns)) for role in ("doc_id", "click")}
        if any(len(found) != 1 for found in lists.values()):
            return False
        kinds = [columns[found[0]] for found in lists.values()]
        return all(kind.is_array() or kind.is_json() or kind.is_string() for kind in kinds)

    def rows(self, source: "Source", options: "LogOptions") -> "Source":
        """A row for each item of each page, with the other columns of its page."""
        with engine_errors(source.name):
            lists = _Lists.of(source, options)
            rows = lists.rows(options)
        # lists become text, whatever is in them; ids of queries and pages are those of the file
        mixed = tuple(name for name in source.mixed if name in lists.columns)
        return replace(
            source, table=rows, mixed=mixed, remarks=lambda: [*source.remarks(), *lists.remarks()]
        )


@dataclass(frozen=True)
class _Lists:
    """Pages with their lists as SHOWN, CLICKED and PLACES.

    Attributes:
        pages: one row per page; the lists are of text, or SHOWN of the type that ids have.
        columns: the pages' other columns.
        doc: name for the column of the item.
        click: name for the column of the click.
        position: name for the column of the position.
        ordered: positions are the order of the items, not a list of their own.
        how: clicks are a list of `ids`, or of a `mark` for each item.
    """

    pages: "ir.Table"
    columns: tuple[str, ...]
    doc: str
    click: str
    position: str
    ordered: bool
    how: Literal["ids", "mark"]

    @classmethod
    def of(cls, source: "Source", options: "LogOptions") -> "_Lists":
        """Find the lists, and how clicks are written in them."""
        import ibis

        from epiclick.data.schema import ALIASES

        table = source.table
        own: dict[str, str] = {}
        problems = []
        for role in NAMES:
            chosen = options.columns.get(role)
            found = _matches(role, table.columns)
            if chosen is not None and chosen in table.columns:
                found = [chosen]
            if len(found) == 1:
                own[role] = found[0]
            elif role != "position" or found:
                known = ", ".join(NAMES[role])
                what = f"{len(found)} columns for the list of each page's {role} (known: {known})"
                remedy = f"The log has {', '.join(table.columns)}; use --column {role}=NAME."
                problems.append(Problem(what, remedy=remedy, code="missing-column"))
        if problems:
            raise InputError.of(source.name, problems)
        others = [name for name in table.columns if name not in own.values()]
        lists: dict[str, Any] = {
            SHOWN: _list(table[own["doc_id"]], typed=True),
            CLICKED: _list(table[own["click"]]),
        }
        if "position" in own:
            lists[PLACES] = _list(table[own["position"]])
        if not any(name.lower() in ALIASES["page_id"] for name in others):
            lists["page_id"] = ibis.row_number()
        pages = table.select(*others, **lists)
        is_mark = getattr(table[own["click"]].type(), "value_type", None)
        how = "mark" if is_mark is not None and is_mark.is_boolean() else _how(pages, source.name)
        if "page_id" in lists:
            others.append("page_id")
        named = {role: options.columns.get(role, role) for role in NAMES}
        return cls(
            pages=pages,
            columns=tuple(others),
            doc=named["doc_id"],
            click=named["click"],
            position=named["position"],
            ordered="position" not in own,
            how=how,
        )

    def rows(self, options: "LogOptions") -> "ir.Table":
        """The items one by one, and flawed rows for what cannot be one."""
        import ibis

        # unnest would drop a page without items, so that is asked for first
        flaw = self._flaw()
        whole = self.pages.filter(flaw.isnull())
        listed = whole.mutate(**{self.doc: whole[SHOWN]}).unnest(self.doc, offset=PLACE)
        doc, place = listed[self.doc], listed[PLACE]
        if self.how == "ids":
            click = listed[CLICKED].contains(doc.cast("string")).fill_null(False)
        else:
            click = listed[CLICKED][place].lower().isin(["1", "true"])
        position = place + options.position_base if self.ordered else listed[PLACES][place]
        rows = listed.select(
            *self.columns,
            **{self.doc: doc},
            **{self.position: position.cast("int64") if self.ordered else position},
            **{self.click: click.cast("int8"), FLAW: ibis.null("string")},
        )
        flawed = self._single(self.pages.filter(flaw.notnull()), flaw, ibis.literal(UNKNOWN), rows)
        rows = rows.union(flawed)
        if self.how == "mark":
            return rows
        clicked = whole.unnest(CLICKED)
        texts = clicked[SHOWN].map(lambda each: each.cast("string"))
        strange = clicked.filter(~texts.contains(clicked[CLICKED]))
        code = ibis.literal("click-without-display")
        return rows.union(self._single(strange, code, strange[CLICKED], rows))

    def remarks(self) -> list[str]:
        """Pages without a list of clicks, and clicks that are listed twice."""
        pages, clicked = self.pages, self.pages[CLICKED]
        again = (clicked.length() - clicked.unique().length()).sum().fill_null(0)
        found = pages.aggregate(
            missing=pages.count(where=clicked.isnull()),
            again=again if self.how == "ids" else again * 0,
        )
        counted = found.to_pyarrow().to_pylist()[0]
        remarks = []
        if counted["missing"]:
            remarks.append(f"{counted['missing']:,} pages have no list of clicks: read as none")
        if counted["again"]:
            remarks.append(
                f"{counted['again']:,} further clicks on items already clicked on their page; each "
                "item counts as clicked once"
            )
        return remarks

    def _flaw(self) -> "ir.StringValue":
        """The flaw of a page, NULL if it has none."""
        import ibis

        shown, clicked = self.pages[SHOWN], self.pages[CLICKED]
        lengths = [clicked] if self.how == "mark" else []
        lengths += [] if self.ordered else [self.pages[PLACES]]
        differ = ibis.literal(False)
        for each in lengths:
            differ |= (each.length() != shown.length()).fill_null(True)
        return ibis.cases(
            (shown.isnull() | (shown.length() == 0), "not-a-list"),
            (differ, "lists-differ-in-length"),
            else_=ibis.null("string"),
        )

    def _single(
        self, pages: "ir.Table", code: "ir.Value", doc: "ir.Value", like: "ir.Table"
    ) -> "ir.Table":
        """One flawed row for each page."""
        import ibis

        schema = like.schema()
        values: dict[str, Any] = {
            self.doc: doc.try_cast(schema[self.doc]).fill_null(_any_id(schema[self.doc])),
            self.position: ibis.literal(1).cast(schema[self.position]),
            self.click: ibis.literal(1).cast("int8"),
            FLAW: code,
        }
        return pages.select(*self.columns, **values)


def _any_id(kind: Any) -> Any:
    """Stands for the item of a flawed row, in the type of ids."""
    import ibis

    return ibis.literal(UNKNOWN) if kind.is_string() else ibis.literal(-1).cast(kind)


def _matches(role: str, names: Any) -> list[str]:
    return [name for name in names if name.lower() in NAMES[role]]


def _list(value: "ir.Value", *, typed: bool = False) -> "ir.ArrayValue":
    """A list of text from a list, JSON, or text with separators; `typed` keeps integers."""
    import ibis

    kind: Any = value.type()
    if kind.is_array() and typed and kind.value_type.is_integer():
        return value
    if not kind.is_string():
        return texts_of(value)
    text = value.strip()
    split = text.re_split(SEPARATORS).filter(lambda each: each != "")
    return ibis.ifelse(text.startswith("["), texts_of(text), split)


def _how(pages: "ir.Table", name: str) -> Literal["ids", "mark"]:
    """Whether clicks are ids of items or marks; refuses a log that could be read both ways."""
    shown, clicked = pages[SHOWN], pages[CLICKED]
    marks = clicked.filter(lambda each: each.lower().isin(["0", "1", "true", "false"]))
    same = (marks.length() == shown.length()) & (clicked.length() == shown.length())
    binary = shown.filter(lambda each: each.cast("string").isin(["0", "1"])).length() > 0
    found = pages.aggregate(
        marks=same.fill_null(clicked.isnull()).all(),
        some=(clicked.length() > 0).any(),
        binary=binary.any(),
    )
    seen = found.to_pyarrow().to_pylist()[0]
    if not (seen["marks"] and seen["some"]):
        return "ids"
    if seen["binary"]:
        raise InputError(
            f"{name}: clicks of 0 and 1 could be marks or ids, since items are called 0 or 1, too; "
            "write marks as true and false",
            code="ambiguous-clicks",
        )
    return "mark"
