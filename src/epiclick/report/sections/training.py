"""The training curve."""

from math import isnan

from epiclick.report.chart import Axis, Chart, Layer
from epiclick.report.gather import Report
from epiclick.report.markup import figure, number, paragraph, section


def training_section(report: Report) -> str:
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
