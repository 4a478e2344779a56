"""64-bit arithmetic for these tests."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True)
def in_64_bits() -> Iterator[None]:
    with jax.enable_x64(True):
        yield
