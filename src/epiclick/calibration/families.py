"""Families of simulated worlds in which intervals are put to the test.

In a well-specified family the model's assumptions hold: users click by the click model that is
fitted, and relevance follows the Betas that a network can learn. The others break one assumption
each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from epiclick.errors import InputError, did_you_mean

QUERIES = 800
DOCS = 10
FEATURES = 4
PAGES = 12_000
UNSEEN = 0.2
"""Share of the queries that no model learns from."""

OWN_PRIOR_NAME = "own-prior"
"""Worlds of `own_worlds.py`, which are judged by ranks alone."""

STEEP = (1.0, 0.6, 0.45)
MIDDLE = (1.0, 0.8, 0.62, 0.5, 0.42)
SLOW = (1.0, 0.95, 0.9, 0.86, 0.82, 0.78, 0.75, 0.72, 0.69, 0.66)
BUMPY = (1.0, 0.7, 0.8, 0.55, 0.4, 0.45, 0.3, 0.25, 0.35, 0.2)


@dataclass(frozen=True)
class Family:
    """Worlds alike in all but their seed.

    Attributes:
        name: what the table calls it.
        theta: position bias of all its worlds.
        well_specified: whether the model's assumptions hold.
        queries: number of queries.
        docs: documents a query, at least as many as positions.
        features: features a document.
        pages: pages shown.
        policy_strength: sharpness of the logging policy.
        relevance: "beta" or "label", as in `simulate`.
        users: how users click, as in `simulate`.
        with_features: whether models are given the features.
        change: name of what is changed about relevance (see `worlds.CHANGES`), if anything.
        click_model: name of the click model that is counted for and fitted.
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

    def to_dict(self) -> dict[str, Any]:
        """All settings, as JSON can hold them."""
        return {**asdict(self), "theta": list(self.theta)}


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
    Family("labels", MIDDLE, well_specified=False, relevance="label"),
    Family("cascade", MIDDLE, well_specified=False, users="cascade"),
    Family("trust", MIDDLE, well_specified=False, users="trust"),
    Family("personal", MIDDLE, well_specified=False, users="personal"),
    Family("overdispersed", MIDDLE, well_specified=False, change="daily"),
    Family("features-withheld", MIDDLE, well_specified=False, with_features=False),
)

FAMILIES: Mapping[str, Family] = {family.name: family for family in _ALL}

WELL_SPECIFIED = "well-specified"

GROUPS: Mapping[str, tuple[str, ...]] = {
    WELL_SPECIFIED: tuple(family.name for family in _ALL if family.well_specified),
    "misspecified": tuple(family.name for family in _ALL if not family.well_specified),
}
"""Names that stand for several families."""


def find_families(names: Sequence[str] | None) -> tuple[Family, ...]:
    """The families of given names or groups, all without any, in the table's order."""
    if names is None:
        return _ALL
    wanted: set[str] = set()
    for name in names:
        if name not in FAMILIES and name not in GROUPS:
            known = [*GROUPS, *FAMILIES, OWN_PRIOR_NAME]
            raise InputError(
                f"there is no family of worlds '{name}'{did_you_mean(name, known)}; "
                f"there are {', '.join(known)}"
            )
        wanted.update(GROUPS.get(name, (name,)))
    return tuple(family for family in _ALL if family.name in wanted)
