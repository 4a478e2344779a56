"""64-bit arithmetic for these tests, and the reference values of the likelihood."""

from collections.abc import Iterator

import jax
import pytest

from ..likelihood.conftest import make_batch, oracle

__all__ = ["in_64_bits", "make_batch", "oracle"]


@pytest.fixture(autouse=True)
def in_64_bits() -> Iterator[None]:
    with jax.enable_x64(True):
        yield
