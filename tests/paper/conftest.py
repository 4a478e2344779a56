"""Fixtures for tests of the reproduction: tiny settings, and one reproduction with them."""

from pathlib import Path

import pytest

from epiclick.paper.results import Results
from epiclick.paper.runs import reproduce
from epiclick.paper.settings import RATES, Settings

METHODS = ("pointwise", "naive+baseline", "pointwise~start=0.5")

TINY = Settings(
    preset="tiny",
    queries=40,
    docs=6,
    features=5,
    pages=400,
    theta=(1.0, 0.5, 0.3),
    runs=2,
    epochs=3,
    samples=4,
    batch_size=60,
    pointwise_batch_size=120,
    room=0.15,
    every=2,
    ranker_samples=100,
    hidden=(8, 4),
    rates=dict.fromkeys(RATES, 1e-3),
    methods=METHODS,
)


@pytest.fixture(scope="session")
def tiny() -> Settings:
    return TINY


@pytest.fixture(scope="session")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results]:
    """A folder with a complete reproduction, and its results."""
    folder = tmp_path_factory.mktemp("reproduction")
    results = reproduce(TINY, folder, jobs=1, progress=False)
    assert results is not None
    return folder, results
