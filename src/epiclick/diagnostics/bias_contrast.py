r"""Whether two estimates of position bias from the same log differ by more than chance.

With d the difference of the log biases and :math:`D_q` the difference of the influences of queries
q on them (`identification.bias_estimate`), each scaled up by the query's share h of the
information, so that a few large queries do not look more certain than they are,

.. math:: V = \sum_q \frac{D_q D_q^\top}{(1 - h_q)^2}, \qquad T^2 = d^\top V^{-1} d, \qquad
          \frac{n - k}{k\,(n - 1)}\, T^2 \sim F_{k,\, n - k}

(Hotelling), over k contexts, with n = 1 / sum h^2 the effective number of queries. Where n is small
next to k, only the mean of d, weighted by displays, is tested.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from scipy import special

from epiclick.identification.bias_estimate import BiasEstimate

QUERIES_PER_CONTEXT = 10
"""Effective queries for each context from which all contexts are tested jointly."""

FEWEST_QUERIES = 5.0
"""Effective queries below which nothing is tested."""

FLAT = 1e-10
"""Share of the largest variance below which a direction has none."""


@dataclass(frozen=True, eq=False)
class BiasContrast:
    """Two estimates of position bias, relative to a reference, and a test of their equality.

    Attributes:
        context: (compared,) indices of the contexts.
        first: (compared,) log bias by the first estimate.
        second: (compared,) log bias by the second.
        error: (compared,) standard errors of their differences.
        weight: (compared,) share of the displays.
        queries: n.
        freedom: k, the number of differences that are tested.
        p_value: probability of differences as large, if both estimate the same.
    """

    context: np.ndarray
    first: np.ndarray
    second: np.ndarray
    error: np.ndarray
    weight: np.ndarray
    queries: float
    freedom: int
    p_value: float

    @property
    def difference(self) -> np.ndarray:
        """(compared,) of the log biases, the first minus the second."""
        return self.first - self.second

    @property
    def effect(self) -> float:
        """Mean difference of the log biases, weighted by displays."""
        return float(self.weight @ self.difference)

    @property
    def size(self) -> float:
        """Mean absolute difference of the log biases, weighted by displays."""
        return float(self.weight @ np.abs(self.difference))

    @property
    def widest(self) -> int:
        """Number of the context whose difference is the largest, in standard errors."""
        return int(np.argmax(np.abs(self.difference) / self.error))

    @classmethod
    def of(
        cls,
        first: BiasEstimate,
        second: BiasEstimate,
        displays: np.ndarray,
        information: np.ndarray,
    ) -> Self | None:
        """Compare two estimates; None where too few queries or no contexts can be compared.

        Args:
            first: one estimate.
            second: the other, relative to the same context and with the same groups of queries.
            displays: (contexts,).
            information: (groups,) that the difference rests on.
        """
        total = float(information.sum())
        if not total > 0:
            return None
        share = information / total
        queries = float(1 / np.square(share).sum())
        every = (first.influence - second.influence) / (1 - np.minimum(share, 0.5))[:, None]
        variance = np.square(every).sum(axis=0)
        difference = first.log_bias - second.log_bias
        context = np.flatnonzero(np.isfinite(difference) & (variance > 0))
        if queries < FEWEST_QUERIES or not len(context):
            return None
        weight = displays[context] / displays[context].sum()
        along = np.eye(len(context))
        if queries < QUERIES_PER_CONTEXT * len(context):
            along = weight[None]
        tested, moved = along @ difference[context], every[:, context] @ along.T
        values, vectors = np.linalg.eigh(moved.T @ moved)
        kept = values > FLAT * values.max()
        square = float(np.sum((vectors.T @ tested)[kept] ** 2 / values[kept]))
        freedom = int(kept.sum())
        ratio = square * (queries - freedom) / ((queries - 1) * freedom)
        return cls(
            context=context,
            first=first.log_bias[context],
            second=second.log_bias[context],
            error=np.sqrt(variance[context]),
            weight=weight,
            queries=queries,
            freedom=freedom,
            p_value=float(special.fdtrc(freedom, queries - freedom, ratio)),
        )

    def to_records(self, contexts: pa.Table, names: tuple[str, str]) -> list[dict[str, Any]]:
        """A record for each context, with both biases under their names."""
        rows = contexts.to_pylist()
        return [
            {
                **rows[k],
                names[0]: float(np.exp(self.first[i])),
                names[1]: float(np.exp(self.second[i])),
                "log_ratio": float(self.difference[i]),
                "error": float(self.error[i]),
            }
            for i, k in enumerate(self.context.tolist())
        ]
