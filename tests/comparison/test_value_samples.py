"""Samples of rankers' values against brute force: every relevance drawn, slots added in a loop."""

import tracemalloc
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import expit

from epiclick.click_models.click_model import Emission
from epiclick.click_models.recursion import click_chances
from epiclick.click_models.registry import click_model
from epiclick.comparison import factors, value_samples
from epiclick.comparison.factors import GoingOn, factors_of
from epiclick.comparison.slots import MEASURES, Slots
from epiclick.comparison.value_samples import DRAWN, ValueSamples, sample_values

from .planted import slots_by_hand

pytestmark = pytest.mark.slow

POSITIONS = 5
NAMES = tuple(MEASURES)


def sampled(slots, item, was_seen, parts, bias, samples, seed=1, clicks="pbm") -> ValueSamples:
    """Values by a click model with these biases (draws, contexts)."""
    model = click_model(clicks)
    contexts, _ = model.world(np.ones(POSITIONS))
    found = factors_of(
        slots,
        item,
        list(MEASURES.values()),
        len(was_seen),
        model.states(contexts),
        Emission(bias, 1 - bias),
    )
    shape = (len(MEASURES), int(slots.ranker.max()) + 1)
    return sample_values(found, was_seen, parts, shape, samples, np.random.default_rng(seed))


@dataclass(frozen=True, eq=False)
class Problem:
    """Rankers, and the moments of their items under every draw of the parameters."""

    slots: Slots
    item: np.ndarray
    was_seen: np.ndarray
    mean: np.ndarray  # (draws, items)
    variance: np.ndarray
    bias: np.ndarray  # (draws, contexts)

    def values(self, samples: int, seed: int = 1, chunk: int = 37) -> ValueSamples:
        parts = (
            (self.mean[:, i : i + chunk], self.variance[:, i : i + chunk])
            for i in range(0, self.mean.shape[1], chunk)
        )
        return sampled(self.slots, self.item, self.was_seen, parts, self.bias, samples, seed)

    @cache  # noqa: B019, as problems stay as long as the tests
    def brute(self, samples: int, seed: int = 2, *, shared: bool = True) -> np.ndarray:
        """(measures, rankers, samples): parameters, then relevance, then a sum over slots."""
        rng = np.random.default_rng(seed)
        draw = np.arange(samples) % len(self.bias)
        mean, variance, bias = self.mean[draw], self.variance[draw], self.bias[draw]
        if not shared:  # as if parameters were known
            mean, bias = (each.mean(axis=0, keepdims=True) for each in (mean, bias))
            mean, bias = np.tile(mean, (samples, 1)), np.tile(bias, (samples, 1))
        nu = mean * (1 - mean) / variance - 1
        zeta = rng.beta(mean * nu, (1 - mean) * nu)
        s = self.slots
        found = np.zeros((3, s.ranker.max() + 1, samples))
        for i in range(len(self.item)):
            relevance = zeta[:, self.item[i]]
            click = s.weight[i] * s.reach[i] * bias[:, s.given[i]] * relevance
            found[0, s.ranker[i]] += click
            if s.position[i] == 1:
                found[1, s.ranker[i]] += click
            found[2, s.ranker[i]] += s.weight[i] * relevance / np.log2(1 + s.position[i])
        return found


def problem(
    lists: int, items: int, *, draws: int = 40, nu: float = 3.0, shift: float = 0.05
) -> Problem:
    """Lists of items at random, of unequal weights; parameters move all relevance and all bias."""
    rankers = 3
    rng = np.random.default_rng(lists)
    share = rng.dirichlet(np.full(lists, 2.0))
    picked = np.array(
        [rng.choice(items, POSITIONS, replace=False) for _ in range(rankers * lists)]
    ).reshape(rankers, lists, POSITIONS)
    picked[1, ::2] = picked[0, ::2, ::-1]  # rankers that agree on items, not on their order
    ranker, each, place = (index.ravel() for index in np.indices(picked.shape))
    reach = np.linspace(0.9, 0.5, POSITIONS)[place]
    logit = rng.normal(-1.5, 1, items) + shift * rng.standard_normal((draws, 1))
    mean = expit(logit)
    theta = expit(np.linspace(3, -1, POSITIONS) + shift * rng.standard_normal((draws, POSITIONS)))
    return Problem(
        slots=slots_by_hand(ranker, picked.ravel(), place + 1, weight=share[each], reach=reach),
        item=picked.ravel(),
        was_seen=np.arange(items) < items // 3,
        mean=mean,
        variance=mean * (1 - mean) / (1 + nu),
        bias=theta,
    )


FEW = problem(3, 12, nu=1.0, shift=0.6)  # too skewed for a Gaussian
MANY = problem(500, 3000)  # items and parameters both contribute to the variance
UNSURE = problem(500, 3000, shift=0.3)  # parameters contribute nearly all of it


def standard_errors(found: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """The largest deviation of means, covariances and quantiles, in standard errors."""
    one, other = (each.reshape(-1, each.shape[-1]) for each in (found, truth))
    size = one.shape[1], other.shape[1]
    centred = [each - each.mean(axis=1, keepdims=True) for each in (one, other)]
    noise = [(c**2).mean(axis=1) / n for c, n in zip(centred, size, strict=True)]
    means = abs(one.mean(axis=1) - other.mean(axis=1)) / np.sqrt(sum(noise))
    products = [np.einsum("is,js->ijs", c, c) for c in centred]
    noise = [p.var(axis=-1) / n for p, n in zip(products, size, strict=True)]
    away = abs(products[0].mean(axis=-1) - products[1].mean(axis=-1)) / np.sqrt(sum(noise))
    p = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
    below = np.array(
        [(b <= q).mean() for a, b in zip(one, other, strict=True) for q in np.quantile(a, p)]
    ).reshape(-1, len(p))
    quantiles = abs(below - p) / np.sqrt(p * (1 - p) * (1 / size[0] + 1 / size[1]))
    return {"means": means.max(), "covariances": away.max(), "quantiles": quantiles.max()}


@pytest.mark.parametrize(("given", "samples"), [(FEW, 20_000), (MANY, 4_000)])
def test_samples_are_those_of_brute_force(given: Problem, samples: int) -> None:
    assert (given.mean.shape[1] > 4 * DRAWN) == (given is MANY)
    found = given.values(samples)
    assert found.samples.shape == (3, 3, samples)
    off = standard_errors(found.samples, given.brute(samples))
    assert off["means"] < 4, off
    assert off["covariances"] < 4, off
    assert off["quantiles"] < 4, off


def test_differences_between_rankers_have_their_spread() -> None:
    """The control: rankers' own samples, shuffled, have the same spread but not that of pairs."""
    found, truth = MANY.values(4_000).samples[0], MANY.brute(4_000)[0]
    assert (
        standard_errors((found[0] - found[1])[None], (truth[0] - truth[1])[None])["covariances"] < 4
    )
    shuffled = np.random.default_rng(3).permutation(found[1])
    off = standard_errors((found[0] - shuffled)[None], (truth[0] - truth[1])[None])
    assert off["covariances"] > 10


def test_a_gaussian_for_few_items_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(value_samples, "DRAWN", 0)
    off = standard_errors(FEW.values(20_000).samples, FEW.brute(20_000))
    assert off["means"] < 4
    assert off["covariances"] < 4  # which a Gaussian keeps
    assert off["quantiles"] > 8


def test_what_all_items_share_is_not_averaged_out() -> None:
    """Independent draws of relevance alone have several times too little variance."""
    own = UNSURE.values(4_000).samples.var(axis=-1)
    alone = UNSURE.brute(4_000, shared=False).var(axis=-1)
    assert np.all(own > 5 * alone)


@pytest.mark.parametrize("given", [FEW, MANY])
def test_the_parts_of_the_variance_add_up(given: Problem) -> None:
    found = given.values(20_000)
    for measure in range(3):
        parts = found.seen[measure] + found.unseen[measure]
        total = parts + np.cov(found.expected[measure], bias=True)
        drawn = np.cov(found.samples[measure])
        width = np.sqrt(np.diag(total))
        # of a covariance; tails of few items are heavier than a Gaussian's
        error = 2 * np.outer(width, width) / np.sqrt(20_000)
        assert np.all(abs(total - drawn) < 4 * error)
        # the controls: neither items nor parameters alone would do
        assert np.all(abs(np.diag(parts - drawn)) > 10 * np.diag(error))
        assert np.all(abs(np.diag(total - parts - drawn)) > 10 * np.diag(error))


def test_seen_and_unseen_and_bias_are_each_by_a_loop() -> None:
    found, s, draws = FEW.values(200), FEW.slots, len(FEW.bias)
    weight = [
        s.weight * s.reach,
        s.weight * s.reach * (s.position == 1),
        s.weight / np.log2(1 + s.position),
    ]
    for measure in range(3):
        expected, by_bias = np.zeros((2, 3, draws))
        parts = np.zeros((2, 3, 3))
        for j in range(draws):
            factor = np.zeros((3, FEW.mean.shape[1]))
            for i in range(len(FEW.item)):
                bias = FEW.bias[j, s.given[i]] if measure < 2 else 1
                factor[s.ranker[i], FEW.item[i]] += weight[measure][i] * bias
            expected[:, j] = factor @ FEW.mean[j]
            by_bias[:, j] = factor @ FEW.mean.mean(axis=0)
            for seen in (0, 1):
                own = factor[:, FEW.was_seen == seen]
                parts[seen] += own * FEW.variance[j, FEW.was_seen == seen] @ own.T / draws
        np.testing.assert_allclose(found.expected[measure], expected, rtol=1e-12)
        np.testing.assert_allclose(found.by_bias[measure], by_bias, rtol=1e-12)
        np.testing.assert_allclose(found.unseen[measure], parts[0], rtol=1e-10, atol=1e-18)
        np.testing.assert_allclose(found.seen[measure], parts[1], rtol=1e-10, atol=1e-18)


@pytest.mark.parametrize("given", [FEW, MANY])
def test_rankers_that_show_the_same_differ_in_no_sample(given: Problem) -> None:
    """Not even by rounding: otherwise one would be better by chance."""
    s = given.slots
    own = s.ranker == 0
    slots = replace(
        s,
        **{
            name: np.concatenate([getattr(s, name), getattr(s, name)[own]])
            for name in ("given", "position", "weight", "reach")
        },
        ranker=np.concatenate([s.ranker, np.full(own.sum(), 3)]),
    )
    twice = replace(given, slots=slots, item=np.concatenate([given.item, given.item[own]]))
    found = twice.values(2_000)
    for values in (found.samples, found.expected, found.by_bias, found.seen, found.unseen):
        assert np.all(values[:, 0] == values[:, 3])
    assert np.mean(found.samples[:, 0] != found.samples[:, 2]) > 0.9
    # and they are as accurate as others
    off = standard_errors(found.samples[:, :3], given.brute(20_000 if given is FEW else 4_000))
    assert max(off["means"], off["quantiles"]) < 4


def test_chunks_change_nothing_and_seeds_do() -> None:
    whole = FEW.values(300, chunk=12).samples
    np.testing.assert_array_equal(FEW.values(300, chunk=12).samples, whole)
    assert np.all(FEW.values(300, seed=5, chunk=12).samples != whole)
    expected = [FEW.values(300, chunk=chunk).expected for chunk in (1, 5, 12)]
    for each in expected[1:]:
        np.testing.assert_allclose(each, expected[0], rtol=1e-12)


@pytest.mark.parametrize("samples", [100, 130, 2_499])
def test_there_are_as_many_samples_as_asked_for(samples: int) -> None:
    assert FEW.values(samples).samples.shape == (3, 3, samples)


def test_known_relevance_and_one_draw_leave_nothing_to_chance() -> None:
    """A pointwise model."""
    known = replace(FEW, mean=FEW.mean[:1], variance=0 * FEW.variance[:1], bias=FEW.bias[:1])
    found = known.values(100)
    np.testing.assert_allclose(found.samples, np.repeat(found.expected, 100, axis=2), rtol=1e-12)
    assert not found.seen.any()
    assert not found.unseen.any()


def test_memory_does_not_grow_with_samples_times_items() -> None:
    items, samples = 20_000, 2_500
    large = problem(2_000, items, draws=10)
    rng = np.random.default_rng(1)
    bias = rng.random((250, POSITIONS))

    def parts():
        for _ in range(0, items, 1_000):
            yield np.full((250, 1_000), 0.2), np.full((250, 1_000), 0.02)

    tracemalloc.start()
    try:
        found = sampled(large.slots, large.item, large.was_seen, parts(), bias, samples)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.samples.shape == (3, 3, samples)
    assert peak < 300e6 < items * samples * 8


def test_members_span_the_gaussian_that_common_parts_are_drawn_from() -> None:
    """Samples have the mean and covariance of the few members, and no value repeats."""
    rng = np.random.default_rng(4)
    expected = rng.normal(0, [1.0, 2.0], (6, 2)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    drawn = value_samples._spanned(expected, 4000, rng).reshape(-1, 2)
    error = np.sqrt(np.cov(expected.T).diagonal() / len(drawn))
    assert np.max(abs(drawn.mean(axis=0) - expected.mean(axis=0)) / error) < 4
    np.testing.assert_allclose(
        np.cov(drawn.T), np.cov(expected.T), rtol=4 * np.sqrt(2 / len(drawn))
    )
    assert len(np.unique(drawn)) == drawn.size


@dataclass(frozen=True, eq=False)
class PagesProblem(Problem):
    """The same lists, with users whose examination depends on their last click."""

    def values(self, samples: int, seed: int = 1, chunk: int = 37) -> ValueSamples:
        parts = [(self.mean[:, :chunk], self.variance[:, :chunk])]
        parts += [(self.mean[:, chunk:], self.variance[:, chunk:])]
        given = (self.slots, self.item, self.was_seen, parts, self.bias, samples)
        return sampled(*given, seed, clicks="ubm")

    def brute(self, samples: int, seed: int = 2, *, shared: bool = True) -> np.ndarray:
        """Parameters, then every relevance, then each page by the recursion over its history."""
        rng = np.random.default_rng(seed)
        draw = np.arange(samples) % len(self.bias)
        mean, variance = self.mean[draw], self.variance[draw]
        nu = mean * (1 - mean) / variance - 1
        zeta = rng.beta(mean * nu, (1 - mean) * nu)
        model, s = click_model("ubm"), self.slots
        states = model.states(model.world(np.ones(POSITIONS))[0])
        slots = s.given.reshape(-1, POSITIONS)
        bias = self.bias[draw]
        pages = zeta[:, self.item].reshape(samples, -1, POSITIONS)
        chances = click_chances(states, Emission(bias, 1 - bias), slots, pages)
        chances = chances.reshape(samples, -1)
        found = np.zeros((3, s.ranker.max() + 1, samples))
        for i in range(len(self.item)):
            click = s.weight[i] * s.reach[i] * chances[:, i]
            found[0, s.ranker[i]] += click
            if s.position[i] == 1:
                found[1, s.ranker[i]] += click
            gain = s.weight[i] * zeta[:, self.item[i]] / np.log2(1 + s.position[i])
            found[2, s.ranker[i]] += gain
        return found


def pages_problem(lists: int, items: int, nu: float) -> PagesProblem:
    usual = problem(lists, items, nu=nu)
    model = click_model("ubm")
    contexts, emission = model.world(np.linspace(1, 0.4, POSITIONS))
    rng = np.random.default_rng(7)
    logit = np.log(emission.attractive / np.maximum(emission.attractive_rest, 1e-3))
    bias = expit(logit + 0.1 * rng.standard_normal((len(usual.bias), len(contexts))))
    return PagesProblem(usual.slots, usual.item, usual.was_seen, usual.mean, usual.variance, bias)


def test_values_of_pages_with_history_are_those_of_brute_force() -> None:
    """Mean and spread are exact but for estimating what products of relevances add."""
    given, samples = pages_problem(60, 400, nu=12.0), 4_000
    found, brute = given.values(samples), given.brute(samples)
    off = standard_errors(found.samples, brute)
    assert off["means"] < 4, off
    ratio = found.samples.std(axis=-1) / brute.std(axis=-1)
    np.testing.assert_allclose(ratio, 1, atol=0.01 + 4 * np.sqrt(1 / samples))


def reading_problem(lists: int, seed: int) -> tuple[Slots, np.ndarray, list[np.ndarray]]:
    """Two rankers that show nearly the same items, to users who stop when they are satisfied.

    Means and variances of relevance and of satisfaction, (draws, items) each: little is known.
    """
    rng = np.random.default_rng(seed)
    first = np.arange(lists * POSITIONS).reshape(lists, POSITIONS)
    other = first.copy()
    other[:, [0, 1]] = other[:, [1, 0]]  # a swap at the top
    other[:, -1] += lists * POSITIONS  # an item of its own at the end
    item = np.concatenate([first.ravel(), other.ravel()])
    ranker, position = (
        np.repeat([0, 1], first.size),
        np.tile(np.arange(1, 1 + POSITIONS), 2 * lists),
    )
    by_hand = slots_by_hand(ranker, item, position, weight=np.full(len(item), 1 / lists))
    query = np.tile(np.repeat(np.arange(lists), POSITIONS), 2)
    slots = replace(by_hand, query_id=pa.array(query), queries=lists)
    alpha, beta = rng.uniform(0.3, 1.5, (2, 2, 1, item.max() + 1))
    total = alpha + beta
    mean = alpha / total
    variance = mean * (1 - mean) / (total + 1)
    return slots, item, [mean[0], variance[0], mean[1], variance[1]]


def reading_values(lists: int, samples: int, *, brute: bool) -> np.ndarray:
    """(rankers, samples) clicks per page under a simplified DBN, by samples or by brute force."""
    slots, item, moments = reading_problem(lists, seed=3)
    model = click_model("sdbn")
    contexts, emission = model.world(np.ones(POSITIONS))
    states, rng = model.states(contexts), np.random.default_rng(4)
    draws = 50
    if not brute:
        mean, variance, satisfied, spread = (np.repeat(each, draws, axis=0) for each in moments)
        one = Emission(*(None if p is None else np.tile(p, (draws, 1)) for p in emission))
        going_on = GoingOn(satisfaction=[(satisfied, spread)])
        clicks = [MEASURES["clicks"]]
        found = factors_of(slots, item, clicks, mean.shape[1], states, one, going_on)
        seen = np.zeros(2 * mean.shape[1], bool)
        drawn = sample_values(found, seen, [(mean, variance)], (1, 2), samples, rng)
        return drawn.samples[0]
    mean, variance, satisfied, spread = moments
    nu, rest = (m * (1 - m) / v - 1 for m, v in ((mean, variance), (satisfied, spread)))
    shape = (samples, mean.shape[1])
    zeta = rng.beta(mean * nu, (1 - mean) * nu, shape)[:, item].reshape(samples, -1, POSITIONS)
    stop = rng.beta(satisfied * rest, (1 - satisfied) * rest, shape)[:, item]
    reading, clicks = np.ones(zeta.shape[:2]), np.zeros(zeta.shape[:2])
    for k in range(POSITIONS):
        clicks += reading * zeta[..., k]
        reading *= 1 - zeta[..., k] * stop.reshape(zeta.shape)[..., k]
    return clicks.reshape(samples, 2, lists).mean(axis=2).T


@pytest.mark.parametrize("lists", [1, 300])
def test_products_of_relevances_are_part_of_the_spread(lists: int) -> None:
    """Of values and of differences, which are mostly due to products where rankings are alike."""
    samples = 5_000
    one, other = (reading_values(lists, samples, brute=brute) for brute in (False, True))
    # an estimate from 32 draws of a single page is off by a quarter of what products add
    tolerance = 4 * np.sqrt(1 / samples) + (0.08 if lists == 1 else 0.01)
    for a, b in ((one, other), (one[:1] - one[1:], other[:1] - other[1:])):
        np.testing.assert_allclose(a.std(axis=1) / b.std(axis=1), 1, atol=tolerance)
    assert abs(one.mean(axis=1) - other.mean(axis=1)).max() < 5 * other.std() / np.sqrt(samples)


def test_a_spread_without_products_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(self: factors.Chained, *_: object) -> np.ndarray:
        return np.zeros((self.outputs, self.outputs))

    other = reading_values(300, 5_000, brute=True)
    monkeypatch.setattr(factors.Chained, "_products", without)
    one = reading_values(300, 5_000, brute=False)
    ratio = (one[0] - one[1]).std() / (other[0] - other[1]).std()
    assert ratio < 0.9


def test_history_that_is_ignored_would_be_noticed() -> None:
    """Examination before any click, whatever is clicked, undervalues pages."""
    given = pages_problem(60, 400, nu=12.0)
    model = click_model("ubm")
    contexts, _ = model.world(np.ones(POSITIONS))
    none = np.flatnonzero(contexts["last_click"].to_numpy() == 0)
    by_position = replace(
        Problem(given.slots, given.item, given.was_seen, given.mean, given.variance, given.bias),
        bias=given.bias[:, none],
    )
    off = standard_errors(by_position.values(4_000).samples, given.brute(4_000))
    assert off["means"] > 10


def test_pages_are_worked_on_in_blocks_of_whole_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    given = pages_problem(20, 100, nu=12.0)
    query = np.repeat(np.arange(20), POSITIONS)
    query = np.tile(query, int(given.slots.ranker.max()) + 1)
    item = given.item % 5 + 5 * query  # no item belongs to two queries
    slots = replace(given.slots, query_id=pa.array(query))
    own = replace(given, slots=slots, item=item)
    whole = own.values(200)
    monkeypatch.setattr(factors, "BLOCK_SIZE", 2_000)
    parted = own.values(200)
    np.testing.assert_allclose(parted.expected, whole.expected, rtol=1e-12)
    np.testing.assert_allclose(parted.seen + parted.unseen, whole.seen + whole.unseen, rtol=1e-9)
