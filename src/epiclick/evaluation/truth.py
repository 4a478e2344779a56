"""Coverage of a model's intervals in a simulated world, whose truth is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import special

from epiclick.data.arrays import locate_rows
from epiclick.data.checksums import reading
from epiclick.data.counts import ClickCounts
from epiclick.data.files import did_you_mean_path
from epiclick.errors import InputError
from epiclick.evaluation.coverage import is_covered
from epiclick.evaluation.item_chunks import ItemRelevance, item_chunks
from epiclick.fitted.state import FittedModel
from epiclick.fitted.tables import click_table
from epiclick.simulate.users import (
    USERS,
    examination_at,
    examination_table,
    unattractive_at,
)
from epiclick.simulate.world_files import (
    RELEVANCE,
    REMEDY,
    TRUTH,
    position_bias_of,
    read_truth_file,
    users_of_world,
    world_file,
)

FILES = (TRUTH, RELEVANCE)


@dataclass(frozen=True, eq=False)
class Truth:
    """The truth of a simulated world.

    Attributes:
        position_bias: (positions,) from position 1 on.
        keys: query_id and doc_id of the items.
        relevance: (items,) probability of a click if examined.
        users: how users click, as in `simulate`.
        worth: (items,) what a click on each leads to: probability of a `conversion`, and expected
            `value`; empty in a world without conversions.
    """

    position_bias: np.ndarray
    keys: pa.Table
    relevance: np.ndarray
    users: str = "pbm"
    worth: Mapping[str, np.ndarray] = field(default_factory=dict)

    def bias_at(self, contexts: pa.Table) -> np.ndarray:
        """(contexts,) true bias; NaN where the contexts are not those of this world.

        Where items without relevance are clicked too, how much clicks rise with relevance.
        """
        return examination_at(examination_table(self.users, self.position_bias), contexts)

    def unattractive_at(self, contexts: pa.Table) -> np.ndarray:
        """(contexts,) true probability of a click on an item without relevance; NaN likewise."""
        return unattractive_at(examination_table(self.users, self.position_bias), contexts)

    def click_chances(
        self, page: np.ndarray, position: np.ndarray, relevance: np.ndarray
    ) -> np.ndarray:
        """True marginal probability of a click at each slot of some pages.

        Positions deeper than the last of this world have the bias of that one.

        Args:
            page: (slots,) number of each slot's page: 0, 1, ...
            position: (slots,) from 1.
            relevance: (slots,) of the item.
        """
        below = max(int(position.max()) - len(self.position_bias), 0)
        theta = np.append(self.position_bias, np.repeat(self.position_bias[-1:], below))
        pages = np.zeros((int(page.max()) + 1, len(theta)))  # empty slots are never clicked
        pages[page, position - 1] = relevance
        return USERS[self.users].probability(pages, theta)[page, position - 1]

    def relevance_of(self, query_id: pa.Array, doc_id: pa.Array) -> np.ndarray:
        """(pairs,) true relevance; NaN for pairs that are not in this world."""
        return self._of_pairs(self.relevance, query_id, doc_id)

    def worth_of(self, name: str, query_id: pa.Array, doc_id: pa.Array) -> np.ndarray:
        """(pairs,) what a click leads to; NaN where this world has no such truth."""
        values = self.worth.get(name, np.full(len(self.relevance), np.nan))
        return self._of_pairs(values, query_id, doc_id)

    def _of_pairs(self, values: np.ndarray, query_id: pa.Array, doc_id: pa.Array) -> np.ndarray:
        """(pairs,) values of items (items,); NaN for pairs that are not in this world."""
        row = locate_rows(
            {"query_id": query_id, "doc_id": doc_id},
            {name: self.keys[name] for name in ("query_id", "doc_id")},
        )
        return np.where(row >= 0, values[row], np.nan)


def read_truth(folder: str | Path) -> Truth:
    """The truth in a folder that `epiclick simulate` wrote."""
    folder = Path(folder)
    missing = [name for name in FILES if not (folder / name).is_file()]
    if not folder.exists():
        near = did_you_mean_path(folder)
        raise InputError(
            f"--truth {folder} does not exist{near}. Give the folder that "
            "`epiclick simulate --out` wrote",
            code="folder-missing",
        )
    if missing:
        raise InputError(
            f"--truth {folder} is not a simulated world: it has no {' and no '.join(missing)}. "
            "Give the folder that `epiclick simulate --out` wrote",
            code="not-a-world",
        )
    truth = read_truth_file(folder)
    with world_file(folder, truth, RELEVANCE) as path:
        table = pq.read_table(path, partitioning=None)
        relevance = table["relevance"].to_numpy().astype(float)
        worth: dict[str, np.ndarray] = {}
        if "conversion" in table.column_names:
            worth["conversion"] = table["conversion"].to_numpy()
            worth["value"] = worth["conversion"] * table["value"].to_numpy()
    with reading(folder / TRUTH, REMEDY):
        bias, users = position_bias_of(truth), users_of_world(truth)
    return Truth(bias, table.select(["query_id", "doc_id"]), relevance, users, worth)


CURVE_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True)
class ItemCoverage:
    """Coverage of the intervals of items whose true relevance is known.

    Attributes:
        items: number of items.
        covered: number of intervals of the model's level that contain the truth.
        curve: level -> share of intervals of that level that contain the truth, by Betas with the
            same mean and variance; empty for an ensemble of points, which has no Betas.
        error: mean absolute error of the expected relevance.
    """

    items: int
    covered: int
    curve: tuple[tuple[float, float], ...]
    error: float


class CoverageCount:
    """Running counts over chunks of items."""

    def __init__(self, truth: Truth, scale: float, floor: float = 0.0) -> None:
        """Truth, and the line in relevance that a click at the anchor is: floor + scale zeta."""
        self.truth, self.scale, self.floor = truth, scale, floor
        self.items = self.covered = 0
        self.inside = np.zeros(len(CURVE_LEVELS), np.int64)
        self.error = 0.0
        self.has_betas = True

    @classmethod
    def of(cls, fitted: FittedModel, truth: Truth | None) -> "CoverageCount | None":
        """A count for a world's truth; None without one, or where the model's scale is free."""
        if truth is None or fitted.anchor is None:
            return None
        scale, floor = (
            float(at(fitted.contexts)[fitted.anchor])
            for at in (truth.bias_at, truth.unattractive_at)
        )
        users = USERS[truth.users].click_model
        if users is not None and users.knows_examination:
            scale, floor = 1.0, 0.0  # they read from the top, so they read the first item
        return None if np.isnan(scale) else cls(truth, scale, floor)

    def add(self, part: ItemRelevance) -> None:
        """Count the intervals of some items that contain the truth; points have no intervals."""
        if np.isnan(part.low).any():
            return
        truth = self.floor + self.scale * self.truth.relevance_of(part.query_id, part.doc_id)
        known = ~np.isnan(truth)
        truth = truth[known]
        self.items += len(truth)
        self.covered += int(is_covered(truth, part.low[known], part.high[known]).sum())
        self.error += float(np.abs(part.mean[known] - truth).sum())
        alpha, beta = part.alpha[known], part.beta[known]
        self.has_betas = self.has_betas and not np.isnan(alpha).any()
        # a central interval contains what has a cumulative probability within level / 2 of 1/2
        distance = np.abs(2 * special.betainc(alpha, beta, truth) - 1)
        self.inside += np.array([int(np.sum(distance <= level)) for level in CURVE_LEVELS])

    def found(self) -> ItemCoverage | None:
        """What was counted; None if no item's truth is known."""
        if not self.items:
            return None
        shares = zip(CURVE_LEVELS, (self.inside / self.items).tolist(), strict=True)
        curve = tuple(shares) if self.has_betas else ()
        return ItemCoverage(self.items, self.covered, curve, self.error / self.items)


LEVELS = (0.5, 0.9)
"""Probabilities of the intervals that are compared with the truth."""

MANY = 30
"""Number of values from which coverage is printed as a share."""


@dataclass(frozen=True)
class Coverage:
    """How many true values of one kind lie in their intervals.

    Attributes:
        quantity: "position_bias", relative to the reference, or "relevance".
        level: nominal coverage of the intervals.
        values: number of values.
        covered: number of values in their intervals.
    """

    quantity: str
    level: float
    values: int
    covered: int

    @property
    def share(self) -> float:
        """Share of the values in their intervals."""
        return self.covered / self.values

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        counts = {"values": self.values, "held": self.covered, "share": self.share}
        return {"quantity": self.quantity, "level": self.level, **counts}


def coverage_in_world(
    fitted: FittedModel, counts: ClickCounts, truth: Truth, levels: Sequence[float] = LEVELS
) -> tuple[Coverage, ...]:
    """Coverage of intervals of position bias, and of the relevance of a log's items.

    Relevance is estimated from the items' clicks in the log, and from features if the model has
    any.
    """
    found = [each for level in levels if (each := _bias_coverage(fitted, truth, level))]
    for level in levels:
        count = CoverageCount.of(fitted, truth)
        if count is None:
            continue
        for part in item_chunks(fitted, counts, counts.features, level):
            count.add(part)
        if items := count.found():
            found.append(Coverage("relevance", level, items.items, items.covered))
    if not found:
        raise InputError(
            "--truth: the model has no intervals, or nothing in the log comes from that world; "
            "give the world that the log comes from, and an epistemic model with an anchor",
            code="nothing-to-cover",
        )
    return tuple(found)


def _bias_coverage(fitted: FittedModel, truth: Truth, level: float) -> Coverage | None:
    """Of all contexts except the reference; None without a known truth or without intervals."""
    table = click_table(fitted, level)
    low, high = (table[f"relative_{end}"].to_numpy(float) for end in ("low", "high"))
    true = truth.bias_at(fitted.contexts)
    true = true / true[fitted.anchor or 0]
    known = ~np.isnan(true) & ~np.isnan(low) & (low < high)
    if not known.any():
        return None
    inside = is_covered(true, low, high) & known
    return Coverage("position_bias", level, int(known.sum()), int(inside.sum()))


def coverage_summary(found: Sequence[Coverage]) -> str:
    """Coverage in sentences, one per quantity."""
    sentences = []
    for quantity, called in (
        ("position_bias", "true position biases"),
        ("relevance", "true relevances"),
    ):
        of = [each for each in found if each.quantity == quantity]
        parts = [f"{each.level:.0%} intervals contain {_count(each)}" for each in of]
        if parts:
            sentences.append(f"Of {of[0].values:,} {called}, {' and '.join(parts)}.")
    return " ".join(sentences)


def _count(each: Coverage) -> str:
    """A number where values are few, a share where they are many."""
    return f"{each.covered}" if each.values < MANY else f"{each.share:.1%}"
