"""Memory of this process, as the kernel tells it."""

import sys

import numpy as np
import pytest

from epiclick.paper.measuring import forget_peak, held_memory, peak_memory

MUCH = 200 * 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are forgotten on Linux only")
def test_a_peak_is_seen_and_can_be_forgotten() -> None:
    forget_peak()
    before = peak_memory()
    block = np.ones(MUCH // 8)
    assert held_memory() > before + MUCH / 2
    del block
    assert peak_memory() > before + MUCH / 2
    forget_peak()
    assert peak_memory() < before + MUCH / 2
    assert held_memory() <= peak_memory()
