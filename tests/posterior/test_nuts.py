"""Three posteriors of the same density: a Gaussian, Markov chains, and sums over a grid."""

import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from epiclick.api import EpistemicPBM
from epiclick.batching.pairset import PairSet
from epiclick.click_models.pbm import PositionBased
from epiclick.click_models.priors import UniformPrior
from epiclick.data.counts import ClickCounts
from epiclick.errors import InputWarning
from epiclick.posterior import nuts
from epiclick.posterior.joint_prior import Prior
from epiclick.posterior.laplace import covariances, make_density
from epiclick.posterior.mode import find_mode, posterior_mean
from epiclick.posterior.nuts import sample, whole_log_density

from ..raising import raises_code
from .small_worlds import density_of, pairs_of, start_of, with_features, world

pytestmark = pytest.mark.slow

BIAS_SD = np.array([3.0, 6.0])  # prior of the mean's and the confidence's bias
NOTHING = 3e-3  # and of weights that are to stay 0


def agree(means: np.ndarray, sds: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> None:
    np.testing.assert_array_less(abs(means - mean) / sd, 0.2)
    np.testing.assert_array_less(abs(sds / sd - 1), 0.15)


@pytest.fixture(scope="module")
def two_positions() -> ClickCounts:
    # with 3,000 pairs and a confidence of 3 the latter's raw value is so skewed that its mode is
    # 0.22 deviations from its mean; position bias is no different
    return world(3500, (1.0, 0.5), confidence=2.0)


def gaussian_and_chains(density, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and standard deviations by Laplace, samples by chains."""
    with jax.enable_x64(True):
        mode = find_mode(density, np.zeros(size))
        bayes, _ = covariances(mode, density.prior)
        mean = posterior_mean(density, mode.vector, bayes, seed=0)
        drawn = sample(density, mode.vector, bayes, 0, samples=800, chains=2, warmup=150)
    return mean, np.sqrt(np.diag(bayes)), drawn


@pytest.fixture(scope="module")
def both(two_positions: ClickCounts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of one Beta for all pairs, whose mean and confidence are not known."""
    # as in fits without features, pairs that are alike are counted; the grid takes them all
    density = replace(density_of(two_positions), pairs=PairSet.distinct(two_positions, 10_000))
    prior = Prior(UniformPrior.of(1), np.concatenate([np.full(4, NOTHING), BIAS_SD]))
    return gaussian_and_chains(replace(density, prior=prior), 7)


def on_a_grid(counts: ClickCounts, centre: np.ndarray, sd: np.ndarray) -> tuple:
    """Mean and sd of (logit theta_2, mean, confidence), by sums over a grid of all three.

    Item by item: those shown and clicked alike have the same likelihood, an integral over relevance
    by a Gauss-Jacobi rule that is exact for so few displays.
    """
    displays, clicks = counts.dense()
    alike, times = np.unique(np.hstack([displays, clicks]), axis=0, return_counts=True)
    shown, clicked = alike[:, None, None, :2], alike[:, None, None, 2:]
    axes = [c + s * np.linspace(-5, 5, 41) for c, s in zip(centre, sd, strict=True)]
    theta = np.column_stack([np.ones(41), special.expit(axes[0])])
    log_density = np.empty((41, 41, 41))
    for i, mean in enumerate(axes[1]):
        for j, raw in enumerate(axes[2]):
            nu = 1 + np.log1p(np.exp(raw))
            alpha, beta = special.expit(mean) * nu, special.expit(-mean) * nu
            nodes, weights = special.roots_jacobi(2, beta - 1, alpha - 1)  # up to degree 3
            p = theta[:, None] * (nodes[:, None] + 1) / 2  # (theta, nodes, positions)
            terms = np.prod(p**clicked * (1 - p) ** (shown - clicked), axis=-1)
            likelihood = terms @ (weights / weights.sum())  # (kinds of items, theta)
            log_density[:, i, j] = times @ np.log(likelihood)
    log_density += stats.logistic.logpdf(axes[0])[:, None, None]
    log_density += stats.norm.logpdf(axes[1], 0, BIAS_SD[0])[:, None]
    log_density += stats.norm.logpdf(axes[2], 0, BIAS_SD[1])
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    marginals = [weight.sum(axis=tuple({0, 1, 2} - {axis})) for axis in range(3)]
    means = np.array([m @ a for m, a in zip(marginals, axes, strict=True)])
    squares = np.array([m @ a**2 for m, a in zip(marginals, axes, strict=True)])
    assert max(m[[0, -1]].max() for m in marginals) < 1e-3  # the grid reaches far enough
    return means, np.sqrt(squares - means**2)


def test_gaussian_chains_and_grid_agree(two_positions: ClickCounts, both) -> None:
    mode, sd, drawn = both
    free = [0, 5, 6]
    means, sds = on_a_grid(two_positions, mode[free], sd[free])
    agree(mode[free], sd[free], means, sds)
    agree(drawn[:, free].mean(axis=0), drawn[:, free].std(axis=0), means, sds)
    agree(mode[free], sd[free], drawn[:, free].mean(axis=0), drawn[:, free].std(axis=0))
    # the grid would notice a posterior that is off by half a deviation, or a fifth too narrow
    with pytest.raises(AssertionError):
        agree(mode[free] + 0.5 * sd[free], sd[free], means, sds)
    with pytest.raises(AssertionError):
        agree(mode[free], 0.8 * sd[free], means, sds)


def test_gaussian_and_chains_agree_with_features() -> None:
    counts = with_features(world(2000, (1.0, 0.5)))
    density = make_density(pairs_of(counts), start_of(counts, (8,)), PositionBased(), 0)
    mode, sd, drawn = gaussian_and_chains(density, 1 + 2 * 9)
    assert drawn.shape == (800, 19)
    agree(mode[:1], sd[:1], drawn[:, :1].mean(axis=0), drawn[:, :1].std(axis=0))


def test_one_function_for_all_batches_is_the_density() -> None:
    counts = with_features(world(40, (1.0, 0.5, 0.2)))
    density = density_of(counts, None)
    density = replace(density, pairs=pairs_of(counts, 15))
    given = UniformPrior(np.array([np.nan, -1.0, np.nan]), np.array([np.nan, 0.3, np.nan]))
    known = Prior(given, density.prior.layer_sd)
    vector = np.random.default_rng(0).normal(size=3 + 2 * 5)
    with jax.enable_x64(True):
        for prior in (density.prior, known):
            own = replace(density, prior=prior)
            whole = jax.jit(jax.value_and_grad(whole_log_density(own)))
            found, expected = ([f(v) for v in (vector, -vector)] for f in (whole, own.curvature))
            for (_, slope), curvature in zip(found, expected, strict=True):
                np.testing.assert_allclose(slope, curvature.gradient, atol=1e-8)
            # each is known up to its own constant, and one by quadrature
            rise = expected[0].value - expected[1].value
            assert float(found[0][0] - found[1][0]) == pytest.approx(rise, abs=1e-6)
            alone, slope = jax.value_and_grad(lambda v, p=prior: p.log_density(v, jnp))(vector)
            assert float(alone) == pytest.approx(prior.log_density(vector), rel=1e-12)
            np.testing.assert_allclose(slope, prior.gradient(vector), rtol=1e-12)


def test_unreliable_chains_give_a_warning() -> None:
    with pytest.warns(InputWarning, match=r"do not agree with each other \(r-hat 1.06"):
        nuts._check(np.array([1.0, 1.06]), 0, 100)
    with pytest.warns(InputWarning, match=r"3 of 1,000 steps .* diverged"):
        nuts._check(np.array([1.0]), 3, 1000)
    nuts._check(np.array([1.04, np.nan]), 0, 100)


def test_without_numpyro_the_remedy_is_shown_before_any_training(
    two_positions: ClickCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numpyro", None)
    monkeypatch.setattr("epiclick.fitting.Training", None)
    with raises_code("missing-extra") as caught:
        EpistemicPBM(theta_posterior="nuts").fit(two_positions)
    assert 'pip install "epiclick[nuts]"' in str(caught.value)


def test_samples_are_shared_evenly_by_chains(both) -> None:
    with raises_code("samples-not-multiple-of-chains") as caught:
        sample(None, np.zeros(1), np.eye(1), 0, samples=10)  # type: ignore[arg-type]
    assert "4 chains, not 10" in str(caught.value)
