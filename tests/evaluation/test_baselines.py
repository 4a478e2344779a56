"""Baselines are smoothed training click rates, never 0 or 1."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError
from epiclick.evaluation.click_scores import BASELINES, score_clicks

Rows = dict[tuple, tuple[int, int]]

rows_of_counts = st.dictionaries(
    st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.integers(1, 4)),
    st.tuples(st.integers(1, 20), st.integers(0, 20)),
    min_size=1,
    max_size=20,
)


def counts_of(rows: Rows, ids=lambda value: value) -> ClickCounts:
    return ClickCounts.from_table(
        pa.table(
            {
                "query_id": [ids(q) for q, _, _ in rows],
                "doc_id": [d for _, d, _ in rows],
                "position": [k for _, _, k in rows],
                "displays": [n for n, _ in rows.values()],
                "clicks": [min(n, m) for n, m in rows.values()],
            }
        )
    )


GROUPS = {
    "overall": lambda key: (),
    "by_context": lambda key: key[2],
    "by_document": lambda key: key[:2],
}


def by_hand(train: Rows, key: tuple, name: str) -> float:
    """The oracle: a loop over the training rows."""
    capped = {k: (n, min(n, m)) for k, (n, m) in train.items()}
    rate = sum(m for _, m in capped.values()) / sum(n for n, _ in capped.values())
    if name == "overall":
        return rate
    own = [v for k, v in capped.items() if GROUPS[name](k) == GROUPS[name](key)]
    return (sum(m for _, m in own) + rate) / (sum(n for n, _ in own) + 1)


def test_every_baseline_has_an_oracle() -> None:
    assert set(GROUPS) == set(BASELINES)


@settings(max_examples=60, deadline=None)
@given(train=rows_of_counts, test=rows_of_counts, text=st.booleans())
def test_rates_agree_with_a_loop(train: Rows, test: Rows, text: bool) -> None:
    """Pairs and positions that training lacks are among them; ids are integers or text."""
    ids = (lambda q: f"query {q}") if text else (lambda q: q)
    counts = counts_of(test, ids)
    keys = {(ids(q), d, k): (q, d, k) for q, d, k in test}
    entries = [tuple(row.values())[:3] for row in counts.to_table().to_pylist()]
    for name, baseline in BASELINES.items():
        p = baseline(counts_of(train, ids), counts)
        expected = [by_hand(train, keys[entry], name) for entry in entries]
        np.testing.assert_allclose(p, expected, rtol=1e-12, err_msg=name)


def test_contexts_of_several_columns_are_matched_by_value() -> None:
    def counts(device: list[str], position: list[int], clicks: list[int]) -> ClickCounts:
        table = {"query_id": [1] * len(clicks), "doc_id": list(range(len(clicks)))}
        table |= {"device": device, "position": position, "displays": [9] * len(clicks)}
        return ClickCounts.from_table(
            pa.table({**table, "clicks": clicks}), context=("device", "position")
        )

    train = counts(["desk", "phone", "phone"], [1, 1, 2], [6, 3, 0])
    test = counts(["tablet", "phone", "desk"], [1, 2, 1], [1, 1, 1])
    assert BASELINES["by_context"](train, test).tolist() == pytest.approx(
        [1 / 3, (0 + 1 / 3) / 10, (6 + 1 / 3) / 10]
    )


def test_contexts_that_a_split_left_without_displays_fall_back() -> None:
    counts = counts_of({(1, "a", 1): (8, 4), (2, "b", 2): (8, 0)})
    first, second = counts.subset([0]), counts.subset([1])
    for name in BASELINES:
        assert BASELINES[name](first, second).tolist() == [0.5]


def test_no_baseline_gives_probability_0_to_what_training_lacks() -> None:
    train = counts_of({(1, "a", 1): (50, 50), (1, "b", 2): (50, 0)})
    test = counts_of({(1, "a", 1): (2, 1), (1, "b", 2): (2, 1)})
    for baseline in BASELINES.values():
        assert np.isfinite(score_clicks(test, baseline(train, test)).display_log_likelihood)


def test_ids_of_another_type_are_refused_not_missed() -> None:
    rows: Rows = {(1, "a", 1): (5, 1)}
    with pytest.raises(InputError, match="1 is not '1'"):
        BASELINES["by_document"](counts_of(rows), counts_of(rows, ids=str))
