"""Answers of a fitted model in a world, against its own methods and the truth."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from epiclick.api import EpistemicPBM
from epiclick.calibration.answers import LEVELS, QUANTITIES, VALUES
from epiclick.calibration.families import (
    FAMILIES,
    Case,
    Family,
    display_probability,
    display_rows,
    make_case,
)
from epiclick.calibration.methods import fit_padded
from epiclick.calibration.quantities import Questions
from epiclick.click_models.pbm import PositionBased
from epiclick.data.features import FeatureTable
from epiclick.fitted.parameters import ParameterPosterior, to_vector, without_uncertainty

pytestmark = pytest.mark.slow

SMALL = {"hidden": (6,), "epochs": 3, "seed": 5}


@pytest.fixture(scope="module")
def case(tiny: Family) -> Case:
    # pairs with few displays compile faster
    return make_case(replace(tiny, pages=150), 0, 0)


@pytest.fixture(scope="module")
def model(case: Case) -> EpistemicPBM:
    fitted = fit_padded(EpistemicPBM(**SMALL), case)
    assert isinstance(fitted, EpistemicPBM)
    return fitted


def with_posterior(model: EpistemicPBM, theta_sd: float, factor: float) -> EpistemicPBM:
    """The model with a certain network and uncertain theta: sd in logits; robust is wider."""
    fitted = without_uncertainty(model.fitted_)
    mode = to_vector(fitted.parameters, PositionBased(), fitted.anchor)
    variance = np.where(np.arange(len(mode)) < 2, theta_sd**2, 0.0)
    known = ParameterPosterior(
        mode, np.diag(variance), factor**2 * np.diag(variance), pareto_k=None, gradient=0.0
    )
    other = EpistemicPBM(**SMALL)
    other.fitted_ = replace(fitted, posterior=known)
    return other


def test_room_to_spare_changes_nothing(case: Case, model: EpistemicPBM) -> None:
    plain = EpistemicPBM(**SMALL).fit(case.train, progress=False)
    for name in ("mean", "low", "high"):
        assert np.allclose(
            plain.relevance(case.world.features)[name],
            model.relevance(case.world.features)[name],
            atol=2e-3,
        )
    assert np.allclose(plain.position_bias()["mean"], model.position_bias()["mean"], atol=1e-3)


def test_intervals_of_items_are_the_models_own(case: Case, model: EpistemicPBM) -> None:
    answers = Questions(model, case, "robust").answers()
    table = case.world.features
    unseen = answers["unseen_relevance"]
    assert len(unseen.truth) == min(VALUES, len(case.unseen))
    assert model.level == 0.9
    whole = model.relevance(
        FeatureTable(
            table.keys.take(case.rows(case.unseen)),
            table.names,
            table.rows(case.rows(case.unseen)),
        )
    )
    own = dict(zip(case.world.click_if_first[case.rows(case.unseen)], whole["low"], strict=True))
    found = [own[truth] for truth in unseen.truth]
    assert np.allclose(found, unseen.low[LEVELS.index(0.9)])

    seen = answers["seen_relevance"]
    after = model.posterior(case.train)
    ends = dict(zip(case.world.click_if_first[case.rows(case.train)], after["high"], strict=True))
    assert np.allclose([ends[t] for t in seen.truth], seen.high[LEVELS.index(0.9)], atol=1e-6)
    for given in (unseen, seen):
        assert np.all(given.low[1] <= given.low[0])
        assert np.all(given.high[1] >= given.high[0])


def test_draws_are_of_the_distribution_the_intervals_are_of(
    case: Case, model: EpistemicPBM
) -> None:
    """For a model with certain parameters; otherwise intervals average over fewer draws."""
    sure = copy(model)
    sure.fitted_ = without_uncertainty(model.fitted_)
    answers = Questions(sure, case, "robust").answers()
    for given in (answers["unseen_relevance"], answers["seen_relevance"]):
        draws = np.maximum(given.draws, np.finfo(float).tiny)  # as ends of intervals are
        held = ((given.low[1][:, None] <= draws) & (draws < given.high[1][:, None])).mean()
        assert held == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / given.draws.size) + 0.01)


def test_clicks_are_judged_by_their_probability_on_the_page(
    case: Case, model: EpistemicPBM
) -> None:
    given = Questions(model, case, "robust").answers()["click_probability"]
    row = display_rows(case.world)
    unseen = np.isin(row, case.rows(case.unseen))
    assert np.all(np.isin(given.truth, display_probability(case.world)[unseen]))
    assert len(given.truth) == min(VALUES, unseen.sum())
    assert given.draws.max() <= 1


def test_relative_bias_has_the_width_of_the_posterior_that_is_asked_for(
    case: Case, model: EpistemicPBM
) -> None:
    sd = 0.1
    unsure = with_posterior(model, sd, 2.0)
    robust, bayes = (
        Questions(unsure, case, kind).answers()["position_bias"] for kind in ("robust", "bayes")
    )
    assert np.allclose(robust.truth, [0.6, 0.4])
    logit = to_vector(unsure.fitted_.parameters, PositionBased(), unsure.fitted_.anchor)[:2]
    for given, width in ((bayes, sd), (robust, 2 * sd)):
        for level, low, high in zip(LEVELS, given.low, given.high, strict=True):
            reach = norm.ppf((1 + level) / 2) * width
            expected = expit(logit + reach) - expit(logit - reach)
            # ends of 99 draws, mirrored at the mode, are known to a sixth or so
            assert np.allclose(high - low, expected, rtol=0.5)
        assert np.allclose(given.centre, expit(logit), atol=0.2 * width)
    ratio = (robust.high - robust.low) / (bayes.high - bayes.low)
    assert np.allclose(ratio, 2, rtol=0.15)


def test_a_model_sure_of_its_bias_is_not_asked_for_it(case: Case, model: EpistemicPBM) -> None:
    sure = EpistemicPBM(**SMALL)
    sure.fitted_ = without_uncertainty(model.fitted_)
    # offsets are of models under which unattractive items are clicked
    unasked = {"position_bias", "click_offset"}
    # and the log has no conversions
    unasked |= {"conversion", "conversions_per_page", "value_per_page"}
    assert set(Questions(sure, case, "robust").answers()) == set(QUANTITIES) - unasked


def test_answers_are_the_same_at_every_call(case: Case, model: EpistemicPBM) -> None:
    first, again = (Questions(model, case, "robust").answers() for _ in range(2))
    assert first.keys() == again.keys()
    for name, given in first.items():
        assert np.array_equal(given.draws, again[name].draws)
        assert np.array_equal(given.low, again[name].low)


def test_a_bias_at_its_bound_is_left_out(case: Case, model: EpistemicPBM) -> None:
    training = model.fitted_.training
    stated = Questions(model, case, "robust").position_bias()
    for bound, left in (([1], 1), ([1, 2], 0)):
        checks = {**training.checks, "at_bound": [{"index": k} for k in bound]}
        other = copy(model)
        other.fitted_ = replace(model.fitted_, training=replace(training, checks=checks))
        found = Questions(other, case, "robust").position_bias()
        assert (0 if found is None else len(found.truth)) == left
        if found is not None:
            assert found.known
            assert found.truth.tolist() == stated.truth[1:].tolist()


def test_conversions_are_asked_for_where_there_are_some() -> None:
    for name in ("conversions", "conversions-without-features"):
        family = replace(FAMILIES[name], queries=40, docs=6, pages=900)
        case = make_case(family, 0, 0)
        model = fit_padded(EpistemicPBM(epochs=2, hidden=(4,)), case)
        asked = Questions(model, case, "robust")
        found = asked.answers()
        truth = case.world.purchases.conversion
        assert set(found["conversion"].truth) <= set(truth)
        for quantity in ("conversions_per_page", "value_per_page"):
            assert found[quantity].truth.shape == found["ranker_value"].truth.shape
        share = found["conversions_per_page"].truth / found["ranker_value"].truth
        assert np.all((share > truth.min()) & (share < truth.max()))
        inside = (found["conversion"].low[1] <= found["conversion"].truth) & (
            found["conversion"].truth <= found["conversion"].high[1]
        )
        assert inside.mean() > 0.7
