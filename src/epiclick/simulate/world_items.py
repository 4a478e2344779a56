r"""The items of a world, synthetic or of a dataset, and their true relevance.

Synthetic items are generated as follows, for query q and document d:

1. Latent factors: $z_{qd} = \sqrt{0.3}\, u_q + \sqrt{0.7}\, v_{qd}$ with standard normal $u_q$ (the
   query's, shared by its documents) and $v_{qd}$. There are at most 8, and no more than features.
2. Base features: each is a unit-variance mixture of all factors and its own noise,
   $b_j = \sqrt{0.75}\, w_j \cdot z_{qd} + \sqrt{0.25}\, \varepsilon$, so features are correlated.
   One in ten is a property of the query alone: it mixes $u_q$ without noise.
3. Raw features: blocks of columns pass through the transforms in `FAMILIES` (scores, log-normal
   magnitudes, counts, signed powers, ratios), each column on its own scale between 0.01 and 10,000.
4. Labels: $s_{qd} = a \cdot z + 0.6\,(b \cdot z)(c \cdot z)$ with random unit vectors a, b, c,
   standardised, plus normal noise of standard deviation 0.9 that no feature carries; cut where the
   grades 0-4 get MSLR's proportions. A linear ranker misses the interaction, every ranker the
   noise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.special import expit, logit

from epiclick.beta import Beta
from epiclick.data.features import FeatureScaler, FeatureTable
from epiclick.errors import InputError, Problem
from epiclick.relevance.network import apply_mlp, init_mlp
from epiclick.simulate.world_settings import WorldSettings

LABEL_PROPORTIONS = (0.52, 0.32, 0.13, 0.02, 0.01)  # grades 0-4, as in MSLR
SPLIT_SHARES = {"train": 0.6, "vali": 0.2, "test": 0.2}  # of the queries, as in MSLR
MAX_FACTORS = 8
QUERY_SHARE = 0.3  # of a factor's variance that the documents of a query have in common
SIGNAL_SHARE = 0.75  # of a feature's variance that the factors explain
QUERY_COLUMNS = slice(9, None, 10)  # one feature in ten is a property of the query alone
INTERACTION = 0.6
LABEL_NOISE = 0.9  # standard deviation, against a signal of 1
PAIRS_AT_ONCE = 65_536  # pairs generated at once

HIDDEN = (32,)
ROWS_AT_ONCE = 65_536  # rows that the random network scores at once
TASTE_NODES = 64  # Gauss-Hermite nodes


# Standard normal columns -> raw values; `scale` (columns,) is each column's order of magnitude.
FAMILIES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "score": lambda base, scale: scale * (base + 1),
    "magnitude": lambda base, scale: scale * np.exp(1.5 * base),
    "count": lambda base, scale: np.floor(3 * scale**0.25 * np.exp(1.2 * base)),
    "power": lambda base, scale: scale * base * base * base,
    "ratio": lambda base, scale: 1 / (1 + np.exp(-2 * base)),
}


@dataclass(frozen=True, eq=False)
class QueryGroups:
    """Rows of a table grouped by query: those of query q are `rows[starts[q] : starts[q + 1]]`.

    Queries are numbered in the order in which they first appear.
    """

    rows: np.ndarray  # (pairs,) int64
    starts: np.ndarray  # (queries + 1,) int64

    @classmethod
    def of(cls, query_ids: pa.ChunkedArray) -> "QueryGroups":
        """Group by the query of each row."""
        codes = query_ids.combine_chunks().dictionary_encode().indices.to_numpy()
        starts = np.concatenate([[0], np.cumsum(np.bincount(codes))])
        return cls(np.argsort(codes, kind="stable"), starts)

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> np.ndarray:
        """(queries,) number of documents of each query."""
        return np.diff(self.starts)

    def padded(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the given queries side by side, and a mask of those that are not padding.

        Returns:
            rows (len(queries), docs of the largest) int64, and a mask of that shape; padding
            repeats the query's first row.
        """
        sizes = self.sizes[queries][:, None]
        offsets = np.arange(sizes.max(initial=0))
        real = offsets < sizes
        return self.rows[self.starts[queries][:, None] + np.where(real, offsets, 0)], real


def synthetic_rankings(
    queries: int, docs: int, features: int, rng: np.random.Generator
) -> FeatureTable:
    """Queries with `docs` documents each: features, labels 0-4 and splits (see above).

    Documents are numbered within their query; the rows are ordered by query, then document.
    """
    factors = min(features, MAX_FACTORS)
    loadings = _unit_columns(rng, factors, features)  # (factors, features)
    # The first factors have a feature each, so that even a few features predict the label.
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
    block = max(1, PAIRS_AT_ONCE // docs)
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
    """(queries,) random index into SPLIT_SHARES, in these shares; train is never empty."""
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


def make_items(
    settings: WorldSettings, dataset: FeatureTable | str | Path | None, rng: np.random.Generator
) -> FeatureTable:
    """The items of the world: synthetic, or those of the dataset."""
    if settings.queries and settings.docs and settings.features:
        return synthetic_rankings(settings.queries, settings.docs, settings.features, rng)
    if isinstance(dataset, FeatureTable):
        table = dataset
    else:
        from epiclick.data.letor import read_letor

        assert dataset is not None, "settings without sizes come from a dataset"
        table = read_letor(dataset)
    problems = []
    if "split" not in table.keys.column_names:
        problems.append(
            Problem("a dataset needs the key split", 1, "column", ("split",), code="missing-column")
        )
    elif not np.any(splits(table) == "train"):
        problems.append(
            Problem(
                'split must be "train" for some rows, on which the policy is trained',
                len(table),
                code="no-training-rows",
            )
        )
    if settings.relevance == "label":
        problems += _label_problems(table)
    if problems:
        raise InputError.of("the dataset of simulate", problems)
    return table


def _label_problems(table: FeatureTable) -> list[Problem]:
    """Why labels cannot be turned into relevance."""
    if "label" not in table.keys.column_names:
        remedy = 'Use relevance="beta", which needs no labels.'
        rule = "a dataset needs the key label"
        return [Problem(rule, 1, "column", ("label",), remedy, code="missing-column")]
    labels = table.keys["label"].to_numpy()
    bad = np.flatnonzero(~np.isin(labels, range(5)))
    if not bad.size:
        return []
    examples = [f"row {row}: {labels[row]}" for row in bad[:3]]
    rule = "labels must be 0, 1, 2, 3 or 4"
    return [Problem(rule, bad.size, examples=examples, code="label-out-of-range")]


def splits(table: FeatureTable) -> np.ndarray:
    """(pairs,) the split of each row."""
    return table.keys["split"].to_numpy()


def label_relevance(labels: np.ndarray) -> np.ndarray:
    """zeta = 0.9 y / 4 + 0.1 for labels y in 0-4 (paper, section 6)."""
    return 0.9 * (np.asarray(labels, dtype=np.float64) / 4) + 0.1


def beta_prior(features: FeatureTable, rng: np.random.Generator) -> Beta:
    r"""Beta distributions that a network of the paper's kind can learn from the features.

    .. math:: \mu = \sigma(-1.1 + 0.75\, g(x)), \quad \nu = 16 + 14 \tanh(h(x) - 0.5),
              \quad \alpha = \mu\nu, \quad \beta = (1 - \mu)\nu

    with g and h the outputs, standardised over the pairs, of a random network with 32 hidden units
    on scaled features. Mean relevance is near 0.27 and its spread near 0.19, as in the label world;
    the confidence nu is between 2 and 30.
    """
    scaler = FeatureScaler.fit(features.matrix)
    layers = init_mlp(rng, (len(features.names), *HIDDEN, 2))
    outputs = np.empty((len(features), 2))
    for start in range(0, len(features), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        outputs[rows] = apply_mlp(layers, scaler.transform(features.matrix[rows]))
    spread = outputs.std(axis=0)
    outputs = (outputs - outputs.mean(axis=0)) / np.where(spread > 0, spread, 1)
    mean = expit(-1.1 + 0.75 * outputs[:, 0])
    confidence = 16 + 14 * np.tanh(outputs[:, 1] - 0.5)
    return Beta(mean * confidence, (1 - mean) * confidence)


def taste_relevance(relevance: np.ndarray, taste: np.ndarray) -> np.ndarray:
    """One user's relevance: the item's, shifted by the user's taste in logits; same shapes."""
    # A relevance of exactly 1 (label 4) has an infinite logit: no taste changes it.
    return expit(logit(relevance) + taste)


def mean_over_users(relevance: np.ndarray, taste_sd: float) -> np.ndarray:
    """E[sigmoid(logit zeta + taste)] over taste ~ N(0, taste_sd), by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(TASTE_NODES)
    weights = weights / weights.sum()
    logits = logit(relevance)
    mean = np.zeros_like(logits)
    for node, weight in zip(nodes, weights, strict=True):
        mean += weight * expit(logits + taste_sd * node)
    return mean
