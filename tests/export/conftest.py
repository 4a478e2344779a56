"""Fixtures of the export tests: a world whose log misleads, and a model fitted to it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.simulate.world import random_streams, show_pages
from epiclick.simulate.world_items import QueryGroups, label_relevance, synthetic_rankings
from epiclick.simulate.world_settings import resolve_settings

QUERIES, LOGGED, DOCS = 3_250, 250, 10
THETA = (1.0, 0.4, 0.2, 0.1)
PAGES = 2_500
FEW = 30  # queries


@dataclass(frozen=True, eq=False)
class Misled:
    """Clicks on the pages of a ranker that favours a feature most users do not care for.

    Attributes:
        items: features of 3,250 queries.
        relevance: (items,) the truth.
        features: of the 250 queries that were logged; the others are held out.
        counts: their clicks.
        pages: the log, row by row.
    """

    items: ec.FeatureTable
    relevance: np.ndarray
    features: ec.FeatureTable
    counts: ec.ClickCounts
    pages: dict[str, np.ndarray]


@pytest.fixture(scope="session")
def misled() -> Misled:
    rng = random_streams(0)
    items = synthetic_rankings(QUERIES, DOCS, 6, rng["rankings"])
    relevance = label_relevance(items.keys["label"].to_numpy())
    logged = LOGGED * DOCS
    features = ec.FeatureTable(items.keys.slice(0, logged), items.names, items.matrix[:logged])
    # of middling quality: a third from relevance, two thirds from one feature
    scores = 0.5 * evened(relevance[:logged]) + evened(features.matrix[:, 0])
    nothing = dict.fromkeys(("queries", "docs", "features", "dataset"))
    settings = resolve_settings(
        **nothing,
        pages=PAGES,
        positions=None,
        theta=THETA,
        relevance="label",
        users="pbm",
        policy_strength=1.0,
        taste_sd=0.0,
        seed=0,
    )
    groups = QueryGroups.of(features.keys["query_id"])
    log = show_pages(settings, features, groups, scores, relevance[:logged], rng)
    pages = {name: log[name].to_numpy() for name in log.column_names}
    return Misled(items, relevance, features, ec.read_log(log, features=features), pages)


def evened(values: np.ndarray) -> np.ndarray:
    """Ranks of values, of mean 0 and variance 1; ties by their order."""
    rank = np.argsort(np.argsort(values, kind="stable"))
    return (rank / len(rank) - 0.5) * np.sqrt(12)


@pytest.fixture(scope="session")
def model(misled: Misled) -> ec.EpistemicPBM:
    return ec.EpistemicPBM(hidden=(16,), epochs=10).fit(misled.counts, progress=False)


@pytest.fixture(scope="session")
def few(misled: Misled) -> ec.ClickCounts:
    """The first two pages of 30 queries, without features: few displays compile quickly."""
    log = pd.DataFrame(misled.pages)
    turn = log.groupby("query_id")["page_id"].rank("dense")
    return ec.read_log(log[(turn <= 2) & (log["query_id"] < FEW)])


@pytest.fixture(scope="session")
def by_ids(few: ec.ClickCounts) -> ec.EpistemicPBM:
    """A model without features."""
    return ec.EpistemicPBM(epochs=5).fit(few, progress=False)
