"""What every estimator promises, whatever it samples."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from epiclick.estimators.estimator import Draws
from epiclick.estimators.names import make_estimator

from .problems import FOUR, SAMPLES, Problem, run

pytestmark = pytest.mark.slow

CLOSE = {"rtol": 1e-5, "atol": 1e-6}
"""Samples and their logarithms are float32."""


class Contract:
    """Tests that a class inherits by naming its estimator; all run it as a compiled program."""

    estimator: ClassVar[Any]

    def draws(self, problem: Problem = FOUR, seed: int = 0) -> Draws | None:
        return self.estimator.draw(np.random.default_rng(seed), *problem.inputs(self.estimator))

    def run(self, problem: Problem, draws: Draws | None) -> tuple[float, np.ndarray, np.ndarray]:
        """Log-likelihood, gradient for relevance (2, pairs), for position bias (2, contexts).

        The latter is (1, contexts) for points.
        """
        value, slope = run(self.estimator, problem, draws)
        pairs, contexts = problem.displays.shape
        of_position = (1 if self.estimator.is_point else 2, contexts)
        assert slope.shape == (2 * pairs + np.prod(of_position),)
        assert np.isfinite(value)
        assert np.all(np.isfinite(slope))
        return value, slope[: 2 * pairs].reshape(2, pairs), slope[2 * pairs :].reshape(of_position)

    def test_the_order_of_pairs_does_not_matter(self) -> None:
        draws, order = self.draws(), [2, 0, 3, 1]
        value, of_pairs, of_contexts = self.run(FOUR, draws)
        other, moved, same = self.run(FOUR.take(order), chosen(draws, order))
        np.testing.assert_allclose(other, value, **CLOSE)
        np.testing.assert_allclose(moved, of_pairs[:, order], **CLOSE)
        np.testing.assert_allclose(same, of_contexts, **CLOSE)

    @pytest.mark.parametrize("pairs", [[0], [1], [2]])
    def test_one_pair_is_a_batch(self, pairs: list[int]) -> None:
        problem = FOUR.take(pairs)
        draws = chosen(self.draws(), pairs)
        value, of_pairs, of_contexts = self.run(problem, draws)
        # as the first of four whose others do not count
        alone = replace(FOUR.take([*pairs, 3, 3, 3]), weight=np.array([1.0, 0, 0, 0]))
        expected = self.run(alone, chosen(self.draws(), [*pairs, 3, 3, 3]))
        np.testing.assert_allclose(value, expected[0], **CLOSE)
        np.testing.assert_allclose(of_pairs, expected[1][:, :1], **CLOSE)
        np.testing.assert_allclose(of_contexts, expected[2], **CLOSE)

    def test_one_context_is_enough(self) -> None:
        one = FOUR.contexts([0])
        others = np.array([[0, 0, 0]] * 4)
        padded = replace(
            FOUR, displays=one.displays * [1, 0, 0] + others, clicks=one.clicks * [1, 0, 0]
        )
        draws = self.draws()
        first = None
        if draws is not None:
            logs = draws.log_theta[:, :1], draws.log_rest[:, :1]
            first = Draws(*logs, draws.log_zeta, draws.log_other)
        value, of_pairs, of_contexts = self.run(one, first)
        expected = self.run(padded, draws)
        np.testing.assert_allclose(value, expected[0], **CLOSE)
        np.testing.assert_allclose(of_pairs, expected[1], **CLOSE)
        np.testing.assert_allclose(of_contexts, expected[2][:, :1], **CLOSE)

    def test_a_pair_never_shown_changes_nothing_for_the_others(self) -> None:
        draws = self.draws()
        unseen = replace(
            FOUR, displays=FOUR.displays * UNTIL_THREE, clicks=FOUR.clicks * UNTIL_THREE
        )
        value, of_pairs, of_contexts = self.run(unseen, draws)
        without = replace(unseen, weight=UNTIL_THREE[:, 0].astype(float))
        expected = self.run(without, draws)
        np.testing.assert_allclose(value, expected[0], **CLOSE)
        np.testing.assert_allclose(of_pairs[:, :3], expected[1][:, :3], **CLOSE)
        np.testing.assert_allclose(of_contexts, expected[2], **CLOSE)

    def test_pairs_of_weight_zero_do_not_matter(self) -> None:
        draws, weight = self.draws(), np.array([1.0, 1.0, 1.0, 0.0])
        value, of_pairs, of_contexts = self.run(replace(FOUR, weight=weight), draws)
        odd = replace(
            FOUR.take([0, 1, 2, 1]),
            alpha=np.array([*FOUR.alpha[:3], 77.0]),
            weight=weight,
        )
        other, same_pairs, same_contexts = self.run(odd, chosen(draws, [0, 1, 2, 1]))
        assert np.all(of_pairs[:, 3] == 0)
        np.testing.assert_allclose(other, value, **CLOSE)
        np.testing.assert_allclose(same_pairs, of_pairs, **CLOSE)
        np.testing.assert_allclose(same_contexts, of_contexts, **CLOSE)

    def test_a_weight_of_two_is_the_pair_twice(self) -> None:
        draws = self.draws()
        double = replace(FOUR.take([0, 1, 2, 2]), weight=np.array([1.0, 2.0, 1.0, 0.0]))
        value, of_pairs, of_contexts = self.run(double, chosen(draws, [0, 1, 2, 2]))
        twice = FOUR.take([0, 1, 2, 1])
        other, both, same = self.run(twice, chosen(draws, [0, 1, 2, 1]))
        np.testing.assert_allclose(other, value, **CLOSE)
        np.testing.assert_allclose(both[:, 0::2], of_pairs[:, 0::2][:, :2], **CLOSE)
        np.testing.assert_allclose(both[:, 1] + both[:, 3], of_pairs[:, 1], **CLOSE)
        np.testing.assert_allclose(same, of_contexts, **CLOSE)

    @pytest.mark.parametrize("alpha", [1e-3, 1e3])
    @pytest.mark.parametrize("beta", [1e-3, 1e3])
    def test_extreme_distributions_give_finite_values(self, alpha: float, beta: float) -> None:
        problem = replace(
            FOUR,
            alpha=np.full(4, alpha),
            beta=np.full(4, beta),
            alpha_position=np.array([alpha, beta, 1.0]),
            beta_position=np.array([beta, 1.0, alpha]),
        )
        for seed in range(3):
            self.run(problem, self.draws(problem, seed))

    def test_training_is_given_this_gradient(self) -> None:
        """As arrays of numpy, whatever computed them."""
        draws = self.draws()
        found = self.estimator.gradient(*FOUR.inputs(self.estimator), FOUR.batch, draws)
        value, of_pairs, of_contexts = self.run(FOUR, draws)
        assert isinstance(found.log_likelihood, float)
        assert isinstance(found.log_scale, float)
        np.testing.assert_allclose(found.log_likelihood, value, **CLOSE)
        np.testing.assert_allclose(found.by_relevance, of_pairs, **CLOSE)
        np.testing.assert_allclose(np.atleast_2d(found.by_position), of_contexts, **CLOSE)
        for part in (*found.by_relevance, *found.by_position):
            assert isinstance(part, np.ndarray | np.float64)
            assert part.dtype == np.float64

    def test_a_seed_decides_everything(self) -> None:
        (value, *slopes), (again, *same) = (self.run(FOUR, self.draws(seed=5)) for _ in range(2))
        assert value == again
        for slope, other in zip(slopes, same, strict=True):
            np.testing.assert_array_equal(slope, other)
        if self.draws() is not None:
            assert self.run(FOUR, self.draws(seed=6))[0] != value


UNTIL_THREE = np.array([[1], [1], [1], [0]])


def chosen(draws: Draws | None, pairs: list[int]) -> Draws | None:
    """The same biases, and the samples of some pairs."""
    if draws is None or draws.log_zeta is None:
        return draws
    relevance = (each[pairs] for each in draws.relevance)
    return Draws(draws.log_theta, draws.log_rest, *relevance)


class TestNaive(Contract):
    estimator = make_estimator("naive", SAMPLES).started(lambda: -10.0)

    def test_likelihoods_that_underflow_give_a_gradient_of_zero(self) -> None:
        literal = make_estimator("naive", SAMPLES, literal=True, baseline=True)
        many = replace(FOUR, weight=np.full(4, 1e4))
        value, slope = run(literal, many, self.draws())
        assert value < -10_000
        assert np.all(slope == 0)
        assert np.any(
            run(literal.__class__(SAMPLES).started(lambda: value), many, self.draws())[1] != 0
        )

    def test_a_factor_that_would_overflow_is_given_apart(self) -> None:
        """The largest likelihood counts as exp(20), whatever the first batch's was."""
        draws = self.draws()
        far = self.estimator.started(lambda: -800.0)
        found = far.gradient(*FOUR.betas(), FOUR.batch, draws)
        plain = self.estimator.gradient(*FOUR.betas(), FOUR.batch, draws)
        assert plain.log_scale == 0
        assert found.log_scale > 700
        nats = found.log_scale - 790.0  # the contract's offset is -10
        for own, other in zip(found.by_relevance, plain.by_relevance, strict=True):
            np.testing.assert_allclose(own * np.exp(nats), other, rtol=1e-6)


class TestNaiveWithBaseline(Contract):
    estimator = make_estimator("naive", SAMPLES, baseline=True).started(lambda: -10.0)


class TestSelfNormalized(Contract):
    estimator = make_estimator("self_normalized", SAMPLES)


class TestConditioned(Contract):
    estimator = make_estimator("conditioned", SAMPLES)


class TestConditionedWithBaseline(Contract):
    estimator = make_estimator("conditioned", SAMPLES, baseline=True)


class TestExact(Contract):
    estimator = make_estimator("exact", SAMPLES)


class TestMarginal(Contract):
    estimator = make_estimator("marginal")
