import pytest

from epiclick.simulate.world import simulate

SMALL = {"queries": 80, "docs": 8, "features": 6, "pages": 12_000, "positions": 5, "seed": 1}


@pytest.fixture(scope="session")
def small_settings():
    """Arguments of the small world; the same shapes everywhere save compilations."""
    return dict(SMALL)


@pytest.fixture(scope="session")
def small_world():
    return simulate(**SMALL)
