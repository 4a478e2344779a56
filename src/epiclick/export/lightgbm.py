r"""Training sets for a LightGBM ranker: from judgements, or from clicks weighted by propensities.

With n_k displays and c_k clicks of a pair at position k of bias theta_k relative to the anchor's,

.. math:: C = \sum_k c_k \min(1 / \theta_k, \text{clip}), \qquad N = \sum_k n_k,

a row of label 1 has weight C and a row of label 0 has weight max(N - C, 0): up to the two bounds,
any loss of the labels then has the expectation it would have if every display were examined as
often as the anchor. Rows of weight 0 are left out.

Where unattractive items are clicked too, the probability of a click is the line O_k + theta_k c in
relevance, and clicks are corrected by its offset as well (the affine correction of Vardasbi et al.
2020):

.. math:: C = \max\Big(0, \sum_k (c_k - n_k O_k) \min(1 / \theta_k, \text{clip})\Big).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.arguments import require_extra
from epiclick.data.arrays import changes
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable, read_features
from epiclick.data.writing import written_aside
from epiclick.errors import InputError, did_you_mean
from epiclick.export.judgements import certainty_weights, cut_offs, feature_vectors, grades, judge
from epiclick.fitted.prediction import contexts_of
from epiclick.fitted.state import FittedModel
from epiclick.fitted.tables import click_table

UNNAMEABLE = str.maketrans(dict.fromkeys('",:[]{}', "_"))


@dataclass(frozen=True, eq=False)
class LightGBMData:
    """The training set of a ranker; rows are sorted by (query_id, doc_id).

    Attributes:
        X: (rows, features) float32, in the order of `feature_names`.
        y: (rows,) int32; grades 0 to 4, or 1 for clicks and 0 for displays without.
        weight: (rows,) float64.
        group: (queries,) number of rows of each query.
        query_id: (rows,) int64 or string.
        doc_id: (rows,) int64 or string.
        feature_names: the model's, or the table's if the model has no features.
        how: "posterior" or "propensity".
        cuts: means that separate the grades, for "posterior".
        clip: largest weight of a click, for "propensity".
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    group: np.ndarray
    query_id: pa.Array
    doc_id: pa.Array
    feature_names: tuple[str, ...]
    how: str
    cuts: tuple[float, ...] | None = None
    clip: float | None = None

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.y)

    def dataset(self, **options: Any) -> Any:
        """A `lightgbm.Dataset`; options are its own, such as `params` or `reference`.

        LightGBM allows no `"`, `,`, `:`, brackets or braces in feature names: they become `_`.
        """
        otherwise = "use X, y, weight and group with another tool"
        require_extra("a Dataset", ["lightgbm"], "lightgbm", otherwise)
        import lightgbm

        plain = [name.translate(UNNAMEABLE) for name in self.feature_names]
        names: list[str] | str = plain if len(set(plain)) == len(plain) else "auto"
        return lightgbm.Dataset(
            self.X,
            label=self.y,
            weight=self.weight,
            group=self.group,
            **{"feature_name": names, **options},
        )

    def to_table(self) -> pa.Table:
        """query_id, doc_id, label, weight and the features, row by row.

        A feature with one of these names is prefixed with `feature_`.
        """
        columns: dict[str, Any] = {
            "query_id": self.query_id,
            "doc_id": self.doc_id,
            "label": self.y,
            "weight": self.weight,
        }
        for i, name in enumerate(self.feature_names):
            while name in columns:
                name = f"feature_{name}"
            columns[name] = self.X[:, i]
        return pa.table(columns)

    def to_parquet(self, path: str | Path) -> None:
        """Write `to_table` as one Parquet file, with `how`, `cuts` and `clip` in its metadata."""
        about = {"how": self.how, "cuts": self.cuts, "clip": self.clip}
        table = self.to_table().replace_schema_metadata({"epiclick": json.dumps(about)})
        with written_aside(path) as aside:
            pq.write_table(table, aside, compression="zstd")


METHODS = ("posterior", "propensity")

CLIP = 20.0
"""Largest weight of a click: a position bias below 1/20 of the anchor's counts as 1/20."""


@dataclass(frozen=True, eq=False)
class WeightedClicks:
    """Labels and weights, in the order of pairs, unclicked before clicked.

    Attributes:
        pair: (rows,) index of the pair in the counts.
        label: (rows,) int32, 1 for clicks and 0 for displays without.
        weight: (rows,) float64, above 0.
    """

    pair: np.ndarray
    label: np.ndarray
    weight: np.ndarray


def weighted_clicks(fitted: FittedModel, counts: ClickCounts, clip: float = CLIP) -> WeightedClicks:
    """One or two rows per pair; see the module."""
    if not clip >= 1:
        raise InputError(
            f"clip must be at least 1, the weight of a click at the anchor, not {clip}",
            code="clip-out-of-range",
        )
    inverse = np.minimum(1 / relative_bias(fitted, counts), clip)[counts.context]  # (entries,)
    clicks = counts.clicks
    if fitted.clicks.is_affine:
        clicks = clicks - counts.displays * _by_context(fitted, counts, "offset")[counts.context]
    clicked = np.maximum(np.bincount(counts.pair, clicks * inverse, len(counts)), 0)
    displays = np.bincount(counts.pair, counts.displays, len(counts))
    weight = np.stack([np.maximum(displays - clicked, 0), clicked], axis=1).ravel()
    rows = np.flatnonzero(weight > 0)
    return WeightedClicks(rows // 2, (rows % 2).astype(np.int32), weight[rows])


def relative_bias(fitted: FittedModel, counts: ClickCounts) -> np.ndarray:
    """(contexts of the counts,) bias relative to the anchor's; its mean where it is unknown."""
    return _by_context(fitted, counts, "relative")


def _by_context(fitted: FittedModel, counts: ClickCounts, column: str) -> np.ndarray:
    """(contexts of the counts,) a column of the click table; its mean where it is unknown."""
    values = click_table(fitted, level=0.9)[column].to_numpy()
    index = contexts_of(fitted, counts.contexts)
    return np.where(index < 0, values.mean(), values[index])


def lightgbm_data(
    fitted: FittedModel,
    counts: ClickCounts | None = None,
    features: Any = None,
    *,
    how: str = "posterior",
    cuts: Sequence[float] | None = None,
    clip: float | None = None,
) -> LightGBMData:
    """Labels and weights by one of two methods.

    Args:
        fitted: the model.
        counts: clicks. "posterior" judges the items in it by their own, all others by features.
        features: of the items, all of which "posterior" uses; default those of the counts.
        how: "posterior": grades of posterior means, weighted by certainty (`export.judgements`).
            "propensity": clicks, weighted by inverse position bias (`export.lightgbm`).
        cuts: four means that separate the grades; default quantiles of the means.
        clip: largest weight of a click, default 20.
    """
    if how not in METHODS:
        raise InputError(
            f"how must be one of {', '.join(METHODS)}, not {how!r}"
            f"{did_you_mean(str(how), METHODS)}",
            code="unknown-method",
        )
    table = None if features is None else read_features(features, like=fitted)
    own = None if counts is None else counts.features
    vectors = own if table is None else table
    if vectors is None:
        raise InputError(
            "a ranker is trained on features, and none were given; give a table with query_id, "
            "doc_id and a column for each (on the command line: --features)",
            code="features-needed",
        )
    if how == "posterior":
        if clip is not None:
            raise InputError(
                "clip belongs to how='propensity'; how='posterior' has no weights to clip",
                code="clip-without-propensity",
            )
        rows = _by_posterior(fitted, counts, table, cuts)
    else:
        if cuts is not None:
            raise InputError(
                "cuts belong to how='posterior'; labels of how='propensity' are clicks",
                code="cuts-without-posterior",
            )
        rows = _by_propensity(fitted, counts, CLIP if clip is None else float(clip))
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
    """What the two methods differ in, sorted by (query_id, doc_id)."""

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
) -> Rows:
    if not fitted.relevance_head.learns_from_clicks:
        raise InputError(
            "how='posterior' weights items by certainty, and a pointwise model has point "
            "estimates only; use how='propensity', or fit an EpistemicPBM",
            code="pointwise-model",
        )
    # a model without features cannot judge the items of the table
    items = judge(fitted, counts, None if fitted.features is None else features)
    chosen = cut_offs(items.mean, cuts)
    return Rows(
        items.query_id,
        items.doc_id,
        grades(items.mean, chosen),
        certainty_weights(items.mean, items.variance),
        cuts=chosen,
    )


def _by_propensity(fitted: FittedModel, counts: ClickCounts | None, clip: float) -> Rows:
    if counts is None:
        raise InputError(
            "how='propensity' weights clicks, and none were given; give counts (on the command "
            "line: --clicks)",
            code="missing-clicks",
        )
    if not len(counts):
        raise InputError(
            "there is nothing to export: the log has no displays", code="nothing-to-export"
        )
    rows = weighted_clicks(fitted, counts, clip)
    pair = pa.array(rows.pair)
    return Rows(
        counts.query_id.take(pair), counts.doc_id.take(pair), rows.label, rows.weight, clip=clip
    )
