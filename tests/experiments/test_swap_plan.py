"""What swapped positions tell about a difference, against conditioning of a joint Gaussian."""

import numpy as np
import pytest

from epiclick.experiments.swap_plan import best_shuffle, variance_removed

THETA = np.array([1.0, 0.6, 0.4, 0.3])
NOISE = (1 - 0.3 * THETA) / (0.3 * THETA)


def draws(count: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """A difference that depends on the ratio of positions 1 and 3 alone, and log clicks."""
    rng = np.random.default_rng(0)
    log_clicks = np.log(0.3 * THETA) + rng.normal(0, [0.0, 0.1, 0.2, 0.1], (count, 4))
    return 0.5 * log_clicks[:, 2] + rng.normal(0, 0.02, count), log_clicks


@pytest.mark.parametrize("pages", [10.0, 1e3, 1e6])
def test_removed_variance_is_that_of_conditioning(pages: float) -> None:
    difference, log_clicks = draws()
    # measure the contrasts with noise, and regress the difference on them
    rng = np.random.default_rng(1)
    at = [0, 2, 3]
    logs = log_clicks[:, at] + rng.normal(0, np.sqrt(NOISE[at] / pages), (len(difference), 3))
    contrasts = np.column_stack([np.ones(len(logs)), logs[:, 1:] - logs[:, :1]])
    residual = difference - contrasts @ np.linalg.lstsq(contrasts, difference, rcond=None)[0]
    explained = 1 - residual.var() / difference.var()
    error = 2 * np.sqrt(explained / len(difference)) * (1 - explained)  # of a share of variance
    found = variance_removed(difference, log_clicks[:, at], NOISE[at], pages)
    assert abs(found / difference.var() - explained) < 4 * error + 1e-6
    assert variance_removed(difference, log_clicks[:, at], NOISE[at], 10 * pages) > found


def test_chance_explains_nothing() -> None:
    rng = np.random.default_rng(2)
    found = [
        variance_removed(rng.normal(size=60), rng.normal(size=(60, 6)), np.ones(6), 1e9)
        for _ in range(200)
    ]
    assert np.median(found) < 0.02  # without the correction, 5 / 59 on average
    assert np.mean(found) < 0.05


def test_the_pair_that_matters_is_chosen() -> None:
    difference, log_clicks = draws(2_000)
    total = difference.var()
    found = best_shuffle(difference, log_clicks, NOISE, 0.5 * total)
    assert found.positions == (0, 2)
    assert found.removed == pytest.approx(total - 0.02**2, rel=0.05)
    spread = np.var(log_clicks[:, 2])
    # 0.25 v^2 / (v + s^2 / n) = needed
    noise = (NOISE[0] + NOISE[2]) / (0.25 * spread**2 / (0.5 * total) - spread)
    assert found.pages == pytest.approx(noise, rel=0.1)


def test_more_than_position_bias_cannot_be_removed() -> None:
    difference, log_clicks = draws(2_000)
    found = best_shuffle(difference, log_clicks, NOISE, 0.999 * difference.var())
    assert found.pages is None
    assert best_shuffle(difference, np.tile(np.log(THETA), (2_000, 1)), NOISE, 1e-9) is None
