"""Content that is damaged or made to do harm: what parsers raise on it, and how it is reported."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from safetensors import SafetensorError

from epiclick.errors import InputError

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
def reading(path: Path, remedy: str) -> Iterator[None]:
    """Report which file cannot be read, why, and what to do."""
    try:
        yield
    except MALFORMED as error:
        plain = isinstance(error, ValueError) or not str(error)
        why = str(error) if plain else f"{type(error).__name__}: {error}"
        raise damaged(path, why, remedy) from error
    except (OSError, MemoryError) as error:
        number = getattr(error, "errno", None)
        if isinstance(error, OSError) and number is None:  # Arrow's word for damage
            raise damaged(path, str(error), remedy) from error
        why = getattr(error, "strerror", None) or str(error) or "not enough memory"
        raise InputError(
            f"{path} cannot be read ({why}). Check its path, permissions and size."
        ) from error


def damaged(path: Path, why: str, remedy: str) -> InputError:
    """The error that reports damage to a file."""
    words = " ".join(why.split())
    return InputError(f"{path} is damaged: {words[:300].rstrip('.')}. {remedy}")
