import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import beta, kstest, norm
from sklearn.ensemble import ExtraTreesRegressor

from epiclick.data.features import FeatureTable
from epiclick.simulate.world_items import (
    beta_prior,
    label_relevance,
    mean_over_users,
    synthetic_rankings,
    taste_relevance,
)


def test_relevance_of_labels_is_the_papers():
    np.testing.assert_allclose(
        label_relevance(np.arange(5, dtype=np.int8)), [0.1, 0.325, 0.55, 0.775, 1.0], rtol=1e-15
    )


@pytest.fixture(scope="module")
def table():
    return synthetic_rankings(500, 20, 12, np.random.default_rng(0))


def test_beta_relevance_looks_like_the_label_worlds(table):
    prior = beta_prior(table, np.random.default_rng(1))
    confidence = prior.alpha + prior.beta
    assert (confidence > 2).all()
    assert (confidence < 30).all()
    assert np.ptp(confidence) > 10
    drawn = np.random.default_rng(2).beta(prior.alpha, prior.beta)
    labelled = label_relevance(table.keys["label"].to_numpy())
    assert 0.22 < drawn.mean() < 0.32
    assert drawn.std() == pytest.approx(labelled.std(), rel=0.25)
    assert 0.08 < prior.mean.std() < 0.2, "features must tell much of relevance, but not all"


def test_beta_prior_is_a_function_of_the_features(table):
    prior = beta_prior(table, np.random.default_rng(1))
    order = np.random.default_rng(0).permutation(len(table))
    shuffled = FeatureTable(table.keys, table.names, table.matrix[order])
    again = beta_prior(shuffled, np.random.default_rng(1))
    np.testing.assert_allclose(again.alpha, prior.alpha[order], rtol=1e-4)
    np.testing.assert_allclose(again.beta, prior.beta[order], rtol=1e-4)
    assert len(np.unique(prior.mean)) > 0.99 * len(table)


def test_mean_and_confidence_are_smooth_enough_to_be_learned(table):
    prior = beta_prior(table, np.random.default_rng(1))
    train = np.arange(len(table)) % 3 == 0
    for target in (prior.mean, prior.alpha + prior.beta):
        learner = ExtraTreesRegressor(30, min_samples_leaf=2, random_state=0)
        learner.fit(table.matrix[train], target[train])
        assert learner.score(table.matrix[~train], target[~train]) > 0.6


def test_constant_features_give_one_beta(table):
    flat = FeatureTable(table.keys, ("f0",), np.ones((len(table), 1), dtype=np.float32))
    prior = beta_prior(flat, np.random.default_rng(0))
    np.testing.assert_allclose(prior.mean, expit(-1.1))


def test_drawn_relevance_follows_its_own_beta(table):
    prior = beta_prior(table, np.random.default_rng(1))
    drawn = np.random.default_rng(2).beta(prior.alpha, prior.beta)
    assert kstest(beta.cdf(drawn, prior.alpha, prior.beta), "uniform").pvalue > 1e-4
    narrower = beta.cdf(drawn, 1.5 * prior.alpha, 1.5 * prior.beta)
    assert kstest(narrower, "uniform").pvalue < 1e-6


def test_taste_moves_the_logit_and_leaves_certainty_alone():
    zeta, taste = np.array([0.1, 0.5, 1.0]), np.array([1.0, -2.0, -5.0])
    np.testing.assert_allclose(
        taste_relevance(zeta, taste), [expit(logit(0.1) + 1), expit(-2), 1.0], rtol=1e-12
    )


@pytest.mark.parametrize("taste_sd", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("zeta", [0.1, 0.325, 0.55, 0.775])
def test_mean_over_users_is_the_integral(zeta, taste_sd):
    expected = (
        zeta
        if taste_sd == 0
        else quad(lambda t: expit(logit(zeta) + taste_sd * t) * norm.pdf(t), -12, 12)[0]
    )
    assert mean_over_users(np.array([zeta, 1.0]), taste_sd) == pytest.approx(
        [expected, 1.0], abs=1e-6
    )
