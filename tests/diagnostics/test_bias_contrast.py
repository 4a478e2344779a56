"""A test of two estimates of position bias: against scipy, and its p-values where both are right."""

import numpy as np
import pytest
from scipy import stats

from epiclick.diagnostics.bias_contrast import FEWEST_QUERIES, QUERIES_PER_CONTEXT, BiasContrast
from epiclick.identification.bias_estimate import BiasEstimate

DISPLAYS = np.array([4.0, 3.0, 2.0, 1.0])
SPREAD = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.4], [0.2, 0.4, 2.0]])


def drawn(queries: int, rng: np.random.Generator, shift: float = 0.0) -> tuple[BiasEstimate, ...]:
    """Two means over queries of correlated values; the second is known exactly and is 0."""
    values = rng.multivariate_normal(np.full(3, shift), SPREAD, queries)
    mean = values.mean(axis=0)
    influence = np.column_stack([np.zeros(queries), (values - mean) / queries])
    first = BiasEstimate(np.append(0, mean), influence, np.ones(queries))
    return first, BiasEstimate(np.zeros(4), np.zeros((queries, 4)), np.ones(queries))


def contrast(first: BiasEstimate, second: BiasEstimate) -> BiasContrast:
    found = BiasContrast.of(first, second, DISPLAYS, first.information)
    assert found is not None
    return found


def test_it_is_hotellings_test_of_a_mean() -> None:
    queries = 60
    first, second = drawn(queries, np.random.default_rng(0), 0.2)
    found = contrast(first, second)
    # the scaling by 1 / (1 - h) is that of a jackknife: (n / (n - 1))^2 instead of n / (n - 1)
    mean, values = first.log_bias[1:], first.influence[:, 1:] * queries
    square = mean @ np.linalg.solve(values.T @ values / (queries - 1) ** 2, mean)
    ratio = square * (queries - 3) / (3 * (queries - 1))
    assert found.p_value == pytest.approx(stats.f.sf(ratio, 3, queries - 3), rel=1e-9)
    assert (found.freedom, found.queries) == (3, pytest.approx(queries))
    assert found.context.tolist() == [1, 2, 3]
    np.testing.assert_allclose(found.weight, [0.5, 1 / 3, 1 / 6])
    assert found.effect == pytest.approx(found.weight @ mean)
    assert found.size == pytest.approx(found.weight @ abs(mean))


@pytest.mark.parametrize(("queries", "freedom"), [(60, 3), (12, 1)])
def test_p_values_are_uniform_where_both_are_right(queries: int, freedom: int) -> None:
    rng = np.random.default_rng(1)
    found = [contrast(*drawn(queries, rng)) for _ in range(2_000)]
    assert {each.freedom for each in found} == {freedom}
    p_values = np.array([each.p_value for each in found])
    for level in (0.01, 0.05):
        error = np.sqrt(level * (1 - level) / len(p_values))
        share = np.mean(p_values < level)
        # the jackknife is a little conservative with few queries
        assert level * (1 - 4 / queries) - 4 * error < share < level + 4 * error
    # negative control: influences of half the size
    wrong = [
        contrast(first._replace(influence=first.influence / 2), second).p_value
        for first, second in (drawn(queries, rng) for _ in range(500))
    ]
    assert np.mean(np.array(wrong) < 0.05) > 0.15


def test_what_estimates_have_in_common_cancels() -> None:
    """The variance of the difference is not the sum of variances."""
    rng = np.random.default_rng(2)
    first, second = drawn(60, rng, 0.1)
    shared = np.column_stack([np.zeros(60), rng.normal(size=(60, 3))])
    noisy = [
        each._replace(log_bias=each.log_bias + 1, influence=each.influence + shared)
        for each in (first, second)
    ]
    assert contrast(*noisy).p_value == pytest.approx(contrast(first, second).p_value, rel=1e-9)


def test_few_queries_or_nothing_to_compare_give_no_result() -> None:
    rng = np.random.default_rng(3)
    assert BiasContrast.of(*drawn(4, rng), DISPLAYS, np.ones(4)) is None
    first, second = drawn(100, rng)
    one = np.zeros(100)
    one[:2] = 1  # all information in two queries
    assert one.sum() < FEWEST_QUERIES
    assert BiasContrast.of(first, second, DISPLAYS, one) is None
    assert BiasContrast.of(first, second, DISPLAYS, np.zeros(100)) is None
    unknown = first._replace(log_bias=np.array([0, np.nan, np.nan, np.nan]))
    assert BiasContrast.of(unknown, second, DISPLAYS, first.information) is None
    some = first._replace(log_bias=np.where([True, True, False, True], first.log_bias, np.nan))
    assert contrast(some, second).context.tolist() == [1, 3]
    assert QUERIES_PER_CONTEXT * 2 < 100
