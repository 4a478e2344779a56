"""Content that is damaged or made to do harm: what parsers raise on it, and how it is said."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from safetensors import SafetensorError

from epiclick.errors import InputError

MEND = "Copy the whole folder again from where it was written, or fit and save the model again."

MALFORMED = (
    LookupError,
    OverflowError,
    RecursionError,
    SafetensorError,
    TypeError,
    ValueError,
    pa.ArrowException,
)
"""What damaged or hostile content makes the parsers raise."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say of which file it is that something cannot be read."""
    try:
        yield
    except MALFORMED as error:
        plain = isinstance(error, ValueError) or not str(error)
        why = str(error) if plain else f"{type(error).__name__}: {error}"
        raise InputError(f"{path} is damaged: {why[:300].rstrip('.')}. {MEND}") from error
