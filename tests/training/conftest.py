"""A small world to train on, once for all tests."""

import pytest

import epiclick as ec


@pytest.fixture(scope="session")
def small_counts() -> ec.ClickCounts:
    world = ec.simulate(
        queries=60, docs=8, features=4, pages=500, positions=3, relevance="beta", seed=3
    )
    return world.counts()
