"""Displays of items against a numerical optimum."""

import numpy as np
import pytest
from scipy.optimize import minimize

from epiclick.experiments.show_plan import displays_to_reach


@pytest.fixture
def items() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Part, variance and information of items."""
    rng = np.random.default_rng(0)
    variance = rng.uniform(0.005, 0.05, 6)
    return rng.uniform(0, 1, 6) ** 2 * variance, variance, rng.uniform(0.5, 6, 6)


def left(displays, items) -> float:
    part, variance, information = items
    return float((part / (1 + displays * variance * information)).sum())


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_target_is_reached_with_the_fewest_displays(share: float, items) -> None:
    target = share * items[0].sum()
    found = displays_to_reach(*items, target)
    assert left(found, items) == pytest.approx(target)
    best = minimize(
        lambda n: n.sum(),
        np.full(6, 100.0),
        bounds=[(0, None)] * 6,
        constraints={"type": "ineq", "fun": lambda n: 1e3 * (target - left(n, items))},
        options={"maxiter": 1000, "ftol": 1e-10},
    )
    assert best.success
    assert found.sum() == pytest.approx(best.x.sum(), rel=1e-3)
    equal = np.full(6, found.mean())  # the same displays for all are worse
    assert left(equal, items) > target


def test_nothing_is_shown_where_the_target_is_met(items) -> None:
    assert (displays_to_reach(*items, 2 * items[0].sum()) == 0).all()


def test_items_in_slots_that_nobody_sees_cannot_be_learned() -> None:
    part, variance = np.array([1.0, 1.0]), np.array([0.1, 0.1])
    assert displays_to_reach(part, variance, np.array([1.0, 0.0]), 0.9) is None
    assert displays_to_reach(part, variance, np.array([1.0, 0.0]), 1.5)[1] == 0
