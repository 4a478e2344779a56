r"""Worlds whose logging ranker knows more about relevance than the features that models are given.

With $\mu$ the mean relevance that follows from the given features,

.. math:: \operatorname{logit} \mu'_{qd} = \operatorname{logit} \mu_{qd}
          + v\, \operatorname{sd}(\operatorname{logit} \mu)\, h_{qd}, \qquad h_{qd} \sim N(0, 1),

and relevance is drawn from a Beta of this mean and of the confidence that it had. The ranker is
trained on the given features and on the hidden signal h. Items shown are then better than their
given features say, and items not shown worse: rankers by given features that show other items are
valued too high.

Items that are new since the log was made were no candidates then. They are chosen at random, so
that they were never shown for no reason of quality.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
from scipy.special import expit, logit

from epiclick.beta import Beta
from epiclick.data.features import FeatureTable
from epiclick.simulate.world import World, logging_scores, random_streams, show_pages
from epiclick.simulate.world_items import QueryGroups

NOT_A_CANDIDATE = -1e6
"""Score of an item that is new since the log was made; noise on scores is far smaller."""


def with_hidden_signal(
    world: World, size: float, new_items: float, rng: np.random.Generator
) -> World:
    """The world with a further signal, which its ranker knows and its table of features lacks.

    Args:
        world: with synthetic items, Beta relevance and users without a taste of their own.
        size: v, standard deviation of the signal relative to that of the given features, in logits
            of mean relevance.
        new_items: share of a query's items, rounded, that were no candidates.
        rng: source of the signal, relevance and new items; the ranker, pages and clicks have
            streams of their own.
    """
    settings, table, prior = world.settings, world.features, world.prior
    assert prior is not None
    assert world.satisfaction is None
    assert world.purchases is None
    signal = rng.standard_normal(len(table))
    known = logit(prior.mean)
    mean = expit(known + size * known.std() * signal)
    confidence = prior.alpha + prior.beta
    changed = Beta(mean * confidence, (1 - mean) * confidence)
    relevance = rng.beta(changed.alpha, changed.beta)
    streams = random_streams(int(rng.integers(2**32)))
    queries = QueryGroups.of(table.keys["query_id"])
    matrix = np.column_stack([table.rows(np.arange(len(table))), signal.astype(np.float32)])
    ranked_by = FeatureTable(table.keys, (*table.names, "hidden"), matrix)
    scores = logging_scores(settings, ranked_by, queries, mean, streams["policy"])
    new = _new(queries, new_items, rng)
    scores = np.where(new, NOT_A_CANDIDATE, scores)
    log = show_pages(settings, table, queries, scores, relevance, streams)
    if new.any():  # what is new is known to those who compare rankers
        keys = table.keys.append_column("new_item", pa.array(new))
        table = FeatureTable(keys, table.names, table.matrix)
    return replace(world, features=table, relevance=relevance, prior=changed, log=log)


def _new(queries: QueryGroups, share: float, rng: np.random.Generator) -> np.ndarray:
    """(pairs,) whether an item is new, for a share of the items of each query, rounded."""
    new = np.zeros(len(queries.rows), bool)
    for first, size in zip(queries.starts[:-1], queries.sizes, strict=True):
        chosen = rng.choice(size, size=round(share * size), replace=False)
        new[queries.rows[first + chosen]] = True
    return new
