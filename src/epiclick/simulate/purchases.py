"""Purchases in a simulated world: which clicks lead to one, and what it is worth."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from epiclick.data.features import FeatureTable
from epiclick.simulate.world_items import beta_prior

PURCHASE, REVENUE = "purchase", "revenue"
"""Columns of the log."""

PRICE, PRICE_SD = 20.0, 0.5
"""Typical revenue of a purchase, and its spread between items, in logarithms."""

BASKET = 4.0
"""Shape of the Gamma of a purchase's revenue about that of its item."""


@dataclass(frozen=True, eq=False)
class Purchases:
    """The truth about conversions.

    Attributes:
        conversion: (pairs,) probability that a click on the pair leads to a purchase, wherever it
            was clicked.
        value: (pairs,) expected revenue of a purchase.
    """

    conversion: np.ndarray
    value: np.ndarray

    @classmethod
    def draw(cls, table: FeatureTable, rng: np.random.Generator) -> Self:
        """Probabilities from Betas that depend on the features, and log-normal prices."""
        betas = beta_prior(table, rng)
        conversion = rng.beta(betas.alpha, betas.beta)
        return cls(conversion, PRICE * np.exp(PRICE_SD * rng.standard_normal(len(conversion))))

    def logged(
        self,
        log: pa.Table,
        row: np.ndarray,
        rng: np.random.Generator,
        factor: np.ndarray | None = None,
    ) -> pa.Table:
        """The log with purchase and revenue.

        Args:
            log: page by page.
            row: (displays,) the pair of each display.
            rng: of the purchases.
            factor: (displays,) on the probability, where it is not that of the pair alone.
        """
        chance = self.conversion[row] * (1.0 if factor is None else factor)
        bought = (rng.random(len(row)) < chance) & (log["click"].to_numpy() == 1)
        paid = self.value[row] * rng.gamma(BASKET, 1 / BASKET, len(row))
        revenue = np.where(bought, np.round(np.maximum(paid, 0.01), 2), 0.0)
        log = log.append_column(PURCHASE, pa.array(bought.astype(np.int8)))
        return log.append_column(REVENUE, pa.array(revenue))
