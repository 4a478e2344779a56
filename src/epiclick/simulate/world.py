"""A simulated world: items, their true relevance, and a click log (paper, section 6)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.arguments import check_path
from epiclick.beta import Beta
from epiclick.data.features import FeatureTable
from epiclick.errors import InputError, Problem
from epiclick.simulate import world_items
from epiclick.simulate.purchases import PURCHASE, Purchases
from epiclick.simulate.users import USERS, examination_table
from epiclick.simulate.world_settings import WorldSettings, resolve_settings

if TYPE_CHECKING:
    from epiclick.data.counts import ClickCounts

STAGES = (
    *("rankings", "relevance", "policy", "pages", "displays", "clicks", "satisfaction"),
    "conversions",
)


@dataclass(frozen=True, eq=False, repr=False)
class World:
    """The truth of a simulated world, and the click log of its users.

    Attributes:
        settings: the arguments of `simulate`.
        features: all (query, doc) pairs.
        relevance: (pairs,) zeta of each pair; with personal users its mean over users.
        position_bias: (positions,) theta.
        log: page_id, query_id, doc_id, position (from 1), click; page by page, top to bottom. With
            conversions also purchase and revenue.
        prior: the Betas that relevance was drawn from; None unless relevance="beta" and users have
            no taste of their own (the mean over users follows no Beta).
        satisfaction: (pairs,) probability that a click on the pair ends the search, for users who
            can be satisfied.
        purchases: conversions after clicks; None in a world without.
    """

    settings: WorldSettings
    features: FeatureTable
    relevance: np.ndarray
    position_bias: np.ndarray
    log: pa.Table
    prior: Beta | None = None
    satisfaction: np.ndarray | None = None
    purchases: Purchases | None = None

    def __repr__(self) -> str:
        """The size in one line."""
        own = self.settings
        return (
            f"World({own.pages:,} pages of {own.positions} positions, "
            f"{len(self.features):,} items, users={own.users!r}, seed={own.seed})"
        )

    def chances(self, rows: np.ndarray, position_bias: np.ndarray | None = None) -> np.ndarray:
        """Probability of a click on each item of pages, given by rows of `features`, (pages, K)."""
        own = self.position_bias[: rows.shape[-1]] if position_bias is None else position_bias
        more = () if self.satisfaction is None else (self.satisfaction[rows],)
        return USERS[self.settings.users].probability(self.relevance[rows], own, *more)

    @property
    def click_if_first(self) -> np.ndarray:
        """(pairs,) probability of a click if shown first: theta_1 zeta.

        Users with trust bias also click for the position itself: A_1 zeta + B_1 (1 - zeta).
        """
        return self.chances(np.arange(len(self.relevance))[:, None])[:, 0]

    @property
    def examination(self) -> pa.Table:
        """Contexts of the users' click model, and the true `theta` of each."""
        return examination_table(self.settings.users, self.position_bias)

    @property
    def pages(self) -> int:
        """Number of result pages shown."""
        return self.settings.pages

    @property
    def clicks(self) -> int:
        """Number of clicks in the log."""
        return int(pc.sum(self.log["click"]).as_py())

    @property
    def conversions(self) -> int:
        """Number of purchases in the log; 0 in a world without."""
        return 0 if self.purchases is None else int(pc.sum(self.log[PURCHASE]).as_py())

    def counts(self, **options: Any) -> "ClickCounts":
        """The log counted per (query, doc, position), with the options of `read_log`."""
        from epiclick.data.readers import read_log

        return read_log(self.log, features=self.features, **options)

    def save(self, folder: str | Path) -> None:
        """Write the world to a folder; an existing one is replaced only if `save` wrote it."""
        from epiclick.simulate.world_files import save_world

        save_world(self, check_path("folder", folder))

    @classmethod
    def load(cls, folder: str | Path) -> "World":
        """Read back what `save` wrote."""
        from epiclick.simulate.world_files import load_world

        place = check_path("folder", folder)
        if not place.is_dir():
            message = f"no folder at {place}; give one that `epiclick simulate` wrote"
            raise InputError(message, code="folder-missing")
        return load_world(place)


def simulate(
    queries: int | None = None,
    docs: int | None = None,
    features: int | None = None,
    pages: int = 40_000,
    positions: int | None = None,
    theta: Sequence[float] | None = None,
    relevance: str = "label",
    dataset: FeatureTable | str | Path | None = None,
    users: str = "pbm",
    policy_strength: float = 1.0,
    taste_sd: float = 1.0,
    seed: int = 0,
    conversions: bool = False,
) -> World:
    """Simulate clicks as the paper does; the same arguments give the same world.

    Args:
        queries: synthetic queries (default 2,000); not with a dataset.
        docs: documents per query (default 20); not with a dataset.
        features: features per document (default 20); not with a dataset.
        pages: result pages, each for a query drawn uniformly from all splits.
        positions: items per page (default: the length of theta, or 5); fewer where a query has
            fewer documents.
        theta: position bias (default 1/k).
        relevance: "label" (0.9 y/4 + 0.1) or "beta" (drawn from Betas that depend on the features).
        dataset: LETOR data: a path, or a FeatureTable with `label` and `split`.
        users: a click model, such as "pbm" or "ubm", or users who violate all of them:
            "impatient", "trust", "personal".
        policy_strength: factor on the logging policy's scores; 0 ranks uniformly at random.
        taste_sd: spread of tastes among personal users, in logits.
        seed: each stage has its own stream, so that, for example, more pages leave the items as
            they were.
        conversions: whether clicks may lead to a purchase: adds the columns purchase and revenue.
    """
    settings = resolve_settings(
        dataset=_name(dataset),
        queries=queries,
        docs=docs,
        features=features,
        theta=theta,
        positions=positions,
        pages=pages,
        relevance=relevance,
        users=users,
        policy_strength=policy_strength,
        taste_sd=taste_sd,
        seed=seed,
        conversions=conversions,
    )
    rng = random_streams(settings.seed)
    table = world_items.make_items(settings, dataset, rng["rankings"])
    zeta, prior = draw_relevance(settings, table, rng["relevance"])
    groups = world_items.QueryGroups.of(table.keys["query_id"])
    known = zeta if prior is None else prior.mean
    scores = logging_scores(settings, table, groups, known, rng["policy"])
    satisfaction = None
    if USERS[settings.users].can_be_satisfied:
        betas = world_items.beta_prior(table, rng["satisfaction"])
        # most clicks satisfy: counting what is above the last click is then visibly biased
        satisfaction = rng["satisfaction"].beta(betas.beta, betas.alpha)
    log = show_pages(settings, table, groups, scores, zeta, rng, satisfaction)
    purchases = None
    if settings.conversions:
        purchases = Purchases.draw(table, rng["conversions"])
        row = table.locate(log["query_id"].combine_chunks(), log["doc_id"].combine_chunks())
        log = purchases.logged(log, row, rng["conversions"])
    if USERS[settings.users].has_taste:
        zeta, prior = world_items.mean_over_users(zeta, settings.taste_sd), None
    theta_k = np.array(settings.theta)
    return World(settings, table, zeta, theta_k, log, prior, satisfaction, purchases)


def random_streams(seed: int) -> dict[str, np.random.Generator]:
    """An independent generator for each stage."""
    seeds = np.random.SeedSequence(seed).spawn(len(STAGES))
    return {stage: np.random.default_rng(s) for stage, s in zip(STAGES, seeds, strict=True)}


def _name(dataset: FeatureTable | str | Path | None) -> str | None:
    """Name of a dataset in the settings."""
    if dataset is None:
        return None
    return (
        "FeatureTable" if isinstance(dataset, FeatureTable) else str(check_path("dataset", dataset))
    )


def draw_relevance(
    settings: WorldSettings, table: FeatureTable, rng: np.random.Generator
) -> tuple[np.ndarray, Beta | None]:
    """(pairs,) relevance, and the Betas it was drawn from, if any."""
    if settings.relevance == "label":
        return world_items.label_relevance(table.keys["label"].to_numpy()), None
    prior = world_items.beta_prior(table, rng)
    return rng.beta(prior.alpha, prior.beta), prior


def logging_scores(
    settings: WorldSettings,
    table: FeatureTable,
    queries: world_items.QueryGroups,
    known: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """(pairs,) scores of a logging policy whose supervisor knows the given relevance (pairs,)."""
    # Imported here, as jax takes a second to import and loading a world does not need it.
    from epiclick.simulate.policy import train_policy

    training = np.flatnonzero(
        world_items.splits(table)[queries.rows[queries.starts[:-1]]] == "train"
    )
    policy = train_policy(table, known, queries, training, settings.positions, rng)
    scores = policy.scores(table)
    bad = np.flatnonzero(~np.isfinite(scores))
    if bad.size:
        examples = [f"row {row}" for row in bad[:3]]
        problem = Problem(
            "features must be finite numbers",
            bad.size,
            examples=examples,
            code="feature-not-finite",
        )
        raise InputError.of("the dataset of simulate", [problem])
    return scores


def show_pages(
    settings: WorldSettings,
    table: FeatureTable,
    queries: world_items.QueryGroups,
    scores: np.ndarray,
    relevance: np.ndarray,
    rng: dict[str, np.random.Generator],
    satisfaction: np.ndarray | None = None,
) -> pa.Table:
    """Show the logging policy's pages to users and log their clicks."""
    from epiclick.simulate.policy import sample_rankings

    users = USERS[settings.users]
    shown = sample_rankings(
        scores,
        queries,
        rng["pages"].integers(len(queries), size=settings.pages),
        settings.positions,
        rng["displays"],
        strength=settings.policy_strength,
        taste_sd=settings.taste_sd if users.has_taste else 0.0,
    )
    is_shown = shown.rows >= 0
    zeta = np.where(is_shown, relevance[shown.rows], 0)  # (pages, positions)
    if users.has_taste:
        zeta = world_items.taste_relevance(zeta, shown.taste)
    more = [] if satisfaction is None else [np.where(is_shown, satisfaction[shown.rows], 0)]
    clicks = users.draw(zeta, np.array(settings.theta), rng["clicks"], *more)
    page, place = np.nonzero(is_shown)
    items = table.keys.select(["query_id", "doc_id"]).take(pa.array(shown.rows[is_shown]))
    return pa.table(
        {
            "page_id": page,
            "query_id": items["query_id"],
            "doc_id": items["doc_id"],
            "position": (place + 1).astype(np.int32),
            "click": clicks[is_shown].astype(np.int8),
        }
    )
