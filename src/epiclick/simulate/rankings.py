r"""Synthetic learning-to-rank data that look like the real ones where it matters.

The generative process, for query q and document d:

1. Latent factors: $z_{qd} = \sqrt{0.3}\, u_q + \sqrt{0.7}\, v_{qd}$ with standard normal $u_q$ (the
   query's, shared by its documents) and $v_{qd}$. There are at most 8, never more than features.
2. Base features: each is a unit-variance mixture of all factors and its own noise,
   $b_j = \sqrt{0.75}\, w_j \cdot z_{qd} + \sqrt{0.25}\, \varepsilon$, so features are correlated.
   One in ten is a property of the query alone: it mixes $u_q$ without noise.
3. Raw features: blocks of columns pass through the transforms in `FAMILIES` (scores, log-normal
   magnitudes, counts, signed powers, ratios), each column on its own scale between 0.01 and 10,000.
4. Labels: $s_{qd} = a \cdot z + 0.6\,(b \cdot z)(c \cdot z)$ with random unit vectors a, b, c,
   standardised, plus normal noise of standard deviation 0.9 that no feature carries; cut where the
   grades 0-4 get MSLR's proportions. The interaction is what a linear ranker misses, the noise what
   every ranker misses.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from epiclick.data.features import FeatureTable

LABEL_PROPORTIONS = (0.52, 0.32, 0.13, 0.02, 0.01)  # grades 0-4, as in MSLR
SPLIT_SHARES = {"train": 0.6, "vali": 0.2, "test": 0.2}  # of the queries, as in MSLR
MAX_FACTORS = 8
QUERY_SHARE = 0.3  # of a factor's variance that the documents of a query have in common
SIGNAL_SHARE = 0.75  # of a feature's variance that the factors explain
QUERY_COLUMNS = slice(9, None, 10)  # one feature in ten is a property of the query alone
INTERACTION = 0.6
LABEL_NOISE = 0.9  # standard deviation, against a signal of 1
CHUNK = 65_536  # pairs made at once

# Standard normal columns -> raw values; `scale` (columns,) is each column's order of magnitude.
FAMILIES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "score": lambda base, scale: scale * (base + 1),
    "magnitude": lambda base, scale: scale * np.exp(1.5 * base),
    "count": lambda base, scale: np.floor(3 * scale**0.25 * np.exp(1.2 * base)),
    "power": lambda base, scale: scale * base * base * base,
    "ratio": lambda base, scale: 1 / (1 + np.exp(-2 * base)),
}


def synthetic_rankings(
    queries: int, docs: int, features: int, rng: np.random.Generator
) -> FeatureTable:
    """Queries with `docs` documents each: features, labels 0-4 and splits (see the module).

    Documents are numbered within their query; the rows are ordered by query, then document.
    """
    factors = min(features, MAX_FACTORS)
    loadings = _unit_columns(rng, factors, features)  # (factors, features)
    # The first factors are carried by a feature each, so that also a few features tell the label.
    loadings[:, :factors] = _unit(loadings[:, :factors] + 2 * np.eye(factors, dtype=np.float32))
    scales = (10 ** rng.uniform(-2, 4, size=features)).astype(np.float32)
    direction, left, right = _unit_columns(rng, factors, 3).T
    query_factors = rng.standard_normal((queries, factors), dtype=np.float32)
    # Products of standard normals with correlation r have mean r and variance 1 + r^2.
    correlation = left @ right
    signal_mean = INTERACTION * correlation
    signal_sd = np.sqrt(1 + INTERACTION**2 * (1 + correlation**2))

    matrix = np.empty((queries * docs, features), dtype=np.float32)
    grade = np.empty(queries * docs, dtype=np.float32)
    block = max(1, CHUNK // docs)
    for first in range(0, queries, block):
        shared = np.repeat(query_factors[first : first + block], docs, axis=0)  # (pairs, factors)
        rows = slice(first * docs, first * docs + len(shared))
        own = rng.standard_normal(shared.shape, dtype=np.float32)
        z = np.float32(QUERY_SHARE**0.5) * shared + np.float32((1 - QUERY_SHARE) ** 0.5) * own
        base = rng.standard_normal((len(z), features), dtype=np.float32)
        base *= np.float32((1 - SIGNAL_SHARE) ** 0.5)
        base += np.float32(SIGNAL_SHARE**0.5) * (z @ loadings)
        base[:, QUERY_COLUMNS] = shared @ loadings[:, QUERY_COLUMNS]
        _raw_features(base, scales, out=matrix[rows])
        signal = z @ direction + INTERACTION * (z @ left) * (z @ right)
        noise = rng.standard_normal(len(z), dtype=np.float32)
        grade[rows] = (signal - signal_mean) / signal_sd + LABEL_NOISE * noise

    thresholds = np.quantile(grade, np.cumsum(LABEL_PROPORTIONS[:-1]))
    labels = np.searchsorted(thresholds, grade).astype(np.int8)
    keys = pa.table(
        {
            "query_id": np.repeat(np.arange(queries), docs),
            "doc_id": np.tile(np.arange(docs), queries),
            "split": pa.array(list(SPLIT_SHARES)).take(
                pa.array(np.repeat(_splits(queries, rng), docs))
            ),
            "label": labels,
        }
    )
    return FeatureTable(keys, tuple(f"f{j}" for j in range(features)), matrix)


def _raw_features(base: np.ndarray, scales: np.ndarray, out: np.ndarray) -> None:
    """Pass blocks of neighbouring columns through one family each; (pairs, features) both."""
    blocks = np.array_split(np.arange(base.shape[1]), len(FAMILIES))
    for transform, columns in zip(FAMILIES.values(), blocks, strict=True):
        if columns.size:
            block = slice(columns[0], columns[-1] + 1)
            out[:, block] = transform(base[:, block], scales[block])


def _splits(queries: int, rng: np.random.Generator) -> np.ndarray:
    """(queries,) index into SPLIT_SHARES, at random in these shares; train is never empty."""
    share_train, share_vali, _ = SPLIT_SHARES.values()
    train, vali = max(1, round(share_train * queries)), round(share_vali * queries)
    splits = np.repeat([0, 1, 2], [train, vali, max(0, queries - train - vali)])[:queries]
    return rng.permutation(splits)


def _unit(columns: np.ndarray) -> np.ndarray:
    """The columns scaled to length 1."""
    return columns / np.linalg.norm(columns, axis=0)


def _unit_columns(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Random directions: (rows, columns) float32, each column of length 1."""
    return _unit(rng.standard_normal((rows, columns), dtype=np.float32))
