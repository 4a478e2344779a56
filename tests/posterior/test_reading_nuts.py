"""The posterior of a model whose users may stop, against Markov chains over all that is unknown.

numpyro samples parameters and the relevance of every item from the probability of pages itself,
in which who went on is summed out page by page: no Gibbs sampling, no identity of Louis.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist
from numpyro.infer import MCMC, NUTS
from scipy import special

from epiclick.posterior.laplace import covariances
from epiclick.posterior.reading_mode import find_reading_mode
from epiclick.reading.gibbs import Chains

from .test_reading_mode import DEPTH, LAYER, QUERIES, density_of, small_log

pytestmark = pytest.mark.slow

WARM_UP, SAMPLES = 500, 1500


def sampled(lists, pairs: int) -> dict[str, np.ndarray]:
    pair, clicked, pages = (jnp.asarray(x) for x in (lists.pair, lists.clicked, lists.pages))
    place = jnp.arange(DEPTH)
    last = jnp.where(clicked, place, -1).max(axis=1)

    def model() -> None:
        stay = numpyro.sample("stay", dist.Uniform(0, 1).expand([DEPTH]).to_event(1))
        x = numpyro.sample("x", dist.Normal(0, 3))
        y = numpyro.sample("y", dist.Normal(0, 10))
        nu = jax.nn.softplus(y) + 1
        mean = jax.nn.sigmoid(x)
        with numpyro.plate("pairs", pairs):
            zeta = numpyro.sample("zeta", dist.Beta(mean * nu, (1 - mean) * nu))
        z = zeta[pair]
        read = (place <= last[:, None]) | (last < 0)[:, None]
        outcome = jnp.where(clicked, jnp.log(z), jnp.log1p(-z))
        log = jnp.where(read, outcome, 0).sum(axis=1)
        log += jnp.where(clicked & (place < last[:, None]), jnp.log(stay), 0).sum(axis=1)
        skipped = jnp.where(read, 1.0, 1 - z).prod(axis=1)
        own = stay[jnp.maximum(last, 0)]
        log += jnp.where(last >= 0, jnp.log(1 - own + own * skipped), 0)
        numpyro.factor("pages", (pages * log).sum())

    with jax.enable_x64(True):
        chains = MCMC(
            NUTS(model, target_accept_prob=0.9),
            num_warmup=WARM_UP,
            num_samples=SAMPLES,
            num_chains=1,
            progress_bar=False,
        )
        chains.run(jax.random.PRNGKey(0))
        return {name: np.asarray(value) for name, value in chains.get_samples().items()}


def test_posterior_is_that_of_markov_chains() -> None:
    lists, query = small_log(by_item=False, seed=3, pages=16)
    truth = sampled(lists, len(query))
    density = density_of(lists, query, by_item=False)
    found = find_reading_mode(density, np.concatenate([np.zeros(DEPTH), LAYER]), seed=0)
    bayes, _ = covariances(found.mode, density.prior)
    sd = np.sqrt(np.diag(bayes))

    # continuation, in logits; the mode of a skewed density is not its mean
    logit = special.logit(truth["stay"][:, : DEPTH - 1])
    assert np.all(
        np.abs(found.mode.vector[: DEPTH - 1] - logit.mean(axis=0)) < 0.5 * sd[: DEPTH - 1]
    )
    ratio = sd[: DEPTH - 1] / logit.std(axis=0)
    assert np.all((ratio > 0.75) & (ratio < 1.25))
    # and the mean relevance of a new item
    x = found.mode.vector[DEPTH]
    assert abs(x - truth["x"].mean()) < 0.35 * sd[DEPTH]
    assert 0.75 < sd[DEPTH] / truth["x"].std() < 1.3

    # items: draws of the parameters, who went on, then relevance
    rng = np.random.default_rng(0)
    drawn = []
    for i, vector in enumerate(rng.multivariate_normal(found.mode.vector, bayes, 200)):
        items = density.items(vector)
        chains = Chains.start(density.evidence, np.random.default_rng([1, i]), items)
        chains.sweep(items, 8)
        known = density.evidence.completed(chains.went_on[0])
        drawn.append(items.attraction.draw(density.evidence.clicks, known.read, rng))
    ours = np.array(drawn)
    spread = truth["zeta"].std(axis=0)
    # errors of both sides' means: few hundred effective draws each
    z = (ours.mean(axis=0) - truth["zeta"].mean(axis=0)) / spread
    assert np.sqrt(np.mean(z**2)) < 0.15
    assert abs(np.mean(ours.std(axis=0) / spread) - 1) < 0.05
    # negative control: counting only what is above the last click, as the textbook does
    a, b = density.items(found.mode.vector).attraction
    evidence = density.evidence
    counted = (a + evidence.clicks) / (a + b + evidence.read)
    assert np.mean((counted - truth["zeta"].mean(axis=0)) / spread) > 0.15
    assert len(query) == 4 * QUERIES
