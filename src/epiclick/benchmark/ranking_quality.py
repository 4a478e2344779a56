r"""nDCG of items ranked within their queries by estimated relevance.

.. math:: \text{DCG@}n = \sum_{r \le n} \frac{g_r}{\log_2(1 + r)}, \qquad
          \text{nDCG} = \text{DCG} / \text{DCG of the best order}.

Of items with the same estimate every order is equally likely, so their gains are averaged.
"""

import numpy as np

CUT = 5


def query_ndcg(
    query_of: np.ndarray, relevance: np.ndarray, gain: np.ndarray, queries: int, cut: int = CUT
) -> np.ndarray:
    """(queries,) nDCG of each query; NaN where all of its items have the same gain.

    Args:
        query_of: (items,) query of each item.
        relevance: (items,) estimates to rank by.
        gain: (items,) at least 0.
        queries: number of queries.
        cut: number of ranks that count.
    """
    found = np.full(queries, np.nan)
    order = np.argsort(query_of, kind="stable")
    bounds = np.searchsorted(query_of[order], np.arange(queries + 1))
    for query in range(queries):
        rows = order[bounds[query] : bounds[query + 1]]
        if len(rows) and np.ptp(gain[rows]) > 0:
            best = _dcg(gain[rows], gain[rows], cut)
            found[query] = _dcg(relevance[rows], gain[rows], cut) / best
    return found


def _dcg(score: np.ndarray, gain: np.ndarray, cut: int) -> float:
    """DCG of a query's items by their scores, averaged over the orders of ties."""
    _, tie = np.unique(-score, return_inverse=True)
    own = (np.bincount(tie, gain) / np.bincount(tie))[tie]
    ranked = own[np.argsort(tie, kind="stable")][:cut]
    return float((ranked / np.log2(np.arange(2, len(ranked) + 2))).sum())
