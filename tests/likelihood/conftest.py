"""The reference values of the likelihood, and batches of given counts."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import mpmath
import numpy as np
import pyarrow as pa
import pytest

from epiclick.batching.batches import Batches
from epiclick.data.counts import ClickCounts
from epiclick.likelihood.pairs import PairBatch

ORACLE = Path(__file__).resolve().parents[3] / "shared" / "oracle" / "likelihood.json"


@dataclass(frozen=True)
class Case:
    """One pair with its reference values."""

    theta: np.ndarray
    alpha: float
    beta: float
    displays: np.ndarray
    clicks: np.ndarray
    log_likelihood: float
    gradient: np.ndarray  # theta, alpha, beta
    mean: float
    variance: float

    @property
    def unclicked(self) -> np.ndarray:
        return self.displays - self.clicks

    @cached_property
    def value(self) -> float:
        """The log-likelihood without binomial coefficients, which no kernel includes."""
        with mpmath.workdps(30):
            logs = [
                mpmath.loggamma(n + 1) - mpmath.loggamma(m + 1) - mpmath.loggamma(n - m + 1)
                for n, m in zip(self.displays.tolist(), self.clicks.tolist(), strict=True)
            ]
            return float(self.log_likelihood - mpmath.fsum(logs))


@pytest.fixture(scope="session")
def oracle() -> list[Case]:
    if not ORACLE.exists():
        pytest.skip("oracle/likelihood.json is not here")
    records = json.loads(ORACLE.read_text())
    contexts = max(len(c["theta"]) for c in records)

    def padded(values: list[float], fill: float) -> np.ndarray:
        """All cases with as many contexts, the last ones never shown, so that one array holds them."""
        return np.r_[values, np.full(contexts - len(values), fill)]

    return [
        Case(
            theta=padded(c["theta"], 0.5),
            alpha=c["alpha"],
            beta=c["beta"],
            displays=padded(c["displays"], 0).astype(int),
            clicks=padded(c["clicks"], 0).astype(int),
            log_likelihood=c["log_likelihood"],
            gradient=np.r_[padded(c["d_theta"], 0), c["d_alpha"], c["d_beta"]],
            mean=c["posterior_mean"],
            variance=c["posterior_variance"],
        )
        for c in records
    ]


@pytest.fixture(scope="session")
def make_batch() -> Callable[..., PairBatch]:
    """From dense displays and clicks (pairs, contexts) to a batch, pairs by bucket."""

    def make(displays: np.ndarray, clicks: np.ndarray, **options: bool) -> PairBatch:
        pair, context = np.nonzero(displays)
        table = pa.table(
            {
                "query_id": pair,
                "doc_id": pair,
                "position": context + 1,
                "displays": displays[pair, context],
                "clicks": clicks[pair, context],
            }
        )
        counts = ClickCounts.from_table(table)
        every = pa.table({"position": np.arange(1, displays.shape[1] + 1)})
        counts = replace(counts, contexts=every, context=context)
        batches = Batches(counts, len(displays), **options)
        return batches.assemble(next(batches.epoch()))

    return make
