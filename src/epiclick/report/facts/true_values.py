"""What rankers are truly worth, where that is known: in simulated worlds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from epiclick.api import BaseModel
from epiclick.comparison.compare import read_slots
from epiclick.comparison.result import Comparison
from epiclick.comparison.traffic import traffic_of
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.report.facts.truth import Truth
from epiclick.simulate.examination import has_positions_alone


def true_values(
    model: BaseModel,
    rankings: Mapping[str, Any],
    features: FeatureTable | None,
    clicks: ClickCounts | None,
    truth: Truth,
    **how: Any,
) -> dict[str, float]:
    """Expected clicks a page of each ranker by the truth; NaN where it shows items unknown to it.

    Arguments are those of `compare`; `how` holds its `depth`, `extrapolate` and `uniform`.
    """
    fitted = model.fitted_
    traffic = None if clicks is None else traffic_of(fitted, clicks)
    _, slots = read_slots(fitted, rankings, features, clicks, traffic, **how)
    if not has_positions_alone(fitted.contexts):
        return dict.fromkeys(rankings, float("nan"))
    relevance = truth.relevance_of(slots.query_id, slots.doc_id)
    chance = truth.click_chances(slots.page, slots.position, relevance)
    value = slots.weight * slots.reach * chance  # (slots,)
    sums = np.bincount(slots.ranker, value, len(rankings))
    return dict(zip(rankings, sums.tolist(), strict=True))


def words(found: Comparison, true: Mapping[str, float]) -> str:
    """True values in a sentence, and how many of the intervals hold them."""
    rows = [row for row in found.rankers.to_dict("records") if not np.isnan(true[row["name"]])]
    if not rows:
        return "Truly: not known, as the rankings show items that are not of that world."
    told = _joined([f"{true[row['name']]:.3f} for {row['name']}" for row in rows])
    inside = sum(row["low"] <= true[row["name"]] <= row["high"] for row in rows)
    held = f"; {found.level:.0%} intervals hold {inside} of {len(rows)}" * found.is_uncertain
    return f"True clicks a page: {told}{held}."


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
