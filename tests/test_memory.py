"""Memory of this process, as the kernel reports it."""

import sys

import numpy as np
import pytest

from epiclick.memory import current_memory, peak_memory, reset_peak_memory

MUCH = 200 * 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are reset on Linux only")
def test_a_peak_is_measured_and_can_be_reset() -> None:
    reset_peak_memory()
    before = peak_memory()
    block = np.ones(MUCH // 8)
    assert current_memory() > before + MUCH / 2
    del block
    assert peak_memory() > before + MUCH / 2
    reset_peak_memory()
    assert peak_memory() < before + MUCH / 2
    assert current_memory() <= peak_memory()
