"""Externally known position bias: fixed, or a prior, in training, posterior and files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.errors import InputError

from .raising import raises_code

pytestmark = pytest.mark.slow

SMALL = {"epochs": 3, "hidden": (8,)}


@pytest.fixture(scope="module")
def counts() -> ec.ClickCounts:
    world = ec.simulate(queries=60, docs=8, features=4, pages=400, positions=3, seed=3)
    return world.counts()


def table(*rows: tuple) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["position", "mean", "low", "high"])


@pytest.fixture(scope="module")
def learned(counts: ec.ClickCounts) -> ec.EpistemicPBM:
    return ec.EpistemicPBM(**SMALL).fit(counts, progress=False)


@pytest.fixture(scope="module")
def held(counts: ec.ClickCounts) -> ec.EpistemicPBM:
    """The given bias of position 2 is far from the clicks' estimate; 3 is learned."""
    given = table((1, 1.0, None, None), (2, 0.2, None, None))
    with pytest.warns(ec.InputWarning, match="no row for position 3"):
        return ec.EpistemicPBM(**SMALL).fit(counts, position_bias=given, progress=False)


def test_held_bias_stays_as_given(held: ec.EpistemicPBM, learned: ec.EpistemicPBM) -> None:
    bias = held.position_bias().set_index("position")
    assert bias.loc[2, "mean"] == pytest.approx(0.2, abs=1e-3)
    assert bias.loc[2, "high"] - bias.loc[2, "low"] < 1e-3
    # the negative control: without the table the estimate is another
    assert learned.position_bias().set_index("position").loc[2, "low"] > 0.2
    # what was not given is learned, with uncertainty
    assert bias.loc[3, "high"] - bias.loc[3, "low"] > 0.05
    assert abs(bias.loc[3, "mean"] - learned.position_bias()["mean"][2]) > 1e-6
    checks = held.fitted_.training.checks
    assert checks["given_bias"] == [{"position": 2, "how": "fixed", "mean": pytest.approx(0.2)}]
    assert [row["position"] for row in checks["posterior"]["by_position"]] == [3]
    assert checks["posterior"]["gradient"] < 1e-3


def test_training_itself_holds_it(counts: ec.ClickCounts, held: ec.EpistemicPBM) -> None:
    """Relevance is learned given the bias: the network is another one."""
    body, other = (
        model.fitted_.parameters.layers[0][0]
        for model in (held, ec.EpistemicPBM(**SMALL).fit(counts, progress=False))
    )
    assert np.abs(body - other).max() > 1e-4


def test_a_prior_draws_bias_towards_it(counts: ec.ClickCounts, learned: ec.EpistemicPBM) -> None:
    """Between the clicks' estimate and the prior, and narrower than from clicks alone."""
    given = table((2, 0.2, 0.15, 0.26), (3, 0.2, 0.01, 0.9))
    model = ec.EpistemicPBM(**SMALL).fit(counts, position_bias=given, progress=False)
    bias, alone = (each.position_bias("bayes").set_index("position") for each in (model, learned))
    assert 0.2 < bias.loc[2, "mean"] < alone.loc[2, "mean"]
    wide, narrow = (each.loc[2, "high"] - each.loc[2, "low"] for each in (alone, bias))
    assert narrow < wide
    # two Gaussians in logits multiply to one of the sum of their precisions
    logits = [np.log(each / (1 - each)) for each in (bias, alone)]
    sd = [each.loc[2, "high"] - each.loc[2, "low"] for each in logits]
    prior = np.log(0.26 / 0.74) - np.log(0.15 / 0.85)
    assert sd[0] == pytest.approx((sd[1] ** -2 + prior**-2) ** -0.5, rel=0.2)
    # a vague prior changes little
    assert bias.loc[3, "mean"] == pytest.approx(alone.loc[3, "mean"], abs=0.1)
    assert [row["how"] for row in model.fitted_.training.checks["given_bias"]] == ["prior"] * 2


def test_what_was_given_is_kept_in_the_file(held: ec.EpistemicPBM, tmp_path: Path) -> None:
    held.save(tmp_path / "model")
    again = ec.load(tmp_path / "model")
    assert again.fitted_.training.checks == held.fitted_.training.checks
    pd.testing.assert_frame_equal(again.position_bias(), held.position_bias())


def test_a_run_with_another_table_is_not_resumed(counts: ec.ClickCounts, tmp_path: Path) -> None:
    kept = tmp_path / "run.checkpoint"
    fit = {"checkpoint": kept, "progress": False}
    given = table((2, 0.2, 0.15, 0.26), (3, 0.2, 0.01, 0.9))
    ec.EpistemicPBM(**SMALL).fit(counts, position_bias=given, **fit)
    other = given.assign(mean=0.21, low=0.19)
    with raises_code("checkpoint-of-another-run") as caught:
        ec.EpistemicPBM(**SMALL).fit(counts, position_bias=other, resume=True, **fit)
    assert "differs in its settings;" in str(caught.value)


@pytest.mark.parametrize(
    "model", [ec.EpistemicPBM("exact"), ec.PointwisePBM()], ids=["exact", "pointwise"]
)
def test_only_marginal_models_can_be_given_bias(
    model: ec.EpistemicPBM | ec.PointwisePBM, counts: ec.ClickCounts
) -> None:
    with raises_code("known-bias-needs-marginal"):
        model.fit(counts, position_bias=table((2, 0.5, None, None)))


def test_a_free_scale_needs_every_context(counts: ec.ClickCounts) -> None:
    with pytest.raises(InputError, match="give all contexts, or choose an anchor"):
        ec.EpistemicPBM(anchor=None).fit(counts, position_bias=table((2, 0.5, None, None)))


def test_a_free_scale_can_be_given_whole(counts: ec.ClickCounts) -> None:
    given = table((1, 0.8, None, None), (2, 0.4, None, None), (3, 0.3, None, None))
    bare = replace(counts, features=None, feature_row=None)
    model = ec.EpistemicPBM(anchor=None, epochs=5)
    model.fit(bare, position_bias=given, progress=False)
    np.testing.assert_allclose(model.position_bias()["mean"], given["mean"], atol=1e-3)
    assert not any("rests on the prior" in words for words in model.fitted_.training.warnings)
