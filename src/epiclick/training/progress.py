"""Progress of training and of other work: a bar on a terminal or in a notebook, else log records.

Records of the logger "epiclick" have the level INFO, one every ten seconds of training;
`logging.basicConfig(level="INFO")` shows them. The command line prints them to standard error.
"""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

LOGGER = logging.getLogger("epiclick")

SECONDS = 10.0
"""Between two records."""


def has_display() -> bool:
    """Whether a bar can be drawn: on a terminal or in a notebook."""
    return sys.stderr.isatty() or Console(stderr=True).is_jupyter


@contextmanager
def working(message: str, *, shown: bool = True) -> Iterator[None]:
    """Show that work is going on."""
    if not (shown and has_display()):
        yield
        return
    with Console(stderr=True).status(message):
        yield


class Progress(Protocol):
    """Callbacks of the training loop."""

    def step(self) -> None:
        """Called after each batch."""
        ...

    def epoch(self, log_likelihood: float, validation: float | None) -> None:
        """Called after each epoch, with log-likelihoods per display."""
        ...


class Silent:
    """Shows no progress."""

    def step(self) -> None:
        """Do nothing."""

    def epoch(self, log_likelihood: float, validation: float | None) -> None:
        """Do nothing."""


class TrainingBar:
    """Epochs done, steps per second, likelihood and remaining time, on standard error."""

    def __init__(self, epochs: int, steps: int, *, shown: bool = True) -> None:
        """Prepare a bar for `epochs` epochs of `steps` steps each."""
        self._bar = Bar(
            TextColumn("training"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("epochs, {task.fields[rate]}{task.fields[likelihood]}, left at most"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not (shown and has_display()),
        )
        self._epochs, self._done, self._recorded = epochs, 0, time.monotonic()
        self._steps = steps
        self._task = self._bar.add_task("", total=epochs, rate="compiling", likelihood="")
        self._stepped = 0

    def __enter__(self) -> Self:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Remove the bar."""
        self._bar.stop()

    def resume(self, epochs: int) -> None:
        """Start with this many epochs already done."""
        self._done = epochs
        self._bar.update(self._task, completed=epochs)

    def step(self) -> None:
        """Advance the bar by one batch."""
        self._stepped += 1
        elapsed = self._bar.tasks[0].elapsed or 0.0
        rate = f"{self._stepped / elapsed:.1f} steps/s" if elapsed else ""
        self._bar.update(self._task, advance=1 / self._steps, rate=rate)

    def epoch(self, log_likelihood: float, validation: float | None) -> None:
        """Show the likelihood."""
        held_out = "" if validation is None else f" (held out {validation:.4f})"
        self._done += 1
        if time.monotonic() - self._recorded >= SECONDS:
            self._recorded = time.monotonic()
            done = f"training: {self._done} of at most {self._epochs} epochs"
            LOGGER.info("%s, likelihood %.4f%s", done, log_likelihood, held_out)
        self._bar.update(self._task, likelihood=f", likelihood {log_likelihood:.4f}{held_out}")
