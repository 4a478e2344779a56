"""Real search clicks, without features: against a plain EM of the position-based model."""

from pathlib import Path

import numpy as np
import pytest
from scipy import special

import epiclick as ec
from epiclick.batching.pairset import PairSet
from epiclick.click_models.pbm import PositionBased
from epiclick.fitting import _start
from epiclick.posterior.laplace import find_posterior

pytestmark = pytest.mark.slow

COUNTS = Path(__file__).resolve().parents[2] / "shared" / "data" / "yandex-counts" / "counts.csv"


def plain_em(displays: np.ndarray, clicks: np.ndarray) -> np.ndarray:
    """Maximum-likelihood position bias with the first at 1, relevance a point estimate per pair."""
    unclicked = displays - clicks
    theta, zeta = np.full(displays.shape[1], 0.5), np.full(len(displays), 0.5)
    theta[0] = 1
    for _ in range(20_000):
        missed = np.maximum(1 - theta * zeta[:, None], 1e-300)
        seen = clicks + unclicked * theta * (1 - zeta[:, None]) / missed
        attractive = clicks + unclicked * zeta[:, None] * (1 - theta) / missed
        found = seen.sum(axis=0) / displays.sum(axis=0)
        found[0] = 1
        change = np.max(abs(found - theta))
        theta, zeta = found, attractive.sum(axis=1) / displays.sum(axis=1)
        if change < 1e-9:  # then it is 6e-7 from where 1e-12 ends, after half as many steps more
            return theta
    raise AssertionError("EM did not converge")


@pytest.mark.skipif(not COUNTS.exists(), reason="data/yandex-counts is not here")
@pytest.mark.filterwarnings("ignore::epiclick.InputWarning")
def test_position_bias_of_yandex_agrees_with_em() -> None:
    counts = ec.read_log(COUNTS, position_base=0, clip_clicks=True)
    displays, clicks = (part.astype(float) for part in counts.dense())
    expected = plain_em(displays, clicks)
    model = ec.EpistemicPBM(holdout=0).fit(counts)
    # EM finds the mode, not the posterior mean
    bias = special.expit(model.fitted_.parameters.position.logit)
    bias[0] = 1
    np.testing.assert_allclose(bias, expected, atol=0.01)
    checks = model.fitted_.training.checks
    assert 20 < checks["chi2_per_df"] < 28
    assert any("overdispersed" in warning for warning in model.fitted_.training.warnings)


def split_differences(counts: ec.ClickCounts, splits: int) -> dict[str, np.ndarray]:
    """Differences of position bias between random halves of the queries, in standard errors.

    (splits, positions but the first) of each kind. Without features all parameters are in the
    posterior, so that no training is needed.
    """
    found: dict[str, list[np.ndarray]] = {"robust": [], "bayes": []}
    plan = ec.EpistemicPBM()._plan(counts)
    for seed in range(splits):
        halves = []
        for half in counts.split(0.5, 0.5, by="query", seed=seed):
            start = _start(plan, half, len(half.contexts))
            halves.append(
                find_posterior(PairSet.of(half, None, 12_000), start, PositionBased(), plan.anchor)[
                    1
                ]
            )
        one, other = halves
        free = len(counts.contexts) - 1
        for kind, differences in found.items():
            variance = sum(np.diag(getattr(half, kind))[:free] for half in halves)
            differences.append((one.mean - other.mean)[:free] / np.sqrt(variance))
    return {kind: np.array(differences) for kind, differences in found.items()}


@pytest.mark.skipif(not COUNTS.exists(), reason="data/yandex-counts is not here")
@pytest.mark.filterwarnings("ignore::epiclick.InputWarning")
def test_halves_of_the_queries_differ_as_robust_intervals_say() -> None:
    """A few of the hundred splits that docs/limits.md reports."""
    counts = ec.read_log(COUNTS, position_base=0, clip_clicks=True)
    differences = split_differences(counts, 4)
    held = {kind: np.mean(abs(values) < 1.645) for kind, values in differences.items()}
    assert held["robust"] >= 0.8
    assert held["bayes"] < 0.3  # the control: trusting the model is far too sure of itself
