"""The data at a glance."""

from html import escape

from epiclick.report.chart import Axis, Chart, Layer
from epiclick.report.facts.absent import Absent
from epiclick.report.facts.glance import Glance
from epiclick.report.gather import Report
from epiclick.report.markup import figure, interval, missing, percent, section, table


def glance_section(report: Report) -> str:
    """Sizes, and the click rate of every position."""
    found = report.glance
    sizes = {
        "pages": found.pages,
        "queries": found.queries,
        "items (query and document)": found.pairs,
        "displays": found.displays,
        "clicks": found.clicks,
    }
    tiles = "".join(
        f"<div><b>{'–' if value is None else f'{value:,}'}</b><span>{name}</span></div>"
        for name, value in sizes.items()
    )
    rate = percent(found.clicks / found.displays if found.displays else None)
    tiles += f"<div><b>{rate}</b><span>of displays clicked</span></div>"
    words = ""
    if found.of != "the log":
        words = missing(Absent(f"No log was given, so these are the numbers of {found.of}.", "LOG"))
    return section(
        "data", "The data at a glance", f'<div class="tiles">{tiles}</div>', words, _rates(found)
    )


def _rates(found: Glance) -> str:
    rows = found.rows
    chart = Chart(
        "rates",
        f"Click rate by {found.context}",
        "How often what was shown at each place was clicked: high at the top both because people "
        "look there and because better items stand there, which the next section takes apart.",
        Axis(found.context, names=tuple(row.label for row in rows)),
        Axis("clicked", "percent", low=0),
        (
            Layer(
                "bars",
                "click rate",
                range(len(rows)),
                [row.rate for row in rows],
                [
                    f"{found.context} {row.label}: {percent(row.rate)} clicked\n"
                    f"{row.clicks:,} clicks of {row.displays:,} displays"
                    for row in rows
                ],
            ),
        ),
    )
    numbers = table(
        (found.context, "displays", "clicks", "click rate", "90% interval"),
        (
            (
                row.label,
                f"{row.displays:,}",
                f"{row.clicks:,}",
                percent(row.rate),
                interval(row.low, row.high),
            )
            for row in rows
        ),
    )
    return figure(chart, numbers) + few_of(len(rows), found.contexts)


def few_of(shown: int, total: int) -> str:
    """A word where not all contexts are drawn."""
    if shown >= total:
        return ""
    return f"<p>{escape(f'The {shown} most displayed of {total:,} are shown.')}</p>"
