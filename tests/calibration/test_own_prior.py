"""Worlds of the model's own prior: drawn from it exactly, and judged by ranks that can fail."""

import jax
import numpy as np
import pytest
from scipy import special
from scipy.stats import beta as beta_distribution
from scipy.stats import kstest

from epiclick.calibration.answers import Answers
from epiclick.calibration.chain import chain_draws
from epiclick.calibration.own_prior import (
    OWN_METHODS,
    OWN_PRIOR,
    OWN_QUANTITIES,
    POSITIONS,
    OwnWorld,
    _item_draws,
    _most_shown,
    _posterior,
    answer_own,
    betas,
    density,
    log_likelihood,
    make_own_world,
    prior_draws,
    raw_outputs,
    stage,
)
from epiclick.calibration.table import UniformityRow, uniformity_rows

pytestmark = pytest.mark.slow

WORLDS = 160
FEW = 12
GAUSSIAN = 3  # number of a world whose posterior is near a Gaussian


@pytest.fixture(scope="module")
def worlds() -> list[OwnWorld]:
    return [make_own_world(OWN_PRIOR, 3, index) for index in range(WORLDS)]


def rows_of(answers: list[dict[str, Answers]], shrink: float = 1.0) -> dict[str, UniformityRow]:
    return {row.quantity: row for row in uniformity_rows("m", OWN_PRIOR, answers, shrink)}


def test_a_world_depends_on_seed_and_index_alone(worlds: list[OwnWorld]) -> None:
    again = make_own_world(OWN_PRIOR, 3, 1)
    assert np.array_equal(again.truth, worlds[1].truth)
    assert np.array_equal(again.counts.clicks, worlds[1].counts.clicks)
    assert not np.array_equal(make_own_world(OWN_PRIOR, 4, 1).truth, again.truth)
    assert len({world.seed for world in worlds}) == WORLDS


def test_truths_follow_the_prior_that_the_posterior_step_assumes(worlds: list[OwnWorld]) -> None:
    assumed = density(worlds[0].counts, stage()).prior
    assert np.isnan(assumed.clicks.known_mean).all()  # uniform
    assert stage().layer_sd == pytest.approx(assumed.layer_sd, rel=1e-12)
    truth = np.array([world.truth for world in worlds])
    theta = special.expit(truth[:, : POSITIONS - 1])
    assert kstest(theta.ravel(), "uniform").pvalue > 0.01
    standard = (truth[:, POSITIONS - 1 :] / assumed.layer_sd).ravel()
    assert kstest(standard, "norm").pvalue > 0.01
    assert kstest(standard * 1.2, "norm").pvalue < 0.01


def test_relevance_and_clicks_follow_the_parameters(worlds: list[OwnWorld]) -> None:
    shared, places, gain, variance = stage(), [], 0.0, 0.0
    for world in worlds[:20]:
        alpha, beta = (part[0] for part in betas(shared, world.truth[None]))
        zeta = special.expit(world.logit)
        sure = (alpha > 0.2) & (beta > 0.2)  # elsewhere truths are 0 or 1 to rounding
        places.append(beta_distribution.cdf(zeta, alpha, beta)[sure])
        theta = np.r_[1.0, special.expit(world.truth[: POSITIONS - 1])]
        probability = theta[shared.position] * zeta[shared.row]
        gain += world.counts.total_clicks - probability.sum()
        variance += (probability * (1 - probability)).sum()
    assert kstest(np.concatenate(places), "uniform").pvalue > 0.01
    assert abs(gain) < 3 * np.sqrt(variance)


def test_likelihoods_are_those_of_brute_force(worlds: list[OwnWorld]) -> None:
    shared, world = stage(), worlds[0]
    vectors = prior_draws(shared, 2, np.random.default_rng(0))
    vectors[:, POSITIONS - 1 :] *= 0.1
    vectors[:, -1] = 8.0  # confident, so that a plain grid integrates the Betas
    found = log_likelihood(world, vectors)
    grid = (np.arange(4_000) + 0.5) / 4_000
    counts, expected = world.counts, []
    for vector, alpha, beta in zip(vectors, *betas(shared, vectors), strict=True):
        theta = np.r_[1.0, special.expit(vector[: POSITIONS - 1])]
        total = 0.0
        for pair, row in enumerate(counts.feature_row):
            own = counts.pair == pair
            chance = theta[counts.context[own]][:, None] * grid
            clicks, missed = counts.clicks[own], (counts.displays - counts.clicks)[own]
            log_each = clicks @ np.log(chance) + missed @ np.log1p(-chance)
            weight = beta_distribution.pdf(grid, alpha[row], beta[row])
            total += np.log((np.exp(log_each) * weight).mean())
        expected.append(total)
    assert np.diff(found) == pytest.approx(np.diff(expected), abs=1e-3)
    own = density(counts, shared)
    with jax.enable_x64(True):
        clicks_only = own.value(vectors) - [own.prior.log_density(vector) for vector in vectors]
    assert np.diff(found) == pytest.approx(np.diff(clicks_only), abs=1e-3)


def test_an_item_is_drawn_from_its_posterior(worlds: list[OwnWorld]) -> None:
    counts, number = worlds[2].counts, 2_000
    item = _most_shown(counts)
    vectors = np.zeros((number, len(worlds[2].truth)))
    vectors[:, 0], vectors[:, 1] = 0.3, -1.0
    alpha, beta = np.full(number, 1.4), np.full(number, 2.2)
    drawn = special.expit(_item_draws(counts, item, vectors, alpha, beta, np.random.default_rng(5)))
    grid = (np.arange(20_000) + 0.5) / 20_000
    own = counts.pair == item
    chance = np.r_[1.0, special.expit([0.3, -1.0])][counts.context[own]][:, None] * grid
    clicks, missed = counts.clicks[own], (counts.displays - counts.clicks)[own]
    log_posterior = clicks @ np.log(chance) + missed @ np.log1p(-chance)
    log_posterior += beta_distribution.logpdf(grid, 1.4, 2.2)
    below = np.cumsum(np.exp(log_posterior - log_posterior.max()))
    assert kstest(drawn, lambda x: np.interp(x, grid, below / below[-1])).pvalue > 0.01
    assert kstest(drawn, beta_distribution(1.4, 2.2).cdf).pvalue < 1e-6


def test_who_has_seen_no_click_has_uniform_ranks_unless_widths_shrink(
    worlds: list[OwnWorld],
) -> None:
    answers = [OWN_METHODS["prior"].answer(world) for world in worlds]
    right, narrow = rows_of(answers), rows_of(answers, shrink=0.7)
    assert list(right) == [name for name in OWN_QUANTITIES if name != "log_likelihood"]
    assert not any(row.flagged for row in right.values())
    # logits of a relevance of unknown Beta reach so far out that seven tenths move few ranks
    assert [name for name, row in narrow.items() if row.flagged] == list(right)[:-1]


def test_the_likelihood_catches_who_has_not_looked_at_the_clicks(worlds: list[OwnWorld]) -> None:
    found = rows_of([answer_own(world, sampler="prior", clicks=True) for world in worlds[:FEW]])
    assert found["log_likelihood"].flagged
    assert not found["second_position"].flagged


def test_the_gaussian_and_the_chain_rank_every_quantity(worlds: list[OwnWorld]) -> None:
    shared = stage()
    for name in ("laplace", "chain"):
        answers = OWN_METHODS[name].answer(worlds[0])
        assert list(answers) == list(OWN_QUANTITIES)
        assert {given.draws.shape for given in answers.values()} == {(1, 99)}
        truth = {quantity: given.truth[0] for quantity, given in answers.items()}
        assert truth["second_position"] == worlds[0].truth[0]
        assert truth["item_mean"] == raw_outputs(shared, worlds[0].truth[None])[0, 0, 0]
        assert truth["log_likelihood"] == log_likelihood(worlds[0], worlds[0].truth[None])[0]


def test_the_chain_draws_from_the_log_density(worlds: list[OwnWorld]) -> None:
    # importance sampling of the same density, in a world whose posterior is near a Gaussian
    world = worlds[GAUSSIAN]
    mode, covariance, own = _posterior(world)
    rng = np.random.default_rng(6)
    noise = rng.standard_normal((600, len(mode)))
    proposed = mode + noise @ np.linalg.cholesky(covariance).T
    with jax.enable_x64(True):
        log_weights = own.value(proposed) + 0.5 * np.square(noise).sum(axis=1)
        drawn = np.concatenate([chain_draws(own, mode, covariance, 99, seed) for seed in range(3)])
    weights = special.softmax(log_weights)
    worth = 1 / np.square(weights).sum()
    assert worth > 200
    mean = weights @ proposed
    sd = np.sqrt(weights @ np.square(proposed - mean))
    # neighbouring draws of the chain are somewhat alike: taken as half as many
    error = sd * np.sqrt(1 / worth + 2 / len(drawn))
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 4 * error)
    assert np.all(np.abs(np.log(drawn.std(axis=0) / sd)) < 0.35)
