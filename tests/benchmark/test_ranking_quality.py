"""nDCG against scikit-learn, which also averages over ties."""

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from epiclick.benchmark.ranking_quality import query_ndcg


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_ndcg_is_that_of_scikit_learn(cut: int) -> None:
    rng = np.random.default_rng(0)
    query = rng.permutation(np.repeat(np.arange(6), [2, 3, 5, 8, 8, 12]))
    gain = 2.0 ** rng.permutation(np.arange(len(query)) % 5) - 1
    relevance = rng.integers(0, 5, len(query)) / 5  # with ties
    found = query_ndcg(query, relevance, gain, 6, cut)
    for q in range(6):
        rows = query == q
        expected = ndcg_score([gain[rows]], [relevance[rows]], k=cut)
        assert found[q] == pytest.approx(expected, abs=1e-12)
    assert not np.allclose(found, query_ndcg(query, -relevance, gain, 6, cut))  # the control


def test_queries_without_a_better_and_a_worse_item_have_none() -> None:
    found = query_ndcg(np.array([0, 0, 1]), np.array([0.1, 0.2, 0.3]), np.ones(3), 3)
    assert np.isnan(found).all()
