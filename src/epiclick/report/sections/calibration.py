"""Calibration: does what was foretold with some probability come true as often?"""

from epiclick.report.chart import Axis, Chart, Layer
from epiclick.report.facts.absent import Absent
from epiclick.report.facts.bias import Bias
from epiclick.report.facts.coverage import ItemCoverage
from epiclick.report.facts.reliability import Reliability
from epiclick.report.gather import Report
from epiclick.report.markup import figure, interval, missing, paragraph, percent, section, table


def calibration_section(report: Report) -> str:
    """Reliability of rates and counts, and coverage of the truth where it is known."""
    quality, charts = report.quality, ""
    if isinstance(quality, Absent):
        parts = [missing(quality)]
    else:
        charts = _rates(quality.reliability) + _places(quality.reliability)
        parts = [paragraph(f"Checked on {quality.of}.")]
    coverage = None if isinstance(report.items, Absent) else report.items.coverage
    if coverage is not None and coverage.curve:
        charts += _curve(coverage)
    parts.append(f'<div class="charts">{charts}</div>')
    parts.append(_truth(report, coverage))
    return section("calibration", "Can its probabilities be believed?", *parts)


def _rates(found: Reliability) -> str:
    rows = found.rows
    most = max(max(row.high, row.predicted) for row in rows) * 1.04
    chart = Chart(
        "reliability",
        "Rates that were foretold, and those that came",
        "Each mark is a tenth of the displays: on the dashed line, what was foretold came true; "
        "above it there were more clicks than foretold.",
        Axis("foretold click rate", "percent", low=0, high=most),
        Axis("observed click rate", "percent", low=0, high=most),
        (
            Layer("rule", "as foretold", [0, most], [0, most], colour="c4"),
            Layer(
                "points",
                "observed, with 90% interval",
                [row.predicted for row in rows],
                [row.observed for row in rows],
                [
                    f"foretold {percent(row.predicted)}, observed {percent(row.observed)}\n"
                    f"90% interval {interval(row.low, row.high)}, {row.displays:,} displays"
                    for row in rows
                ],
                low=[row.low for row in rows],
                high=[row.high for row in rows],
            ),
        ),
    )
    numbers = table(
        ("foretold", "observed", "90% interval", "displays"),
        (
            (
                percent(row.predicted),
                percent(row.observed),
                interval(row.low, row.high),
                f"{row.displays:,}",
            )
            for row in rows
        ),
        texts=0,
    )
    return figure(chart, numbers)


def _places(found: Reliability) -> str:
    count = len(found.places)
    names = tuple(f"{10 * i}–{10 * (i + 1)}" for i in range(count))
    even = 1 / count
    chart = Chart(
        "places",
        "Clicks of single items, among what was foretold for them",
        "Flat, within the dashed lines, is right: high at both ends, the model is too sure of "
        "items; high in the middle, it is not sure enough.",
        Axis("place among the clicks foretold, in %", names=names),
        Axis("of items", "percent", low=0),
        (
            Layer(
                "bars",
                "",
                range(count),
                found.places,
                [
                    f"{percent(share)} of {found.items:,} items; {percent(even)} would be even"
                    for share in found.places
                ],
                size=0.86,
            ),
            *(
                Layer("rule", "", [None, None], [end, end], colour="c4")
                for end in (even - found.band, even + found.band)
            ),
        ),
    )
    return figure(chart, table(("place", "share of items"), zip(
        names, map(percent, found.places), strict=True
    )))  # fmt: skip


def _curve(found: ItemCoverage) -> str:
    chart = Chart(
        "coverage",
        "How often intervals of relevance hold the truth",
        "On the dashed line, intervals that promise to hold with some probability do; below it "
        "they are too narrow.",
        Axis("promised", "percent", low=0, high=1),
        Axis("held", "percent", low=0, high=1),
        (
            Layer("rule", "as promised", [0, 1], [0, 1], colour="c4"),
            Layer(
                "points",
                "held",
                [level for level, _ in found.curve],
                [share for _, share in found.curve],
                [f"promised {level:.0%}, held {percent(share)}" for level, share in found.curve],
            ),
        ),
    )
    rows = ((f"{level:.0%}", percent(share)) for level, share in found.curve)
    return figure(chart, table(("promised", "held"), rows, texts=0))


def _truth(report: Report, coverage: ItemCoverage | None) -> str:
    """Coverage in words, or why there is none."""
    if not report.has_truth:
        return missing(
            Absent(
                "How often intervals hold the truth is known only where the truth is: in a "
                "simulated world.",
                "--truth world",
            )
        )
    words = [_held_biases(report.bias)]
    if coverage is not None:
        words.append(
            f"Of {coverage.items:,} items whose true relevance is known, "
            f"{percent(coverage.held / coverage.items)} lie in their {report.bias.level:.0%} "
            f"interval; the expected relevance is {coverage.error:.3f} away from it on average."
        )
    elif not isinstance(report.items, Absent):
        words.append(
            "Relevance has no interval, or no scale, that could be held against the truth."
        )
    return paragraph(" ".join(word for word in words if word))


def _held_biases(found: Bias) -> str:
    known = [row for row in found.rows if row.truth == row.truth and row.has_interval]
    if not known or not found.intervals:
        return "Position bias has no interval, or no known truth, to be held against each other."
    held = sum(row.relative_low <= row.truth <= row.relative_high for row in known)
    return (
        f"Of {len(known)} position biases, {held} have their true value in the "
        f"{found.level:.0%} interval."
    )
