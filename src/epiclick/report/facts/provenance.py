"""All that is needed to make the model and the page again."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from epiclick.data.counts import ClickCounts
from epiclick.report.facts.sources import Sources

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
