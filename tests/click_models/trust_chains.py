"""Markov chains of a trust model's posterior in a small log, as they were when they were recorded.

Along the curve on which all clicks stay as likely, chains move slowly: 1,000 draws in the parameters
are worth 15 there. So long chains are recorded, in coordinates in which that curve is straight: the
parameter psi along it, and the others' distances from their modes given psi, in their standard
deviations given psi. Any coordinates give the same posterior; these give 100 draws for 1,000.

    python -m tests.click_models.trust_chains
"""

from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS
from safetensors.numpy import load_file, save_file

import epiclick as ec
from epiclick.batching.pairset import PairSet
from epiclick.fitted.parameters import floor_parameter, to_vector
from epiclick.fitted.state import FittedModel
from epiclick.posterior.density import Density
from epiclick.posterior.laplace import covariances, make_density
from epiclick.posterior.mode import find_mode
from epiclick.posterior.nuts import whole_log_density
from epiclick.posterior.ridge import follow

RECORDED = Path(__file__).with_name("trust_chains.safetensors")
CHAINS, WARMUP, SAMPLES, KEPT = 2, 300, 3000, 10


@cache
def log() -> ec.ClickCounts:
    world = ec.simulate(
        queries=200,
        docs=5,
        features=3,
        pages=3_500,
        theta=(1.0, 0.75, 0.55),
        relevance="beta",
        users="trust",
        policy_strength=0.0,
        seed=4,
    )
    return ec.read_log(world.log, click_model="trust")


@cache
def fitted() -> FittedModel:
    return ec.EpistemicTrustPBM(seed=2, holdout=0).fit(log(), progress=False).fitted_


@cache
def density() -> Density:
    own = fitted()
    pairs = PairSet.distinct(log(), 10_000, affine=True)
    return make_density(pairs, own.parameters, own.clicks, own.anchor)


def recorded() -> dict[str, np.ndarray]:
    """`draws` (draws, size), their log density up to a constant, and their effective `size`."""
    return load_file(RECORDED)


def record() -> None:
    own, target = fitted(), density()
    psi = floor_parameter(own.clicks, len(own.contexts), own.anchor)
    assert psi is not None
    with jax.enable_x64(True):
        mode = find_mode(target, to_vector(own.parameters, own.clicks, own.anchor))
        bayes, _ = covariances(mode, target.prior)
        others = np.delete(np.arange(len(bayes)), psi)
        across = np.linalg.inv(-mode.curvature.hessian[np.ix_(others, others)])
        sd = np.sqrt(np.diag(across))
        turned = np.linalg.cholesky(across / np.outer(sd, sd))
        curve = follow(target, mode.vector, bayes, psi)
        height = curve.values - curve.values.max()
        along = np.polyfit(curve.psi, curve.vectors[:, others], 4, w=np.exp(height / 4))
        well = curve.vectors[height > -5][[0, -1]]
        hessians = [-target.curvature(each).hessian[np.ix_(others, others)] for each in well]
        log_sd = 0.5 * np.log([np.diag(np.linalg.inv(each)) for each in hessians])
        widening = np.polyfit(well[:, psi], log_sd, 1)
        centre, scale = mode.vector[psi], np.sqrt(bayes[psi, psi])
        log_density = whole_log_density(target)

        def place(z: jax.Array) -> tuple[jax.Array, jax.Array]:
            """The vector, and the log of the volume that its other parameters are scaled by."""
            here = centre + scale * z[0]
            log_scale = jnp.polyval(widening, here)
            rest = jnp.polyval(along, here) + jnp.exp(log_scale) * (turned @ z[1:])
            vector = jnp.zeros(len(bayes)).at[psi].set(here).at[others].set(rest)
            return vector, log_scale.sum()

        def potential(z: jax.Array) -> jax.Array:
            vector, volume = place(z)
            return -(log_density(vector) + volume)

        chain = MCMC(
            NUTS(potential_fn=potential),
            num_warmup=WARMUP,
            num_samples=SAMPLES,
            num_chains=CHAINS,
            chain_method="sequential",
            progress_bar=False,
        )
        start = 0.3 * np.random.default_rng(0).standard_normal((CHAINS, len(bayes)))
        chain.run(jax.random.key(0), init_params=jnp.asarray(start))
        drawn = jax.vmap(lambda z: place(z)[0])(chain.get_samples())
    draws = np.asarray(drawn).reshape(CHAINS, SAMPLES, -1)
    size, r_hat = effective_sample_size(draws), split_gelman_rubin(draws)
    print(f"effective draws {size.round()}, r-hat {r_hat.round(3)}")
    kept = np.ascontiguousarray(draws[:, ::KEPT].reshape(-1, len(bayes)))
    save_file({"draws": kept, "log_density": target.value(kept), "size": size}, RECORDED)


if __name__ == "__main__":
    record()
