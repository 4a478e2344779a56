"""Mode and curvature by Monte Carlo, against the exact density of logs small enough to enumerate.

Queries are independent given the parameters, so that the likelihood is a product over queries of
sums over all who may have gone on; items are integrated out in closed form.
"""

from itertools import product

import numpy as np
import pytest
from scipy import optimize, special

from epiclick.click_models.priors import UniformPrior
from epiclick.data.page_lists import PageLists
from epiclick.posterior.joint_prior import Prior as JointPrior
from epiclick.posterior.laplace import covariances
from epiclick.posterior.reading_mode import ReadingDensity, find_reading_mode
from epiclick.reading.channels import ContextChannel, ItemChannel, pair_log_likelihood
from epiclick.reading.stops import Evidence

pytestmark = pytest.mark.slow

QUERIES, ITEMS, PAGES, DEPTH = 40, 4, 4, 3
LAYER = np.array([-0.6, 2.0])
STAY = np.array([0.75, 0.45, 0.5])


def small_log(by_item: bool, seed: int, pages: int = PAGES) -> tuple[PageLists, np.ndarray]:
    """Pages of many small queries, and the query of each pair."""
    rng = np.random.default_rng(seed)
    pair, clicked = [], []
    for q in range(QUERIES):
        zeta, satisfied = rng.beta(1.3, 2.4, ITEMS), rng.beta(2.0, 1.5, ITEMS)
        for _ in range(pages):
            items, clicks = rng.permutation(ITEMS)[:DEPTH], np.zeros(DEPTH, bool)
            for k, item in enumerate(items):
                clicks[k] = rng.random() < zeta[item]
                stay = 1 - satisfied[item] if by_item else STAY[k]
                if clicks[k] and rng.random() >= stay:
                    break
            pair.append(q * ITEMS + items)
            clicked.append(clicks)
    given = np.tile(np.arange(DEPTH), (len(pair), 1))
    lists = PageLists.distinct(np.array(pair), given, np.array(clicked))
    return lists, np.repeat(np.arange(QUERIES), ITEMS)


def density_of(lists: PageLists, query: np.ndarray, by_item: bool) -> ReadingDensity:
    ones = np.ones((len(query), 1))
    own = ItemChannel(ones, query, QUERIES)
    spread = np.array([3.0, 10.0])
    return ReadingDensity(
        Evidence.of(lists, len(query)),
        own,
        own if by_item else None,
        None if by_item else ContextChannel(DEPTH, QUERIES),
        JointPrior(UniformPrior.of(0 if by_item else DEPTH), np.tile(spread, 1 + by_item)),
    )


def exact_log_density(density: ReadingDensity, query: np.ndarray, vector: np.ndarray) -> float:
    """By enumeration of all who may have gone on, query by query."""
    evidence = density.evidence
    own, layer, other = density.parts(vector)
    total = float(density.prior.log_density(vector))
    tail_query = query[evidence.last_pair]
    raw, raw_other = (
        (density.attraction.raw(layer)),
        (None if density.satisfaction is None else density.satisfaction.raw(other)),
    )
    certain_on = np.zeros((QUERIES, DEPTH))
    np.add.at(certain_on, (query[evidence.click_pair], evidence.click_given), evidence.click_count)
    for q in range(QUERIES):
        tails, pairs = np.flatnonzero(tail_query == q), np.flatnonzero(query == q)
        logs = []
        for some in product(*(range(evidence.pages[t] + 1) for t in tails)):
            went_on = np.zeros(len(evidence.pages), np.int64)
            went_on[tails] = some
            known = evidence.completed(went_on)
            log = np.log(special.comb(evidence.pages[tails], np.array(some))).sum()
            log += pair_log_likelihood(raw[pairs], evidence.clicks[pairs], known.read[pairs]).sum()
            if raw_other is not None:
                trials = known.stopped + known.went_on
                log += pair_log_likelihood(
                    raw_other[pairs], known.stopped[pairs], trials[pairs]
                ).sum()
            else:
                given, stops = evidence.last_given[tails], evidence.pages[tails] - some
                on = certain_on[q] + np.bincount(given, some, DEPTH)
                log += on @ special.log_expit(own)
                log += np.bincount(given, stops, DEPTH) @ special.log_expit(-own)
            logs.append(log)
        total += float(special.logsumexp(logs))
    return total


@pytest.mark.parametrize("by_item", [False, True])
def test_mode_and_curvature_are_those_of_the_exact_density(by_item: bool) -> None:
    lists, query = small_log(by_item, seed=3)
    density = density_of(lists, query, by_item)
    start = np.concatenate([np.zeros(density.prior.free), *[LAYER] * (1 + by_item)])
    found = find_reading_mode(density, start, seed=0)

    def loss(vector: np.ndarray) -> float:
        return -exact_log_density(density, query, vector)

    best = optimize.minimize(loss, found.mode.vector, method="BFGS", options={"gtol": 1e-3})
    size, step = len(start), 1e-3

    def second(i: int, j: int) -> float:
        moves = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
        eye = step * np.eye(size)
        values = [s * t * loss(best.x + s * eye[i] + t * eye[j]) for s, t in moves]
        return sum(values) / (4 * step**2)

    hessian = np.zeros((size, size))
    for i, j in zip(*np.triu_indices(size), strict=True):
        hessian[i, j] = hessian[j, i] = second(i, j)
    sd = np.sqrt(np.diag(np.linalg.inv(hessian)))
    # Monte Carlo leaves an error of a fraction of a standard deviation
    assert np.all(np.abs(found.mode.vector - best.x) < 0.3 * sd)
    bayes, robust = covariances(found.mode, density.prior)
    ratio = np.sqrt(np.diag(bayes)) / sd
    assert np.all((ratio > 0.8) & (ratio < 1.25))
    # in a well-specified world both covariances agree, up to the noise of so many queries
    both = np.sqrt(np.diag(robust) / np.diag(bayes))
    assert np.all((both > 0.6) & (both < 1.6))
    # negative control: what is known if stops were logged is visibly more
    complete = found.mode.curvature.hessian
    assert found.missing_share.max() > 0.2
    assert np.all(np.linalg.eigvalsh(-complete) > 0)


def test_counting_what_is_above_the_last_click_is_biased_and_the_model_is_not() -> None:
    """The textbook estimate, the share of clicks among displays down to the last click."""
    rng = np.random.default_rng(5)
    pages, depth, zeta, stay = 20_000, 6, 0.3, 0.4
    clicked = np.zeros((pages, depth), bool)
    reading = np.ones(pages, bool)
    for k in range(depth):
        clicked[:, k] = reading & (rng.random(pages) < zeta)
        reading &= ~(clicked[:, k] & (rng.random(pages) >= stay))
    # each page shows the same items, in another order
    pair = rng.permuted(np.tile(np.arange(depth), (pages, 1)), axis=1)
    given = np.tile(np.arange(depth), (pages, 1))
    lists = PageLists.distinct(pair, given, clicked)
    evidence = Evidence.of(lists, depth)
    counting = evidence.clicks.sum() / evidence.read.sum()
    assert counting > zeta + 0.02
    query = np.zeros(depth, np.int64)
    ones = np.ones((depth, 1))
    density = ReadingDensity(
        evidence,
        ItemChannel(ones, query, 1),
        None,
        ContextChannel(depth, 1),
        JointPrior(UniformPrior.of(depth), np.array([3.0, 10.0])),
    )
    found = find_reading_mode(density, np.concatenate([np.zeros(depth), LAYER]), seed=0)
    own = special.expit(found.mode.vector[: depth - 1])
    sd = np.sqrt(np.diag(covariances(found.mode, density.prior)[0])[: depth - 1])
    assert np.all(np.abs(special.logit(own) - special.logit(stay)) < 4 * sd)
    shapes = density.items(found.mode.vector).attraction
    known = evidence.completed(found.chains.went_on[0])
    relevance = shapes.mean(evidence.clicks, known.read)
    assert np.all(np.abs(relevance - zeta) < 4.5 * np.sqrt(zeta * (1 - zeta) / known.read))
