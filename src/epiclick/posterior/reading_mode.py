r"""The posterior of the parameters, with who went on integrated out by Monte Carlo.

Let z say who went on, and s(z) be the gradient of the log-likelihood of clicks and z together. By
the identities of Fisher and Louis the observed log-likelihood has

.. math:: \nabla \ell = E[s(z)], \qquad
          -\nabla^2 \ell = E[-\nabla s(z)] - \operatorname{Var}[s(z)],

expectations over z given the clicks, which a Gibbs sampler draws (`stops.py`). Pages of different
queries are independent given the parameters, so both are sums over queries, and the variance is
estimated well from a few draws of every query. Newton's steps with these lead to the mode, and are
averaged once they only reflect the noise of the draws.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag

from epiclick.posterior.density import Curvature
from epiclick.posterior.joint_prior import Prior as ParameterPrior
from epiclick.posterior.mode import Mode
from epiclick.reading.channels import ContextChannel, Derivatives, ItemChannel
from epiclick.reading.stops import Chain, Completed, Evidence, Prior

CHAINS = 8
FIRST_SWEEPS = 12
"""Sweeps of new chains before they count."""

SWEEPS = 2
"""Sweeps between two draws of a chain."""

MOST_STEPS = 60
MOST_HALVINGS = 20
AVERAGED = 16
"""Steps near the mode, over which gradients are averaged."""

SETTLED = 0.3
"""Root-mean-square distance from the mode, in standard deviations, below which they are."""

LONGEST_EM = 1.9
"""Longest step of EM, relative to that which maximises the density given who went on."""

LONGEST = 1.0
"""Longest final step in any direction, in standard deviations."""

MOST_LOST = 0.97
"""Largest share of information that can be lost in any direction."""

LEAST_CURVATURE = 1e-8  # of the largest, so that no direction is flat

LAST_DRAWS = 16
"""Draws of every chain for the final curvature."""


@dataclass(frozen=True, eq=False)
class ReadingDensity:
    """Log density of the parameters of a model whose users may stop after a click.

    The vector has the click model's free parameters, then the last layer of relevance, then that of
    satisfaction, if there is one.

    Attributes:
        evidence: what the pages show.
        attraction: clicks on items that were read.
        satisfaction: satisfied users among clicks; None if going on depends on the context.
        going_on: users who went on among clicks; None if it depends on the item.
        prior: of the vector.
    """

    evidence: Evidence
    attraction: ItemChannel
    satisfaction: ItemChannel | None
    going_on: ContextChannel | None
    prior: ParameterPrior

    def parts(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Free parameters of the click model, layer of relevance, layer of satisfaction."""
        free, middle = self.prior.free, self.prior.free + self.attraction.size
        return vector[:free], vector[free:middle], vector[middle:]

    def items(self, vector: np.ndarray) -> Prior:
        """What is known about the items and about going on under the parameters."""
        own, layer, other = self.parts(vector)
        return Prior(
            self.attraction.shapes(layer),
            None if self.satisfaction is None else self.satisfaction.shapes(other),
            None if self.going_on is None else 1 / (1 + np.exp(-own)),
        )

    def value(self, vector: np.ndarray, went_on: np.ndarray) -> float:
        """Log density if on so many pages (tails,) users went on, up to a constant."""
        own, layer, other = self.parts(vector)
        known = self.evidence.completed(went_on)
        total = float(self.prior.log_density(vector))
        if self.going_on is not None:
            total += self.going_on.value(own, *self._by_context(went_on))
        total += self.attraction.value(layer, self.evidence.clicks, known.read)
        if self.satisfaction is not None:
            trials = known.stopped + known.went_on
            total += self.satisfaction.value(other, known.stopped, trials)
        return total

    @property
    def channels(self) -> list[ItemChannel | ContextChannel]:
        """The channels in the order of the vector."""
        every = (self.going_on, self.attraction, self.satisfaction)
        return [each for each in every if each is not None]

    def derivatives(self, vector: np.ndarray, went_on: np.ndarray) -> list[Derivatives]:
        """Of each channel's log-likelihood if on so many pages (tails,) users went on."""
        own, layer, other = self.parts(vector)
        known = self.evidence.completed(went_on)
        found: list[Derivatives] = []
        if self.going_on is not None:
            found.append(self.going_on.derivatives(own, *self._by_context(went_on)))
        found.append(self.attraction.derivatives(layer, self.evidence.clicks, known.read))
        if self.satisfaction is not None:
            trials = known.stopped + known.went_on
            found.append(self.satisfaction.derivatives(other, known.stopped, trials))
        return found

    def _by_context(self, went_on: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Users who went on and who stopped after a click, (clusters, contexts) each."""
        assert self.going_on is not None
        evidence, contexts = self.evidence, self.going_on.contexts
        stopped = np.bincount(
            self._tail_cell, evidence.pages - went_on, self.going_on.clusters * contexts
        )
        on = self._certain + np.bincount(self._tail_cell, went_on, len(stopped))
        return on.reshape(-1, contexts), stopped.reshape(-1, contexts)

    @cached_property
    def _tail_cell(self) -> np.ndarray:
        """(tails,) number of the group and context of the last click."""
        assert self.going_on is not None
        cluster = self.attraction.cluster[self.evidence.last_pair]
        return cluster * self.going_on.contexts + self.evidence.last_given

    @cached_property
    def _certain(self) -> np.ndarray:
        """(clusters x contexts,) users who certainly went on."""
        assert self.going_on is not None
        evidence, contexts = self.evidence, self.going_on.contexts
        cell = self.attraction.cluster[evidence.click_pair] * contexts + evidence.click_given
        return np.bincount(cell, evidence.click_count, self.going_on.clusters * contexts)


class Moments(NamedTuple):
    """Expectations over who went on, given the clicks and the parameters.

    Attributes:
        scores: (clusters, size) mean of the first derivatives.
        information: (size, size) mean information if it were known who went on.
        missing: (size, size) variance of the first derivatives: information that is lost.
    """

    scores: np.ndarray
    information: np.ndarray
    missing: np.ndarray


def expectations(
    density: ReadingDensity, vector: np.ndarray, chains: Sequence[Chain], draws: int
) -> Moments:
    """Moments from `draws` draws of every chain."""
    items = density.items(vector)
    scores = []
    curves: list[Any] = [0.0 for _ in density.channels]
    for chain in chains:
        for _ in range(draws):
            chain.sweep(items, SWEEPS)
            found = density.derivatives(vector, chain.went_on)
            scores.append(np.concatenate([each.scores for each in found], axis=1))
            curves = [sum_ + each.curve for sum_, each in zip(curves, found, strict=True)]
    mean = np.mean(scores, axis=0)
    missing = np.zeros((len(vector), len(vector)))
    for each in scores:
        away = each - mean
        missing += away.T @ away
    blocks = [
        channel.information(total / len(scores))
        for channel, total in zip(density.channels, curves, strict=True)
    ]
    return Moments(mean, block_diag(*blocks), missing / max(len(scores) - 1, 1))


class Frame(NamedTuple):
    """Directions in which the information is diagonal, at some parameters.

    Attributes:
        root: (size, size) its columns are the directions, so that root @ root.T is the information
            if it were known who went on, the prior's included.
        kept: (size,) share of it that the clicks have kept, in each direction.
        gradient: (size,) of the log density, in units of these directions.
    """

    root: np.ndarray
    kept: np.ndarray
    gradient: np.ndarray

    @classmethod
    def of(cls, density: ReadingDensity, vector: np.ndarray, found: Moments) -> "Frame":
        """The frame of some moments.

        Louis' difference is noisy, and far from the mode it need not be positive: at most
        `MOST_LOST` of the information can be lost in any direction.
        """
        complete = found.information - density.prior.hessian(vector)
        values, axes = np.linalg.eigh((complete + complete.T) / 2)
        size = np.sqrt(np.maximum(np.abs(values), LEAST_CURVATURE * np.abs(values).max()))
        lost, directions = np.linalg.eigh((axes / size).T @ found.missing @ (axes / size))
        root = (axes * size) @ directions
        gradient = np.linalg.solve(root, _gradient(density, vector, found))
        return cls(root, 1 - np.minimum(lost, MOST_LOST), gradient)

    def step(self, factor: np.ndarray) -> np.ndarray:
        """(size,) a step of the gradient times a factor in each direction."""
        return np.linalg.solve(self.root.T, factor * self.gradient)

    @property
    def distance(self) -> np.ndarray:
        """(size,) of the mode, in standard deviations in each direction."""
        return self.gradient / np.sqrt(self.kept)

    @property
    def hessian(self) -> np.ndarray:
        """(size, size) of the observed log density."""
        return -(self.root * self.kept) @ self.root.T


@dataclass(frozen=True, eq=False)
class ReadingMode:
    """The mode of the parameters, and chains that have converged there.

    Attributes:
        mode: the parameters with the curvature of the observed log density.
        missing_share: (size,) share of the information on each parameter that is lost because it
            is not known who went on.
        chains: Gibbs chains, to draw from further.
    """

    mode: Mode
    missing_share: np.ndarray
    chains: Sequence[Chain]


def find_reading_mode(
    density: ReadingDensity,
    start: np.ndarray,
    seed: int,
    step_done: Callable[[np.ndarray], None] | None = None,
) -> ReadingMode:
    """Climb to the mode from initial parameters.

    Args:
        density: of the parameters.
        start: (size,) initial parameters.
        seed: of the chains.
        step_done: called with the parameters after every step.
    """
    vector = start
    items = density.items(vector)
    chains = [
        Chain.start(density.evidence, np.random.default_rng([seed, 21, i]), items)
        for i in range(CHAINS)
    ]
    for chain in chains:
        chain.sweep(items, FIRST_SWEEPS)
    near: list[tuple[np.ndarray, np.ndarray]] = []  # parameters near the mode, and gradients there
    for _ in range(MOST_STEPS):
        found = expectations(density, vector, chains, 1)
        frame = Frame.of(density, vector, found)
        if near or np.sqrt(np.mean(np.square(frame.distance))) < SETTLED:
            near.append((vector, _gradient(density, vector, found)))
        vector = _improved(density, vector, frame, chains)
        if step_done is not None:
            step_done(vector)
        if len(near) >= AVERAGED:
            break
    if near:
        vector = np.mean([each for each, _ in near], axis=0)
    found = expectations(density, vector, chains, LAST_DRAWS)
    frame = Frame.of(density, vector, found)
    # all gradients near the mode, referred to here, halve the noise of the last draws
    gradients = [_gradient(density, vector, found)] * LAST_DRAWS
    gradients += [slope - frame.hessian @ (vector - there) for there, slope in near]
    gradient = np.mean(gradients, axis=0)
    frame = frame._replace(gradient=np.linalg.solve(frame.root, gradient))
    curvature = Curvature(0.0, gradient, frame.hessian, found.scores)
    complete = np.diag(found.information)
    share = np.divide(
        np.diag(found.missing), complete, out=np.zeros_like(complete), where=complete > 0
    )
    # a Newton step, from many draws, for what steps of EM have left
    limit = LONGEST / np.maximum(np.abs(frame.distance), LONGEST)
    step = np.where(density.prior.fixed, 0.0, frame.step(limit / frame.kept))
    return ReadingMode(Mode(vector + step, gradient, curvature), share, chains)


def _gradient(density: ReadingDensity, vector: np.ndarray, found: Moments) -> np.ndarray:
    """(size,) of the log density."""
    gradient: np.ndarray = found.scores.sum(axis=0) + density.prior.gradient(vector)
    return gradient


def _improved(
    density: ReadingDensity, vector: np.ndarray, frame: Frame, chains: Sequence[Chain]
) -> np.ndarray:
    """Parameters after a step of EM, up to twice as long where much information is lost.

    Up to twice, a step still increases the density given who went on, which is checked.
    """
    step = frame.step(np.minimum(1 / frame.kept, LONGEST_EM))
    step = np.where(density.prior.fixed, 0.0, step)
    drawn = [chain.went_on for chain in chains]
    here = np.mean([density.value(vector, went_on) for went_on in drawn])
    for halving in range(MOST_HALVINGS):
        there = vector + 0.5**halving * step
        if np.mean([density.value(there, went_on) for went_on in drawn]) >= here:
            return there
    return vector


def completions(
    density: ReadingDensity, vector: np.ndarray, chains: Sequence[Chain], sweeps: int = SWEEPS
) -> list[Completed]:
    """One completion of the counts from every chain, under the parameters."""
    items = density.items(vector)
    return [chain.sweep(items, sweeps) for chain in chains]
