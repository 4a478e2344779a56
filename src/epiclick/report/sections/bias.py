"""Position bias: how much each place is looked at."""

import math
from html import escape

from epiclick.report.chart import Axis, Chart, Layer
from epiclick.report.facts.bias import Bias
from epiclick.report.gather import Report
from epiclick.report.markup import (
    bullets,
    figure,
    folded,
    interval,
    paragraph,
    percent,
    section,
    table,
)
from epiclick.report.sections.glance import few_of

KINDS = {
    "robust": "Bars are {level} intervals, from the differences between queries: they hold even "
    "where clicks vary more than the model allows.",
    "evidential": "Bars are the {level} intervals that the paper's estimator learns. They are not "
    "calibrated: nothing makes {level} of them hold.",
    "": "There are no intervals: this model takes position bias as one number each and cannot "
    "say how sure it is. The default of `epiclick fit` can.",
}


def bias_section(report: Report) -> str:
    """Relative and absolute values, and what the checks say."""
    found = report.bias
    charts = _chart(found, absolute=False) + _chart(found, absolute=True)
    return section(
        "bias",
        "Which positions get looked at",
        paragraph(
            "A result can only be clicked by someone who looks at it. Position bias is how often "
            f"a place is looked at; here it is told against {found.reference}, and relevance is "
            "what is left of a click rate when it is taken out."
        ),
        paragraph(KINDS[found.intervals].format(level=f"{found.level:.0%}")),
        f'<div class="charts">{charts}</div>',
        few_of(len(found.rows), found.contexts),
        _by_history(found),
        _checks(found),
    )


def _chart(found: Bias, *, absolute: bool) -> str:
    rows = found.rows
    if absolute:
        title, label = "Absolute: how often a place is looked at", "looked at"
        aid = f"100% would be always; {found.reference} counts as 100%, so the others are of it."
        if found.is_free:
            aid = (
                "100% would be always; the scale of these numbers rests on what was assumed "
                "beforehand, only the relative ones are learned from clicks."
            )
        values = [(row.mean, row.low, row.high) for row in rows]
    else:
        title, label = f"Relative to {found.reference}", f"of {found.reference}"
        aid = (
            "The same item, moved from the place at 100% to another one, gets this share of its "
            "clicks there."
        )
        values = [(row.relative, row.relative_low, row.relative_high) for row in rows]
    layers = [_values(found, values)]
    truth = [row.truth for row in rows]
    if not absolute and not all(map(math.isnan, truth)):
        layers.append(
            Layer(
                "points",
                "truth",
                range(len(rows)),
                truth,
                [f"{row.spoken}: truly {percent(row.truth)}" for row in rows],
                colour="truth",
                offset=0.18,
            )
        )
    chart = Chart(
        "bias-absolute" if absolute else "bias-relative",
        title,
        aid,
        Axis(found.context, names=tuple(row.label for row in rows)),
        Axis(label, "percent", low=0),
        tuple(layers),
    )
    columns = (found.context, "looked at", f"{found.level:.0%} interval")
    numbers = table(
        columns,
        (
            (row.label, percent(value), "at its bound" if row.is_at_bound else interval(low, high))
            for row, (value, low, high) in zip(rows, values, strict=True)
        ),
    )
    return figure(chart, numbers)


def _values(found: Bias, values: list[tuple[float, float, float]]) -> Layer:
    """The model's values with their intervals."""
    texts = []
    for row, (value, low, high) in zip(found.rows, values, strict=True):
        text = f"{row.spoken}: {percent(value)}"
        if not math.isnan(low) and low < high:
            text += f"\n{found.level:.0%} interval {interval(low, high)}"
        if row.is_at_bound:
            text += "\nno interval: at its bound"
        texts.append(text)
    return Layer(
        "points",
        "model",
        range(len(values)),
        [value for value, _, _ in values],
        texts,
        low=[low for _, low, _ in values],
        high=[high for _, _, high in values],
    )


def _by_history(found: Bias) -> str:
    """All contexts, where what happened above on a page matters."""
    if not found.by_history:
        return ""
    columns = [found.history, "looked at", f"{found.level:.0%} interval"]
    has_truth = not all(math.isnan(row.truth) for row in found.by_history)
    rows = (
        (
            row.label,
            percent(row.relative),
            "at its bound" if row.is_at_bound else interval(row.relative_low, row.relative_high),
            *((percent(row.truth),) if has_truth else ()),
        )
        for row in found.by_history
    )
    words = paragraph(
        f"By this {found.model}, how much a place is looked at depends on what was clicked above "
        "it (0: nothing yet). The charts average over the pages of the log; here is each case."
    )
    return words + folded(
        f"Looked at, by {found.history}",
        table((*columns, *(("truth",) if has_truth else ())), rows),
    )


def _checks(found: Bias) -> str:
    """What the checks of data and fit say, in words."""
    ratio = found.fit_ratio
    fit = "Too few items were shown often enough to check whether clicks vary as the model says."
    if ratio is not None:
        fit = (
            f"Fit check: clicks vary {ratio:.2f} times as much as a {found.model} says; 1 "
            "is a perfect fit, above 1.5 it is poor."
        )
    warned = "".join(f"<p><b>Warning:</b> {escape(each)}.</p>" for each in found.warnings)
    return warned + folded("What the checks of data and fit say", bullets((fit, *found.words)))
