"""Scores agree with loops over single displays, and are infinite for impossible clicks."""

import json
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epiclick.data.counts import ClickCounts
from epiclick.data.page_weights import PageWeights, page_weights
from epiclick.data.readers import count_log
from epiclick.data.schema import LogOptions
from epiclick.evaluation.click_scores import ClickScores, score_clicks

from ..raising import raises_code

entries = st.dictionaries(
    st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.integers(1, 4), st.integers(0, 1)),
    st.tuples(st.integers(1, 30), st.integers(0, 30)),
    min_size=1,
    max_size=25,
)


def counts_of(rows: dict) -> ClickCounts:
    flat = [(*key, n, min(n, m)) for key, (n, m) in rows.items()]
    names = ["query_id", "doc_id", "position", "part", "displays", "clicks"]
    columns = zip(*flat, strict=True)
    return ClickCounts.from_table(
        pa.table({name: pa.array(c) for name, c in zip(names, columns, strict=True)})
    )


def displays_one_by_one(counts: ClickCounts, p: np.ndarray) -> list[tuple[int, int, float]]:
    """(context, click, log-probability of it) for every single display."""
    single = []
    for i, k in enumerate(counts.context):
        for n in range(counts.displays[i]):
            click = int(n < counts.clicks[i])
            single.append((int(k), click, math.log(p[i] if click else 1 - p[i])))
    return single


@settings(max_examples=60, deadline=None)
@given(rows=entries, seed=st.integers(0, 10**6))
def test_scores_agree_with_a_loop_over_displays(rows: dict, seed: int) -> None:
    counts = counts_of(rows)
    p = np.random.default_rng(seed).uniform(0.01, 0.99, len(counts.pair))
    scores = score_clicks(counts, p)
    single = displays_one_by_one(counts, p)
    logs = [log for *_, log in single]
    assert scores.display_log_likelihood == pytest.approx(np.mean(logs), rel=1e-12)
    assert scores.pair_log_likelihood == pytest.approx(sum(logs) / len(counts), rel=1e-12)
    assert scores.page_log_likelihood is None

    perplexities = []
    for k, row in scores.by_context.iterrows():
        own = [(click, log) for context, click, log in single if context == k]
        base_2 = [log / math.log(2) for _, log in own]
        perplexities.append(2 ** -np.mean(base_2))
        assert (row.displays, row.clicks) == (len(own), sum(click for click, _ in own))
        assert row.observed == pytest.approx(row.clicks / row.displays)
        mine = counts.context == k
        predicted = np.average(p[mine], weights=counts.displays[mine])
        assert row.predicted == pytest.approx(predicted, rel=1e-12)
        assert row.perplexity == pytest.approx(perplexities[-1], rel=1e-12)
    assert scores.perplexity == pytest.approx(np.mean(perplexities), rel=1e-12)


PAGES = [
    ("q", "abcde", [1, 0, 0, 0, 0]),
    ("q", "ba", [0, 1]),
    ("q", "c", [1]),
    ("r", "xyz", [0, 0, 1]),
    ("r", "zx", [0, 0]),
]


def page_log() -> pd.DataFrame:
    rows = [
        (page, query, doc, k + 1, click)
        for page, (query, docs, clicks) in enumerate(PAGES)
        for k, (doc, click) in enumerate(zip(docs, clicks, strict=True))
    ]
    return pd.DataFrame(rows, columns=["page_id", "query_id", "doc_id", "position", "click"])


def test_page_score_is_the_mean_within_pages_and_then_over_them() -> None:
    """The loop that PyClick runs, on pages of one to five results."""
    log = page_log()
    counts, _ = count_log(log, LogOptions())
    p = np.random.default_rng(0).uniform(0.1, 0.9, len(counts.pair))
    names = counts.to_table().select(["query_id", "doc_id", "position"]).to_pylist()
    of = {tuple(row.values()): p[i] for i, row in enumerate(names)}
    pages = []
    for query, docs, clicks in PAGES:
        logs = [
            math.log(of[query, doc, k + 1] if click else 1 - of[query, doc, k + 1])
            for k, (doc, click) in enumerate(zip(docs, clicks, strict=True))
        ]
        pages.append(sum(logs) / len(logs))
    scores = score_clicks(counts, p, page_weights(log, LogOptions(), counts))
    assert scores.page_log_likelihood == pytest.approx(np.mean(pages), rel=1e-12)
    # a mean over displays differs: pages of different lengths have different weights
    assert abs(scores.page_log_likelihood - scores.display_log_likelihood) > 0.01


def two_entries(clicks: list[int]) -> ClickCounts:
    return ClickCounts.from_table(
        pa.table(
            {
                "query_id": [1, 1],
                "doc_id": ["a", "b"],
                "position": [1, 2],
                "displays": [4, 4],
                "clicks": clicks,
            }
        )
    )


@pytest.mark.parametrize(
    ("clicks", "p", "expected"),
    [
        ([0, 4], [0.0, 1.0], 0.0),
        ([0, 2], [0.0, 0.5], math.log(0.5) / 2),
        ([1, 4], [0.0, 1.0], -math.inf),
        ([0, 3], [0.0, 1.0], -math.inf),
    ],
)
def test_certainty_costs_nothing_if_confirmed_and_everything_if_not(
    clicks: list[int], p: list[float], expected: float
) -> None:
    weights = PageWeights(np.array(clicks) / 2, (4 - np.array(clicks)) / 2, 4)
    scores = score_clicks(two_entries(clicks), np.array(p), weights)
    assert scores.display_log_likelihood == pytest.approx(expected)
    assert scores.page_log_likelihood == pytest.approx(expected)
    refuted = expected == -math.inf
    assert math.isinf(scores.perplexity) == refuted
    assert math.isinf(scores.by_context["perplexity"].max()) == refuted
    record = json.loads(json.dumps(scores.to_dict(), allow_nan=False))
    assert (record["log_likelihood"]["display"] is None) == refuted
    assert (record["perplexity"] is None) == refuted


def test_the_smallest_probability_does_not_overflow() -> None:
    scores = score_clicks(two_entries([4, 0]), np.array([5e-324, 0.1]))
    assert scores.display_log_likelihood == pytest.approx(
        (math.log(5e-324) + math.log(0.9)) / 2, rel=1e-12
    )
    assert scores.perplexity == math.inf


def test_contexts_shown_only_elsewhere_are_left_out_of_the_mean() -> None:
    counts = two_entries([1, 2]).subset([1])
    scores = score_clicks(counts, np.array([0.5]))
    assert scores.perplexity == pytest.approx(2.0)
    rows = scores.to_dict()["by_position"]
    assert rows[0] == {
        "position": 1,
        "displays": 0,
        "clicks": 0,
        "observed": None,
        "predicted": None,
        "perplexity": None,
    }
    assert rows[1]["observed"] == 0.5


def test_the_record_has_the_agreed_keys() -> None:
    scores = score_clicks(two_entries([1, 2]), np.array([0.2, 0.5]), pair_log_likelihood=-1.25)
    record = json.loads(json.dumps(scores.to_dict(), allow_nan=False))
    assert set(record) == {"log_likelihood", "perplexity", "by_position"}
    assert record["log_likelihood"]["pair"] == scores.pair_log_likelihood == -1.25
    assert record["log_likelihood"]["page"] is None
    keys = ["position", "displays", "clicks", "observed", "predicted", "perplexity"]
    assert [list(row) for row in record["by_position"]] == [keys, keys]


@settings(max_examples=40, deadline=None)
@given(rows=entries)
def test_parts_change_no_score(rows: dict) -> None:
    apart = counts_of(rows)
    together = ClickCounts.from_table(apart.to_table().drop_columns(["part"]))

    def score(counts: ClickCounts) -> ClickScores:
        # a probability of the pair and position alone
        return score_clicks(counts, (1 + counts.pair % 3) / (2 + counts.context * 1.0 + 3))

    for name in ("display_log_likelihood", "pair_log_likelihood", "perplexity"):
        assert getattr(score(apart), name) == pytest.approx(getattr(score(together), name))


@pytest.mark.parametrize(
    ("p", "code", "named"),
    [
        ([0.1], "probabilities-wrong-shape", "2 entries, probabilities of shape (1,)"),
        ([0.5, 1.5], "probability-out-of-range", "1 do not, first at entry 1: 1.5"),
        ([math.nan, -0.1], "probability-out-of-range", "2 do not, first at entry 0: nan"),
    ],
)
def test_invalid_probabilities_are_refused(p: list[float], code: str, named: str) -> None:
    with raises_code(code) as error:
        score_clicks(two_entries([1, 1]), np.array(p))
    assert named in str(error.value)
