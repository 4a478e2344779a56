"""The report page: one HTML file that needs no other file and no network."""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from epiclick.data.writing import written_aside
from epiclick.report.bias import Bias, bias, bias_section
from epiclick.report.caveats import Caveat, caveats
from epiclick.report.changes import Changes, changes, changes_section
from epiclick.report.click_model_choice import (
    ClickModelChoice,
    choice_section,
    click_model_choice,
)
from epiclick.report.hidden_knowledge import (
    HiddenKnowledge,
    hidden_knowledge,
    knowledge_section,
)
from epiclick.report.item_map import ItemSample, item_sample, items_section
from epiclick.report.markup import STYLE, Absent, escape
from epiclick.report.opening import Opening, opening, opening_section
from epiclick.report.overview import Overview, overview, overview_section
from epiclick.report.provenance import (
    Curve,
    Provenance,
    curve,
    provenance,
    reproduce_section,
    training_section,
)
from epiclick.report.quality import Quality, quality, quality_section
from epiclick.report.rankers import Rankers, rankers, rankers_section
from epiclick.report.reliability import calibration_section
from epiclick.report.report_sources import Sources


@dataclass(frozen=True, eq=False)
class Report:
    """The content of the page; a part that is missing is `Absent`, with what would add it.

    Attributes:
        title: of the page.
        has_truth: whether the truth of a simulated world was given.
        opening: three sentences.
        caveats: why the results may be wrong.
        overview: size of the data, click rates.
        bias: position bias.
        changes: since the previous model.
        knowledge: whether the ranker of the log knew more than the model.
        quality: how well clicks are predicted.
        choice: which click model to use.
        items: relevance.
        rankers: which one to ship.
        curve: of training.
        provenance: settings and versions.
    """

    title: str
    has_truth: bool
    opening: Opening
    caveats: tuple[Caveat, ...]
    overview: Overview
    bias: Bias
    changes: Changes | Absent
    knowledge: HiddenKnowledge | Absent
    quality: Quality | Absent
    choice: ClickModelChoice | Absent
    items: ItemSample | Absent
    rankers: Rankers | Absent
    curve: Curve
    provenance: Provenance


def gather(sources: Sources, title: str = "") -> Report:
    """Collect the content of the page from the model, the logs and the comparison."""
    found_bias, found_quality = bias(sources), quality(sources)
    found_rankers = rankers(sources, found_quality)
    found_choice = click_model_choice(sources)
    found_caveats = caveats(sources, found_bias, found_quality, found_rankers, found_choice)
    return Report(
        title=title or f"Click report: {sources.name}",
        has_truth=sources.truth is not None,
        opening=opening(found_bias, found_quality, found_rankers, found_caveats),
        caveats=found_caveats,
        overview=overview(sources),
        bias=found_bias,
        changes=changes(sources),
        knowledge=hidden_knowledge(sources),
        quality=found_quality,
        choice=found_choice,
        items=item_sample(sources),
        rankers=found_rankers,
        curve=curve(sources),
        provenance=provenance(sources),
    )


SCRIPTS = ("scale.js", "marks.js", "chart.js", "explore.js", "items.js", "start.js")

SECTIONS: tuple[Callable[[Report], str], ...] = (
    overview_section,
    bias_section,
    changes_section,
    knowledge_section,
    quality_section,
    calibration_section,
    choice_section,
    items_section,
    rankers_section,
    training_section,
    reproduce_section,
)


def write_report(report: Report, path: str | Path) -> None:
    """Write the page."""
    with written_aside(path) as aside:
        aside.write_text(page_of(report), encoding="utf-8")


def page_of(report: Report) -> str:
    """The page as text."""
    script = page_script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # nothing is fetched, and only the page's own script runs, whatever the data contain
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
        "<noscript><p>Charts need JavaScript, which is switched off; most have their numbers "
        "below them.</p></noscript>"
        f"</main><script>{script}</script></body></html>\n"
    )


def page_script() -> str:
    """The script that draws charts and tables."""
    return "\n".join(['(() => {\n"use strict";', *map(_asset, SCRIPTS), "})();"])


def _asset(name: str) -> str:
    return files("epiclick.report").joinpath("assets", name).read_text(encoding="utf-8")


def _about(report: Report) -> str:
    data, created = report.overview, report.provenance.created
    day = f" Created on {created}." if created else ""
    return f"Based on {data.displays:,} displays and {data.clicks:,} clicks.{day}"
