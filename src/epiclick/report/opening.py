"""The opening of the page: three sentences, a box of caveats, the way to the rest."""

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from epiclick.comparison.verdict import Check, Difference
from epiclick.report.bias import Bias, BiasRow
from epiclick.report.caveats import Doubt
from epiclick.report.markup import Absent, folded, prose
from epiclick.report.quality import Quality
from epiclick.report.rankers import Rankers, ShipState

if TYPE_CHECKING:
    from epiclick.report.page import Report

AGREEMENT = {
    "inside": "agreed with",
    "just outside": "lay just outside the interval of",
    "far outside": "differed from",
}
"""Observed clicks and those predicted, by the grade of a backtest."""

MOST_NAMED = 5  # contexts in the first sentence


@dataclass(frozen=True)
class Opening:
    """Three sentences.

    Attributes:
        looked_at: which positions get looked at.
        sure: how sure that is.
        ship: which ranker to ship.
        ship_state: whether one can be shipped now; "open" where that is undecided.
    """

    looked_at: str
    sure: str
    ship: str
    ship_state: ShipState = "open"


def opening(
    bias: Bias, quality: Quality | Absent, rankers: Rankers | Absent, doubts: tuple[Doubt, ...]
) -> Opening:
    """Say it."""
    state = "open" if isinstance(rankers, Absent) else rankers.state
    return Opening(_looked_at(bias), _sure(bias, quality, doubts), _ship(rankers), state)


def _looked_at(bias: Bias) -> str:
    others = [row for row in bias.rows if row.spoken != bias.reference]
    if not others:
        return f"All that was shown stood at {bias.reference}, so there is nothing to compare."
    told = _spread_out(others)
    named = [
        f"{'at least ' if row.is_at_bound else ''}{_times(row.relative)} at {row.spoken}"
        for row in told
    ]
    more = "" if len(told) == len(others) else f" (all {bias.contexts} places are below)"
    return (
        f"For every 100 times that a result at {bias.reference} is looked at, the same result is "
        f"looked at {_joined(named)}{more}."
    )


def _sure(bias: Bias, quality: Quality | Absent, doubts: tuple[Doubt, ...]) -> str:
    learned = [row for row in bias.rows if row.has_interval]
    bound = [row.spoken for row in bias.rows if row.is_at_bound]
    applies = sum(doubt.state == "applies" for doubt in doubts)
    against = {0: "no check speaks against it", 1: "one check speaks against it"}.get(
        applies, f"{applies} checks speak against it"
    )
    if not bias.intervals:
        return (
            "How sure that is this model cannot say, as it has one number for everything; "
            f"{against}."
        )
    if bound and not learned:
        return f"How sure that is cannot be said, as all of it is at its bound; {against}."
    if not learned:
        return f"There is nothing to be unsure of in that; {against}."
    widest = max(learned, key=lambda row: row.relative_high - row.relative_low)
    low, high = _times(widest.relative_low, ""), _times(widest.relative_high)
    promise = f"that should hold it with {bias.level:.0%} probability"
    if bias.intervals == "evidential":
        promise = "which the paper's way of fitting does not make right on average"
    words = (
        f"Each of these numbers{_but(bound)} has a range {promise}: the widest is {low} to {high}, "
        f"at {widest.spoken}"
    )
    checked = ""
    if not isinstance(quality, Absent) and quality.fair and quality.backtest.inside is not None:
        agree = AGREEMENT[quality.backtest.grade or "inside"]
        checked = f" clicks that the model had not seen {agree} its prediction, and"
    return f"{words};{checked} {against}."


def _but(bound: list[str]) -> str:
    if not bound:
        return ""
    few = bound if len(bound) <= MOST_NAMED else [*bound[:MOST_NAMED], "others"]
    return f", but for {_joined(few)}, where it is at its bound,"


def _ship(rankers: Rankers | Absent) -> str:
    if isinstance(rankers, Absent):
        return (
            f"Which ranker to ship is not known yet, as none were compared: add {rankers.remedy}."
        )
    best = rankers.rows[0]
    if not rankers.differences:
        return (
            f"Only {best.name} was valued, at {best.value:.3f} clicks a page; name a second "
            "ranker to see which to ship."
        )
    lead = rankers.differences[0]
    if lead.difference == 0 and lead.spread.total == 0:
        return f"{best.name} and {lead.against} show the same items, so either can be shipped."
    if not rankers.is_uncertain:
        return (
            f"{best.name} is expected to get {lead.relative:+.1%} clicks against {lead.against}, "
            "but this model cannot say how sure that is, so test it before you ship it."
        )
    gain = f"{lead.relative:+.1%} clicks ({lead.relative_low:+.1%} to {lead.relative_high:+.1%})"
    if rankers.is_sure and rankers.checks:
        return _hold(rankers.checks, lead)
    if rankers.is_sure:
        return f"Ship {best.name}: it beats {lead.against} with probability " + (
            f"{_chance(lead.prob_better)}, expect {gain}."
        )
    return (
        f"Do not choose between {best.name} and {lead.against} yet: {best.name} is better with "
        f"probability {_chance(lead.prob_better)} only, expect {gain}."
    )


def _hold(checks: tuple[Check, ...], lead: Difference) -> str:
    """Why a ranker that is ahead is not to be shipped now, by the check that matters most."""
    failed = [check for check in checks if check.state == "failed"]
    first, *others = failed or checks
    ahead = (
        f"it is ahead of {lead.against} with probability {_chance(lead.prob_better)} "
        f"({lead.relative:+.1%} clicks)"
    )
    more = ""
    if others:
        many = "One other check" if len(others) == 1 else f"{len(others)} other checks"
        more = f"{many} {'failed' if failed else 'must be looked at'} as well."
    what = f"Do not ship {lead.name} yet" if failed else f"Check again before you ship {lead.name}"
    figures = first.found.removeprefix("Backtest: ").replace(". Warning: ", ", which is ")
    found = f"{first.title}: {figures}" if figures else f"{first.title}."
    return " ".join(filter(None, (f"{what}: {ahead}, but {found}", first.remedy, more)))


def _spread_out(rows: list[BiasRow]) -> list[BiasRow]:
    """Few of the rows, from the first to the last."""
    if len(rows) <= MOST_NAMED:
        return rows
    step = (len(rows) - 1) / (MOST_NAMED - 1)
    return [rows[round(i * step)] for i in range(MOST_NAMED)]


def _times(share: float, unit: str = " times") -> str:
    """A share of 100 times, with a digit more where it is small."""
    return f"{100 * share:.{1 if 0 < share < 0.1 else 0}f}{unit}"


def _chance(probability: float) -> str:
    return "above 0.99" if probability > 0.995 else f"{probability:.2f}"


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


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


def opening_section(report: "Report") -> str:
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


def _bar(report: "Report") -> str:
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
