"""Caveats: reasons why the results may be wrong, and whether each applies here."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from epiclick.comparison.verdict import LITTLE_SEEN
from epiclick.diagnostics.checks import is_poor_fit
from epiclick.fitted.clusters_used import ClustersUsed
from epiclick.report.bias import Bias
from epiclick.report.click_model_choice import ChoiceState, ClickModelChoice
from epiclick.report.markup import Absent
from epiclick.report.quality import CLEAR, Quality
from epiclick.report.rankers import Rankers
from epiclick.report.report_sources import Sources

State = Literal["applies", "clear", "open"]

CHOICES: Mapping[ChoiceState, State] = {"yes": "clear", "open": "open", "no": "applies"}
"""Whether a better click model is a caveat, by the outcome of a selection."""


@dataclass(frozen=True)
class Caveat:
    """A reason why the results may be wrong.

    Attributes:
        reason: what may be wrong, as a noun phrase.
        state: "applies" here, "clear" if it was ruled out, "open" if it could not be.
        found: the evidence, or what would provide it; in sentences.
    """

    reason: str
    state: State
    found: str


def caveats(
    sources: Sources,
    bias: Bias,
    quality: Quality | Absent,
    rankers: Rankers | Absent,
    choice: ClickModelChoice | Absent,
) -> tuple[Caveat, ...]:
    """All caveats, those that apply first."""
    found = [
        *_of_fit(bias),
        *_of_click_model(sources, bias),
        *_of_choice(choice),
        *_of_positions(sources, bias),
        *_of_intervals(sources, bias),
        *_of_prediction(quality),
        *_of_rankers(rankers),
        *_of_robots(sources),
        *_of_confounding(sources),
        *_of_users(bias),
    ]
    order = ("applies", "open", "clear")
    return tuple(sorted(found, key=lambda caveat: order.index(caveat.state)))


def _of_fit(bias: Bias) -> Iterator[Caveat]:
    reason = f"More variation than a {bias.model} allows"
    ratio = bias.fit_ratio
    if ratio is None:
        yield Caveat(reason, "open", "Too few items were shown often enough to check this.")
    else:
        error = (2 / bias.fit_freedom) ** 0.5 if bias.fit_freedom else 0.0
        poor = is_poor_fit(ratio, bias.fit_freedom)
        found = (
            f"Clicks vary {ratio:.2f} times as much; 1 is a perfect fit, give or take {error:.2f}."
        )
        yield Caveat(reason, "applies" if poor else "clear", found)


def _of_click_model(sources: Sources, bias: Bias) -> Iterator[Caveat]:
    reason = f"Users who do not follow a {bias.model}"
    checked = _assumptions(sources)
    if checked["warnings"]:
        yield Caveat(reason, "applies", _sentences(checked["warnings"]))
    elif checked["displays"]:
        found = (
            f"On {checked['displays']:,} displays of whole pages, no sign was found that clicks "
            "depend on what this model rules out."
        )
        yield Caveat(reason, "clear", found)
    else:
        found = "Without page_id the order of clicks on a page is unknown, so this was not checked."
        yield Caveat(reason, "open", found)


def _of_choice(choice: ClickModelChoice | Absent) -> Iterator[Caveat]:
    reason = "Another click model that predicts pages better"
    if isinstance(choice, Absent):
        yield Caveat(reason, "open", f"{choice.reason} Add `{choice.remedy}`.")
    else:
        found = f"{choice.headline} {choice.about_own}".rstrip()
        yield Caveat(reason, CHOICES[choice.state], found)


def _assumptions(sources: Sources) -> dict[str, Any]:
    """What the fit found out about the assumptions of its click model; older models lack it."""
    checked = sources.fitted.training.checks.get("assumptions")
    return checked or {"displays": 0, "warnings": []}


def _of_positions(sources: Sources, bias: Bias) -> Iterator[Caveat]:
    checks = sources.fitted.training.checks
    found = checks["identifiability"]
    share = f"{found['linked_share']:.0%} of displays are of items shown at several positions."
    yield Caveat(
        "Too few items that change position",
        "applies" if found["warnings"] else "clear",
        _sentences(found["warnings"]) or share,
    )
    robots = (checks.get("robots") or {}).get("found")
    covered = {*found["warnings"], *([robots["words"]] if robots else [])}  # by other caveats
    covered |= {*_assumptions(sources)["warnings"], *_confounding(sources)["warnings"]}
    others = [each for each in bias.warnings if each not in covered and "chi2/df" not in each]
    if others:
        yield Caveat("Warnings of the fit", "applies", _sentences(others))
    if bias.is_free and not others:
        yield Caveat(
            "Absolute values that are not identified",
            "applies",
            "Only ratios are learned from clicks.",
        )


def _of_intervals(sources: Sources, bias: Bias) -> Iterator[Caveat]:
    if not bias.intervals:
        found = "This model has point estimates only. The default of `epiclick fit` has intervals."
        yield Caveat("Unknown uncertainty", "applies", found)
    elif bias.intervals == "evidential":
        found = (
            "They are learned by the paper's estimator. Those of `--estimator marginal` are "
            "calibrated."
        )
        yield Caveat("Intervals that are not calibrated", "applies", found)
    else:
        used = ClustersUsed.stored(sources.fitted)
        yield Caveat(
            f"Too few {used.plural} to estimate the uncertainty",
            "applies" if used.are_few else "clear",
            f"There are {used.number}.",
        )


def _of_prediction(quality: Quality | Absent) -> Iterator[Caveat]:
    reason = "Wrong predictions of clicks the model has not seen"
    if isinstance(quality, Absent):
        yield Caveat(reason, "open", f"{quality.reason} Add `{quality.remedy}`.")
        return
    found = f"On {quality.tested_on}: {quality.backtest.summary}."
    grade = quality.backtest.grade
    # one valid log in ten is just outside, so that a second log must decide
    state: State = "applies" if grade == "far outside" else "open"
    if grade == "inside" and quality.unseen:
        state = "clear"
    if not quality.unseen:
        found += " A log that the model has never seen (`--backtest`) would be a stricter check."
    yield Caveat(reason, state, found)
    best = min(quality.scores[1:], key=lambda row: row.lead)
    is_clear = abs(best.lead) > CLEAR * best.lead_error
    yield Caveat(
        "Something simpler that predicts clicks as well",
        "open" if not is_clear else "clear" if best.lead > 0 else "applies",
        f"Compared with the best alternative ({best.name}) the model is {abs(best.lead):.5f} "
        f"{'behind' if best.lead < 0 else 'ahead'} in log-likelihood per display, give or take "
        f"{best.lead_error:.5f}.",
    )


def _of_rankers(rankers: Rankers | Absent) -> Iterator[Caveat]:
    if isinstance(rankers, Absent):
        return
    reason = "Rankers that mostly show items the log never showed"
    if rankers.has_log:
        little = [row for row in rankers.rows if row.seen < LITTLE_SEEN]
        shares = ", ".join(f"{row.name} {row.seen:.0%}" for row in little or rankers.rows)
        found = f"Share of slots whose items have clicks of their own: {shares}."
        yield Caveat(reason, "applies" if little else "clear", found)
    else:
        found = "No log was given, so all items are judged by their features alone; add `LOG`."
        yield Caveat(reason, "open", found)
    if not rankers.is_backtested:
        found = "The comparison was not checked on a log held back; add `--backtest`."
        yield Caveat("Traffic that has changed since", "open", found)


def _of_robots(sources: Sources) -> Iterator[Caveat]:
    checked = sources.fitted.training.checks.get("robots") or {"checked": False, "found": None}
    reason = "Clicks by robots"
    if checked["found"]:
        yield Caveat(reason, "applies", _sentences([checked["found"]["words"]]))
    elif checked["checked"]:
        found = (
            "Pages with many clicks are no more frequent than people explain. Robots that click "
            "little would go unnoticed."
        )
        yield Caveat(reason, "clear", found)
    else:
        found = "Without page_id the clicks of a page are unknown, so this was not checked."
        yield Caveat(reason, "open", found)


def _confounding(sources: Sources) -> dict[str, Any]:
    """What the fit found out about the ranker of the log; older models lack it."""
    return sources.fitted.training.checks.get("confounding") or {"warnings": []}


def _of_confounding(sources: Sources) -> Iterator[Caveat]:
    reason = "A ranker that knew more than the model"
    record = _confounding(sources)
    if record["warnings"]:
        yield Caveat(reason, "applies", _sentences(record["warnings"]))
    elif (record.get("moved_items") or {}).get("available"):
        found = (
            "Items that moved between positions agree with the model's position bias. That proves "
            "nothing about items never shown."
        )
        yield Caveat(reason, "open", found)
    else:
        yield Caveat(reason, "open", "This was not checked.")


def _of_users(bias: Bias) -> Iterator[Caveat]:
    yield Caveat(
        "Rankings that depend on the user",
        "open",
        "If users who click more also see other rankings, position bias and taste are confounded. "
        "A click log shows this only in part; a randomised slice of traffic shows it.",
    )
    known, unknown = "the item and its position", "better neighbours, earlier clicks"
    if bias.history:
        known, unknown = "the item, its position and earlier clicks", "better neighbours"
    yield Caveat(
        "Effects of neighbouring items",
        "open",
        f"In the model a click depends on {known} only, not on {unknown} or a query already "
        "answered.",
    )


def _sentences(texts: list[str]) -> str:
    return " ".join(each[:1].upper() + each[1:].rstrip(".") + "." for each in texts)
