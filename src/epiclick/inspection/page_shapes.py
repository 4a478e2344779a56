"""How the pages of a log look: lengths, holes, repeated rows, and who saw most of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from epiclick.data.row_rule import number
from epiclick.data.schema import LogColumns, LogOptions
from epiclick.errors import Problem

if TYPE_CHECKING:
    import ibis.expr.types as ir

BUSIEST = 0.01
"""Share of users whose displays are reported."""


@dataclass(frozen=True)
class PageShapes:
    """Numbers of pages, of a log with one row per display.

    Attributes:
        pages: number of pages.
        mean_length: displays per page.
        longest: displays of the longest page.
        without_click: share of pages on which nothing was clicked.
        with_holes: pages that lack a position between others.
        below_the_top: pages whose first display is not at the first position.
        repeated_rows: rows that are equal to another one in page, document, position and click.
        clicked_twice: documents of a page with a click in several rows.
    """

    pages: int
    mean_length: float
    longest: int
    without_click: float
    with_holes: int | None
    below_the_top: int | None
    repeated_rows: int
    clicked_twice: int


@dataclass(frozen=True)
class Users:
    """Who saw the pages.

    Attributes:
        column: of the users.
        users: their number.
        busiest_share: share of the displays seen by the busiest 1 % of users, at least one.
    """

    column: str
    users: int
    busiest_share: float


def page_shapes(log: "ir.Table", options: LogOptions) -> PageShapes | None:
    """The shapes of the pages of a canonical log; None without rows."""
    import ibis  # slow to import

    log = log.filter(log.page_id.notnull())
    clicked = (number(log.click) == 1).fill_null(False)
    log = log.mutate(epiclick_clicked=clicked)
    slot = [name for name in ("position",) if name in log.columns]
    place = number(log.position).try_cast("int64") if slot else ibis.null("int64")
    rows = log.mutate(epiclick_place=place)
    page = rows.group_by("page_id").aggregate(
        length=rows.count(),
        clicks=rows.epiclick_clicked.sum().cast("int64"),
        first=rows.epiclick_place.min(),
        last=rows.epiclick_place.max(),
        # a row whose position is invalid may fill a hole
        places=rows.epiclick_place.nunique() + rows.count(where=rows.epiclick_place.isnull()),
    )
    holes = (page["last"] - page["first"] + 1 > page.places).fill_null(False)
    (sums,) = (
        page.aggregate(
            pages=page.count(),
            mean_length=page.length.mean(),
            longest=page.length.max(),
            without=page.count(where=page.clicks == 0),
            with_holes=page.count(where=holes),
            below=page.count(where=page["first"] > options.position_base),
        )
        .to_pyarrow()
        .to_pylist()
    )
    if not sums["pages"]:
        return None
    item = rows.group_by(["page_id", "doc_id", "epiclick_place", "epiclick_clicked"]).aggregate(
        rows=rows.count()
    )
    repeated = item.aggregate(n=(item.rows - 1).sum().cast("int64"))
    clicks = rows.filter(rows.epiclick_clicked)
    doc = clicks.group_by(["page_id", "doc_id"]).aggregate(rows=clicks.count())
    twice = doc.aggregate(n=doc.count(where=doc.rows > 1))
    return PageShapes(
        pages=sums["pages"],
        mean_length=float(sums["mean_length"]),
        longest=sums["longest"],
        without_click=sums["without"] / sums["pages"],
        with_holes=sums["with_holes"] if slot else None,
        below_the_top=sums["below"] if slot else None,
        repeated_rows=_scalar(repeated),
        clicked_twice=_scalar(twice),
    )


def _scalar(table: "ir.Table") -> int:
    return int(table.to_pyarrow()["n"][0].as_py() or 0)


def shape_problems(shapes: PageShapes) -> list[Problem]:
    """What is suspicious about the pages, though each row may be valid."""
    found = []
    if shapes.repeated_rows:
        found.append(
            Problem(
                "rows that repeat another one in page, document, position and click",
                shapes.repeated_rows,
                remedy="Were events delivered twice? Keep one row of each.",
                code="repeated-rows",
            )
        )
    if shapes.clicked_twice:
        found.append(
            Problem(
                "one document clicked in several rows of a page",
                shapes.clicked_twice,
                "document",
                remedy="Was a click joined to every row of its document? Join it by page, document "
                "and position, so that it counts once.",
                code="click-on-many-rows",
            )
        )
    if shapes.with_holes:
        found.append(
            Problem(
                "pages that lack a position between others",
                shapes.with_holes,
                "page",
                remedy="If rows without clicks were lost, relevance comes out too high. Models of "
                "users who read from the top (dcm, sdbn) refuse such pages.",
                code="pages-with-holes",
            )
        )
    return found


def users_of(log: "ir.Table", columns: LogColumns) -> Users | None:
    """The users of a canonical log, if it has a column for them."""
    import ibis

    if "user_id" not in log.columns:
        return None
    rows = log.filter(log.user_id.notnull())
    user = rows.group_by("user_id").aggregate(displays=rows.count())
    rank = ibis.row_number().over(order_by=[ibis.desc("displays"), "user_id"])
    user = user.mutate(rank=rank, users=user.count())
    busiest = user.displays.sum(where=user["rank"] < (user.users * BUSIEST).ceil())
    found: dict[str, Any]
    (found,) = (
        user.aggregate(users=user.count(), displays=user.displays.sum(), busiest=busiest)
        .to_pyarrow()
        .to_pylist()
    )
    if not found["users"]:
        return None
    share = float(found["busiest"] or 0) / float(found["displays"])
    return Users(columns.found["user_id"], found["users"], share)
