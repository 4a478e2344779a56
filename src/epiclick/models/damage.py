"""Damage to a model's folder, and what to do about it."""

from contextlib import AbstractContextManager
from pathlib import Path

from epiclick.data import damage

MEND = (
    "Copy the whole folder again from where it was written, or remove it, then fit and save the "
    "model again."
)


def reading(path: Path) -> AbstractContextManager[None]:
    """Report which file of a model cannot be read."""
    return damage.reading(path, MEND)
