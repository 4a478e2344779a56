"""From a model to a training set for a LightGBM ranker, by one of two ways."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import changes
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable, read_features
from epiclick.errors import InputError, did_you_mean
from epiclick.export.grades import certainty_weights, cut_offs, grades
from epiclick.export.judgements import judge
from epiclick.export.lightgbm_data import LightGBMData
from epiclick.export.propensity import CLIP, weighted_clicks
from epiclick.export.vectors import feature_vectors
from epiclick.models.fitted import FittedModel


def lightgbm_data(
    fitted: FittedModel,
    counts: ClickCounts | None = None,
    features: Any = None,
    *,
    how: str = "posterior",
    cuts: Sequence[float] | None = None,
    clip: float | None = None,
) -> LightGBMData:
    """Labels and weights by one of two ways, which are never mixed.

    Args:
        fitted: the model.
        counts: clicks. "posterior" judges the items in it by their own, all others by features.
        features: of the items, all of which "posterior" takes; those of the counts unless given.
        how: "posterior": grades of the posterior means, weighted by certainty (`export.grades`).
            "propensity": clicks, weighted by inverse position bias (`export.propensity`).
        cuts: four means that part the grades; quantiles of the means unless given.
        clip: largest weight of a click, 20 unless given.
    """
    if how not in WAYS:
        raise InputError(
            f"how must be one of {', '.join(WAYS)}, not {how!r}{did_you_mean(str(how), WAYS)}"
        )
    table = None if features is None else read_features(features)
    own = None if counts is None else counts.features
    vectors = own if table is None else table
    if vectors is None:
        raise InputError(
            "a ranker is trained on features, and none were given; give a table with query_id, "
            "doc_id and a column for each (on the command line: --features)"
        )
    rows = WAYS[how](fitted, counts, table, cuts, clip)
    x, names = feature_vectors(fitted, vectors, rows.query_id, rows.doc_id)
    starts = np.flatnonzero(changes(rows.query_id))
    return LightGBMData(
        X=x,
        y=rows.label,
        weight=rows.weight,
        group=np.diff(np.r_[starts, len(rows.label)]),
        query_id=rows.query_id,
        doc_id=rows.doc_id,
        feature_names=names,
        how=how,
        cuts=rows.cuts,
        clip=rows.clip,
    )


class Rows(NamedTuple):
    """What the two ways differ in, sorted by (query_id, doc_id)."""

    query_id: pa.Array
    doc_id: pa.Array
    label: np.ndarray
    weight: np.ndarray
    cuts: tuple[float, ...] | None = None
    clip: float | None = None


def _by_posterior(
    fitted: FittedModel,
    counts: ClickCounts | None,
    features: FeatureTable | None,
    cuts: Sequence[float] | None,
    clip: float | None,
) -> Rows:
    if clip is not None:
        raise InputError("clip belongs to how='propensity'; how='posterior' has no weights to clip")
    if not fitted.relevance_head.learns_from_clicks:
        raise InputError(
            "how='posterior' weighs items by how sure the model is, and a pointwise model has one "
            "number for an item; use how='propensity', or fit an EpistemicPBM"
        )
    # to a model without features, the table says nothing of relevance
    items = judge(fitted, counts, None if fitted.features is None else features)
    chosen = cut_offs(items.mean, cuts)
    return Rows(
        items.query_id,
        items.doc_id,
        grades(items.mean, chosen),
        certainty_weights(items.mean, items.variance),
        cuts=chosen,
    )


def _by_propensity(
    fitted: FittedModel,
    counts: ClickCounts | None,
    features: FeatureTable | None,
    cuts: Sequence[float] | None,
    clip: float | None,
) -> Rows:
    if cuts is not None:
        raise InputError("cuts belong to how='posterior'; labels of how='propensity' are clicks")
    if counts is None:
        raise InputError(
            "how='propensity' weighs clicks, and none were given; give counts (on the command "
            "line: --clicks)"
        )
    if not len(counts):
        raise InputError("there is nothing to export: the log holds no displays")
    largest = CLIP if clip is None else float(clip)
    rows = weighted_clicks(fitted, counts, largest)
    pair = pa.array(rows.pair)
    return Rows(
        counts.query_id.take(pair), counts.doc_id.take(pair), rows.label, rows.weight, clip=largest
    )


WAYS: Mapping[str, Callable[..., Rows]] = {
    "posterior": _by_posterior,
    "propensity": _by_propensity,
}
