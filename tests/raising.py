"""Expecting an error by its code: messages may be reworded, codes are stable."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from epiclick.errors import InputError


@contextmanager
def raises_code(code: str) -> Iterator[pytest.ExceptionInfo[InputError]]:
    """An InputError of this code, alone or first among several problems."""
    with pytest.raises(InputError) as caught:
        yield caught
    assert caught.value.code == code, f"{caught.value.code}: {caught.value}"
