"""One world of a family: its truth, the counts to learn from, and those held back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
import pyarrow as pa

from epiclick.beta import Beta
from epiclick.calibration.families import UNSEEN, Family
from epiclick.click_models.base import ClickModel, given_contexts
from epiclick.click_models.pages import contexts_of_clicks
from epiclick.data.counts import ClickCounts
from epiclick.simulate.clicks import USERS
from epiclick.simulate.world import World, simulate

ONE_BETA = (1.5, 4.0)
"""Alpha and beta of all pairs in worlds without features."""

DAYS = 10
DAILY_CONFIDENCE = 5.0
"""Relevance of an item on one day is a Beta of this confidence around the item's mean."""


@dataclass(frozen=True, eq=False)
class Case:
    """What a method is given, and what it is judged by.

    Attributes:
        family: where the world is from.
        seed: of the world, and of all that is drawn in judging a method in it.
        world: the truth.
        train: counts to learn from.
        unseen: counts of the queries held back.
    """

    family: Family
    seed: int
    world: World
    train: ClickCounts
    unseen: ClickCounts

    def rows(self, counts: ClickCounts) -> np.ndarray:
        """(pairs,) row of each pair of counts in the world's tables."""
        return counts.query_id.to_numpy() * self.family.docs + counts.doc_id.to_numpy()


def world_seed(family: Family, seed: int, index: int) -> int:
    """Seed of one world: the same whatever other families or worlds there are."""
    words = [seed, crc32(family.name.encode()), index]
    return int(np.random.SeedSequence(words).generate_state(1)[0])


def make_case(family: Family, seed: int, index: int) -> Case:
    """The world number `index` of a family under a seed."""
    own = world_seed(family, seed, index)
    world = simulate(
        queries=family.queries,
        docs=family.docs,
        features=family.features,
        pages=family.pages,
        theta=family.theta,
        relevance=family.relevance,
        users=family.users,
        policy_strength=family.policy_strength,
        seed=own,
    )
    if family.change is not None:
        world = CHANGES[family.change](world, np.random.default_rng([own, 1]))
    counts = world.counts(click_model=family.click_model)
    if not family.with_features:
        counts = replace(counts, features=None, feature_row=None)
    train, unseen = counts.split(1 - UNSEEN, UNSEEN, by="query", seed=own)
    return Case(family, own, world, train, unseen)


def one_beta(world: World, rng: np.random.Generator) -> World:
    """Relevance of all pairs from a single Beta, which a model without features can know.

    Pages stay as they were: rankings depend on features that say nothing of relevance.
    """
    prior = Beta(*(np.full(len(world.features), value) for value in ONE_BETA))
    relevance = rng.beta(prior.alpha, prior.beta)
    changed = replace(world, relevance=relevance, prior=prior)
    return _clicked_again(changed, relevance[display_rows(world)], rng)


def daily(world: World, rng: np.random.Generator) -> World:
    """Relevance that changes from day to day around each item's own: news, prices, stock."""
    mean = np.clip(world.relevance, 1e-6, 1 - 1e-6)[:, None]
    by_day = rng.beta(
        mean * DAILY_CONFIDENCE, (1 - mean) * DAILY_CONFIDENCE, (len(mean), DAYS)
    )  # (pairs, days)
    day = world.log["page_id"].to_numpy() * DAYS // world.pages
    return _clicked_again(world, by_day[display_rows(world), day], rng)


CHANGES: Mapping[str, Callable[[World, np.random.Generator], World]] = {
    "one beta": one_beta,
    "daily": daily,
}


def display_rows(world: World) -> np.ndarray:
    """(displays,) row of each display's pair; synthetic pairs stand by query, then document."""
    docs = world.settings.docs
    assert docs is not None
    return world.log["query_id"].to_numpy() * docs + world.log["doc_id"].to_numpy()


def display_probability(world: World) -> np.ndarray:
    """(displays,) true probability of a click on each display of the log, given its page.

    For users of a click model given the clicks above it, too; for personal users that of the mean
    user.
    """
    users, relevance = USERS[world.settings.users], world.relevance[display_rows(world)]
    if users.click_model is None:
        return users.probability(_pages(world, relevance), world.position_bias).ravel()
    contexts, emission = users.click_model.world(world.position_bias)
    context = display_contexts(world, users.click_model, contexts)
    return emission.at(context).click_probability(relevance)


def display_contexts(world: World, model: ClickModel, contexts: pa.Table) -> np.ndarray:
    """(displays,) context of each display of the log among those of a click model."""
    given, _ = given_contexts(contexts, model.history)
    place = {position: slot for slot, position in enumerate(given["position"].to_pylist())}
    clicks = _pages(world, world.log["click"].to_numpy())
    slots = np.array([place[k + 1] for k in range(clicks.shape[1])])
    all_slots = np.broadcast_to(slots, clicks.shape)
    return contexts_of_clicks(model.states(contexts), all_slots, clicks).ravel()


def _clicked_again(world: World, relevance: np.ndarray, rng: np.random.Generator) -> World:
    """The same pages with new clicks, the relevance of each display (displays,) being given."""
    users = USERS[world.settings.users]
    assert not users.has_taste
    clicks = users.draw(_pages(world, relevance), world.position_bias, rng)
    place = world.log.column_names.index("click")
    column = pa.array(clicks.ravel().astype(np.int8))
    return replace(world, log=world.log.set_column(place, "click", column))


def _pages(world: World, values: np.ndarray) -> np.ndarray:
    """(pages, positions) of values of displays, (displays,): all pages of a family are full."""
    return values.reshape(-1, len(world.position_bias))
