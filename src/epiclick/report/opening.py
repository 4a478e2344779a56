"""The first screen of the page: three sentences, the caveats, links to the sections."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from epiclick.comparison.verdict import Check, Difference
from epiclick.report.bias import Bias, BiasRow
from epiclick.report.caveats import Caveat
from epiclick.report.markup import Absent, escape, folded, prose
from epiclick.report.quality import Quality
from epiclick.report.rankers import Rankers, ShipState

if TYPE_CHECKING:
    from epiclick.report.page import Report

AGREEMENT = {
    "inside": "agreed with",
    "just outside": "were just outside the interval of",
    "far outside": "differed from",
}
"""Observed clicks compared with those predicted, by the grade of a backtest."""

MOST_NAMED = 5  # contexts in the first sentence

LINKS = {
    "data": "Data",
    "bias": "Position bias",
    "drift": "Changes",
    "confounding": "Confounding",
    "fit": "Fit",
    "calibration": "Calibration",
    "click-model": "Click model",
    "relevance": "Relevance",
    "rankers": "Rankers",
    "training": "Training",
    "reproduce": "Reproduce",
}

FOLDED_CAVEATS = {"open": "could not be ruled out", "clear": "ruled out"}
"""Caveats that are folded, by their state."""


@dataclass(frozen=True)
class Opening:
    """Three sentences.

    Attributes:
        looked_at: which positions get looked at.
        uncertainty: the uncertainty of that, and whether a caveat applies.
        ship: which ranker to ship.
        ship_state: whether one can be shipped now; "open" where that is undecided.
    """

    looked_at: str
    uncertainty: str
    ship: str
    ship_state: ShipState = "open"


def opening(
    bias: Bias, quality: Quality | Absent, rankers: Rankers | Absent, caveats: tuple[Caveat, ...]
) -> Opening:
    """Summarise the sections in three sentences."""
    state = "open" if isinstance(rankers, Absent) else rankers.state
    return Opening(_looked_at(bias), _uncertainty(bias, quality, caveats), _ship(rankers), state)


def opening_section(report: "Report") -> str:
    """The first screen."""
    found = report.opening
    sentences = {
        "What gets looked at": found.looked_at,
        "How certain this is": found.uncertainty,
        "What to ship": found.ship,
    }
    items = "".join(
        f"<li{_ship_class(report) if text is found.ship else ''}><b>{name}</b>{prose(text)}</li>"
        for name, text in sentences.items()
    )
    left_out = {"drift"} if isinstance(report.changes, Absent) else set()
    links = "".join(
        f'<a href="#{key}">{name}</a>' for key, name in LINKS.items() if key not in left_out
    )
    return (
        f'<ul class="opening">{items}</ul>{_caveat_box(report.caveats)}'
        f'<nav aria-label="Sections">{links}</nav>'
    )


def _looked_at(bias: Bias) -> str:
    others = [row for row in bias.rows if row.name != bias.reference]
    if not others:
        return f"All items were shown at {bias.reference}, so there are no positions to compare."
    chosen = _spread_out(others)
    named = [
        f"{'at least ' if row.is_at_bound else ''}{_times(row.relative)} at {row.name}"
        for row in chosen
    ]
    more = "" if len(chosen) == len(others) else f" (all {bias.contexts} contexts are below)"
    return (
        f"For every 100 times that a result at {bias.reference} is looked at, the same result is "
        f"looked at {_joined(named)}{more}."
    )


def _uncertainty(bias: Bias, quality: Quality | Absent, caveats: tuple[Caveat, ...]) -> str:
    estimated = [row for row in bias.rows if row.has_interval]
    bound = [row.name for row in bias.rows if row.is_at_bound]
    count = sum(caveat.state == "applies" for caveat in caveats)
    applies = {0: "no caveat applies", 1: "one caveat applies"}.get(count, f"{count} caveats apply")
    if not bias.intervals:
        return f"This model has point estimates only, so the uncertainty is unknown; {applies}."
    if bound and not estimated:
        return f"The uncertainty is unknown, as every estimate is at its bound; {applies}."
    if not estimated:
        return f"There is no uncertainty to report; {applies}."
    widest = max(estimated, key=lambda row: row.relative_high - row.relative_low)
    low, high = _times(widest.relative_low, ""), _times(widest.relative_high)
    kind = f"a {bias.level:.0%} interval"
    if bias.intervals == "evidential":
        kind += " learned by the paper's estimator, which is not calibrated"
    checked = ";"
    if not isinstance(quality, Absent) and quality.unseen and quality.backtest.inside is not None:
        agree = AGREEMENT[quality.backtest.grade or "inside"]
        checked = f". Clicks that the model had not seen {agree} its prediction, and"
    return (
        f"Each of these numbers{_except(bound)} has {kind}; the widest is {low} to {high}, at "
        f"{widest.name}{checked} {applies}."
    )


def _except(bound: list[str]) -> str:
    if not bound:
        return ""
    few = bound if len(bound) <= MOST_NAMED else [*bound[:MOST_NAMED], "others"]
    verb = "is at its" if len(bound) == 1 else "are at their"
    return f" except {_joined(few)}, which {verb} bound,"


def _ship(rankers: Rankers | Absent) -> str:
    if isinstance(rankers, Absent):
        return (
            f"Which ranker to ship is not known yet, as none were compared: add `{rankers.remedy}`."
        )
    best = rankers.rows[0]
    if not rankers.differences:
        return (
            f"Only {best.name} was evaluated, at {best.value:.3f} clicks per page; add a second "
            "ranker to see which to ship."
        )
    lead = rankers.differences[0]
    if lead.difference == 0 and lead.spread.total == 0:
        return f"{best.name} and {lead.against} show the same items, so either can be shipped."
    if not rankers.is_uncertain:
        return (
            f"{best.name} is expected to get {lead.relative:+.1%} clicks compared with "
            f"{lead.against}, but this model reports no uncertainty, so test it before you ship it."
        )
    gain = f"{lead.relative:+.1%} clicks ({lead.relative_low:+.1%} to {lead.relative_high:+.1%})"
    if rankers.is_sure and rankers.checks:
        return _not_yet(rankers.checks, lead)
    if rankers.is_sure:
        return f"Ship {best.name}: it beats {lead.against} with probability " + (
            f"{_chance(lead.prob_better)}; expect {gain}."
        )
    return (
        f"Do not choose between {best.name} and {lead.against} yet: {best.name} is better with "
        f"probability {_chance(lead.prob_better)} only; expect {gain}."
    )


def _not_yet(checks: tuple[Check, ...], lead: Difference) -> str:
    """Why the leading ranker should not be shipped now, by the check that matters most."""
    failed = [check for check in checks if check.state == "failed"]
    first, *others = failed or checks
    ahead = (
        f"it is ahead of {lead.against} with probability {_chance(lead.prob_better)} "
        f"({lead.relative:+.1%} clicks)"
    )
    more = ""
    if others:
        some = "One other check" if len(others) == 1 else f"{len(others)} other checks"
        more = f"{some} {'failed' if failed else 'must be looked at'} as well."
    what = f"Do not ship {lead.name} yet" if failed else f"Check again before you ship {lead.name}"
    figures = first.found.removeprefix("Backtest: ").replace(". Warning: ", ", which is ")
    found = f"{first.title}: {figures}" if figures else f"{first.title}."
    return " ".join(filter(None, (f"{what}: {ahead}, but {found}", first.remedy, more)))


def _spread_out(rows: list[BiasRow]) -> list[BiasRow]:
    """A few of the rows, from the first to the last."""
    if len(rows) <= MOST_NAMED:
        return rows
    step = (len(rows) - 1) / (MOST_NAMED - 1)
    return [rows[round(i * step)] for i in range(MOST_NAMED)]


def _times(share: float, unit: str = " times") -> str:
    """A share of 100 times, with one more digit where it is small."""
    return f"{100 * share:.{1 if 0 < share < 0.1 else 0}f}{unit}"


def _chance(probability: float) -> str:
    return "above 0.99" if probability > 0.995 else f"{probability:.2f}"


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _ship_class(report: "Report") -> str:
    """Colour of the bar beside the advice: only what was checked and passed is green."""
    known = not isinstance(report.rankers, Absent)
    return f' class="is-{report.opening.ship_state}"' if known else ""


def _caveat_box(caveats: tuple[Caveat, ...]) -> str:
    """Caveats that apply are open, the others folded."""
    applies = [caveat for caveat in caveats if caveat.state == "applies"]
    shown = _caveat_list(applies) if applies else "<p>None applies, as far as the data show.</p>"
    rest = ""
    for state, outcome in FOLDED_CAVEATS.items():
        own = [caveat for caveat in caveats if caveat.state == state]
        if own:
            rest += folded(
                f"{len(own)} caveat{'' if len(own) == 1 else 's'} {outcome}", _caveat_list(own)
            )
    return (
        '<aside class="caveats" aria-labelledby="caveats"><h2 id="caveats">Caveats</h2>'
        f"{shown}{rest}</aside>"
    )


def _caveat_list(caveats: list[Caveat]) -> str:
    items = (
        f"<li><b>{escape(each.reason)}.</b> <span>{prose(each.found)}</span></li>"
        for each in caveats
    )
    return f"<ul>{''.join(items)}</ul>"
