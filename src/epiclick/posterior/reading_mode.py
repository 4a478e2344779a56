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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.sparse import csr_array

from epiclick.posterior.density import Curvature
from epiclick.posterior.joint_prior import Prior as ParameterPrior
from epiclick.posterior.mode import Mode
from epiclick.reading.channels import ContextChannel, Derivatives, ItemChannel
from epiclick.reading.gibbs import Chains, Prior, chains_at_once
from epiclick.reading.stops import Evidence

CHAINS = 8
FIRST_SWEEPS = 12
"""Sweeps of new chains before they count."""

SWEEPS = 2
"""Sweeps between two draws of a chain."""

MOST_STEPS = 60
"""Steps towards the mode."""

MOST_HALVINGS = 20

NEAR = 0.3
"""Root-mean-square distance from the mode, in standard deviations, at which it is near."""

LEAST_AVERAGED, MOST_AVERAGED = 16, 32
"""Steps near the mode."""

ERROR = 0.03
"""Error of their average, in standard deviations, below which there are no more of them."""

LEFT_OUT = 0.25
"""Share of the first of them that is not averaged."""

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
        """Successes and trials of each channel if on so many pages (draws, tails) users went on."""
        known = self.evidence.completed(went_on)
        found = [(self.evidence.clicks, known.read)]
        if self.going_on is not None:
            found.insert(0, self._by_context(went_on))
        if self.satisfaction is not None:
            found.append((known.stopped, known.stopped + known.went_on))
        return found

    def values(self, vectors: Sequence[np.ndarray], went_on: np.ndarray) -> list[float]:
        """Log densities, averaged over draws of who went on, (draws, tails); up to a constant."""
        every, totals = [self.raw(vector) for vector in vectors], np.zeros(len(vectors))
        for some in self._at_once(len(went_on)):
            outcomes = self.outcomes(went_on[some])
            for i, raw in enumerate(every):
                for channel, own, outcome in zip(self.channels, raw, outcomes, strict=True):
                    totals[i] += channel.value(own, *outcome)
        prior = [float(self.prior.log_density(vector)) for vector in vectors]
        return [total / len(went_on) + own for total, own in zip(totals, prior, strict=True)]

    def gradient(self, vector: np.ndarray, went_on: np.ndarray) -> np.ndarray:
        """(size,) derivatives of `values`."""
        raw, total = self.raw(vector), np.zeros(len(vector))
        for some in self._at_once(len(went_on)):
            outcomes = self.outcomes(went_on[some])
            total += np.concatenate(
                [
                    channel.gradient(own, *outcome)
                    for channel, own, outcome in zip(self.channels, raw, outcomes, strict=True)
                ]
            )
        found: np.ndarray = total / len(went_on) + self.prior.gradient(vector)
        return found

    def derivatives(self, vector: np.ndarray, went_on: np.ndarray) -> Iterator[list[Derivatives]]:
        """Those of the log-likelihood in each channel, for some of the draws at a time."""
        raw = self.raw(vector)
        for some in self._at_once(len(went_on)):
            outcomes = self.outcomes(went_on[some])
            yield [
                channel.derivatives(own, *outcome)
                for channel, own, outcome in zip(self.channels, raw, outcomes, strict=True)
            ]

    def _at_once(self, draws: int) -> list[slice]:
        """Draws to process at once."""
        return chains_at_once(draws, self.evidence.pairs)

    def _by_context(self, went_on: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Users who went on after a click, (draws, clusters, contexts), and all who clicked."""
        assert self.going_on is not None
        shape = (self.going_on.clusters, self.going_on.contexts)
        on, clicks = (
            (self._certain + (self._tail_cell @ each.T).T).reshape(*each.shape[:-1], *shape)
            for each in (went_on, self.evidence.pages)
        )
        return on, clicks

    @cached_property
    def _tail_cell(self) -> csr_array:
        """(clusters x contexts, tails) the group and context of the last click."""
        assert self.going_on is not None
        cluster = self.attraction.cluster[self.evidence.last_pair]
        cell = cluster * self.going_on.contexts + self.evidence.last_given
        tails = len(cell)
        where = (np.ones(tails), (cell, np.arange(tails)))
        return csr_array(where, (len(self._certain), tails))

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


def draw_moments(
    density: ReadingDensity, vector: np.ndarray, chains: Chains, draws: int
) -> Moments:
    """Expectations over `draws` draws of every chain."""
    items, size = density.items(vector), len(vector)
    centre, curves, count = np.zeros(0), [np.zeros(1) for _ in density.channels], 0
    total, square = np.zeros(1), np.zeros((size, size))
    for _ in range(draws):
        chains.sweep(items, SWEEPS)
        for found in density.derivatives(vector, chains.went_on):
            scores = np.concatenate([each.scores for each in found], axis=2)
            curves = [sum_ + each.curve for sum_, each in zip(curves, found, strict=True)]
            if not count:
                centre = scores.mean(axis=0)
            # single precision is enough for the squares of what is nearly centred
            away = (scores - centre).astype(np.float32)
            total = total + away.sum(axis=0, dtype=np.float64)
            flat = away.reshape(-1, size)
            square += flat.T @ flat
            count += len(scores)
    mean = total / count
    blocks = [
        channel.information(curve / count)
        for channel, curve in zip(density.channels, curves, strict=True)
    ]
    missing = (square - count * mean.T @ mean) / max(count - 1, 1)
    return Moments(centre + mean, block_diag(*blocks), missing)


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
    def is_near(self) -> bool:
        """Whether the mode is near."""
        return bool(np.mean(np.square(self.distance)) < NEAR**2)

    def error(self, draws: int) -> float:
        """Root-mean-square error of the mode from so many draws, in standard deviations.

        The variance of a gradient is the lost information divided by the number of draws.
        """
        return float(np.sqrt(np.mean((1 - self.kept) / (self.kept * draws))))

    @property
    def em_step(self) -> np.ndarray:
        """(size,) a step of EM, up to twice as long where much information is lost."""
        return self.step(np.minimum(1 / self.kept, LONGEST_EM))

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
    chains: Chains


class Near(NamedTuple):
    """What is known close to the mode.

    Attributes:
        vector: (size,) parameters.
        chains: Gibbs chains of who went on.
        frame: directions close to them; None if the mode was not reached.
    """

    vector: np.ndarray
    chains: Chains
    frame: Frame | None


def climb(
    density: ReadingDensity,
    start: np.ndarray,
    seed: int,
    step_done: Callable[[], None] | None = None,
) -> Near:
    """Climb from initial parameters until the mode is near.

    Args:
        density: of the parameters.
        start: (size,) initial parameters.
        seed: of the chains.
        step_done: called after every step.
    """
    vector, items = start, density.items(start)
    rng = np.random.default_rng([seed, 21])
    chains = Chains.start(density.evidence, rng, items, CHAINS)
    chains.sweep(items, FIRST_SWEEPS)
    for _ in range(MOST_STEPS):
        frame = Frame.of(density, vector, draw_moments(density, vector, chains, 1))
        vector = _improved(density, vector, frame, chains)
        if step_done is not None:
            step_done()
        if frame.is_near:
            return Near(vector, chains, frame)
    return Near(vector, chains, None)


class Passed(NamedTuple):
    """Parameters close to the mode, with the gradient there; (size,) each."""

    vector: np.ndarray
    gradient: np.ndarray


def wander(
    density: ReadingDensity, near: Near, step_done: Callable[[], None] | None = None
) -> list[Passed]:
    """Steps that only reflect the noise of the draws.

    Where the mode is near, the curvature hardly changes, so that every step takes gradients alone.
    There are as many steps as the error of their average needs to be below `ERROR`, within bounds;
    the first of them, which may still lead to the mode, are left out.
    """
    vector, chains, frame = near
    if frame is None:
        return []
    passed: list[Passed] = []
    while len(passed) < LEAST_AVERAGED or (
        len(passed) < MOST_AVERAGED and frame.error(len(passed) * len(chains)) > ERROR
    ):
        chains.sweep(density.items(vector), SWEEPS)
        gradient = density.gradient(vector, chains.went_on)
        passed.append(Passed(vector, gradient))
        vector = _improved(density, vector, frame.towards(gradient), chains)
        if step_done is not None:
            step_done()
    return passed[int(len(passed) * LEFT_OUT) :]


def find_reading_mode(
    density: ReadingDensity,
    start: np.ndarray,
    seed: int,
    step_done: Callable[[], None] | None = None,
) -> ReadingMode:
    """The mode, and the curvature there, from initial parameters."""
    near = climb(density, start, seed, step_done)
    vector, chains, _ = near
    passed = wander(density, near, step_done)
    if passed:
        vector = np.mean([each.vector for each in passed], axis=0)
    found = draw_moments(density, vector, chains, LAST_DRAWS)
    frame = Frame.of(density, vector, found)
    # all gradients close to the mode, referred to here, lessen the noise of the last draws
    gradients = [_gradient(density, vector, found.scores)] * LAST_DRAWS
    gradients += [slope - frame.hessian @ (vector - there) for there, slope in passed]
    gradient = np.mean(gradients, axis=0)
    frame = frame.towards(gradient)
    curvature = Curvature(0.0, gradient, frame.hessian, found.scores)
    complete = np.diag(found.information)
    share = np.divide(
        np.diag(found.missing), complete, out=np.zeros_like(complete), where=complete > 0
    )
    # a Newton step, from many draws, for what steps of EM have left
    limit = LONGEST / np.maximum(np.abs(frame.distance), LONGEST)
    step = _free(density, frame.step(limit / frame.kept))
    return ReadingMode(Mode(vector + step, gradient, curvature), share, chains)


def _gradient(density: ReadingDensity, vector: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """(size,) of the log density, from the mean scores of the log-likelihood, (clusters, size)."""
    gradient: np.ndarray = scores.sum(axis=0) + density.prior.gradient(vector)
    return gradient


def _free(density: ReadingDensity, step: np.ndarray) -> np.ndarray:
    """The step without parameters that are fixed."""
    return np.where(density.prior.fixed, 0.0, step)


def _improved(
    density: ReadingDensity, vector: np.ndarray, frame: Frame, chains: Chains
) -> np.ndarray:
    """Parameters after a step of EM, halved until it increases the density given who went on.

    Up to twice the length of a step of EM it does, where the density is nearly quadratic.
    """
    step = _free(density, frame.em_step)
    here, there = density.values([vector, vector + step], chains.went_on)
    for _ in range(MOST_HALVINGS):
        if there >= here:
            return vector + step
        step = 0.5 * step
        (there,) = density.values([vector + step], chains.went_on)
    return vector
