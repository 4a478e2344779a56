"""Building blocks of HTML; all text is escaped here."""

import html
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from epiclick.report.chart import Chart

STYLE = """
:root { color-scheme: light dark; --text: #1c2430; --soft: #5b6675; --back: #ffffff;
  --card: #f4f6f8; --line: #d9dee4; --yes: #1a7f4b; --no: #b3261e; --open: #8a6d00;
  --edge: #0000004d; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e8ee; --soft: #9aa5b3; --back: #14181d;
  --card: #1d232a; --line: #343c46; --yes: #57c98a; --no: #ff8a80; --open: #e3c04d;
  --edge: #ffffff4d; } }
body { margin: 0; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1100px; margin: 0 auto; padding: 24px 16px 64px; }
h1 { font-size: 1.7rem; } h2 { margin-top: 2.4rem; border-bottom: 1px solid var(--line); }
h3 { margin: 1.6rem 0 0.5rem; font-size: 1.05rem; }
.wide { overflow-x: auto; background:
  linear-gradient(to right, var(--under, var(--back)) 40%, transparent) 0 0 / 48px 100%,
  linear-gradient(to left, var(--under, var(--back)) 40%, transparent) 100% 0 / 48px 100%,
  linear-gradient(to right, var(--edge), transparent) 0 0 / 16px 100%,
  linear-gradient(to left, var(--edge), transparent) 100% 0 / 16px 100%;
  background-repeat: no-repeat; background-attachment: local, local, scroll, scroll; }
table { border-collapse: collapse; font-size: 0.88rem; margin: 0.5rem 0; }
th, td { text-align: left; padding: 4px 10px; border-bottom: 1px solid var(--line);
  vertical-align: top; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 600; }
tr.beside td { color: var(--soft); }
details { --under: var(--card); background: var(--card); border-radius: 8px; margin: 6px 0;
  padding: 8px 12px; }
details p { margin: 0.4rem 0; font-size: 0.92rem; }
details p b { color: var(--soft); font-weight: 600; margin-right: 4px; }
summary { cursor: pointer; }
summary b { margin-right: 6px; }
.mark { display: inline-block; min-width: 7.2em; margin-right: 0.6em; font-weight: 600; }
.yes { color: var(--yes); } .no { color: var(--no); } .open { color: var(--open); }
figure { margin: 1rem 0 2rem; }
figure img { width: 100%; height: auto; background: #ffffff; border-radius: 8px; }
figcaption { color: var(--soft); font-size: 0.9rem; }
@media print { details { break-inside: avoid; } }
""".strip()
"""The style sheet of pages, for light and dark mode."""


CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def escape(text: str) -> str:
    """Text for HTML; control characters, which HTML does not allow, are written as escapes."""
    return html.escape(CONTROL.sub(lambda found: repr(found[0])[1:-1], text))


@dataclass(frozen=True)
class Absent:
    """A part of the page that is missing.

    Attributes:
        reason: why, in sentences.
        remedy: what to add to the command, as typed; empty where nothing would help.
    """

    reason: str
    remedy: str = ""


def section(key: str, title: str, *parts: str) -> str:
    """A section with its heading."""
    return f'<section><h2 id="{key}">{escape(title)}</h2>{"".join(parts)}</section>'


def prose(text: str) -> str:
    """Plain text as HTML; `backticks` mark code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def paragraph(text: str, name: str = "") -> str:
    """A paragraph of plain text."""
    named = f' class="{name}"' if name else ""
    return f"<p{named}>{prose(text)}</p>"


def missing(absent: Absent) -> str:
    """Why a part is missing, and what adds it."""
    remedy = f" Add <code>{escape(absent.remedy)}</code>." if absent.remedy else ""
    return f'<p class="missing">{prose(absent.reason)}{remedy}</p>'


def bullets(texts: Iterable[str]) -> str:
    """A list of sentences."""
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def folded(title: str, *parts: str) -> str:
    """Parts that are hidden until the title is clicked."""
    return f"<details><summary>{escape(title)}</summary>{''.join(parts)}</details>"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, texts: int = 1) -> str:
    """A table; all but the first `texts` columns are numbers, aligned right."""

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
    """A chart with its legend, its reading aid and, folded, its numbers."""
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
        + (folded("Show the numbers", numbers) if numbers else "")
        + data(key, chart.to_dict())
        + "</figure>"
    )


def data(key: str, value: Any) -> str:
    """Data for the page's script, escaped so that no text can close the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign, code in {"&": "\\u0026", "<": "\\u003c", ">": "\\u003e"}.items():
        text = text.replace(sign, code)
    text = CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return f'<script type="application/json" id="{key}">{text}</script>'


def percent(share: float | None, digits: int = 1) -> str:
    """A share as a percentage, a dash where it is not known."""
    return "–" if share is None or math.isnan(share) else f"{share:.{digits}%}"


def number(value: float | None, digits: int = 3) -> str:
    """A number, a dash where it is not known."""
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def interval(low: float, high: float, digits: int = 1) -> str:
    """An interval of shares."""
    return "–" if math.isnan(low) else f"{low:.{digits}%} to {high:.{digits}%}"
