"""Moments of relevance by every draw against the posterior of one draw at a time."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import logit

from epiclick.click_models.pbm import PositionBased
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureScaler, FeatureTable
from epiclick.data.schema import LogOptions
from epiclick.fitted.parameters import (
    BetaLookup,
    ParameterPosterior,
    Parameters,
    PointLookup,
    from_vector,
    parameter_draws,
    to_vector,
    without_uncertainty,
)
from epiclick.fitted.prediction import drawn, emission_by, networks_of, relevance_of_pairs
from epiclick.fitted.state import FeatureSpec, FittedModel, QuerySets, TrainingSummary
from epiclick.posterior import item_posterior as module
from epiclick.posterior.item_posterior import item_posterior, moments_by_draw

THETA = np.array([1.0, 0.6, 0.35, 0.1])
DRAWS = 6
OFF_MEAN, OFF_VARIANCE = 0.01, 0.03  # standard deviations, relative: accuracy of `tilted`


def model(*, features: bool = True, betas: bool = False) -> FittedModel:
    """Uncertain parameters: all of them, or position bias only, by Betas."""
    rng = np.random.default_rng(1)
    weight = rng.normal(0, 1, (2 if features else len(THETA), 2))
    bias = PointLookup(logit(np.clip(THETA, None, 1 - 1e-9)))
    if betas:
        bias = BetaLookup(logit(np.clip(THETA, None, 0.9)), np.full(len(THETA), 20.0))
    nobody = pa.array([], pa.int64())
    made = FittedModel(
        kind="EpistemicPBM",
        head="network_beta" if features else "id_beta",
        settings={},
        parameters=Parameters(((weight, np.array([-1.0, 1.0])),), bias),
        anchor=None if betas else 0,
        contexts=pa.table({"position": np.arange(1, len(THETA) + 1)}),
        features=FeatureSpec(("f0", "f1"), FeatureScaler(np.zeros(2), np.ones(2)))
        if features
        else None,
        options=LogOptions(),
        queries=QuerySets(nobody, nobody),
        items=None,
        training=TrainingSummary(0, 0, 0, 0, 0, 0.0, 0.0, None),
    )
    if betas:
        return made
    mode = to_vector(made.parameters, PositionBased(), 0)
    covariance = 0.3**2 * np.eye(len(mode))
    made = FittedModel(
        **{**vars(made), "parameters": from_vector(made.parameters, PositionBased(), 0, mode)}
    )
    posterior = ParameterPosterior(mode, covariance, covariance, None, 0.0)
    return FittedModel(**{**vars(made), "posterior": posterior})


def log_of(displays: np.ndarray, seed: int = 3) -> ClickCounts:
    """Pairs of (pairs, contexts) displays, of all sorts of relevance, with features."""
    rng = np.random.default_rng(seed)
    clicks = rng.binomial(displays, THETA * rng.beta(0.5, 1.5, (len(displays), 1)))
    pair, context = np.nonzero(displays)
    number = np.arange(len(displays))
    matrix = rng.normal(size=(len(displays), 2)).astype(np.float32)
    keys = pa.table({"query_id": number // 7, "doc_id": number})
    return ClickCounts(
        query_id=keys["query_id"].combine_chunks(),
        doc_id=keys["doc_id"].combine_chunks(),
        contexts=pa.table({"position": np.arange(1, len(THETA) + 1)}),
        pair=pair,
        context=context,
        displays=displays[pair, context],
        clicks=clicks[pair, context],
        features=FeatureTable(keys, ("f0", "f1"), matrix),
        feature_row=number,
    )


def shown(pairs: int, displays: int) -> ClickCounts:
    rng = np.random.default_rng(2)
    return log_of(rng.multinomial(displays, np.full(len(THETA), 1 / len(THETA)), pairs))


def all_moments(
    fitted: FittedModel, counts: ClickCounts, draws: Sequence[Parameters]
) -> tuple[np.ndarray, np.ndarray]:
    parts = list(moments_by_draw(fitted, counts, draws))
    mean, variance = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    assert mean.shape == variance.shape == (len(draws), len(counts))
    return mean, variance


def one_by_one(
    fitted: FittedModel, counts: ClickCounts, draws: Sequence[Parameters]
) -> tuple[np.ndarray, np.ndarray]:
    """The same, by the closed form or the quadrature of each draw."""
    found = []
    for draw in draws:
        emission = emission_by(fitted, [draw], np.arange(len(THETA)))
        alpha, beta = relevance_of_pairs(fitted, [draw.layers], counts)
        known = item_posterior(counts, drawn(emission, 0), alpha[0], beta[0], 0.9)
        found.append((known.mean, known.variance))
    mean, variance = np.swapaxes(found, 0, 1)
    return mean, variance


def deviations(found: tuple[np.ndarray, ...], truth: tuple[np.ndarray, ...]) -> tuple[float, float]:
    """Largest of the means, in standard deviations, and of the variances, relative."""
    off = abs(found[0] - truth[0]) / np.sqrt(truth[1])
    return float(off.max()), float(abs(found[1] / truth[1] - 1).max())


@pytest.mark.parametrize("displays", [1, 12, 5_000])
@pytest.mark.parametrize("kind", ["features", "no features", "betas"])
def test_every_draw_has_its_own_posterior(displays: int, kind: str) -> None:
    """Of cold, warm and head items."""
    fitted = model(features=kind != "no features", betas=kind == "betas")
    counts = shown(90, displays)
    draws = parameter_draws(fitted, DRAWS)
    assert len(networks_of(draws)) == (1 if kind == "betas" else DRAWS)
    found, truth = all_moments(fitted, counts, draws), one_by_one(fitted, counts, draws)
    mean, variance = deviations(found, truth)
    assert mean < OFF_MEAN
    assert variance < OFF_VARIANCE
    # the control: the parameters at their mode
    known = np.broadcast_to(
        one_by_one(fitted, counts, parameter_draws(without_uncertainty(fitted), 1)),
        (2, *truth[0].shape),
    )
    assert deviations(tuple(known), truth)[0] > 10 * OFF_MEAN


def test_chunks_and_their_padding_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted, counts = model(), shown(300, 12)
    draws = parameter_draws(fitted, DRAWS)
    whole = all_moments(fitted, counts, draws)
    monkeypatch.setattr(module, "CHUNK", 128)
    parts = list(moments_by_draw(fitted, counts, draws))
    assert [part[0].shape[1] for part in parts] == [128, 128, 44]
    for i, values in enumerate(whole):
        np.testing.assert_allclose(
            np.concatenate([part[i] for part in parts], axis=1), values, rtol=1e-4
        )


def test_pairs_of_all_sorts_do_not_disturb_each_other() -> None:
    rng = np.random.default_rng(4)
    total = np.exp(rng.uniform(0, np.log(20_000), 120)).astype(int)
    counts = log_of(rng.multinomial(total, rng.dirichlet(np.full(len(THETA), 0.5), 120)))
    fitted = model()
    draws = parameter_draws(fitted, DRAWS)
    found, truth = all_moments(fitted, counts, draws), one_by_one(fitted, counts, draws)
    mean, variance = deviations(found, truth)
    assert mean < OFF_MEAN
    assert variance < OFF_VARIANCE
    assert np.all((found[0] > 0) & (found[0] < 1) & (found[1] > 0))


def test_clicks_make_sure_and_draws_move_cold_items_most() -> None:
    fitted = model()
    draws = parameter_draws(fitted, DRAWS)
    cold, head = (all_moments(fitted, shown(90, displays), draws) for displays in (1, 5_000))
    assert np.median(head[1]) < np.median(cold[1]) / 50
    assert np.median(head[0].std(axis=0)) < np.median(cold[0].std(axis=0)) / 2
