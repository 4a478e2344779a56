"""Scores of a fit: the same for all versions, and intervals that match a jackknife."""

import numpy as np
import pytest

from epiclick.benchmark.cell_scores import (
    METRICS,
    CellScores,
    difference_in,
    displays_of,
    rank_perplexity,
    score_cell,
)
from epiclick.benchmark.plain_em import PLAIN
from epiclick.evaluation.page_chances import PageChances

from .small_data import small_data


def random_chances(data, seed: int) -> PageChances:
    rng = np.random.default_rng(seed)
    return PageChances(*rng.uniform(0.05, 0.6, (2, *data.test.pair.shape)))


def test_scores_are_those_of_a_loop_over_displays() -> None:
    data = small_data("pbm", queries=4, pages=400, cut=True)
    chances = random_chances(data, 1)
    found = score_cell(data, displays_of(data, chances), data.gain)
    given, marginal = [0.0] * 4, [0.0] * 4
    by_rank: list[list[float]] = [[], [], []]
    conditional: list[list[float]] = [[], [], []]
    for (page, k), pair in np.ndenumerate(data.test.pair):
        if pair < 0:
            continue
        logs = [
            np.log(p if data.test.clicked[page, k] else 1 - p)
            for p in (chances.given[page, k], chances.marginal[page, k])
        ]
        given[data.query_of[pair]] += logs[0]
        marginal[data.query_of[pair]] += logs[1]
        conditional[k].append(logs[0])
        by_rank[k].append(logs[1])
    assert found.given == pytest.approx(given)
    assert found.marginal == pytest.approx(marginal)
    assert found.perplexity == pytest.approx(
        np.mean([2 ** -np.mean(r / np.log(2)) for r in map(np.array, by_rank)])
    )
    assert found.conditional_perplexity == pytest.approx(
        np.mean([np.exp(-np.mean(r)) for r in conditional])
    )
    assert found.mean_ndcg == 1.0  # ranked by the truth
    assert CellScores.from_dict(found.to_dict()) == found


def test_influences_predict_what_leaving_a_query_out_changes() -> None:
    data = small_data("pbm", queries=40, pages=8_000)
    displays = displays_of(data, random_chances(data, 2))
    logs = displays.marginal_logs
    whole = rank_perplexity(displays, logs, data)
    assert whole.influence.sum() == pytest.approx(0, abs=1e-12)
    changes = []
    for query in range(40):
        kept = displays.query != query
        rest = displays._replace(**{n: v[kept] for n, v in displays._asdict().items()})
        changes.append(whole.value - rank_perplexity(rest, logs[kept], data).value)
    # a jackknife differs from the first order by the share of a query, 1 / 40
    assert np.array(changes) == pytest.approx(whole.influence, rel=0.12, abs=1e-5)
    assert np.corrcoef(changes, whole.influence)[0, 1] > 0.999


def test_differences_are_those_of_the_values_and_turn_their_sign() -> None:
    data = small_data("pbm", queries=6, pages=900)
    one, other = (
        score_cell(data, displays_of(data, random_chances(data, seed)), relevance)
        for seed, relevance in ((3, data.gain), (4, -data.gain))
    )
    for metric in METRICS.values():
        found, back = (difference_in(metric, *pair, 0.9) for pair in ((one, other), (other, one)))
        assert found.difference == pytest.approx(metric.value(one) - metric.value(other))
        assert (found.low, found.high) == pytest.approx((-back.high, -back.low))
        assert found.low < found.difference < found.high
        assert difference_in(metric, one, one, 0.9).high == pytest.approx(0, abs=1e-12)


def test_pages_of_probability_0_are_counted_and_not_scored() -> None:
    data = small_data("pbm", pages=600)
    found = PLAIN["cascade"](data)
    scores = score_cell(data, displays_of(data, found.chances(data.test)), found.relevance)
    assert scores.impossible == (data.test.clicked.sum(axis=1) > 1).sum() > 0
    assert [METRICS[name].value(scores) for name in METRICS if name != "ndcg"] == [None] * 3
    assert scores.mean_ndcg is not None
