"""One self-contained page of a reproduction: claims, figures, settings, time and memory."""

import base64
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from math import isfinite
from pathlib import Path

import numpy as np

from epiclick.data.writing import written_aside
from epiclick.paper.figure_curves import label_of
from epiclick.paper.figures import FIGURES
from epiclick.paper.results import QUANTITIES, Results
from epiclick.paper.statement import FAILS, HOLDS, METRICS, OPEN, Check, Claim, mean_interval
from epiclick.report.markup import STYLE

MARKS = {HOLDS: "yes", FAILS: "no", OPEN: "open"}  # classes of the style sheet


def write_page(results: Results, claims: Sequence[Claim], folder: str | Path) -> Path:
    """Write `folder`/report.html, with the figures of `folder`/figures inside."""
    folder = Path(folder)
    settings = results.settings
    sections = (
        ("Claims of the paper", _summary(claims) + _claims(claims)),
        ("Figures", _figures(folder / "figures")),
        ("Log-likelihood after the last epoch", _likelihoods(results)),
        ("Time and memory", _costs(results)),
        ("Settings", _settings(results)),
        ("Quantities", _table(("name", "meaning"), QUANTITIES.items())),
    )
    body = "".join(f"<section><h2>{escape(name)}</h2>{text}</section>" for name, text in sections)
    title = "The paper, reproduced"
    about = (
        f"{settings.dataset} data, preset {settings.preset}: {len(results.runs)} runs of "
        f"{settings.epochs:,} epochs, {settings.pages:,} pages per run, "
        f"{len(results.methods)} methods."
    )
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head><body><main>"
        f"<h1>{title}</h1><p>{escape(about)}</p>{body}</main></body></html>\n"
    )
    target = folder / "report.html"
    with written_aside(target) as aside:
        aside.write_text(page, encoding="utf-8")
    return target


def _summary(claims: Sequence[Claim]) -> str:
    """Number of claims by question and outcome."""
    rows = []
    for question, group in groupby(claims, key=lambda claim: claim.question):
        counts = Counter(claim.outcome for claim in group)
        rows.append((question, *(counts[outcome] for outcome in MARKS)))
    rule = (
        "<p>The rule of each claim, margins included, is part of the program and does not depend "
        "on the measurements. A claim holds if the whole 95 % interval lies inside the range of "
        "its rule and does not hold if the whole interval lies outside; the outcome is "
        "<i>cannot tell</i> if the interval crosses a bound, or if its methods were not run. "
        "Intervals are over runs, and methods are compared on the same runs. Rows in grey are for "
        "comparison and decide nothing.</p>"
    )
    return rule + _table(("question", *MARKS), rows)


def _claims(claims: Sequence[Claim]) -> str:
    """The claims, by question."""
    parts = []
    for question, group in groupby(claims, key=lambda claim: claim.question):
        parts.append(f"<h3>{escape(question)}</h3>")
        parts.extend(map(_claim, group))
    return "".join(parts)


def _claim(claim: Claim) -> str:
    """A claim, its outcome and its numbers, collapsed."""
    mark = f'<span class="mark {MARKS[claim.outcome]}">{claim.outcome}</span>'
    lines = [("measured", claim.measured), ("test", claim.test), ("methods", _names(claim.needs)),
             ("why undecided", claim.reason), ("note", claim.note)]  # fmt: skip
    details = "".join(f"<p><b>{name}</b> {escape(text)}</p>" for name, text in lines if text)
    rows = "".join(_check(check) for check in claim.checks)
    head = "".join(f"<th>{name}</th>" for name in ("quantity", "mean", "95 % interval", "rule", ""))
    numbers = f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>' if rows else ""
    return (
        f"<details><summary>{mark}<b>{escape(claim.id)}</b> {escape(claim.claim)}</summary>"
        f"{details}{numbers}</details>"
    )


def _check(check: Check) -> str:
    """A row of numbers."""
    found = check.interval
    cells = (
        check.quantity,
        _number(found.mean),
        f"{_number(found.low)} to {_number(found.high)}",
        check.rule,
        check.outcome if check.rule else "",
    )
    row = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f"<tr>{row}</tr>" if check.decides else f'<tr class="beside">{row}</tr>'


def _figures(folder: Path) -> str:
    """Figures as embedded images, in the paper's order."""
    parts = []
    for name, each in FIGURES.items():
        path, title = folder / f"{name}.png", escape(each.title)
        if path.exists():
            data = base64.b64encode(path.read_bytes()).decode("ascii")
            parts.append(
                f'<figure id="{name}"><h3>{title}</h3>'
                f'<img alt="{title}" src="data:image/png;base64,{data}">'
                f"<figcaption>{escape(each.caption)}</figcaption></figure>"
            )
    return "".join(parts) or "<p>None: their methods were not run.</p>"


def _likelihoods(results: Results) -> str:
    """Means and intervals of every method in the three metrics."""
    rows = []
    for method in results.methods:
        cells = []
        for metric in METRICS:
            if results.has(method, metric):
                found = mean_interval(results.last(method, metric)[:, 0])
                half = (found.high - found.low) / 2
                spread = f" ± {half:.5f}" if isfinite(half) else ""
                cells.append(f"{found.mean:.5f}{spread}")
            else:
                cells.append("")
        rows.append((label_of(method), method, *cells, _zero_gradients(results, method)))
    columns = ("method", "key", *METRICS.values(), "steps with a gradient of 0")
    return "<p>Mean over runs and 95 % interval.</p>" + _table(columns, rows)


def _zero_gradients(results: Results, method: str) -> str:
    """Share of a method's steps with a gradient of 0."""
    if not results.has(method, "zero_gradients"):
        return ""
    epochs, share = results.of(method, "zero_gradients")
    finite = share[np.isfinite(share).all(axis=1)]
    if not len(finite):
        return "diverged"
    steps = np.diff(epochs, prepend=0)  # a row covers all epochs since the previous one
    return f"{float((finite @ steps).mean()) / epochs[-1]:.1%}"


def _costs(results: Results) -> str:
    """Time and memory of every method."""
    if not results.costs:
        return "<p>Not recorded.</p>"
    epochs = max(1, results.settings.epochs)
    rows = []
    for method in results.methods:
        own = [cost for cost in results.costs if cost.method == method]
        if own:
            training = float(np.mean([cost.training_seconds for cost in own]))
            rows.append((
                label_of(method), method, len(own), _seconds(training),
                f"{1_000 * training / epochs:,.1f} ms",
                _seconds(float(np.mean([cost.seconds for cost in own]))),
                f"{max(cost.memory for cost in own) / 2**20:,.0f} MiB",
            ))  # fmt: skip
    columns = ("method", "key", "runs", "training", "per epoch", "with measurements", "peak memory")
    total = sum(cost.seconds for cost in results.costs)
    text = (
        f"<p>Wall-clock time per run, mean over runs; {_seconds(total)} in total. Memory is that "
        "of the process, which keeps the compiled programs of earlier methods: to measure one "
        "method alone, run it first, with <code>--methods</code>, and add the others later.</p>"
    )
    return text + _table(columns, rows)


def _settings(results: Results) -> str:
    """The settings, by name."""
    rows = []
    for name, value in results.settings.to_dict().items():
        if isinstance(value, dict):
            text = ", ".join(f"{key}: {_plain(each)}" for key, each in value.items())
        elif isinstance(value, list):
            text = ", ".join(map(_plain, value))
        else:
            text = _plain(value)
        rows.append((name.replace("_", " "), text))
    if results.rankers:
        rows.append(("features of rankers", ", ".join(results.rankers)))
    return _table(("setting", "value"), rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table whose cells are escaped."""
    head = "".join(f"<th>{escape(str(name))}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _names(methods: Sequence[str]) -> str:
    """Methods by label and key."""
    return ", ".join(f"{label_of(method)} ({method})" for method in methods)


def _plain(value: object) -> str:
    """A setting's value, four digits where it is a fraction."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    """A number with four digits."""
    return f"{value:.4g}" if isfinite(value) else "none"


def _seconds(value: float) -> str:
    """A duration in a readable unit."""
    if value < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.1f} min" if value < 7_200 else f"{value / 3_600:.1f} h"
