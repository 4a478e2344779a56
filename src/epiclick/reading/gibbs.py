r"""Draws of who went on, by a Gibbs sampler.

Given who went on, relevance and satisfaction of the items are independent Betas; given these, users
with a tail went on independently of each other (`stops.py`). Chains alternate between the two. All
chains are moved at once, some at a time if they are large.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from epiclick.reading.stops import Evidence, chance_of_going_on, log_skips

AT_ONCE = 2**18
"""Numbers in an array of several chains, at most, so that it stays in the processor's cache."""

FEW = 8
"""Trials up to which a binomial number is drawn trial by trial, which is then faster."""


def chains_at_once(chains: int, size: int) -> list[slice]:
    """Consecutive chains with `size` numbers each, to process at once."""
    count = max(AT_ONCE // max(size, 1), 1)
    return [slice(start, start + count) for start in range(0, chains, count)]


class Shapes(NamedTuple):
    """Betas of a channel before any outcome, (pairs,) each, or (chains, pairs)."""

    alpha: np.ndarray
    beta: np.ndarray

    def mean(self, successes: np.ndarray, trials: np.ndarray) -> np.ndarray:
        """The expectation of each probability given its outcomes."""
        return (self.alpha + successes) / (self.alpha + self.beta + trials)

    def draw(
        self, successes: np.ndarray, trials: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """A draw of each probability given its outcomes."""
        return rng.beta(self.alpha + successes, self.beta + (trials - successes))

    def at(self, pairs: np.ndarray) -> "Shapes":
        """Those of some pairs."""
        return Shapes(self.alpha[..., pairs], self.beta[..., pairs])


@dataclass(frozen=True, eq=False)
class Prior:
    """What is known about the items and about going on before the clicks.

    The same for all chains, or with a first axis of chains.

    Attributes:
        attraction: Betas of relevance.
        satisfaction: Betas of the probability that a click on an item satisfies; None if going on
            depends on the context.
        going_on: (given contexts,) probability of going on after a click there; None if it depends
            on the item.
    """

    attraction: Shapes
    satisfaction: Shapes | None = None
    going_on: np.ndarray | None = None

    def of_chains(self, chosen: slice) -> "Prior":
        """That of some chains."""

        def own(values: np.ndarray) -> np.ndarray:
            return values if values.ndim == 1 else values[chosen]

        satisfied = self.satisfaction
        return Prior(
            Shapes(*map(own, self.attraction)),
            None if satisfied is None else Shapes(*map(own, satisfied)),
            None if self.going_on is None else own(self.going_on),
        )


@dataclass(eq=False)
class Chains:
    """Gibbs chains over who went on.

    Attributes:
        evidence: what the pages show.
        went_on: (chains, tails) number of pages on which users went on.
        rng: of all draws.
    """

    evidence: Evidence
    went_on: np.ndarray
    rng: np.random.Generator

    @classmethod
    def start(
        cls, evidence: Evidence, rng: np.random.Generator, prior: Prior, chains: int = 1
    ) -> Self:
        """Users went on as expected if half of them were known to."""
        found = cls(evidence, np.empty((chains, len(evidence.pages)), np.int64), rng)
        half = evidence.completed(evidence.pages / 2)
        for some in found.at_once:
            own = prior.of_chains(some)
            zeta = own.attraction.mean(evidence.clicks, half.read)
            if own.satisfaction is not None:
                trials = half.stopped + half.went_on
                rest = own.satisfaction.mean(half.stopped, trials)
                stay = 1 - rest[..., evidence.last_pair]
            else:
                assert own.going_on is not None
                stay = own.going_on[..., evidence.last_given]
            chance = chance_of_going_on(stay, log_skips(evidence, zeta))
            every = np.broadcast_to(chance, found.went_on[some].shape)
            found.went_on[some] = draw_binomial(evidence.pages, every, rng)
        return found

    def __len__(self) -> int:
        """Number of chains."""
        return len(self.went_on)

    @property
    def at_once(self) -> list[slice]:
        """Chains to process at once."""
        return chains_at_once(len(self), len(self.evidence.pages) + self.evidence.pairs)

    def sweep(self, prior: Prior, times: int = 1) -> None:
        """Draw relevance given who went on, and who went on given relevance."""
        for some in self.at_once:
            self.went_on[some] = self._swept(self.went_on[some], prior.of_chains(some), times)

    def _swept(self, went_on: np.ndarray, prior: Prior, times: int) -> np.ndarray:
        """Who went on after some sweeps, (chains, tails); only items that matter are drawn."""
        evidence, rng = self.evidence, self.rng
        skipped, (clicked, which) = evidence.skipped, evidence.clicked_last
        attraction = prior.attraction.at(skipped)
        satisfaction = None if prior.satisfaction is None else prior.satisfaction.at(clicked)
        zeta = np.zeros((len(went_on), evidence.pairs))
        for _ in range(times):
            known = evidence.completed(went_on)
            read = known.read[:, skipped]
            zeta[:, skipped] = attraction.draw(evidence.clicks[skipped], read, rng)
            if satisfaction is not None:
                stopped = known.stopped[:, clicked]
                trials = stopped + known.went_on[:, clicked]
                stay = 1 - satisfaction.draw(stopped, trials, rng)[:, which]
            else:
                assert prior.going_on is not None
                stay = prior.going_on[..., evidence.last_given]
            chance = chance_of_going_on(stay, log_skips(evidence, zeta))
            went_on = draw_binomial(evidence.pages, chance, rng)
        return went_on


def draw_binomial(trials: np.ndarray, chance: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Binomial numbers, (chains, size), of trials (size,) in descending order.

    Args:
        trials: numbers of trials.
        chance: (chains, size) of a success.
        rng: of the draws.
    """
    # how many have more trials than 0, 1, ... FEW
    more = np.searchsorted(-trials, -np.arange(FEW + 1)).tolist()
    found, many = np.zeros(chance.shape, np.int64), more.pop()
    found[:, :many] = rng.binomial(trials[:many], chance[:, :many])
    for end in more:
        found[:, many:end] += rng.random((len(chance), end - many)) < chance[:, many:end]
    return found
