"""Shared by the tests of calibration: a family of tiny worlds, and calibrated answers."""

import numpy as np
import pytest

from epiclick.calibration.answers import Answers
from epiclick.calibration.families import Family

TINY = Family("tiny", (1.0, 0.6, 0.4), queries=60, docs=6, features=4, pages=500)


@pytest.fixture(scope="session")
def tiny() -> Family:
    return TINY


@pytest.fixture(scope="session")
def right_answers():
    """Makes a calibrated method's answers on values of one world, which share an error."""

    def make(rng: np.random.Generator, values: int = 40, draws: int = 99) -> Answers:
        # the world's own shift is unknown: part of every distribution
        shift, own = 0.8 * rng.standard_normal(), rng.standard_normal(values)
        centre = rng.standard_normal(values)
        spread = np.sqrt(1 + 0.8**2)
        drawn = centre[:, None] + spread * rng.standard_normal((values, draws))
        return Answers.of_draws(centre + shift + own, drawn)

    return make
