"""Joint likelihoods of pairs and of a whole log against brute force."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import betaln, logsumexp

from epiclick.click_models.click_model import Emission
from epiclick.data.counts import ClickCounts
from epiclick.evaluation import log_scores
from epiclick.evaluation.log_scores import joint_log_likelihood


@pytest.fixture
def counts() -> ClickCounts:
    rng = np.random.default_rng(0)
    displays = rng.integers(1, 5, 40)
    return ClickCounts.from_table(
        pa.table(
            {
                "query_id": np.arange(40) // 4,
                "doc_id": np.arange(40) % 4 // 2,
                "position": np.arange(40) % 2 + 1,
                "displays": displays,
                "clicks": rng.binomial(displays, 0.3),
            }
        )
    )


def brute_force(
    counts: ClickCounts, theta: np.ndarray, alpha: np.ndarray, beta: np.ndarray
) -> np.ndarray:
    """(samples, pairs) log JJ by a sum over a fine grid of relevance."""
    zeta = (np.arange(20_000) + 0.5) / 20_000
    displays, clicks = counts.dense()
    found = np.empty((len(theta), len(counts)))
    for i, bias in enumerate(theta):
        p = bias[:, None] * zeta  # (contexts, grid)
        for q in range(len(counts)):
            log_j = clicks[q] @ np.log(p) + (displays - clicks)[q] @ np.log1p(-p)
            prior = (alpha[q] - 1) * np.log(zeta) + (beta[q] - 1) * np.log1p(-zeta)
            found[i, q] = logsumexp(log_j + prior) - np.log(len(zeta)) - betaln(alpha[q], beta[q])
    return found


def test_pair_and_whole_are_means_over_biases_at_different_places(
    counts: ClickCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    theta = rng.uniform(0.2, 0.9, (5, 2))
    alpha, beta = rng.uniform(1.5, 4, (2, len(counts)))
    each = brute_force(counts, theta, alpha, beta)
    for chunk in (100, 7):
        monkeypatch.setattr(log_scores, "CHUNK", chunk)
        scores = joint_log_likelihood(counts, Emission(theta, 1 - theta), alpha, beta)
        pair = (logsumexp(each, axis=0) - np.log(5)).sum()
        assert scores.pair == pytest.approx(pair, abs=1e-5)
        assert scores.whole == pytest.approx(logsumexp(each.sum(axis=1)) - np.log(5), abs=1e-5)
