"""Gradients are the paper's formulas, and come to the gradient of the likelihood."""

import numpy as np
import pytest

from epiclick.estimators.estimator import Draws

from . import checks
from .problems import TWO, draw_repeats
from .reference import likelihoods_by_loops, true_gradient, without_others

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("baseline", [False, True])
@pytest.mark.parametrize("name", ["naive", "self_normalized", "conditioned"])
def test_sampling_estimators_are_the_papers_formulas(
    name: str, baseline: bool, literal: bool
) -> None:
    checks.check_formula(name, baseline, literal)


def test_an_offset_is_a_constant_factor_up_to_a_cap() -> None:
    checks.check_offset()


def test_naive_gradients_are_unbiased_and_calmed_by_a_baseline() -> None:
    checks.check_naive_expectation()


def test_the_bias_of_self_normalised_gradients_shrinks_with_samples() -> None:
    checks.check_self_normalized_bias()


@pytest.mark.parametrize("baseline", [False, True])
def test_conditioned_gradients_are_those_of_the_log_likelihood(baseline: bool) -> None:
    checks.check_conditioned_expectation(baseline)


@pytest.mark.parametrize("baseline", [False, True])
def test_exact_gradients_are_those_of_the_log_likelihood(baseline: bool) -> None:
    checks.check_exact_expectation(baseline)


@pytest.mark.parametrize("baseline", [False, True])
def test_exact_gradients_given_biases(baseline: bool) -> None:
    checks.check_exact_given_draws(baseline)


def test_conditioned_comes_to_exact_as_samples_grow() -> None:
    checks.check_convergence()


def test_marginal_gradients_are_those_of_the_likelihood() -> None:
    checks.check_marginal()


def test_buckets_of_any_kind_give_the_same_weights() -> None:
    checks.check_buckets()


def test_samples_beyond_float32_are_weighed_in_logarithms() -> None:
    checks.check_extremes()


def test_a_baseline_on_the_outer_weights_of_relevance_would_be_caught() -> None:
    """The control: outer weights are no weights of the relevance samples' score functions."""
    truth = true_gradient(TWO)
    wrong = []
    for i in range(20):
        draws = draw_repeats(TWO, 1, 200, i)
        draws = Draws(draws.log_theta[0], draws.log_rest[0], draws.log_zeta[0], draws.log_other[0])
        log_j = likelihoods_by_loops(TWO, draws)  # (biases, pairs, relevance samples)
        inner = np.exp(log_j - log_j.max(axis=2, keepdims=True))
        log_mean = np.log(inner.mean(axis=2)) + log_j.max(axis=2)
        inner /= inner.sum(axis=2, keepdims=True)
        outer = np.exp(log_mean.sum(axis=1) - log_mean.sum(axis=1).max())
        outer = without_others(outer / outer.sum())
        wrong.append(np.einsum("i,ipj,pj->p", outer, inner, draws.log_zeta))
    with pytest.raises(AssertionError):
        checks.assert_mean(np.array(wrong), truth[:2])
    # alpha of the first pair: 0.27 in truth
    assert abs(np.mean(wrong, axis=0)[0]) < 0.05 < 0.2 < truth[0]
