"""Pieces of HTML. All text that goes in is escaped here."""

import json
import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from epiclick.report.chart import Chart
from epiclick.report.facts.absent import Absent


def section(key: str, title: str, *parts: str) -> str:
    """A section with its heading."""
    return f'<section><h2 id="{key}">{escape(title)}</h2>{"".join(parts)}</section>'


def prose(text: str) -> str:
    """Plain text; what stands between `backticks` is to be typed."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def paragraph(text: str, name: str = "") -> str:
    """A paragraph of plain text."""
    named = f' class="{name}"' if name else ""
    return f"<p{named}>{prose(text)}</p>"


def missing(absent: Absent) -> str:
    """What is not there, and what adds it."""
    remedy = f" Add <code>{escape(absent.remedy)}</code>." if absent.remedy else ""
    return f'<p class="missing">{prose(absent.words)}{remedy}</p>'


def bullets(texts: Iterable[str]) -> str:
    """A list of sentences."""
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def folded(title: str, *parts: str) -> str:
    """Something that opens when its title is clicked."""
    return f"<details><summary>{escape(title)}</summary>{''.join(parts)}</details>"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, texts: int = 1) -> str:
    """A table; all but the first `texts` columns are numbers, on the right."""

    def cells(tag: str, row: Sequence[object]) -> str:
        names = ["" if i < texts else ' class="number"' for i in range(len(row))]
        return "".join(
            f"<{tag}{name}>{escape(str(cell))}</{tag}>"
            for name, cell in zip(names, row, strict=True)
        )

    head = cells("th", columns).replace("<th", '<th scope="col"')
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def figure(chart: Chart, numbers: str = "") -> str:
    """A chart with its legend and its reading aid; the numbers themselves are folded below."""
    key, named = f"chart-{chart.key}", [layer for layer in chart.layers if layer.name]
    legend = "".join(
        f'<li class="{layer.kind} {layer.colour}"><i></i>{escape(layer.name)}</li>'
        for layer in named
    )
    return (
        f'<figure class="chart"><h3>{escape(chart.title)}</h3>'
        f'<div class="plot" data-chart="{key}"></div>'
        + (f'<ul class="legend">{legend}</ul>' if len(named) > 1 else "")
        + f"<figcaption>{escape(chart.aid)}</figcaption>"
        + (folded("The numbers", numbers) if numbers else "")
        + data(key, chart.to_dict())
        + "</figure>"
    )


def data(key: str, value: Any) -> str:
    """Data for the page's script; no text in it can end the element or begin another."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign, code in {"&": "\\u0026", "<": "\\u003c", ">": "\\u003e"}.items():
        text = text.replace(sign, code)
    return f'<script type="application/json" id="{key}">{text}</script>'


def percent(share: float | None, digits: int = 1) -> str:
    """A share of 100."""
    return "–" if share is None or math.isnan(share) else f"{share:.{digits}%}"


def number(value: float | None, digits: int = 3) -> str:
    """A number, a dash where it is not known."""
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def interval(low: float, high: float, digits: int = 1) -> str:
    """An interval of shares."""
    return "–" if math.isnan(low) else f"{low:.{digits}%} to {high:.{digits}%}"
