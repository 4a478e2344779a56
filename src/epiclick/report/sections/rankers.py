"""Which ranker to ship."""

import math
from html import escape
from itertools import pairwise

from epiclick.comparison.verdict import chance
from epiclick.report.chart import Axis, Chart, Layer
from epiclick.report.facts.absent import Absent
from epiclick.report.facts.rankers import RankerRow, Rankers
from epiclick.report.gather import Report
from epiclick.report.markup import bullets, figure, folded, missing, number, percent, section, table

TITLE = "Which ranker to ship"
PARTS = {
    "seen": "items seen in the log",
    "unseen": "items never shown",
    "position_bias": "position bias",
    "network": "what features say",
}


def rankers_section(report: Report) -> str:
    """Verdict, values, lead, where the uncertainty comes from."""
    found = report.rankers
    if isinstance(found, Absent):
        return section("rankers", TITLE, missing(found))
    charts = _values(found) + (_lead(found) if found.heights else "")
    backtest = (
        ""
        if found.is_backtested
        else missing(
            Absent("The comparison was not checked on a log held back.", "--backtest later.parquet")
        )
    )
    return section(
        "rankers",
        TITLE,
        f'<p class="verdict is-{found.state}"><b>Verdict:</b> {escape(found.verdict)}</p>',
        backtest,
        f'<div class="charts">{charts}</div>',
        _differences(found),
        folded("Where the uncertainty comes from", _spread(found)) if found.is_uncertain else "",
        folded("How the comparison was made", bullets(f"{note}." for note in found.notes))
        if found.notes
        else "",
    )


def _values(found: Rankers) -> str:
    rows = list(reversed(found.rows))  # the best at the top
    level = f"{found.level:.0%}"
    knows_truth = not any(math.isnan(row.truth) for row in rows)
    aid = (
        f"Expected clicks on a page of results, with {level} intervals; rankers share much of "
        "their uncertainty, so intervals that overlap may still be told apart."
    )
    if not found.is_uncertain:
        aid = "Expected clicks on a page of results; this model cannot say how sure they are."
    chart = Chart(
        "values",
        f"Clicks a page, over {found.queries:,} queries",
        aid,
        Axis("clicks a page"),
        Axis("", names=tuple(row.name for row in rows)),
        (
            Layer(
                "points",
                "expected" if knows_truth else "",
                [row.value for row in rows],
                range(len(rows)),
                [_told(found, row) for row in rows],
                low=[row.low for row in rows] if found.is_uncertain else (),
                high=[row.high for row in rows] if found.is_uncertain else (),
            ),
            *([_truth(rows)] if knows_truth else []),
        ),
    )
    columns = ("ranker", "clicks a page", f"{level} interval", "P(best)", "expected loss", "seen")
    numbers = table(
        (*columns, "truth") if knows_truth else columns,
        (
            (
                row.name,
                number(row.value, 4),
                f"{number(row.low, 4)} to {number(row.high, 4)}" if found.is_uncertain else "–",
                chance(row.prob_best) if found.is_uncertain else "–",
                number(row.loss, 4),
                percent(row.seen, 0),
                *([number(row.truth, 4)] if knows_truth else []),
            )
            for row in found.rows
        ),
    )
    return figure(chart, numbers)


def _truth(rows: list[RankerRow]) -> Layer:
    """What the rankers truly get, just above what was expected."""
    return Layer(
        "points",
        "truth",
        [row.truth for row in rows],
        range(len(rows)),
        [f"{row.name}: truly {number(row.truth, 4)} clicks a page" for row in rows],
        colour="truth",
        offset=0.18,
    )


def _told(found: Rankers, row: RankerRow) -> str:
    text = f"{row.name}: {number(row.value, 4)} clicks a page"
    if not found.is_uncertain:
        return text
    ends = f"{number(row.low, 4)} to {number(row.high, 4)}"
    return (
        f"{text}\n{found.level:.0%} interval {ends}\nbest with probability {chance(row.prob_best)}"
    )


def _lead(found: Rankers) -> str:
    lead, edges = found.differences[0], found.edges
    size = edges[1] - edges[0]
    middles = [(one + other) / 2 for one, other in pairwise(edges)]
    chart = Chart(
        "lead",
        f"Lead of {lead.name} over {lead.against}",
        f"All leads that the clicks allow, by how likely they are: what lies right of the dashed "
        f"line at 0 speaks for {lead.name}.",
        Axis("clicks a page more"),
        Axis("probability", "percent", low=0),
        (
            Layer(
                "bars",
                "",
                middles,
                found.heights,
                [
                    f"{one:+.4f} to {other:+.4f} clicks a page: {percent(share)}"
                    for (one, other), share in zip(pairwise(edges), found.heights, strict=True)
                ],
                size=size,
                colour="c2",
            ),
            Layer("rule", "", [0, 0], [None, None], colour="truth"),
        ),
    )
    return figure(chart)


def _differences(found: Rankers) -> str:
    if not found.differences:
        return ""
    return table(
        (
            "ranker",
            "against",
            "clicks a page",
            "relative",
            f"{found.level:.0%} interval",
            "P(better)",
        ),
        (
            (
                each.name,
                each.against,
                f"{each.difference:+.4f}",
                f"{each.relative:+.1%}",
                f"{each.relative_low:+.1%} to {each.relative_high:+.1%}"
                if found.is_uncertain
                else "–",
                chance(each.prob_better) if found.is_uncertain else "–",
            )
            for each in found.differences
        ),
        texts=2,
    )


def _spread(found: Rankers) -> str:
    shares = [(row.name, dict(row.spread)) for row in found.rows]
    return table(
        ("share of the variance", *PARTS.values()),
        ((name, *(percent(own.get(part), 0) for part in PARTS)) for name, own in shares),
    )
