"""How the model was made: the training curve, and all that is needed to make it again."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib.metadata import PackageNotFoundError, version
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from epiclick.data.counts import ClickCounts
from epiclick.report.chart import Axis, Chart, Layer
from epiclick.report.markup import figure, folded, number, paragraph, section, table
from epiclick.report.report_sources import Sources

if TYPE_CHECKING:
    from epiclick.report.page import Report

MOST_POINTS = 600


@dataclass(frozen=True)
class Curve:
    """Log-likelihood a display, epoch by epoch.

    Attributes:
        epochs: numbers of the epochs; thinned if there are many.
        train: of the pairs learned from.
        valid: of the pairs held out; NaN without any.
        best: the epoch whose parameters were kept.
        total: epochs trained.
        seconds: time it took.
    """

    epochs: tuple[int, ...]
    train: tuple[float, ...]
    valid: tuple[float, ...]
    best: int
    total: int
    seconds: float


def curve(sources: Sources) -> Curve:
    """Read the history of training."""
    training = sources.fitted.training
    history = training.history
    chosen = np.unique(np.linspace(0, len(history) - 1, min(len(history), MOST_POINTS)).astype(int))
    epochs, train = history["epoch"], history["log_likelihood"].astype(float)
    valid = history["validation"].astype(float)
    return Curve(
        epochs=tuple(int(each) for each in epochs.iloc[chosen]),
        train=tuple(train.iloc[chosen].tolist()),
        valid=tuple(valid.iloc[chosen].tolist()),
        best=training.best_epoch,
        total=training.epochs,
        seconds=training.seconds,
    )


PACKAGES = ("epiclick", "jax", "numpy", "scipy", "pandas", "pyarrow", "duckdb")
MOST_FEATURES = 40  # named


@dataclass(frozen=True)
class Provenance:
    """Where the page comes from; name -> value, as text.

    Attributes:
        made: the day.
        command: that made the page.
        model: what was fitted, and how.
        reading: how the model's own log was read.
        logs: the logs of the page, and which of their rows were read.
        versions: of the programs, now.
    """

    made: str
    command: str
    model: tuple[tuple[str, str], ...]
    reading: tuple[tuple[str, str], ...]
    logs: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]


def provenance(sources: Sources) -> Provenance:
    """Write down settings and versions."""
    fitted = sources.fitted
    names = () if fitted.features is None else fitted.features.names
    more = f" and {len(names) - MOST_FEATURES} more" if len(names) > MOST_FEATURES else ""
    model = [
        ("model", fitted.kind),
        *((name, _text(value)) for name, value in fitted.settings.items()),
        ("features", ", ".join(names[:MOST_FEATURES]) + more if names else "none"),
        ("queries learned from", f"{len(fitted.queries.train):,}"),
        ("queries held out", f"{len(fitted.queries.held_out):,}"),
    ]
    reading = [(name, _text(value)) for name, value in fitted.options.to_dict().items()]
    logs = (
        ("log", sources.log_names, sources.log),
        ("backtest", sources.later_names, sources.later),
    )
    return Provenance(
        made=sources.made,
        command=sources.command,
        model=tuple(model),
        reading=tuple(reading),
        logs=tuple((name, _rows(files, log)) for name, files, log in logs if log is not None),
        versions=(
            ("Python", platform.python_version()),
            *((name, _version(name)) for name in PACKAGES),
        ),
    )


def _rows(files: tuple[str, ...], log: ClickCounts) -> str:
    """A log's files and which of their rows were read."""
    where = log.options.where
    named = f"{', '.join(files)}: " if files else ""
    return f"{named}{'all rows' if where is None else f'rows where {where}'}"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={each}" for name, each in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def training_section(report: "Report") -> str:
    """Log-likelihood by epoch."""
    found = report.curve
    layers = [
        _line("learned from", found.epochs, found.train, "c4"),
    ]
    if not all(map(isnan, found.valid)):
        layers.append(_line("held out", found.epochs, found.valid, "c0"))
    layers.append(
        Layer("rule", "kept", [found.best, found.best], [None, None], colour="c2"),
    )
    chart = Chart(
        "training",
        "Log-likelihood a display, by epoch",
        "Higher is better; where the held-out line falls while the other one rises, the model "
        "begins to learn by heart, so the best epoch (dashed) is kept.",
        Axis("epoch", "count"),
        Axis("log-likelihood"),
        tuple(layers),
    )
    words = f"{found.total:,} epochs in {found.seconds:.1f} s; the best was {found.best:,}."
    return section("training", "How training went", paragraph(words), figure(chart))


def _line(name: str, epochs: tuple[int, ...], values: tuple[float, ...], colour: str) -> Layer:
    texts = [
        f"epoch {epoch:,}, {name}: {number(value, 4)}"
        for epoch, value in zip(epochs, values, strict=True)
    ]
    kind = "line" if len(epochs) > 1 else "points"
    return Layer(kind, name, epochs, values, texts, colour=colour)  # type: ignore[arg-type]


WORDS = (
    ("display", "an item shown at a place of a result page, once"),
    ("item", "a document (product, page, ...) as an answer to one query"),
    ("position bias", "how often a place is looked at, whatever stands there"),
    ("relevance", "how often an item is clicked by those who look at it"),
    ("interval", "a range that should hold the true value as often as it promises"),
    ("ranker", "a program that decides which items are shown where"),
    ("log-likelihood", "how well clicks were foretold; 0 would be perfect, lower is worse"),
    ("backtest", "clicks foretold for pages that the model never saw, against those that came"),
)


def repeat_section(report: "Report") -> str:
    """The command, settings, versions, and a glossary."""
    found = report.provenance
    command = f"<pre>{escape(found.command)}</pre>" if found.command else ""
    return section(
        "repeat",
        "To repeat it",
        command,
        folded("Settings of the model", table(("setting", "value"), found.model, texts=2)),
        folded("How the model's log was read", table(("option", "value"), found.reading, texts=2)),
        folded("Which rows this page is about", table(("log", "rows"), found.logs, texts=2))
        if found.logs
        else "",
        folded("Versions", table(("program", "version"), found.versions, texts=2)),
        folded("What words mean on this page", table(("word", "meaning"), WORDS, texts=2)),
    )
