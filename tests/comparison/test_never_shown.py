"""Items never shown: their kinds, their discount, and the discount at which a verdict flips."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

import epiclick as ec
from epiclick.comparison.never_shown import (
    BY_FEATURES,
    BY_ID,
    Discount,
    Factor,
    discount_by_id,
    in_logits,
    slope_draws,
    slope_of,
    tipping_point,
)
from epiclick.comparison.shown_items import items_of
from epiclick.comparison.value_samples import ValueSamples
from epiclick.fitted.exposure import ExposureModel


def values(seen: np.ndarray, never: np.ndarray, noise: np.ndarray) -> ValueSamples:
    """Two rankers of given parts (rankers,) and common noise (rankers, samples)."""
    nothing = np.zeros((1, 2, 2))
    draws = np.tile(never[None, :, None], (1, 1, 4))
    samples = (seen + never)[None, :, None] + noise[None]
    return ValueSamples(samples, draws, draws, nothing, nothing, draws)


def test_the_verdict_flips_where_the_discounted_difference_is_no_longer_sure() -> None:
    noise = np.zeros((2, 1_000))
    noise[0] = 0.01 * np.random.default_rng(0).standard_normal(1_000)
    found = values(np.array([0.5, 0.6]), np.array([0.3, 0.1]), noise)
    # ahead by 0.1 - 0.2 d, with standard deviation 0.01: sure at 95 % while that exceeds 0.01645
    flips = (0.1 - 0.01645) / 0.2
    assert tipping_point(found, (0, 1), 0.95) == pytest.approx(flips, abs=0.02)
    assert tipping_point(found, (1, 0), 0.95) is None  # not ahead
    safe = values(np.array([0.7, 0.6]), np.array([0.3, 0.3]), noise)
    assert tipping_point(safe, (0, 1), 0.95) is None


def test_discounts_of_an_ensemble_are_those_of_its_mean() -> None:
    found = values(np.array([0.5, 0.6]), np.array([0.3, 0.1]), np.zeros((2, 8)))
    assert np.allclose(replace(found, members=True).discounted(0, 0.5), found.discounted(0, 0.5))


@pytest.mark.parametrize("factor", [BY_FEATURES, BY_ID])
@pytest.mark.parametrize("noise", [0.3, 0.01])
def test_factors_are_log_normal_and_wider_without_noise(factor: Factor, noise: float) -> None:
    model = ExposureModel(np.zeros(0), 0.5, noise, 0.1)
    found = np.log(factor.draws(model, 400, np.random.default_rng(0)) / factor.median)
    assert abs(found.mean()) < 1e-12
    spread = factor.spread_by_rank if noise < 0.1 else factor.spread
    assert found.std() == pytest.approx(spread, rel=0.02)
    assert factor.spread < factor.spread_by_rank


def test_a_discount_moves_logits_and_leaves_other_queries_alone() -> None:
    discount = Discount(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    mean, variance = np.array([0.3, 0.3]), np.array([0.01, 0.01])
    moved, spread = discount.apply(mean, variance)
    assert np.allclose(moved[:, 0], 0.3)
    assert np.allclose(spread[:, 0], 0.01)
    logit = np.log(moved / (1 - moved))
    assert np.allclose(logit[:, 0] - logit[:, 1], [1.0, 2.0])


def log_of(
    rng: np.random.Generator,
    relevance: np.ndarray,
    pages: int,
    known: np.ndarray | None = None,
) -> pd.DataFrame:
    """A ranker that knows relevance (queries, docs) well shows 4 of the docs of each query.

    Or something else, which is `known`.
    """
    known = relevance if known is None else known
    rows = []
    for page in range(pages):
        query = page % len(relevance)
        score = known[query] + 0.1 * rng.standard_normal(relevance.shape[1])
        for k, doc in enumerate(np.argsort(-score)[:4]):
            click = int(rng.random() < relevance[query, doc] / (1 + 0.3 * k))
            rows.append((page, query, doc, k + 1, click))
    return pd.DataFrame(rows, columns=["page_id", "query_id", "doc_id", "position", "click"])


def ranking_of(best: np.ndarray) -> pd.DataFrame:
    queries, depth = best.shape
    return pd.DataFrame(
        {
            "query_id": np.repeat(np.arange(queries), depth),
            "doc_id": best.ravel(),
            "position": np.tile(np.arange(1, depth + 1), queries),
        }
    )


def test_without_features_items_never_shown_are_worse_where_the_ranker_knows_what_it_shows() -> (
    None
):
    rng = np.random.default_rng(1)
    relevance = rng.beta(1, 3, (60, 20))
    log = log_of(rng, relevance, 3_000)
    counts = ec.read_log(log)
    model = ec.EpistemicPBM().fit(counts)
    shown = set(zip(log.query_id, log.doc_id, strict=True))
    never = np.array(
        [[d for d in range(20) if (q, d) not in shown][:2] for q in range(60)], dtype=int
    )
    found = ec.compare(model, {"never": ranking_of(never)}, clicks=counts, weights="uniform")
    theta = np.array([1, 1 / 1.3])
    truth = (np.take_along_axis(relevance, never, axis=1) * theta).sum(axis=1).mean()
    value = found.rankers.loc[0]
    assert value["low"] < truth < value["high"]
    # control: as good as any item that was shown
    average = np.average(
        [relevance[q, d] for q, d in zip(log.query_id, log.doc_id, strict=True)],
    )
    assert average * theta.sum() > value["high"]


def test_new_items_and_other_queries_were_left_out_by_no_ranker() -> None:
    world = ec.simulate(queries=60, docs=6, features=2, pages=600, positions=2, seed=3)
    counts = world.counts()
    some, _ = counts.split(0.5, 0.5, by="query", seed=0)
    keys = world.features.keys.select(["query_id", "doc_id"])
    own = set(some.query_id.to_pylist())
    model = ec.EpistemicPBM(epochs=1).fit(some)
    new = np.arange(len(world.features)) % 3 == 0
    frame = keys.to_pandas().assign(new_item=new.astype(int))
    for i, name in enumerate(world.features.names):
        frame[name] = world.features.matrix[:, i]
    table = ec.read_features(frame)
    assert table.names == world.features.names
    assert table.is_new.tolist() == new.tolist()
    ids = [keys[name].combine_chunks() for name in ("query_id", "doc_id")]
    items = items_of(model.fitted_, *ids, table, some)
    shown = set(zip(some.query_id.to_pylist(), some.doc_id.to_pylist(), strict=True))
    pairs = zip(*(column.to_pylist() for column in ids), strict=True)
    for row, (query, doc) in enumerate(pairs):
        could = query in own and (query, doc) not in shown and not new[row]
        assert items.never_shown[items.index[row]] == could


def test_a_verdict_on_items_without_features_rests_on_items_never_shown() -> None:
    """All items of one ranker are unknown: without any clicks on them it cannot be better."""
    world = ec.simulate(queries=40, docs=6, features=2, pages=800, positions=2, seed=4)
    counts = world.counts()
    model = ec.EpistemicPBM(epochs=1).fit(counts, progress=False)
    ranked = np.tile([0, 1], (40, 1))
    rankings = {"shown": ranking_of(ranked), "unknown": ranking_of(ranked + 1_000)}
    found = ec.compare(model, rankings, world.features, clicks=counts, weights="uniform")
    never, expected = found.values.never_shown[0], found.values.expected[0]
    assert np.allclose(never[1], expected[1])
    assert np.all(never[0] < expected[0])
    assert not found.values.discounted(0, 1.0)[1].mean() > 0.01


def test_the_error_of_a_slope_is_that_of_a_jackknife_over_queries() -> None:
    rng = np.random.default_rng(3)
    query = np.repeat(np.arange(80), 6)
    weight = rng.integers(1, 9, len(query)).astype(float)
    x = rng.standard_normal(len(query))
    y = 0.3 * x + rng.standard_normal(80)[query] * x  # what is wrong differs between queries
    slope, error = slope_of(weight, x, y, query)
    others = []
    for out in range(80):
        own = query != out
        others.append((weight * x * y)[own].sum() / (weight * x * x)[own].sum())
    jackknife = np.sqrt(79 / 80 * np.sum((np.array(others) - np.mean(others)) ** 2))
    assert slope == pytest.approx((weight * x * y).sum() / (weight * x * x).sum())
    assert error == pytest.approx(jackknife, rel=0.1)
    alone = np.sqrt(((weight * x * (y - slope * x)) ** 2).sum()) / (weight * x * x).sum()
    assert error > 1.3 * alone  # as if all items were independent


def test_slopes_are_drawn_with_their_error() -> None:
    drawn = slope_draws(0.4, 0.15, 5000, np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(0.4, abs=1e-9)
    assert drawn.std() == pytest.approx(0.15, rel=5e-3)
    assert stats.kstest(drawn, stats.norm(0.4, 0.15).cdf).statistic < 1e-3


@pytest.mark.parametrize(("knows", "discounted"), [(True, True), (False, False)])
def test_a_discount_needs_a_ranker_that_knows_something(knows: bool, discounted: bool) -> None:
    """By a ranker of the items' relevance, and by one of something else."""
    rng = np.random.default_rng(5)
    relevance = rng.beta(1.5, 4.0, (60, 10))
    score = relevance if knows else rng.beta(1.5, 4.0, relevance.shape)
    log = log_of(rng, relevance, 1_800, score)
    counts = ec.read_log(log)
    model = ec.EpistemicPBM().fit(counts, progress=False)
    best = np.argsort(score, axis=1)[:, :4]  # what the ranker liked least, mostly never shown
    ids = (pa.array(ranking_of(best)[name]) for name in ("query_id", "doc_id"))
    items = items_of(model.fitted_, *ids, None, counts)
    assert items.absent is not None
    assert len(items.absent.query) > 50
    assert model.fitted_.items is not None
    found = discount_by_id(model.fitted_.items, counts, items.absent, 40, rng)
    assert np.any(found.below > 0.5)
    assert (found.slopes.mean() > 0.3) == discounted
    assert np.any(found.slopes != 0) == discounted


def centred(values: np.ndarray) -> np.ndarray:
    return values - values.mean()


def test_items_that_are_shown_more_often_are_not_taken_for_worse() -> None:
    """Relevance is unrelated to scores, but its posterior means differ more with more displays."""
    rng = np.random.default_rng(6)
    x, query = rng.standard_normal(40_000), np.repeat(np.arange(8_000), 5)
    displays = rng.poisson(8 * np.exp(x)) + 1
    clicks = rng.binomial(displays, rng.beta(1.5, 4.0, len(x)))
    mean = (1.5 + clicks) / (5.5 + displays)
    weight, x = np.ones(len(x)), x - x.mean()
    slope, error = slope_of(weight, x, centred(in_logits(mean, weight)), query)
    assert abs(slope) < 3 * error
    by_logits, error = slope_of(weight, x, centred(np.log(mean / (1 - mean))), query)
    assert by_logits < -6 * error


def test_a_slope_in_logits_is_found_at_its_size() -> None:
    rng = np.random.default_rng(7)
    x, query = rng.standard_normal(40_000), np.repeat(np.arange(8_000), 5)
    relevance = 1 / (1 + np.exp(1.0 - 0.2 * x))
    weight, x = np.ones(len(x)), x - x.mean()
    slope, _ = slope_of(weight, x, centred(in_logits(relevance, weight)), query)
    assert slope == pytest.approx(0.2, rel=0.03)
