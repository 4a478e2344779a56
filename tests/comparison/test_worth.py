"""Conversions and values per page, against brute force: every quantity drawn, pages recursed."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import expit

from epiclick.beta import Beta
from epiclick.click_models.click_model import Emission
from epiclick.click_models.recursion import click_chances
from epiclick.click_models.registry import click_model
from epiclick.comparison.factors import GoingOn, factors_of
from epiclick.comparison.slots import ALL_MEASURES
from epiclick.comparison.value_samples import ValueSamples, sample_values

from .planted import slots_by_hand

POSITIONS, RANKERS, LISTS, ITEMS, DRAWS = 3, 2, 12, 60, 30
MEASURES = ("clicks", "conversions", "value")
SAMPLES = 6_000


class World:
    """Lists of items of one's own each, and Betas of everything under every draw."""

    def __init__(self, name: str, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.model = click_model(name)
        self.contexts, _ = self.model.world(np.ones(POSITIONS))
        self.picked = np.array(
            [
                5 * each + rng.permutation(5)[:POSITIONS]
                for _ in range(RANKERS)
                for each in range(LISTS)
            ]
        )
        ranker, each, place = (index.ravel() for index in np.indices((RANKERS, LISTS, POSITIONS)))
        share = rng.dirichlet(np.full(LISTS, 2.0))
        own = slots_by_hand(ranker, self.picked.ravel(), place + 1, weight=share[each])
        self.slots = replace(own, query_id=pa.array(each))
        shift = rng.standard_normal((DRAWS, 1))
        self.zeta, self.gamma, self.stop = (
            self._betas(rng.normal(centre, 0.7, ITEMS) + 0.15 * shift, nu)
            for centre, nu in ((-1.0, 4.0), (-1.5, 3.0), (0.0, 5.0))
        )
        self.price = self._betas(rng.normal(-1.0, 0.5, ITEMS) + 0.1 * shift, 20.0)
        size = len(self.contexts)
        self.theta = expit(rng.normal(0.5, 1.0, size) + 0.2 * rng.standard_normal((DRAWS, size)))
        if self.model.knows_examination:
            known = self.model.emission(np.zeros(size), None, np).attractive
            self.theta = np.tile(known, (DRAWS, 1))

    @staticmethod
    def _betas(logit: np.ndarray, nu: float) -> Beta:
        mean = expit(logit)
        return Beta(mean * nu, (1 - mean) * nu)

    @property
    def emission(self) -> Emission:
        if not self.model.is_affine:
            return Emission(self.theta, 1 - self.theta)
        floor = 0.3 * self.theta
        return Emission(self.theta, 1 - self.theta, floor, 1 - floor)

    @property
    def has_satisfaction(self) -> bool:
        return len(self.model.channels) > 1

    def values(self, *, certain: bool = False) -> ValueSamples:
        """By the library; `certain`: as if conversions were known, the negative control."""
        price, gamma = self.price, self.gamma
        both = price.mean * gamma.mean
        second = (price.variance + price.mean**2) * (gamma.variance + gamma.mean**2)
        worth = {
            "conversion": _chunks(gamma.mean, gamma.variance * (not certain), 17),
            "value": _chunks(both, (second - both**2) * (not certain), 23),
        }
        going_on = None
        if self.has_satisfaction:
            going_on = GoingOn(satisfaction=_chunks(self.stop.mean, self.stop.variance, 60))
        found = factors_of(
            self.slots,
            self.picked.ravel(),
            [ALL_MEASURES[name] for name in MEASURES],
            ITEMS,
            self.model.states(self.contexts),
            self.emission,
            going_on,
            worth,
        )
        return sample_values(
            found,
            np.ones(found.kinds * ITEMS, bool),
            _chunks(self.zeta.mean, self.zeta.variance, 11),
            (len(MEASURES), RANKERS),
            SAMPLES,
            np.random.default_rng(1),
        )

    def brute(self) -> np.ndarray:
        """(measures, rankers, samples): parameters, then all items, then pages."""
        rng = np.random.default_rng(2)
        draw = np.arange(SAMPLES) % DRAWS
        zeta, gamma, stop, price = (
            rng.beta(each.alpha[draw], each.beta[draw])
            for each in (self.zeta, self.gamma, self.stop, self.price)
        )
        slots = np.tile(np.arange(POSITIONS), (len(self.picked), 1))
        stay = 1 - stop[:, self.picked] if self.has_satisfaction else None
        chances = click_chances(
            self.model.states(self.contexts),
            Emission(*(None if each is None else each[draw] for each in self.emission)),
            slots,
            zeta[:, self.picked],
            stay,
        )
        weight = self.slots.weight.reshape(-1, POSITIONS)
        worth = [np.ones_like(gamma), gamma, gamma * price]
        pages = [(chances * weight * each[:, self.picked]).sum(axis=2) for each in worth]
        return np.stack([each.reshape(SAMPLES, RANKERS, LISTS).sum(axis=2).T for each in pages])


def _chunks(
    mean: np.ndarray, variance: np.ndarray, size: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for start in range(0, ITEMS, size):
        yield mean[:, start : start + size], variance[:, start : start + size]


@pytest.mark.parametrize("name", ["pbm", "trust", "ubm", "cascade", "sdbn"])
def test_values_are_those_of_joint_simulation(name: str) -> None:
    world = World(name)
    found, truth = world.values().samples, world.brute()
    noise = np.sqrt((found.var(axis=2) + truth.var(axis=2)) / SAMPLES)
    assert np.all(abs(found.mean(axis=2) - truth.mean(axis=2)) < 4.5 * noise)
    # variances of correlated clicks are right to first order: 10 %
    for m in range(len(MEASURES)):
        for contrast in (np.array([1, 0]), np.array([0, 1]), np.array([1, -1])):
            spread = [np.std(contrast @ each[m]) for each in (found, truth)]
            assert spread[0] == pytest.approx(spread[1], rel=0.1)


@pytest.mark.parametrize("name", ["pbm", "sdbn"])
def test_known_conversions_would_give_intervals_that_are_too_narrow(name: str) -> None:
    world = World(name)
    certain, truth = world.values(certain=True).samples, world.brute()
    assert np.all(certain[1].std(axis=1) < 0.8 * truth[1].std(axis=1))


def test_rankers_that_show_the_same_are_worth_the_same() -> None:
    world = World("pbm")
    half = len(world.picked) // RANKERS
    world.picked[half:] = world.picked[:half]
    found = world.values().samples
    np.testing.assert_array_equal(found[:, 0], found[:, 1])
    assert not np.allclose(found[0], found[1])  # measures differ though their slots do not


def test_units_scale_values_and_variances() -> None:
    found = World("pbm").values()
    scaled = found.in_units([1.0, 1.0, 50.0])
    np.testing.assert_allclose(scaled.samples[2], 50 * found.samples[2])
    np.testing.assert_allclose(scaled.seen[2], 2500 * found.seen[2])
    np.testing.assert_array_equal(scaled.samples[:2], found.samples[:2])
