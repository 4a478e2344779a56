"""The beginning of the page: three sentences, a box of doubts, the way to the rest."""

from html import escape

from epiclick.report.facts.absent import Absent
from epiclick.report.facts.doubts import Doubt
from epiclick.report.gather import Report
from epiclick.report.markup import folded, prose

LINKS = {
    "data": "Data",
    "bias": "Position bias",
    "fit": "Fit",
    "calibration": "Calibration",
    "relevance": "Relevance",
    "rankers": "Rankers",
    "training": "Training",
    "repeat": "To repeat it",
}

STATES = {"open": "you must judge", "clear": "checked, and not so here"}


def opening_section(report: Report) -> str:
    """The first screen."""
    said = report.opening
    sentences = {
        "What gets looked at": said.looked_at,
        "How sure we are": said.sure,
        "What to ship": said.ship,
    }
    items = "".join(
        f"<li{_bar(report) if text is said.ship else ''}><b>{name}</b>{prose(text)}</li>"
        for name, text in sentences.items()
    )
    links = "".join(f'<a href="#{key}">{name}</a>' for key, name in LINKS.items())
    return (
        f'<ul class="opening">{items}</ul>{_doubts(report.doubts)}'
        f'<nav aria-label="Sections">{links}</nav>'
    )


def _bar(report: Report) -> str:
    """Colour of the bar beside the advice: only what was checked and passed is green."""
    known = not isinstance(report.rankers, Absent)
    return f' class="is-{report.opening.ship_state}"' if known else ""


def _doubts(doubts: tuple[Doubt, ...]) -> str:
    """The box: what applies stands open, the rest is folded."""
    applies = [doubt for doubt in doubts if doubt.state == "applies"]
    shown = (
        f"<ul>{''.join(map(_doubt, applies))}</ul>"
        if applies
        else ("<p>None of the reasons that the data can show applies here.</p>")
    )
    rest = ""
    for state, words in STATES.items():
        own = [doubt for doubt in doubts if doubt.state == state]
        if own:
            many = f"{len(own)} other reasons" if len(own) > 1 else "1 other reason"
            rest += folded(f"{many}: {words}", f"<ul>{''.join(map(_doubt, own))}</ul>")
    return (
        '<aside class="doubts" aria-labelledby="doubts"><h2 id="doubts">Do not believe this if '
        f"...</h2>{shown}{rest}</aside>"
    )


def _doubt(doubt: Doubt) -> str:
    return f"<li><b>... {escape(doubt.reason)}.</b> <span>{prose(doubt.found)}</span></li>"
