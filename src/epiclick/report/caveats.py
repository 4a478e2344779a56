"""Reasons not to believe the page: which apply here, which were checked, which rest with people."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from epiclick.comparison.verdict import LITTLE_SEEN
from epiclick.diagnostics.checks import FEW_QUERIES, is_poor_fit
from epiclick.report.bias import Bias
from epiclick.report.item_map import ItemSample
from epiclick.report.markup import Absent
from epiclick.report.quality import CLEAR, Quality
from epiclick.report.rankers import Rankers
from epiclick.report.report_sources import Sources

State = Literal["applies", "clear", "open"]


@dataclass(frozen=True)
class Doubt:
    """A reason not to believe.

    Attributes:
        reason: completes "Do not believe this if ...".
        state: it applies here; it was looked into and does not; nothing here can tell.
        found: what was seen, or what would tell.
    """

    reason: str
    state: State
    found: str


def doubts(
    sources: Sources,
    bias: Bias,
    quality: Quality | Absent,
    items: ItemSample | Absent,
    rankers: Rankers | Absent,
) -> tuple[Doubt, ...]:
    """All reasons, those that apply first."""
    found = [
        *_of_fit(bias),
        *_of_links(sources, bias),
        *_of_intervals(sources, bias),
        *_of_prediction(quality),
        *_of_rankers(rankers),
        *_of_robots(sources),
        *_of_people(),
    ]
    order = ("applies", "open", "clear")
    return tuple(sorted(found, key=lambda doubt: order.index(doubt.state)))


def _of_fit(bias: Bias) -> Iterator[Doubt]:
    reason = f"clicks vary more than a {bias.model} allows"
    ratio = bias.fit_ratio
    if ratio is None:
        yield Doubt(reason, "open", "Too few items were shown often enough to check this.")
    else:
        noise = (2 / bias.fit_freedom) ** 0.5 if bias.fit_freedom else 0.0
        poor = is_poor_fit(ratio, bias.fit_freedom)
        told = f"They vary {ratio:.2f} times as much as it allows; 1 would be a perfect fit"
        yield Doubt(reason, "applies" if poor else "clear", f"{told}, give or take {noise:.2f}.")


def _of_links(sources: Sources, bias: Bias) -> Iterator[Doubt]:
    found = sources.fitted.training.checks["identifiability"]
    told = found["warnings"]
    share = f"{found['linked_share']:.0%} of what was shown is items that appeared at several."
    yield Doubt(
        "items hardly ever changed position, so that positions cannot be compared",
        "applies" if told else "clear",
        _sentences(told) if told else share,
    )
    others = [
        warning
        for warning in bias.warnings
        if warning not in told
        and not warning.startswith("clicks vary ")
        and "--max-clicks-per-page" not in warning
    ]
    if others:
        yield Doubt("the fit itself warned of something", "applies", _sentences(others))
    if bias.is_free and not others:
        yield Doubt("you read absolute numbers", "applies", "Only ratios are learned from clicks.")


def _of_intervals(sources: Sources, bias: Bias) -> Iterator[Doubt]:
    queries = len(sources.fitted.queries.train) + len(sources.fitted.queries.held_out)
    reason = "you need to know how sure this is"
    if not bias.intervals:
        words = "This model has one number for everything and no intervals."
        yield Doubt(reason, "applies", f"{words} The default of `epiclick fit` has them.")
    elif bias.intervals == "evidential":
        words = "Intervals are those the paper's estimator learns, which are not calibrated."
        yield Doubt(reason, "applies", f"{words} Those of `--estimator marginal` are.")
    else:
        few = queries < FEW_QUERIES
        yield Doubt(
            "there are too few different queries to learn how sure this is",
            "applies" if few else "clear",
            f"There are {queries:,} queries.",
        )


def _of_prediction(quality: Quality | Absent) -> Iterator[Doubt]:
    reason = "the model mispredicts clicks it has not seen"
    if isinstance(quality, Absent):
        yield Doubt(reason, "open", f"{quality.words} Add {quality.remedy}.")
        return
    words = f"On {quality.of}: {quality.backtest.summary}."
    grade = quality.backtest.grade
    # just outside, as one sound log in ten is, a second log must decide
    state: State = "applies" if grade == "far outside" else "open"
    if grade == "inside" and quality.fair:
        state = "clear"
    if not quality.fair:
        words += " A log that the model never saw, with --backtest, would be a stricter check."
    yield Doubt(reason, state, words)
    best = min(quality.scores[1:], key=lambda row: row.lead)
    sure = abs(best.lead) > CLEAR * best.lead_error
    yield Doubt(
        "something simpler foretells clicks as well",
        "open" if not sure else "clear" if best.lead > 0 else "applies",
        f"Against the best of the others ({best.name}) the model is {abs(best.lead):.5f} "
        f"{'behind' if best.lead < 0 else 'ahead'} in log-likelihood a display, give or take "
        f"{best.lead_error:.5f}.",
    )


def _of_rankers(rankers: Rankers | Absent) -> Iterator[Doubt]:
    if isinstance(rankers, Absent):
        return
    reason = "rankers show mostly items that the log never showed"
    little = [row for row in rankers.rows if row.seen < LITTLE_SEEN]
    told = ", ".join(f"{row.name} {row.seen:.0%}" for row in little or rankers.rows)
    if rankers.has_log:
        shares = f"Share of places with items judged by their own clicks: {told}."
        yield Doubt(reason, "applies" if little else "clear", shares)
    else:
        words = "No log was given, so all items are judged by their features alone; LOG adds it."
        yield Doubt(reason, "open", words)
    if not rankers.is_backtested:
        words = "The comparison was not checked on a log held back; --backtest does so."
        yield Doubt("the model is wrong about your traffic of today", "open", words)


def _of_people() -> Iterator[Doubt]:
    yield Doubt(
        "items change position because of who is looking",
        "open",
        "If the same people who click more are also shown other orders, position and taste "
        "cannot be told apart. No click log tells; a randomised slice of traffic does.",
    )
    yield Doubt(
        "what an item gets depends on the items around it",
        "open",
        "The model lets a click depend on the item and on its position only: not on better "
        "neighbours, on earlier clicks, or on a query that was answered already.",
    )


def _of_robots(sources: Sources) -> Iterator[Doubt]:
    checked = sources.fitted.training.checks.get("robots") or {"checked": False, "found": None}
    reason = "the log holds clicks of robots"
    if checked["found"]:
        yield Doubt(reason, "applies", _sentences([checked["found"]["words"]]))
    elif checked["checked"]:
        words = (
            "No more pages have many clicks than people make. Robots that click little stay unseen."
        )
        yield Doubt(reason, "clear", words)
    else:
        words = (
            "Without page_id the clicks of pages are not known; they are believed as they stand."
        )
        yield Doubt(reason, "open", words)


def _sentences(said: list[str]) -> str:
    return " ".join(each[:1].upper() + each[1:].rstrip(".") + "." for each in said)
