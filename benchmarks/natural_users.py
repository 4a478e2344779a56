"""Simulated users on the lists of a real log: a control in which the position-based model holds."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

import epiclick as ec
from epiclick.benchmark.page_data import BenchmarkData, PageLog


@dataclass(frozen=True, eq=False)
class SimulatedUsers:
    """Users who click independently, with probability position bias times relevance.

    Attributes:
        bias: (positions,).
        alpha: (pairs,) of the Beta that relevance is drawn from.
        beta: (pairs,).
    """

    bias: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray

    @classmethod
    def of(cls, data: BenchmarkData) -> Self:
        """As a position-based model describes the training pages of a log.

        Pairs that only later pages show are given the median alpha and beta.
        """
        counts = ec.read_log(data.train.to_table(data.query_of))
        model = ec.EpistemicPBM().fit(counts, progress=False)
        bias = model.position_bias().sort_values("position")["mean"].to_numpy()
        known = model.relevance()
        pairs = known["doc_id"].to_numpy()
        betas = []
        for name in ("alpha", "beta"):
            each = np.full(data.pairs, known[name].median())
            each[pairs] = known[name]
            betas.append(each)
        return cls(bias, *betas)

    def clicks(self, data: BenchmarkData, seed: int) -> BenchmarkData:
        """The pages of the log with other clicks; relevance is drawn anew for each seed."""
        rng = np.random.default_rng([seed, 13])
        relevance = rng.beta(self.alpha, self.beta)

        def clicked(pages: PageLog) -> PageLog:
            chance = self.bias * relevance[pages.pair]
            return PageLog(pages.pair, rng.random(chance.shape) < chance)

        return replace(data, train=clicked(data.train), test=clicked(data.test))
