"""The reference values of the likelihood, and 64-bit arithmetic for these tests."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import pytest

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


@pytest.fixture(scope="session")
def oracle() -> list[Case]:
    if not ORACLE.exists():
        pytest.skip("oracle/likelihood.json is not here")
    records = json.loads(ORACLE.read_text())
    contexts = max(len(c["theta"]) for c in records)

    def padded(values: list[float], fill: float) -> np.ndarray:
        """All cases with as many contexts, the last ones never shown, so that few programs compile."""
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


@pytest.fixture(autouse=True)
def in_64_bits() -> Iterator[None]:
    with jax.enable_x64(True):
        yield
