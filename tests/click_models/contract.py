r"""The contract of every click model, tested by enumerating all outcomes of short pages.

A new model inherits `ClickModelContract` by naming itself::

    class TestCascade(ClickModelContract):
        model = click_model("cascade")

Checks are functions of a model, so that `test_contract.py` can hold wrong ones against them. Their
oracle is the log: histories are read by the model's own Ibis expressions on DuckDB, and with the
contexts found there a page's clicks have the probability

.. math:: P(y) = \prod_k q_k^{y_k} \bar q_k^{1 - y_k}, \qquad
          q = A_c \zeta + B_c (1 - \zeta), \quad
          \bar q = (1 - A_c) \zeta + (1 - B_c) (1 - \zeta).
"""

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, ClassVar

import ibis
import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pytest
from scipy import integrate, stats

from epiclick.click_models.click_model import (
    ClickModel,
    Emission,
    PageStates,
    given_contexts,
    given_names,
)
from epiclick.click_models.priors import FIXED_SD, EffectsPrior, ParameterPrior, is_fixed
from epiclick.click_models.recursion import (
    click_chances,
    contexts_of_clicks,
    draw_clicks,
    value_and_slope,
)

EXACT = {"rtol": 1e-12, "atol": 1e-14}
EPS = np.finfo(float).eps
LARGE = 40.0
"""A logit at which 1 - theta is 0 in float64 unless it is computed separately."""


@dataclass(frozen=True)
class Scene:
    """Short pages.

    Attributes:
        names: of the given columns.
        pages: given contexts of each page from the top; None for a place that shows nothing.
    """

    names: tuple[str, ...]
    pages: tuple[tuple[tuple[Any, ...] | None, ...], ...]

    @property
    def given(self) -> list[tuple[Any, ...]]:
        """All given contexts, in order."""
        return sorted({slot for page in self.pages for slot in page if slot is not None})

    @property
    def slots(self) -> np.ndarray:
        """(pages, depth) index of each slot's given context, -1 without one."""
        found = np.full((len(self.pages), max(map(len, self.pages))), -1)
        for i, page in enumerate(self.pages):
            for k, slot in enumerate(page):
                found[i, k] = -1 if slot is None else self.given.index(slot)
        return found


def _at(*positions: int | None) -> tuple[tuple[int] | None, ...]:
    return tuple(None if k is None else (k,) for k in positions)


SCENES = {
    "one position": Scene(("position",), (_at(1),)),
    "positions": Scene(
        ("position",),
        (
            _at(1, 2, 3, 4),
            _at(1, 2, 3),
            _at(1, 2),
            _at(1),
            _at(2, 3, 4),
            _at(1, None, 3, 4),
            _at(4),
        ),
    ),
    "gaps": Scene(("position",), (_at(2, 3, 5, 9), _at(2, 9), _at(3, 5), _at(5))),
    "devices": Scene(
        ("position", "device"),
        (
            ((1, "phone"), (2, "phone"), (4, "phone")),
            ((1, "desk"), (2, "desk"), (3, "desk"), (4, "desk")),
            ((2, "desk"), (4, "desk")),
            ((1, "phone"),),
        ),
    ),
}


@dataclass(frozen=True, eq=False)
class Setting:
    """A model on the pages of a scene, with all patterns of clicks that these can have.

    Attributes:
        contexts: all that can be.
        states: how history moves on.
        slots: (pages, depth) of the scene.
        page: (patterns,) page of each.
        clicks: (patterns, depth).
        context: (patterns, depth) context of each display as read off a log; -1 where there is
            none, -2 where it is not among the contexts.
    """

    contexts: pa.Table
    states: PageStates
    slots: np.ndarray
    page: np.ndarray
    clicks: np.ndarray
    context: np.ndarray

    def parameters(
        self, model: ClickModel, rng: np.random.Generator, anchor: int | None
    ) -> np.ndarray:
        """(parameters,) drawn from the prior."""
        x = model.start(np.full(len(self.contexts), 0.2), anchor)
        free = model.free(len(self.contexts), anchor)
        x[free] = model.prior(self.contexts, anchor).draw(rng, 1)[0]
        return x

    def probability(
        self, emission: Emission, relevance: np.ndarray, context: np.ndarray
    ) -> np.ndarray:
        """(patterns,) of all patterns; emission is (contexts,), relevance (pages, depth)."""
        zeta = relevance[self.page]
        a, a_rest, b, b_rest = emission.at(np.maximum(context, 0))
        clicked = a * zeta + (0 if b is None else b * (1 - zeta))
        skipped = a_rest * zeta + (1 if b_rest is None else b_rest) * (1 - zeta)
        chance = np.where(self.clicks > 0, clicked, skipped)
        return np.where(context < 0, 1.0, chance).prod(axis=1)


@cache
def setting(model: ClickModel, name: str) -> Setting:
    """A model on the pages of the named scene."""
    scene = SCENES[name]
    slots = scene.slots
    page, clicks = [], []
    for i, own in enumerate(slots):
        for pattern in product(*((0, 1) if slot >= 0 else (0,) for slot in own)):
            page.append(i)
            clicks.append(pattern)
    page, clicks = np.array(page), np.array(clicks)
    log = log_of(scene, page, clicks)
    contexts = contexts_of(model, scene)
    context = np.full(clicks.shape, -1)
    context[slots[page] >= 0] = located(read_contexts(model, scene, log), contexts)
    return Setting(contexts, model.states(contexts), slots, page, clicks, context)


def log_of(scene: Scene, page: np.ndarray, clicks: np.ndarray) -> pa.Table:
    """A log of pages of a scene with their clicks, (logged pages, depth), from top to bottom."""
    number, place = np.nonzero(scene.slots[page] >= 0)
    given = [scene.given[slot] for slot in scene.slots[page][number, place]]
    columns = dict(zip(scene.names, map(list, zip(*given, strict=True)), strict=True))
    return pa.table(
        {"page_id": number, **columns, "clicked": pa.array(clicks[number, place] > 0, pa.bool_())}
    )


def read_contexts(model: ClickModel, scene: Scene, log: pa.Table) -> pa.Table:
    """The context of each row of a log, computed by Ibis on DuckDB from shuffled rows."""
    order = np.random.default_rng(0).permutation(len(log))
    shuffled = log.append_column("row", pa.array(np.arange(len(log)))).take(order)
    table = ibis.memtable(shuffled)
    read = table.mutate(**model.history_columns(table)).order_by("row")
    found = ibis.duckdb.connect().to_pyarrow(read.select(*scene.names, *model.history))
    assert len(found) == len(log)
    return found


def contexts_of(model: ClickModel, scene: Scene) -> pa.Table:
    """All contexts of a scene's pages, found from a log without a click."""
    every = np.arange(len(scene.pages))
    log = log_of(scene, every, np.zeros(scene.slots.shape))
    met = read_contexts(model, scene, log)
    names = met.column_names
    distinct = met.group_by(names).aggregate([]).select(names)
    return model.complete(distinct.sort_by([(name, "ascending") for name in names]))


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def located(found: pa.Table, contexts: pa.Table) -> np.ndarray:
    """(rows,) index of contexts among others; -2 where it is absent."""
    index = {row: i for i, row in enumerate(rows_of(contexts))}
    return np.array([index.get(row, -2) for row in rows_of(found.select(contexts.column_names))])


def anchor_of(model: ClickModel, contexts: pa.Table) -> int:
    return int(model.anchors(contexts)[0])


def one_draw(emission: Emission) -> Emission:
    """(1, contexts) each."""
    return Emission(*(None if part is None else part[None] for part in emission))


def check_contexts(model: ClickModel, name: str) -> None:
    """All contexts that pages can have are there, once each, and the states lead to them."""
    own, scene = setting(model, name), SCENES[name]
    rows = rows_of(own.contexts)
    assert len(set(rows)) == len(rows)
    assert rows_of(model.complete(own.contexts)) == rows
    assert np.all(own.context != -2), "a context that was met is missing"
    # history comes last, and the given contexts are those of the pages
    names = own.contexts.column_names
    assert names == [*scene.names, *model.history]
    assert given_names(own.contexts, model.history) == list(scene.names)
    given, place = given_contexts(own.contexts, model.history)
    assert rows_of(given) == scene.given
    # given contexts do not depend on the clicks
    shown = own.context >= 0
    assert np.array_equal(place[own.context[shown]], own.slots[own.page][shown])
    # and the states have no other contexts
    machine, clicked, skipped, start = own.states
    assert np.array_equal(np.unique(machine[machine >= 0]), np.arange(len(rows)))
    for g in range(len(given)):
        assert np.array_equal(
            place[machine[g][machine[g] >= 0]], np.full((machine[g] >= 0).sum(), g)
        )
    for state in (clicked, skipped, np.array(start)):
        assert np.all((state >= 0) & (state < machine.shape[1]))


def check_histories(model: ClickModel, name: str) -> None:
    """Contexts of pages in memory are those that are read off a log."""
    own, scene = setting(model, name), SCENES[name]
    found = contexts_of_clicks(own.states, own.slots[own.page], own.clicks)
    np.testing.assert_array_equal(found, own.context)
    # a simulated log, too
    rng = np.random.default_rng(2)
    page = rng.integers(len(own.slots), size=300)
    x = own.parameters(model, rng, anchor_of(model, own.contexts))
    emission = model.emission(x, anchor_of(model, own.contexts), np)
    slots = own.slots[page]
    clicks = draw_clicks(own.states, emission, slots, rng.random(slots.shape), rng)
    read = located(read_contexts(model, scene, log_of(scene, page, clicks)), own.contexts)
    found = contexts_of_clicks(own.states, slots, clicks)
    np.testing.assert_array_equal(found[slots >= 0], read)
    assert np.all(found[slots < 0] == -1)


def check_enumeration(model: ClickModel, name: str) -> None:
    """Probabilities, values and slopes of pages are sums over all patterns of clicks."""
    own, rng = setting(model, name), np.random.default_rng(3)
    relevance = rng.random(own.slots.shape)
    pages, depth = own.slots.shape
    walked = contexts_of_clicks(own.states, own.slots[own.page], own.clicks)
    for anchor in (None, anchor_of(model, own.contexts)):
        emission = model.emission(own.parameters(model, rng, anchor), anchor, np)

        def patterns(
            relevance: np.ndarray, context: np.ndarray = own.context, e: Emission = emission
        ) -> np.ndarray:
            return own.probability(e, relevance, context)

        p = patterns(relevance)
        assert np.all(p >= 0)
        np.testing.assert_allclose(np.bincount(own.page, p), np.ones(pages), **EXACT)
        np.testing.assert_allclose(patterns(relevance, walked), p, **EXACT)
        chances = click_chances(own.states, one_draw(emission), own.slots, relevance[None])[0]
        for k in range(depth):
            np.testing.assert_allclose(
                chances[:, k], np.bincount(own.page, p * own.clicks[:, k]), **EXACT
            )
        weight = rng.random(own.slots.shape) + 0.5

        def values(
            relevance: np.ndarray, weight: np.ndarray = weight, of: Any = patterns
        ) -> np.ndarray:
            own_value = (own.clicks * weight[own.page]).sum(axis=1)
            return np.bincount(own.page, of(relevance) * own_value)

        value, slope, *_ = value_and_slope(
            own.states, one_draw(emission), own.slots, relevance[None], weight
        )
        np.testing.assert_allclose(value[0], values(relevance), **EXACT)
        for k in range(depth):
            one, none = relevance.copy(), relevance.copy()
            one[:, k], none[:, k] = 1, 0  # of a multilinear function the difference is the slope
            expected = np.where(own.slots[:, k] >= 0, values(one) - values(none), 0)
            np.testing.assert_allclose(slope[0, :, k], expected, rtol=1e-10, atol=1e-13)


def check_draws(model: ClickModel, name: str) -> None:
    """Clicks are drawn with their probabilities."""
    own, rng = setting(model, name), np.random.default_rng(4)
    relevance, count = rng.uniform(0.2, 0.9, own.slots.shape), 20_000
    emission = model.emission(own.parameters(model, rng, None), None, np)
    chances = click_chances(own.states, one_draw(emission), own.slots, relevance[None])[0]
    clicks = draw_clicks(
        own.states,
        emission,
        np.repeat(own.slots, count, axis=0),
        np.repeat(relevance, count, axis=0),
        rng,
    )
    rate = clicks.reshape(len(own.slots), count, -1).mean(axis=1)
    error = np.sqrt(chances * (1 - chances) / count)
    assert np.all(np.abs(rate - chances) <= 4 * error)
    assert np.all(rate[own.slots < 0] == 0)


def check_emission(model: ClickModel, name: str) -> None:
    """Probabilities and their complements are exact, and differentiable by jax."""
    own, rng = setting(model, name), np.random.default_rng(5)
    anchor = anchor_of(model, own.contexts)
    for held in (anchor, None):
        x = own.parameters(model, rng, held)
        free = model.free(len(own.contexts), held)
        extreme = x.copy()
        extreme[free] = np.linspace(-LARGE, LARGE, len(free)) if len(free) > 1 else LARGE
        traced = jax.jit(lambda x, held=held: tuple(model.emission(x, held, jnp)))
        assert model.emission(x, held, np).is_affine == model.is_affine
        for each in (x, extreme, -extreme):
            with jax.enable_x64(True):
                by_jax = traced(jnp.asarray(each))
            _check_complements(model, model.emission(each, held, np), by_jax, held)
        _check_derivatives(model, x, held, free)


def _check_complements(
    model: ClickModel, emission: Emission, by_jax: tuple[Any, ...], anchor: int | None
) -> None:
    assert (emission.unattractive is None) == (emission.unattractive_rest is None)
    for part, other in zip(emission, by_jax, strict=True):
        assert (part is None) == (other is None)
        if part is not None:
            assert part.dtype == other.dtype == np.float64
            np.testing.assert_allclose(part, other, rtol=1e-13, atol=0)
    # B may be a product of two probabilities
    for (chance, rest), factors in ((emission[:2], 1), (emission[2:], 2)):
        if chance is None:
            continue
        assert np.all((chance >= 0) & (chance <= 1) & (rest >= 0) & (rest <= 1))
        assert np.all(np.abs(chance + rest - 1) <= 2 * EPS)
        others = np.delete(np.minimum(chance, rest), [] if anchor is None else [anchor])
        if model.knows_examination:
            assert np.all(others == 0)  # everything is examined, or nothing is
            continue
        # exp(-40): the complement was not computed by subtraction
        assert np.all(others > 0.5 * np.exp(-factors * LARGE))
    if emission.is_affine:
        assert np.all(emission.unattractive <= emission.attractive), "attraction adds clicks"
    if anchor is not None:
        assert emission.attractive[anchor] == 1
        assert emission.attractive_rest[anchor] == 0


def _check_derivatives(
    model: ClickModel, x: np.ndarray, anchor: int | None, free: np.ndarray
) -> None:
    def parts(x: Any, xp: Any) -> Any:
        return xp.concatenate([p for p in model.emission(x, anchor, xp) if p is not None])

    with jax.enable_x64(True):
        found = np.asarray(jax.jit(jax.jacfwd(lambda x: parts(x, jnp)))(jnp.asarray(x)))
    step = 1e-5
    moved = step * np.eye(len(x))
    expected = np.stack([parts(x + m, np) - parts(x - m, np) for m in moved], axis=1) / (2 * step)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    moves = np.abs(found).max(axis=0) > 0
    # where stops are latent the parameters are those of going on, which is no emission
    assert np.array_equal(np.flatnonzero(moves), [] if model.has_latent_state else np.sort(free))


def check_logits(model: ClickModel, name: str) -> None:
    """The written-out derivatives of the emission's logits are those that jax finds."""
    own, rng = setting(model, name), np.random.default_rng(6)
    for held in (anchor_of(model, own.contexts), None):
        x = own.parameters(model, rng, held)
        jacobian = model.logit_jacobian(x, held)
        slope = rng.normal(size=len(jacobian))
        bend = model.logit_bend(x, held, slope)

        def logits(x: Any, held: int | None = held) -> Any:
            emission = model.emission(x, held, jnp)
            kinds = [kind for kind in (emission[:2], emission[2:]) if kind[0] is not None]
            # probabilities of 0 and 1 are constants, not limits
            fixed = [(chance == 0) | (rest == 0) for chance, rest in kinds]
            return jnp.concatenate(
                [
                    jnp.log(jnp.where(const, 1, chance)) - jnp.log(jnp.where(const, 1, rest))
                    for const, (chance, rest) in zip(fixed, kinds, strict=True)
                ]
            )

        with jax.enable_x64(True):
            both = jax.jit(
                lambda x, logits=logits, slope=slope: (
                    jax.jacfwd(logits)(x),
                    jax.hessian(lambda x: slope @ logits(x))(x),
                )
            )
            by_jax, bend_by_jax = map(np.asarray, both(jnp.asarray(x)))
        assert jacobian.shape == by_jax.shape
        assert jacobian.dtype == bend.dtype == np.float64
        np.testing.assert_allclose(jacobian, by_jax, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(bend, bend_by_jax, rtol=1e-10, atol=1e-10)


def priors_of(model: ClickModel, contexts: pa.Table, anchor: int | None) -> list[ParameterPrior]:
    """The prior itself, with a roughly known parameter, and with a fixed one."""
    prior = model.prior(contexts, anchor)
    size = len(model.free(len(contexts), anchor))
    if not size:
        return [prior]
    mean, sd = np.full((2, size), np.nan)
    mean[-1], sd[-1] = 0.7, 0.3
    roughly = prior.given(mean.copy(), sd.copy())
    sd[-1] = FIXED_SD
    return [prior, roughly, prior.given(mean, sd)]


def check_prior(model: ClickModel, name: str) -> None:
    """Density, derivatives and draws of the prior agree."""
    own, rng = setting(model, name), np.random.default_rng(6)
    for anchor in (None, anchor_of(model, own.contexts)):
        size = len(model.free(len(own.contexts), anchor))
        for number, prior in enumerate(priors_of(model, own.contexts, anchor)):
            known = np.arange(size) == (size - 1 if number else -1)
            assert np.array_equal(np.isfinite(prior.known_mean), known)
            assert np.array_equal(is_fixed(prior), known & (number == 2))
            if number == 2:
                drawn = prior.draw(rng, 100)[:, -1]
                assert np.all(np.abs(drawn - 0.7) < 6 * FIXED_SD)
                assert prior.probability_sd()[-1] < FIXED_SD
            elif size:
                _check_density(prior, rng.normal(0, 1, size))
                _check_draws(prior, prior.draw(rng, 20_000))


def _check_density(prior: ParameterPrior, x: np.ndarray) -> None:
    step = 1e-4
    moves = step * np.eye(len(x))
    gradient, hessian = prior.gradient(x), prior.hessian(x)
    slopes = [(prior.log_density(x + m) - prior.log_density(x - m)) / (2 * step) for m in moves]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-6)
    curves = [(prior.gradient(x + m) - prior.gradient(x - m)) / (2 * step) for m in moves]
    np.testing.assert_allclose(hessian, np.stack(curves, axis=1), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-9, atol=1e-12)

    def by_jax(x: Any) -> Any:
        return prior.log_density(x, jnp)

    with jax.enable_x64(True):
        together = jax.jit(lambda x: (by_jax(x), jax.grad(by_jax)(x), jax.hessian(by_jax)(x)))
        value, slope, curve = together(jnp.asarray(x))
    np.testing.assert_allclose(value, prior.log_density(x), rtol=1e-12)
    np.testing.assert_allclose(slope, gradient, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(curve, hessian, rtol=1e-9, atol=1e-12)


def _check_draws(prior: ParameterPrior, drawn: np.ndarray) -> None:
    count, size = drawn.shape
    theta = 1 / (1 + np.exp(-drawn))
    square = np.square(theta - theta.mean(axis=0))
    error = square.std(axis=0) / np.sqrt(count)
    assert np.all(np.abs(square.mean(axis=0) - prior.probability_sd() ** 2) < 4 * error)
    some = np.random.default_rng(7).normal(0, 1, (2, size))
    hessian = prior.hessian(some[0])
    if np.allclose(hessian, prior.hessian(some[1]), rtol=1e-9):  # Gaussian
        covariance = -np.linalg.inv(hessian)
        mean = some[0] + covariance @ prior.gradient(some[0])
        sd = np.sqrt(np.diag(covariance))
        assert np.all(np.abs(drawn.mean(axis=0) - mean) < 4 * sd / np.sqrt(count))
        error = np.sqrt((np.square(covariance) + np.outer(sd, sd) ** 2) / count)
        away = drawn - mean
        assert np.all(np.abs(away.T @ away / count - covariance) < 4 * error)
        return
    assert np.allclose(hessian, np.diag(np.diag(hessian))), "neither Gaussian nor independent"
    grid = np.linspace(-40, 40, 1601)
    for i in range(size):
        at = np.where(np.arange(size) == i, grid[:, None], 0.0)
        density = np.array([prior.log_density(x) for x in at])
        below = integrate.cumulative_simpson(np.exp(density - density.max()), x=grid, initial=0)
        rank = np.interp(drawn[:, i], grid, below / below[-1])
        assert stats.kstest(rank, "uniform").pvalue > 1e-4


def check_learned(model: ClickModel, name: str) -> None:
    """A prior with learned hyperparameters is still valid, and keeps known parameters."""
    own, rng = setting(model, name), np.random.default_rng(8)
    anchor = anchor_of(model, own.contexts)
    for prior in priors_of(model, own.contexts, anchor):
        size = len(prior.known_mean)
        x, half = rng.normal(0, 1, size), rng.normal(0, 3, (size, size))
        # information need not be positive where clicks are few
        for information in (half @ half.T, np.zeros((size, size)), half + half.T):
            found = prior.learned(x, rng.normal(0, 1, size), information)
            assert type(found) is type(prior)
            np.testing.assert_array_equal(found.known_mean, prior.known_mean)
            np.testing.assert_array_equal(found.known_sd, prior.known_sd)
            assert np.isfinite(found.log_density(x))
            if size:
                assert np.linalg.eigvalsh(-found.hessian(x)).min() > 0
                assert np.all(np.isfinite(found.draw(rng, 3)))


def check_spreads(model: ClickModel) -> None:
    """Spreads that parameters were drawn with are recovered, on average over many logs."""
    positions, worlds, information = 10, 16, 1e6
    log = Scene(("position",), (_at(*range(1, positions + 1)),))
    contexts = contexts_of(model, log)
    prior = model.prior(contexts, anchor_of(model, contexts))
    if not isinstance(prior, EffectsPrior):
        return  # nothing is learned
    true, rng = np.geomspace(0.8, 0.25, len(prior.spreads)), np.random.default_rng(9)
    drawn = replace(prior, spreads=true).draw(rng, worlds)
    nothing, certain = np.zeros(drawn.shape[1]), information * np.eye(drawn.shape[1])
    found = np.array([np.log(prior.learned(x, nothing, certain).spreads) for x in drawn])
    error = found.std(axis=0, ddof=1) / np.sqrt(worlds)
    assert np.all(np.abs(found.mean(axis=0) - np.log(true)) < 4 * error)
    # negative control: a wrong spread is far off
    assert np.all(np.abs(found.mean(axis=0) - np.log(true * 2)) > 4 * error)


def check_scale(model: ClickModel, name: str) -> None:
    """Examination and relevance share a scale, which is free without an anchor.

    Where unattractive items are clicked, an affine map of relevance is free even with one.
    """
    own, rng = setting(model, name), np.random.default_rng(10)
    if model.is_affine:
        anchor = anchor_of(model, own.contexts)
        emission = model.emission(own.parameters(model, rng, anchor), anchor, np)
        relevance, t = rng.uniform(0.3, 1, own.slots.shape), 0.25
        a, a_rest, b, _ = emission
        more = b + t * (a - b)
        np.testing.assert_allclose(
            own.probability(
                Emission(a, a_rest, more, 1 - more), (relevance - t) / (1 - t), own.context
            ),
            own.probability(emission, relevance, own.context),
            **EXACT,
        )
        return
    emission = model.emission(own.parameters(model, rng, None), None, np)
    relevance, c = rng.uniform(0, 0.5, own.slots.shape), 0.6
    scaled = Emission(c * emission.attractive, 1 - c * emission.attractive)
    np.testing.assert_allclose(
        own.probability(scaled, relevance / c, own.context),
        own.probability(emission, relevance, own.context),
        **EXACT,
    )


def check_identified(model: ClickModel, name: str) -> None:
    """With the anchor fixed everything is identified: patterns of clicks determine all parameters.

    Items are shown at all places of the pages, as a log must for it. Where unattractive items are
    clicked, one direction stays free (`check_scale`), and none but that.
    """
    own, rng = setting(model, name), np.random.default_rng(11)
    pages, depth = own.slots.shape
    items = depth + 1
    shown = [(np.arange(depth) + r + np.arange(pages)[:, None]) % items for r in range(items)]
    for anchor in (anchor_of(model, own.contexts), None):
        x = own.parameters(model, rng, anchor)
        x = np.clip(x, -1.5, 1.5)
        free = model.free(len(own.contexts), anchor)
        if model.has_latent_state:
            free = free[:0]  # identified by what follows a click: tests of fits

        def patterns(
            vector: np.ndarray,
            x: np.ndarray = x,
            free: np.ndarray = free,
            anchor: int | None = anchor,
        ) -> np.ndarray:
            own_x = x.copy()
            own_x[free], zeta = np.split(vector, [len(free)])
            emission = model.emission(own_x, anchor, np)
            return np.concatenate(
                [own.probability(emission, zeta[item], own.context) for item in shown]
            )

        vector = np.concatenate([x[free], rng.uniform(0.2, 0.8, items)])
        step = 1e-5
        moves = step * np.eye(len(vector))
        jacobian = np.stack([patterns(vector + m) - patterns(vector - m) for m in moves]) / step
        # numerical differences are accurate to 1e-10
        values = np.linalg.svd(jacobian, compute_uv=False)
        rank = np.count_nonzero(values > 1e-6 * values[0])
        scale_is_free = anchor is None and not model.knows_examination
        assert rank == len(vector) - scale_is_free - model.is_affine


def check_counts(model: ClickModel, name: str) -> None:
    """The likelihood of pages is that of their counted displays."""
    own, scene, rng = setting(model, name), SCENES[name], np.random.default_rng(12)
    anchor = anchor_of(model, own.contexts)
    emission = model.emission(own.parameters(model, rng, anchor), anchor, np)
    pages, depth = own.slots.shape
    logged, items = 400, 6
    zeta = rng.uniform(0.1, 0.9, items)
    page = rng.integers(pages, size=logged)
    slots = own.slots[page]
    item = rng.random((logged, items)).argsort(axis=1)[:, :depth]
    clicks = draw_clicks(own.states, emission, slots, zeta[item], rng)
    by_page = 0.0
    for i in range(logged):
        relevance = np.broadcast_to(zeta[item[i]], own.slots.shape)
        same = (own.page == page[i]) & (own.clicks == clicks[i]).all(axis=1)
        (p,) = own.probability(emission, relevance, own.context)[same]
        by_page += np.log(p)
    context = located(read_contexts(model, scene, log_of(scene, page, clicks)), own.contexts)
    shown = slots >= 0
    counted = Counter(zip(item[shown], context, clicks[shown], strict=True))
    by_count = 0.0
    for (i, c, clicked), count in counted.items():
        chance = emission.at(c).click_probability(zeta[i])
        by_count += count * np.log(chance if clicked else 1 - chance)
    assert by_count == pytest.approx(by_page, rel=1e-12)
    assert max(counted.values()) > 1


class ClickModelContract:
    """Tests that a click model inherits by naming itself.

    They are of the model alone. Tests of fits (simulate and recover, save and load) belong into a
    class `FittedContract` of their own, beside this one.
    """

    model: ClassVar[ClickModel]

    @pytest.fixture(params=SCENES)
    def scene(self, request: pytest.FixtureRequest) -> str:
        return request.param

    def test_contexts_are_complete(self, scene: str) -> None:
        check_contexts(self.model, scene)

    def test_histories_are_those_of_a_log(self, scene: str) -> None:
        check_histories(self.model, scene)

    def test_pages_are_sums_over_all_patterns_of_clicks(self, scene: str) -> None:
        check_enumeration(self.model, scene)

    def test_clicks_are_drawn_as_often_as_they_should_be(self, scene: str) -> None:
        check_draws(self.model, scene)

    def test_emissions_are_exact_and_differentiable(self, scene: str) -> None:
        check_emission(self.model, scene)

    def test_derivatives_of_logits_are_those_of_the_emission(self, scene: str) -> None:
        check_logits(self.model, scene)

    def test_density_and_draws_of_the_prior_agree(self, scene: str) -> None:
        check_prior(self.model, scene)

    def test_what_a_prior_learns_is_a_prior(self, scene: str) -> None:
        check_learned(self.model, scene)

    def test_a_prior_learns_its_spreads(self) -> None:
        check_spreads(self.model)

    def test_examination_and_relevance_share_a_scale(self, scene: str) -> None:
        check_scale(self.model, scene)

    def test_an_anchor_is_all_that_is_needed(self, scene: str) -> None:
        check_identified(self.model, scene)

    def test_counts_have_the_likelihood_of_pages(self, scene: str) -> None:
        check_counts(self.model, scene)

    def test_worlds_are_of_all_contexts(self) -> None:
        check_world(self.model)


def check_world(model: ClickModel) -> None:
    """The model's own worlds have the contexts of its pages, and theta on pages without a click.

    Users who read from the top examine everything there. Where unattractive items are clicked,
    theta is the probability of an examination: clicks are proportional to it, on attractive items
    at most as frequent, and at the first position equal.
    """
    shares = []
    for theta in (np.array([1.0, 0.7, 0.4, 0.3]), np.array([0.6, 0.8, 0.2, 0.5])):
        contexts, emission = model.world(theta)
        assert contexts.column_names == ["position", *model.history]
        assert set(rows_of(contexts)) == set(rows_of(setting(model, "positions").contexts))
        assert rows_of(model.complete(contexts)) == rows_of(contexts)
        for chance, rest in (emission[:2], emission[2:]):
            if chance is not None:
                assert np.all((chance >= 0) & (chance <= 1))
                assert np.all(np.abs(chance + rest - 1) <= 2 * EPS)
        states = model.states(contexts)
        slots = np.arange(4)[None]
        unclicked = contexts_of_clicks(states, slots, np.zeros((1, 4)))[0]
        attractive = emission.attractive[unclicked]
        if model.knows_examination:
            np.testing.assert_array_equal(attractive, np.ones(len(theta)))
        elif not model.is_affine:
            np.testing.assert_array_equal(attractive, theta)
        else:
            assert attractive[0] == theta[0]
            assert np.all(attractive <= theta)
            assert np.all(emission.unattractive < emission.attractive)
            shares.append([attractive / theta, emission.unattractive[unclicked] / theta])
            np.testing.assert_allclose(shares[-1], shares[0], rtol=1e-12)
        # an item at the top of its page is examined like the anchor
        assert unclicked[0] in model.anchors(contexts)
