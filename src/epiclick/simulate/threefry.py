"""The counter-based generator Threefry-2x32 (Salmon et al. 2011), with 20 rounds.

Simulated worlds were first drawn by `jax.random`, which uses this generator. With the same numbers
a seed gives nearly the same world as then, without compiling anything.
"""

from typing import Any, TypeAlias

import numpy as np

Key: TypeAlias = tuple[Any, Any]
"""Two words, uint32, or an array of each."""

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)
MANTISSA = np.uint32(23)  # bits of a float32


def threefry(key: Key, counter: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two random words for each counter below 2**32; arrays of uint32 that broadcast."""
    first, second = (np.asarray(part, np.uint32) for part in key)
    schedule = (first, second, first ^ second ^ PARITY)
    x, y = first + np.zeros_like(counter), second + counter
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x = x + y
            y = ((y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))) ^ x
        x = x + schedule[(group + 1) % 3]
        y = y + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def split(key: Key, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys (..., count) derived from keys (...)."""
    first, second = (np.asarray(part, np.uint32)[..., None] for part in key)
    return threefry((first, second), np.arange(count, dtype=np.uint32))


def gumbel(key: Key, count: int) -> np.ndarray:
    """Standard Gumbel numbers (..., count) float32, for keys (...)."""
    x, y = split(key, count)
    one, tiny = np.float32(1), np.finfo(np.float32).tiny
    unit = (((x ^ y) >> (np.uint32(32) - MANTISSA)) | one.view(np.uint32)).view(np.float32) - one
    return -np.log(-np.log(np.maximum(unit * (one - tiny) + tiny, tiny)))
