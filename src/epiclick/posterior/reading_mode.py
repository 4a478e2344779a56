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
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from epiclick.posterior.density import Curvature
from epiclick.posterior.joint_prior import Prior as ParameterPrior
from epiclick.posterior.mode import Mode
from epiclick.reading.channels import ContextChannel, ItemChannel
from epiclick.reading.stops import Chain, Evidence, Prior

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

    @property
    def channels(self) -> list[ItemChannel | ContextChannel]:
        """The channels in the order of the vector."""
        every = (self.going_on, self.attraction, self.satisfaction)
        return [each for each in every if each is not None]

    def raw(self, vector: np.ndarray) -> list[np.ndarray]:
        """What the outcomes of each channel depend on: logits, or outputs of its last layer."""
        parts = [part for part in self.parts(vector) if len(part)]
        return [channel.raw(part) for channel, part in zip(self.channels, parts, strict=True)]

    def outcomes(self, went_on: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Successes and trials of each channel if on so many pages (tails,) users went on."""
        known = self.evidence.completed(went_on)
        found = [(self.evidence.clicks, known.read)]
        if self.going_on is not None:
            found.insert(0, self._by_context(went_on))
        if self.satisfaction is not None:
            found.append((known.stopped, known.stopped + known.went_on))
        return found

    def value(self, vector: np.ndarray, drawn: Sequence[np.ndarray]) -> float:
        """Log density, averaged over draws of who went on, (tails,) each; up to a constant."""
        raw, total = self.raw(vector), 0.0
        for went_on in drawn:
            for channel, own, outcome in zip(
                self.channels, raw, self.outcomes(went_on), strict=True
            ):
                total += channel.value(own, *outcome)
        return total / len(drawn) + float(self.prior.log_density(vector))

    def _by_context(self, went_on: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Users who went on after a click, and all who clicked, (clusters, contexts) each."""
        assert self.going_on is not None
        evidence, contexts = self.evidence, self.going_on.contexts
        clicks = self._certain + np.bincount(self._tail_cell, evidence.pages, len(self._certain))
        on = self._certain + np.bincount(self._tail_cell, went_on, len(self._certain))
        return on.reshape(-1, contexts), clicks.reshape(-1, contexts)

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


class Drawn(NamedTuple):
    """Derivatives of the log-likelihood under draws of who went on.

    Attributes:
        scores: (draws, clusters, size) first derivatives.
        curves: second derivatives of each channel's pairs or contexts, averaged over the draws.
    """

    scores: np.ndarray
    curves: list[np.ndarray]

    def moments(self, density: ReadingDensity) -> Moments:
        """Their expectations."""
        mean = self.scores.mean(axis=0)
        away = (self.scores - mean).reshape(-1, self.scores.shape[2])
        blocks = [
            channel.information(curve)
            for channel, curve in zip(density.channels, self.curves, strict=True)
        ]
        return Moments(mean, block_diag(*blocks), away.T @ away / max(len(self.scores) - 1, 1))


def draw_derivatives(
    density: ReadingDensity, vector: np.ndarray, chains: Sequence[Chain], draws: int
) -> Drawn:
    """Derivatives under `draws` draws of every chain."""
    items, raw = density.items(vector), density.raw(vector)
    scores, curves = [], [np.zeros(1) for _ in raw]
    for chain in chains:
        for _ in range(draws):
            chain.sweep(items, SWEEPS)
            found = [
                channel.derivatives(own, *outcome)
                for channel, own, outcome in zip(
                    density.channels, raw, density.outcomes(chain.went_on), strict=True
                )
            ]
            scores.append(np.concatenate([each.scores for each in found], axis=1))
            curves = [sum_ + each.curve for sum_, each in zip(curves, found, strict=True)]
    return Drawn(np.stack(scores), [each / len(scores) for each in curves])


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
        gradient = np.linalg.solve(root, _gradient(density, vector, found.scores))
        return cls(root, 1 - np.minimum(lost, MOST_LOST), gradient)

    def towards(self, gradient: np.ndarray) -> "Frame":
        """The same directions with another gradient, (size,) in units of the parameters."""
        return self._replace(gradient=np.linalg.solve(self.root, gradient))

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


class Climbed(NamedTuple):
    """Parameters near the mode, and how they were found.

    Attributes:
        vector: (size,) the parameters.
        chains: Gibbs chains of who went on.
        near: parameters close to the mode that were passed, with the gradients there.
    """

    vector: np.ndarray
    chains: list[Chain]
    near: list[tuple[np.ndarray, np.ndarray]]


def climb(
    density: ReadingDensity,
    start: np.ndarray,
    seed: int,
    averaged: int,
    step_done: Callable[[], None] | None = None,
) -> Climbed:
    """Climb from initial parameters until `averaged` steps were close to the mode.

    Args:
        density: of the parameters.
        start: (size,) initial parameters.
        seed: of the chains.
        averaged: number of steps near the mode, whose parameters are averaged.
        step_done: called after every step.
    """
    vector, items = start, density.items(start)
    chains = [
        Chain.start(density.evidence, np.random.default_rng([seed, 21, i]), items)
        for i in range(CHAINS)
    ]
    for chain in chains:
        chain.sweep(items, FIRST_SWEEPS)
    near: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(MOST_STEPS):
        drawn = draw_derivatives(density, vector, chains, 1)
        gradient = _gradient(density, vector, drawn.scores.mean(axis=0))
        frame = Frame.of(density, vector, drawn.moments(density))
        if near or np.sqrt(np.mean(np.square(frame.distance))) < SETTLED:
            near.append((vector, gradient))
        vector = _improved(density, vector, frame, chains)
        if step_done is not None:
            step_done()
        if len(near) >= averaged:
            break
    if near:
        vector = np.mean([each for each, _ in near], axis=0)
    return Climbed(vector, chains, near)


def find_reading_mode(
    density: ReadingDensity,
    start: np.ndarray,
    seed: int,
    step_done: Callable[[], None] | None = None,
) -> ReadingMode:
    """The mode, and the curvature there, from initial parameters; see `climb`."""
    vector, chains, near = climb(density, start, seed, AVERAGED, step_done)
    found = draw_derivatives(density, vector, chains, LAST_DRAWS).moments(density)
    frame = Frame.of(density, vector, found)
    # all gradients near the mode, referred to here, halve the noise of the last draws
    gradients = [_gradient(density, vector, found.scores)] * LAST_DRAWS
    gradients += [slope - frame.hessian @ (vector - there) for there, slope in near]
    gradient = np.mean(gradients, axis=0)
    frame = frame.towards(gradient)
    curvature = Curvature(0.0, gradient, frame.hessian, found.scores)
    complete = np.diag(found.information)
    share = np.divide(
        np.diag(found.missing), complete, out=np.zeros_like(complete), where=complete > 0
    )
    # a Newton step, from many draws, for what steps of EM have left
    limit = LONGEST / np.maximum(np.abs(frame.distance), LONGEST)
    step = np.where(density.prior.fixed, 0.0, frame.step(limit / frame.kept))
    return ReadingMode(Mode(vector + step, gradient, curvature), share, chains)


def _gradient(density: ReadingDensity, vector: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """(size,) of the log density, from the mean scores of the log-likelihood, (clusters, size)."""
    gradient: np.ndarray = scores.sum(axis=0) + density.prior.gradient(vector)
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
    here = density.value(vector, drawn)
    for halving in range(MOST_HALVINGS):
        there = vector + 0.5**halving * step
        if density.value(there, drawn) >= here:
            return there
    return vector
