"""The report page: one file that needs nothing else, opens from disk and never calls out."""

import base64
import hashlib
from collections.abc import Callable
from html import escape
from importlib.resources import files
from pathlib import Path

from epiclick.data.atomic import written_aside
from epiclick.report.gather import Report
from epiclick.report.page_style import STYLE
from epiclick.report.sections.bias import bias_section
from epiclick.report.sections.calibration import calibration_section
from epiclick.report.sections.glance import glance_section
from epiclick.report.sections.items import items_section
from epiclick.report.sections.opening import opening_section
from epiclick.report.sections.quality import quality_section
from epiclick.report.sections.rankers import rankers_section
from epiclick.report.sections.repeat import repeat_section
from epiclick.report.sections.training import training_section

SCRIPTS = ("scale.js", "marks.js", "chart.js", "explore.js", "items.js", "start.js")

SECTIONS: tuple[Callable[[Report], str], ...] = (
    glance_section,
    bias_section,
    quality_section,
    calibration_section,
    items_section,
    rankers_section,
    training_section,
    repeat_section,
)


def write_report(report: Report, path: str | Path) -> None:
    """Write the page."""
    with written_aside(path) as aside:
        aside.write_text(page_of(report), encoding="utf-8")


def page_of(report: Report) -> str:
    """The page as text."""
    script = page_script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # nothing is fetched, and no script but the page's own runs, whatever the data hold
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    title = escape(report.title)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{title}</title><style>{STYLE}\n{_asset('page.css')}</style></head><body><main>"
        f"<header><h1>{title}</h1><p>{escape(_about(report))}</p></header>"
        f"{opening_section(report)}{''.join(section(report) for section in SECTIONS)}"
        "<noscript><p>Charts are drawn by a script in this file, which is switched off; the "
        "numbers stand below each of them.</p></noscript>"
        f"</main><script>{script}</script></body></html>\n"
    )


def page_script() -> str:
    """The script that draws charts and tables."""
    return "\n".join(['(() => {\n"use strict";', *map(_asset, SCRIPTS), "})();"])


def _asset(name: str) -> str:
    return files("epiclick.report").joinpath("assets", name).read_text(encoding="utf-8")


def _about(report: Report) -> str:
    glance, made = report.glance, report.provenance.made
    day = f" Made on {made}." if made else ""
    return f"From {glance.displays:,} displays and {glance.clicks:,} clicks.{day}"
