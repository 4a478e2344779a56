"""A LightGBM ranker trained on the export against ones trained on raw clicks, by true relevance."""

from collections.abc import Callable

import lightgbm
import numpy as np
import pytest

import epiclick as ec

from .conftest import DOCS, LOGGED, Misled

SEEDS = range(3)
ROUNDS = 50
Train = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]  # X, y, weight, group


def ranker(data: Train, seed: int) -> lightgbm.Booster:
    x, y, weight, group = data
    settings = {
        "objective": "lambdarank",
        "num_leaves": 8,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "seed": seed,
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "verbose": -1,
    }
    return lightgbm.train(settings, lightgbm.Dataset(x, y, weight=weight, group=group), ROUNDS)


def ndcg(score: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """(queries,) of scores and true relevance, (queries, docs) each."""
    discount = 1 / np.log2(np.arange(2, 2 + score.shape[1]))
    order = np.argsort(-score, axis=1, kind="stable")
    reached = (np.take_along_axis(gain, order, axis=1) * discount).sum(axis=1)
    return reached / (-np.sort(-gain, axis=1) * discount).sum(axis=1)


def raw_pages(misled: Misled) -> Train:
    """Click or no click at every display, page by page."""
    row = misled.pages["query_id"] * DOCS + misled.pages["doc_id"]
    _, group = np.unique(misled.pages["page_id"], return_counts=True)
    return misled.items.matrix[row], misled.pages["click"], None, group


def raw_rates(misled: Misled) -> Train:
    """Clicks per display in five grades with the same shares of items."""
    displays, clicks = (part.sum(axis=1) for part in misled.counts.dense())
    rate = clicks / displays
    y = np.searchsorted(np.quantile(rate, (0.5, 0.75, 0.9, 0.97)), rate, side="left")
    _, group = np.unique(misled.counts.query_id.to_numpy(), return_counts=True)
    return misled.features.rows(misled.counts.feature_row), y, None, group


def raw_weights(misled: Misled) -> Train:
    """Two rows per item, weighted by its clicks and by its displays without."""
    displays, clicks = (part.sum(axis=1) for part in misled.counts.dense())
    weight = np.stack([displays - clicks, clicks], axis=1).ravel()
    x = np.repeat(misled.features.rows(misled.counts.feature_row), 2, axis=0)
    query = np.repeat(misled.counts.query_id.to_numpy(), 2)
    kept = weight > 0
    _, group = np.unique(query[kept], return_counts=True)
    return x[kept], np.tile([0, 1], len(displays))[kept], weight[kept], group


@pytest.fixture(scope="module")
def quality(misled: Misled) -> Callable[[Train], np.ndarray]:
    """(held-out queries,) NDCG of a ranker, over some seeds of its training."""
    held_out = slice(LOGGED * DOCS, None)
    gain = misled.relevance[held_out].reshape(-1, DOCS)
    x = misled.items.matrix[held_out]

    def of(data: Train) -> np.ndarray:
        scores = (ranker(data, seed).predict(x).reshape(-1, DOCS) for seed in SEEDS)
        return np.mean([ndcg(score, gain) for score in scores], axis=0)

    return of


def surely_better(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether the mean difference over queries exceeds four of its standard errors."""
    gain = one - other
    return bool(gain.mean() > 4 * gain.std(ddof=1) / np.sqrt(len(gain)))


@pytest.fixture(scope="module")
def by_export(
    model: ec.EpistemicPBM, misled: Misled, quality: Callable[[Train], np.ndarray]
) -> np.ndarray:
    data = model.to_lightgbm(misled.counts)
    return quality((data.X, data.y, data.weight, data.group))


@pytest.mark.parametrize("raw", [raw_pages, raw_rates, raw_weights])
def test_the_export_beats_raw_clicks_on_queries_never_shown(
    raw: Callable[[Misled], Train],
    misled: Misled,
    quality: Callable[[Train], np.ndarray],
    by_export: np.ndarray,
) -> None:
    by_clicks = quality(raw(misled))
    assert surely_better(by_export, by_clicks)
    assert by_export.mean() > by_clicks.mean() + 0.01


def test_labels_of_other_items_do_not(
    model: ec.EpistemicPBM, misled: Misled, quality: Callable[[Train], np.ndarray]
) -> None:
    data = model.to_lightgbm(misled.counts)
    shuffled = np.random.default_rng(0).permutation(len(data))
    wrong = quality((data.X, data.y[shuffled], data.weight[shuffled], data.group))
    assert surely_better(quality(raw_pages(misled)), wrong)
