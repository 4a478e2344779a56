"""Where the anchor is: the first position, unless another context is examined more."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from epiclick.api import EpistemicPBM, PointwisePBM
from epiclick.cli.fit import parse_anchor
from epiclick.data.counts import ClickCounts
from epiclick.identification.anchor import (
    FALSE_ALARMS,
    anchor_option,
    moved_sentence,
    resolve_anchor,
)

from ..device_worlds import DESKTOP, PHONE, device_counts
from ..raising import raises_code

pytestmark = pytest.mark.slow


def test_the_device_that_is_examined_more_is_the_anchor() -> None:
    counts = device_counts(1.11)
    found = resolve_anchor(counts, "auto")
    assert found.index == DESKTOP
    assert found.moved is not None
    assert found.moved.usual == PHONE
    assert found.moved.ratio == pytest.approx(1.11, abs=0.05)
    # negative controls: as much, or a little less, and by chance it may seem to be more
    for less in (1.0, 0.97, 0.8):
        assert resolve_anchor(device_counts(less), "auto").moved is None


def test_how_often_the_anchor_moves_by_chance() -> None:
    worlds = 300
    moved = sum(
        resolve_anchor(device_counts(1.0, queries=25, docs=4, seed=seed), "auto").moved is not None
        for seed in range(worlds)
    )
    assert moved <= stats.binom.ppf(0.9995, worlds, FALSE_ALARMS)
    # and it does move in such worlds where a bias is larger
    seeds = range(20)
    for_reason = [device_counts(1.5, queries=25, docs=4, seed=seed) for seed in seeds]
    assert all(resolve_anchor(counts, "auto").moved for counts in for_reason)


def positions(bias: np.ndarray, seed: int = 0, pairs: int = 400) -> ClickCounts:
    """Plain position logs with ten displays of every item at every position."""
    rng = np.random.default_rng(seed)
    relevance = rng.beta(2, 4, pairs)
    displays = np.full((pairs, len(bias)), 10)
    pair, position = (index.ravel() for index in np.indices(displays.shape))
    table = {"query_id": pair // 4, "doc_id": pair % 4, "position": position + 1}
    table["clicks"] = rng.binomial(displays, relevance[:, None] * bias).ravel()
    return ClickCounts.from_table(pa.table({**table, "displays": displays.ravel()}))


def test_a_later_position_that_is_examined_more_becomes_the_anchor() -> None:
    counts = positions(np.array([0.5, 1.0, 0.7]))
    found = resolve_anchor(counts, "auto")
    assert (found.index, found.moved.usual) == (1, 0)
    sentence = moved_sentence(counts.contexts, found.index, found.moved)
    assert sentence.startswith("position 2 is examined about 2.")
    assert "relevance means the probability of a click if shown there" in sentence
    assert sentence.endswith("use --anchor 1 (in Python: anchor=1)")


def test_the_anchor_is_not_clearly_below_any_context() -> None:
    # the second is clearly larger than the first, and the third than the second
    assert resolve_anchor(positions(np.array([0.4, 0.6, 1.0])), "auto").index == 2


def test_a_rare_noisy_context_does_not_decide() -> None:
    counts = positions(np.array([0.5, 1.0]))
    rare = [(q, 0, 3, 1, 1) for q in range(12)] + [(q, 0, 3, 2, 0) for q in range(12, 40)]
    names = ("query_id", "doc_id", "position", "displays", "clicks")
    rows = pa.table(dict(zip(names, map(list, zip(*rare, strict=True)), strict=True)))
    both = pa.concat_tables([counts.to_table().select(rows.column_names), rows])
    assert resolve_anchor(ClickCounts.from_table(both), "auto").index == 1


def test_a_given_anchor_is_used() -> None:
    counts = device_counts(1.11, queries=10)
    assert resolve_anchor(counts, ("phone", 1)).index == PHONE
    assert resolve_anchor(counts, ["phone", 2]).index == PHONE + 1
    assert resolve_anchor(counts, ("phone", 1)).moved is None
    with raises_code("unknown-context") as caught:
        resolve_anchor(counts, "phone")
    assert "'phone'" in str(caught.value)
    assert "desktop, 1; " in str(caught.value)


@pytest.mark.parametrize("index", range(6))
def test_the_suggested_option_selects_the_context(index: int) -> None:
    counts = device_counts(1.11, queries=10)
    words = anchor_option(counts.contexts, index)
    typed, python = words.removeprefix("--anchor ").removesuffix(")").split(" (in Python: anchor=")
    assert resolve_anchor(counts, parse_anchor(typed, counts)).index == index
    row = counts.contexts.slice(index, 1).to_pylist()[0]
    assert python == f'("{row["device"]}", {row["position"]})'


@pytest.mark.parametrize("model", [EpistemicPBM(), PointwisePBM()])
def test_both_models_plan_with_it(model: Any) -> None:
    counts = device_counts(1.11, features=True)
    plan = model._plan(counts)
    assert (plan.anchor, plan.objective.anchor, plan.moved.usual) == (DESKTOP, DESKTOP, PHONE)
    for given, expected in ((("phone", 1), PHONE), (None, None)):
        plan = type(model)(anchor=given)._plan(counts)
        assert (plan.anchor, plan.objective.anchor, plan.moved) == (expected, expected, None)


def test_the_papers_estimators_have_none() -> None:
    plan = EpistemicPBM(estimator="exact")._plan(device_counts(1.11, features=True))
    assert (plan.anchor, plan.moved) == (None, None)
