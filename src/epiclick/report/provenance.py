"""How the model was made: the training curve, and what is needed to reproduce the page."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from epiclick.data.counts import ClickCounts
from epiclick.report.chart import Axis, Chart, Layer
from epiclick.report.markup import escape, figure, folded, number, paragraph, section, table
from epiclick.report.report_sources import Sources

if TYPE_CHECKING:
    from epiclick.report.page import Report

MOST_POINTS = 600  # of the training curve


PACKAGES = ("epiclick", "jax", "numpy", "scipy", "pandas", "pyarrow", "duckdb")
MOST_FEATURES = 40  # that are named


GLOSSARY = (
    ("display", "an item shown once, at one position of a result page"),
    ("item", "a document (product, page, ...) as a result of one query"),
    ("position bias", "how often a position is looked at, whatever is shown there"),
    ("relevance", "how often an item is clicked by users who look at it"),
    ("interval", "a range that contains the true value with the stated probability"),
    ("ranker", "a program that decides which items are shown where"),
    ("log-likelihood", "how well clicks are predicted; 0 is perfect, lower is worse"),
    ("deviance", "-2 times the log-likelihood: how far predictions are from the clicks"),
    ("backtest", "predicted clicks compared with those observed on pages the model never saw"),
)


@dataclass(frozen=True)
class Curve:
    """Log-likelihood per display, by epoch.

    Attributes:
        epochs: numbers of the epochs; thinned if there are many.
        train: of the training pairs.
        valid: of the pairs held out; NaN without any.
        best: the epoch whose parameters were kept.
        total: number of epochs.
        seconds: training time.
        unit: what is counted, epochs or steps; see `FittedModel.iteration`.
    """

    epochs: tuple[int, ...]
    train: tuple[float, ...]
    valid: tuple[float, ...]
    best: int
    total: int
    seconds: float
    unit: str


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
        unit=sources.fitted.iteration,
    )


@dataclass(frozen=True)
class Provenance:
    """Where the page comes from; name -> value, as text.

    Attributes:
        created: date of the page.
        command: the one that wrote the page.
        model: settings of the model.
        reading: how the model's training log was read.
        logs: the logs of the page, and which of their rows were read.
        versions: of the packages that wrote the page.
    """

    created: str
    command: str
    model: tuple[tuple[str, str], ...]
    reading: tuple[tuple[str, str], ...]
    logs: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]


def provenance(sources: Sources) -> Provenance:
    """Collect settings and versions."""
    fitted = sources.fitted
    names = () if fitted.features is None else fitted.features.columns
    more = f" and {len(names) - MOST_FEATURES} more" if len(names) > MOST_FEATURES else ""
    model = [
        ("model", fitted.kind),
        *((name, _text(value)) for name, value in fitted.settings.items()),
        ("features", ", ".join(names[:MOST_FEATURES]) + more if names else "none"),
        ("training queries", f"{len(fitted.queries.train):,}"),
        ("held-out queries", f"{len(fitted.queries.held_out):,}"),
    ]
    reading = [(name, _text(value)) for name, value in fitted.options.to_dict().items()]
    logs = (
        ("log", sources.log_names, sources.log),
        ("backtest", sources.later_names, sources.later),
    )
    return Provenance(
        created=sources.created,
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
        _line("training", found.epochs, found.train, "c4"),
    ]
    if not all(map(isnan, found.valid)):
        layers.append(_line("held out", found.epochs, found.valid, "c0"))
    layers.append(
        Layer("rule", "kept", [found.best, found.best], [None, None], colour="c2"),
    )
    chart = Chart(
        "training",
        f"Log-likelihood per display, by {found.unit}",
        "Higher is better; where the held-out line falls while the training line rises, the model "
        "begins to overfit, so the best epoch (dashed) is kept.",
        Axis(found.unit, "count"),
        Axis("log-likelihood"),
        tuple(layers),
    )
    size = f"{found.total:,} {found.unit}s in {found.seconds:.1f} s."
    if found.unit == "epoch":
        size += f" Epoch {found.best:,} was the best."
    return section("training", "How training went", paragraph(size), figure(chart))


def _line(name: str, epochs: tuple[int, ...], values: tuple[float, ...], colour: str) -> Layer:
    texts = [
        f"epoch {epoch:,}, {name}: {number(value, 4)}"
        for epoch, value in zip(epochs, values, strict=True)
    ]
    kind = "line" if len(epochs) > 1 else "points"
    return Layer(kind, name, epochs, values, texts, colour=colour)  # type: ignore[arg-type]


def reproduce_section(report: "Report") -> str:
    """The command, settings, versions, and a glossary."""
    found = report.provenance
    command = f"<pre>{escape(found.command)}</pre>" if found.command else ""
    return section(
        "reproduce",
        "How to reproduce this page",
        command,
        folded("Settings of the model", table(("setting", "value"), found.model, texts=2)),
        folded("How the training log was read", table(("option", "value"), found.reading, texts=2)),
        folded("Rows of the logs that were read", table(("log", "rows"), found.logs, texts=2))
        if found.logs
        else "",
        folded("Versions", table(("package", "version"), found.versions, texts=2)),
        folded("Glossary", table(("term", "meaning"), GLOSSARY, texts=2)),
    )
