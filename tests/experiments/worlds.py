"""A model that knows all about a small world, and experiments on that world's users."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

import epiclick as ec
from epiclick.experiments.team_draft import rounds, team_draft

from ..comparison.planted import THETA, model_of, planted, rows_of, table_of

NU = 20.0


@dataclass(frozen=True)
class KnownWorld:
    """Queries with the same traffic, whose items have known mean relevance.

    Attributes:
        relevance: (queries, docs).
        new: (queries, depth) docs of the new ranker.
        live: the same of the live one.
        features: of all items.
    """

    relevance: np.ndarray
    new: np.ndarray
    live: np.ndarray
    features: ec.FeatureTable

    @classmethod
    def of(cls, queries: int, gap: float, seed: int = 0, docs: int = 8) -> "KnownWorld":
        """`gap` is how much noisier the live ranker's scores are."""
        rng = np.random.default_rng(seed)
        relevance = rng.uniform(0.1, 0.7, (queries, docs))
        new, live = (
            np.argsort(-relevance - rng.normal(0, sd, relevance.shape), axis=1)[:, : len(THETA)]
            for sd in (0.1, 0.1 + gap)
        )
        query, doc = (each.ravel() for each in np.indices(relevance.shape))
        table = table_of(query, doc, relevance.ravel(), np.full(relevance.size, NU))
        return cls(relevance, new, live, table)

    @property
    def rankings(self) -> dict[str, pd.DataFrame]:
        return {
            name: rows_of(dict(enumerate(lists.tolist())))
            for name, lists in {"new": self.new, "live": self.live}.items()
        }

    def plan(self, theta_sd: float = 0.0, mean_sd: float = 0.0, **options):
        model = model_of(planted(theta_sd=theta_sd, mean_sd=mean_sd))
        return ec.plan(model, self.rankings, self.features, **options)

    def chances(self, query: np.ndarray, docs: np.ndarray) -> np.ndarray:
        """Of clicks on pages, (pages, depth)."""
        return THETA * self.relevance[query[:, None], docs]

    def ab_lead(self, pages: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Clicks on pages of the new and of the live ranker, `pages` each."""
        found = []
        for lists in (self.new, self.live):
            query = rng.integers(len(lists), size=pages)
            chance = self.chances(query, lists[query])
            found.append((rng.random(chance.shape) < chance).sum(axis=1))
        return found[0], found[1]

    def interleaved(self, pages: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Query of interleaved pages, and the new ranker's lead on each."""
        query = rng.integers(len(self.new), size=pages)
        coins = rng.random((pages, rounds(len(THETA)))) < 0.5
        drafted = team_draft(self.new[query], self.live[query], coins, len(THETA))
        chance = self.chances(query, drafted.item)
        clicks = rng.random(chance.shape) < chance
        return query, (clicks * drafted.sign).sum(axis=1)
