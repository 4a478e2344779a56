"""Families of simulated worlds in which intervals are tested, and one world of a family.

In a well-specified family the model's assumptions hold: users follow the click model that is
fitted, and relevance follows Betas that a network can learn. The others violate one
assumption each. In confounded families the ranker knew more than the features tell.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from epiclick.beta import Beta
from epiclick.calibration.hidden_signals import with_hidden_signal
from epiclick.click_models.click_model import ClickModel, given_contexts
from epiclick.click_models.recursion import contexts_of_clicks
from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError, did_you_mean
from epiclick.simulate.purchases import PURCHASE, REVENUE
from epiclick.simulate.users import USERS
from epiclick.simulate.world import World, simulate

QUERIES = 800
DOCS = 10
FEATURES = 4
PAGES = 12_000
UNSEEN = 0.2
"""Share of the queries that are held back from training."""

OWN_PRIOR_NAME = "own-prior"
"""Family of the worlds of `own_prior.py`, which are judged by ranks alone."""

ONE_BETA = (1.5, 4.0)
"""Alpha and beta of all pairs in worlds without features."""

DAYS = 10
DAILY_CONFIDENCE = 5.0
"""Relevance of an item on one day is a Beta of this confidence around the item's mean."""

HIDDEN = {"a-little-more": 0.35, "as-much-more": 1.0, "far-more": 2.0}
"""Standard deviation of what the ranker knows beyond the features, relative to theirs."""

DETERMINISTIC = 100.0
"""Policy strength at which all but near ties are always ranked alike."""

NEW_ITEMS = 0.2

STEEP = (1.0, 0.6, 0.45)
MIDDLE = (1.0, 0.8, 0.62, 0.5, 0.42)
SLOW = (1.0, 0.95, 0.9, 0.86, 0.82, 0.78, 0.75, 0.72, 0.69, 0.66)
BUMPY = (1.0, 0.7, 0.8, 0.55, 0.4, 0.45, 0.3, 0.25, 0.35, 0.2)


@dataclass(frozen=True)
class Family:
    """Worlds that differ only in their seed.

    Attributes:
        name: its name in the table.
        theta: position bias of all its worlds.
        well_specified: whether the model's assumptions hold.
        queries: number of queries.
        docs: documents per query, at least as many as positions.
        features: features per document.
        pages: pages shown.
        policy_strength: factor on the logging policy's scores.
        relevance: "beta" or "label", as in `simulate`.
        users: how users click, as in `simulate`.
        with_features: whether models are given the features.
        change: name of a change to relevance (see `CHANGES`), if any.
        click_model: name of the click model that is fitted.
        worlds: name of the family whose worlds these are, if not its own: two click models are
            then judged in the same worlds.
        conversions: whether clicks may lead to a purchase, which models are given as well.
        hidden: size of a signal that the ranker knows and the features lack, relative to theirs
            (see `hidden_signals.py`); 0 for none.
        new_items: share of a query's items that were no candidates when the log was made.
    """

    name: str
    theta: tuple[float, ...]
    well_specified: bool = True
    queries: int = QUERIES
    docs: int = DOCS
    features: int = FEATURES
    pages: int = PAGES
    policy_strength: float = 1.0
    relevance: str = "beta"
    users: str = "pbm"
    with_features: bool = True
    change: str | None = None
    click_model: str = "pbm"
    worlds: str = ""
    conversions: bool = False
    hidden: float = 0.0
    new_items: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """All settings in JSON types."""
        return {**asdict(self), "theta": list(self.theta)}


def _confounded(name: str, **settings: Any) -> Family:
    """Worlds of 25,000 pages, of which 20,000 are of queries that models are trained on."""
    size = {"queries": 1_000, "docs": 20, "pages": 25_000}
    return Family(name, MIDDLE, well_specified=False, **{**size, **settings})


_ALL = (
    Family("three-positions", STEEP),
    Family("five-positions", MIDDLE),
    Family("ten-positions-slow", SLOW, queries=500, docs=14, pages=9_000),
    Family("ten-positions-bumpy", BUMPY, queries=500, docs=14, pages=9_000),
    Family("sparse", MIDDLE, pages=4_000),
    Family("dense", MIDDLE, pages=24_000),
    Family("few-queries", MIDDLE, queries=400, features=8, pages=5_000),
    Family("weak-policy", MIDDLE, policy_strength=0.5),
    Family("strong-policy", MIDDLE, policy_strength=3.0),
    Family("first-not-always-seen", (0.8, 0.6, 0.48, 0.36, 0.3)),
    Family("without-features", MIDDLE, with_features=False, change="one beta"),
    Family("ubm", MIDDLE, users="ubm", click_model="ubm"),
    Family("ubm-ten", SLOW, queries=500, docs=14, pages=9_000, users="ubm", click_model="ubm"),
    Family(
        "ubm-without-features",
        MIDDLE,
        with_features=False,
        change="one beta",
        users="ubm",
        click_model="ubm",
    ),
    *(
        family
        for name in ("trust", "cascade", "dcm", "sdbn")
        for family in (
            Family(name, MIDDLE, users=name, click_model=name),
            Family(
                f"{name}-without-features",
                MIDDLE,
                with_features=False,
                change="one beta",
                users=name,
                click_model=name,
            ),
        )
    ),
    Family("conversions", MIDDLE, conversions=True),
    Family(
        "conversions-without-features",
        MIDDLE,
        with_features=False,
        change="one beta",
        conversions=True,
    ),
    Family("labels", MIDDLE, well_specified=False, relevance="label"),
    Family("impatient", MIDDLE, well_specified=False, users="impatient"),
    *(
        Family(f"{users}-by-pbm", MIDDLE, well_specified=False, users=users, worlds=users)
        for users in ("ubm", "trust", "cascade", "dcm", "sdbn")
    ),
    Family("personal", MIDDLE, well_specified=False, users="personal"),
    Family("overdispersed", MIDDLE, well_specified=False, change="daily"),
    Family("features-withheld", MIDDLE, well_specified=False, with_features=False),
    *(
        _confounded(f"knows-{name}{suffix}", hidden=size, **ranker)
        for suffix, ranker in (
            ("", {}),
            ("-deterministic", {"policy_strength": DETERMINISTIC}),
            ("-new-items", {"new_items": NEW_ITEMS}),
        )
        for name, size in HIDDEN.items()
    ),
)

FAMILIES: Mapping[str, Family] = {family.name: family for family in _ALL}

WELL_SPECIFIED = "well-specified"

GROUPS: Mapping[str, tuple[str, ...]] = {
    WELL_SPECIFIED: tuple(family.name for family in _ALL if family.well_specified),
    "misspecified": tuple(family.name for family in _ALL if not family.well_specified),
    "confounded": tuple(family.name for family in _ALL if family.hidden),
}
"""Names for several families."""


def find_families(names: Sequence[str] | None) -> tuple[Family, ...]:
    """The families of the given names or groups, in the table's order; all of them for None."""
    if names is None:
        return _ALL
    wanted: set[str] = set()
    for name in names:
        if name not in FAMILIES and name not in GROUPS:
            known = [*GROUPS, *FAMILIES, OWN_PRIOR_NAME]
            raise InputError(
                f"there is no family of worlds '{name}'{did_you_mean(name, known)}; "
                f"there are {', '.join(known)}",
                code="unknown-family",
            )
        wanted.update(GROUPS.get(name, (name,)))
    return tuple(family for family in _ALL if family.name in wanted)


@dataclass(frozen=True, eq=False)
class Case:
    """One world: what a method is given, and what it is judged by.

    Attributes:
        family: of the world.
        seed: of the world, and of all draws in judging a method in it.
        world: the truth.
        train: counts for training.
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
    """Seed of one world, which does not depend on other families or worlds."""
    entropy = [seed, crc32((family.worlds or family.name).encode()), index]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])


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
        conversions=family.conversions,
    )
    if family.change is not None:
        world = CHANGES[family.change](world, np.random.default_rng([own, 1]))
    if family.hidden or family.new_items:
        rng = np.random.default_rng([own, 2])
        world = with_hidden_signal(world, family.hidden, family.new_items, rng)
    columns = {"conversion": PURCHASE, "value": REVENUE} if family.conversions else {}
    counts = world.counts(click_model=family.click_model, **columns)
    if not family.with_features:
        counts = replace(counts, features=None, feature_row=None)
    train, unseen = counts.split(1 - UNSEEN, UNSEEN, by="query", seed=own)
    return Case(family, own, world, train, unseen)


def one_beta(world: World, rng: np.random.Generator) -> World:
    """Relevance of all pairs from a single Beta, which a model without features can learn.

    Conversions after clicks likewise. Pages stay as they were: rankings depend on features that
    are unrelated to relevance.
    """
    prior = Beta(*(np.full(len(world.features), value) for value in ONE_BETA))
    relevance = rng.beta(prior.alpha, prior.beta)
    satisfaction = world.satisfaction
    if satisfaction is not None:
        satisfaction = rng.beta(prior.beta, prior.alpha)
    purchases = world.purchases
    if purchases is not None:
        purchases = replace(purchases, conversion=rng.beta(prior.alpha, prior.beta))
    changed = replace(
        world, relevance=relevance, prior=prior, satisfaction=satisfaction, purchases=purchases
    )
    return _clicked_again(changed, relevance[display_rows(world)], rng)


def daily(world: World, rng: np.random.Generator) -> World:
    """Relevance that varies from day to day around each item's mean: news, prices, stock."""
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
    """(displays,) row of each display's pair; synthetic pairs are sorted by query and document."""
    docs = world.settings.docs
    assert docs is not None
    return world.log["query_id"].to_numpy() * docs + world.log["doc_id"].to_numpy()


def display_probability(world: World) -> np.ndarray:
    """(displays,) true probability of a click on each display of the log, given its page.

    For users of a click model it is conditional on the clicks above, too; for personal users it is
    that of the mean user.
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
    """The same pages with new clicks and purchases, given each display's relevance (displays,)."""
    users = USERS[world.settings.users]
    assert not users.has_taste
    more = [] if world.satisfaction is None else [world.satisfaction[display_rows(world)]]
    clicks = users.draw(
        _pages(world, relevance), world.position_bias, rng, *(_pages(world, each) for each in more)
    )
    place = world.log.column_names.index("click")
    column = pa.array(clicks.ravel().astype(np.int8))
    log = world.log.set_column(place, "click", column)
    if world.purchases is not None:
        log = log.drop_columns([PURCHASE, REVENUE])
        log = world.purchases.logged(log, display_rows(world), rng)
    return replace(world, log=log)


def _pages(world: World, values: np.ndarray) -> np.ndarray:
    """Values of displays as (pages, positions): all pages of a family are full."""
    return values.reshape(-1, len(world.position_bias))
