r"""What changed between two models, such as last week's and today's: position bias and relevance.

A difference d of two estimates with standard errors s and t has the standard error

.. math:: \sqrt{s^2 + t^2 - 2 \rho s t}, \qquad \rho = \frac{m}{\sqrt{n n'}},

where m of the n and n' displays of both logs are the same ones. The correlation is that of means of
samples that share m observations, and of other estimates that are sums over displays when samples
are large. For logs without common displays it is 0: clicks are then assumed to be independent given
position bias and relevance. If the same users are in both logs, estimates are correlated further,
and true standard errors are smaller. Intervals and p-values are those of a Gaussian.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import scipy

from epiclick.api import BaseModel
from epiclick.arguments import BiasKind, check_level, check_path, is_number, shown
from epiclick.beta import Beta
from epiclick.data.arrays import locate_rows
from epiclick.data.feature_encoding import FeatureEncoding
from epiclick.data.features import FeatureTable, read_features
from epiclick.data.writing import written_aside
from epiclick.errors import InputError
from epiclick.fitted.parameters import parameter_draws
from epiclick.fitted.prediction import floor_by, networks_of, relevance_of_rows
from epiclick.fitted.state import FittedModel, given_of
from epiclick.fitted.tables import position_bias_table, relative_bias_draws, relevance_frames
from epiclick.relevance.reported import reported

DRAWS = 200
"""Draws of the parameters from which standard errors of predicted relevance come."""

FALSE_DISCOVERIES = 0.05
"""Items are said to have changed if this share of them, or less, is expected to be false."""

NUMBERS = ("new", "old", "difference", "low", "high", "standard_error", "p_value", "q_value")


@dataclass(frozen=True, eq=False)
class Drift:
    """Differences between two models.

    Attributes:
        position_bias: a row per context of both models: its columns, then those of `NUMBERS`, of
            position bias relative to the anchor (or the first context).
        items: a row per item of both models: query_id, doc_id, then those of `NUMBERS`, of
            relevance; None if no relevance was compared.
        p_value: probability of differences of position bias as large in all contexts together, if
            there is no change; NaN if there are no intervals.
        level: probability of the intervals.
        assumption: what the standard errors assume, as a sentence.
        notes: what could not be compared.
    """

    position_bias: pd.DataFrame
    items: pd.DataFrame | None
    p_value: float
    level: float
    assumption: str
    notes: tuple[str, ...] = ()

    @property
    def changed_items(self) -> pd.DataFrame:
        """Items whose relevance changed, at a false discovery rate of 5 %, most certain first."""
        if self.items is None:
            return pd.DataFrame(columns=["query_id", "doc_id", *NUMBERS])
        changed = self.items[self.items["q_value"] <= FALSE_DISCOVERIES]
        return changed.sort_values("p_value", kind="stable", ignore_index=True)

    def to_table(self) -> pa.Table:
        """All differences as one table: quantity, contexts, query_id, doc_id, `NUMBERS`."""
        tables = []
        for quantity, frame in (("position_bias", self.position_bias), ("relevance", self.items)):
            if frame is not None:
                own = pa.Table.from_pandas(frame, preserve_index=False)
                own = own.replace_schema_metadata(None)
                names = pa.array([quantity] * len(own), pa.string())
                tables.append(own.add_column(0, "quantity", names))
        whole = pa.concat_tables(tables, promote_options="permissive")
        keys = [name for name in whole.column_names if name not in NUMBERS]
        return whole.select([*keys, *NUMBERS])

    def to_parquet(self, path: str | Path) -> None:
        """Write `to_table` to a Parquet file."""
        with written_aside(check_path("path", path)) as aside:
            pq.write_table(self.to_table(), aside, compression="zstd")


def drift(
    new: BaseModel,
    old: BaseModel,
    features: Any = None,
    *,
    overlap: float = 0.0,
    level: float | None = None,
    kind: BiasKind | None = None,
) -> Drift:
    """Differences of position bias and relevance between two models, with intervals and p-values.

    Relevance is that of the items of both logs for models without features, and otherwise what
    both predict for the items of `features`.

    Args:
        new: the later model.
        old: the earlier one, of the same click model and contexts.
        features: of items, as `read_features` reads them.
        overlap: share of the displays of the new log that the old one contains, too: 0 for logs of
            different days, 27/28 for windows of 28 days that end on successive ones.
        level: probability of intervals; default that of the new model.
        kind: of intervals of position bias, as in `position_bias`.
    """
    for name, model in (("new", new), ("old", old)):
        if not isinstance(model, BaseModel):
            raise InputError(
                f"{name} must be a fitted model, not {shown(model)}; load(path) reads one from a "
                "folder",
                code="not-a-model",
            )
    level = new.level if level is None else level
    check_level("level", level)
    models = new.fitted_, old.fitted_
    correlation = _correlation(*models, overlap)
    _check_alike(*models)
    bias, p_value, notes = _bias(*models, correlation, level, kind)
    items, more = _items(*models, features, correlation, level)
    return Drift(bias, items, p_value, level, _assumption(overlap), (*notes, *more))


def _correlation(new: FittedModel, old: FittedModel, overlap: float) -> float:
    """Correlation of estimates that share a part of the new model's displays."""
    if not is_number(overlap) or not 0 <= overlap <= 1:
        raise InputError(
            f"overlap must be a share from 0 to 1, not {shown(overlap)}: of the displays of the "
            "new log, how many are in the old one, too?",
            code="invalid-overlap",
        )
    shared = overlap * new.training.displays
    if shared > 1.05 * old.training.displays:  # a held-out part is not counted in either
        raise InputError(
            f"an overlap of {overlap:g} would be {shared:,.0f} displays, more than the "
            f"{old.training.displays:,} of the old model; give a smaller one",
            code="invalid-overlap",
        )
    return min(shared / np.sqrt(new.training.displays * old.training.displays), 1.0)


def _assumption(overlap: float) -> str:
    if overlap:
        return (
            f"Standard errors assume that {overlap:.1%} of the new log's displays are in the old "
            "log, too, and that clicks on the others are independent of it"
        )
    return (
        "Standard errors assume that the logs have no displays in common; for logs that overlap "
        "they are too large"
    )


def _check_alike(new: FittedModel, old: FittedModel) -> None:
    """Refuse models whose numbers do not mean the same."""
    places = [_given_anchor(model) for model in (new, old)]
    for what, one, other in (
        ("click models", new.click_model, old.click_model),
        ("contexts", _given_columns(new), _given_columns(old)),
        ("the position at which relevance is measured", *places),
    ):
        if one != other:
            raise InputError(
                f"the models differ in {what} ({one} and {other}), so that their parameters "
                "cannot be compared; fit both with the same options",
                code="models-differ",
            )
    if (new.features is None) != (old.features is None):
        raise InputError(
            "one model was fitted with features and the other without; relevance has another "
            "meaning in each. Fit both with the same options",
            code="models-differ",
        )


def _given_columns(fitted: FittedModel) -> str:
    return ", ".join(given_of(fitted)[0].column_names)


def _given_anchor(fitted: FittedModel) -> str:
    """The given context of the anchor, as text."""
    if fitted.anchor is None:
        return "none"
    contexts, index = given_of(fitted)
    row = contexts.slice(int(index[fitted.anchor]), 1).to_pylist()[0]
    return ", ".join(f"{name} {value}" for name, value in row.items())


def _bias(
    new: FittedModel, old: FittedModel, correlation: float, level: float, kind: BiasKind | None
) -> tuple[pd.DataFrame, float, list[str]]:
    """Differences of position bias in the contexts of both, and a test of all of them."""
    contexts, others = given_of(new)[0], given_of(old)[0]
    names = contexts.column_names
    place = locate_rows(*({name: t[name] for name in names} for t in (contexts, others)))
    ours = np.flatnonzero(place >= 0)
    theirs = place[ours]
    notes = []
    if missing := len(contexts) + len(others) - 2 * len(ours):
        notes.append(f"{missing:,} contexts are known to one of the models only")
    if not len(ours):
        raise InputError(
            "the models have no context in common, such as a position: do their logs have the same "
            "columns?",
            code="models-differ",
        )
    estimates = [
        position_bias_table(model, level, kind)["relative"].to_numpy()[rows]
        for model, rows in ((new, ours), (old, theirs))
    ]
    spread = [
        _covariance(relative_bias_draws(model, kind)[:, rows])
        for model, rows in ((new, ours), (old, theirs))
    ]
    errors = [np.sqrt(np.diag(each)) for each in spread]
    if all(np.isnan(each).all() for each in errors):
        notes.append("the models have point estimates of position bias only, without intervals")
    table = contexts.take(ours).to_pandas()
    columns = _compared(estimates[0], estimates[1], errors[0], errors[1], correlation, level)
    return table.assign(**columns), _joint(columns, spread[0] + spread[1]), notes


def _covariance(drawn: np.ndarray) -> np.ndarray:
    """(contexts, contexts) covariance of draws; NaN for a single one."""
    size = drawn.shape[1]
    if len(drawn) < 2:
        return np.full((size, size), np.nan)
    return np.cov(drawn, rowvar=False).reshape(size, size)


def _joint(columns: dict[str, np.ndarray], together: np.ndarray) -> float:
    """P-value of all differences, which are correlated as the sum of both covariances is."""
    error = columns["standard_error"]
    free = np.flatnonzero(np.isfinite(error) & (error > 0))
    if not len(free):
        return float("nan")
    spread = together[np.ix_(free, free)]
    scale = np.sqrt(np.diag(spread))
    values, vectors = np.linalg.eigh(spread / np.outer(scale, scale))
    along = values > 1e-8 * values.max()
    score = (columns["difference"][free] / error[free]) @ vectors[:, along]
    return float(scipy.stats.chi2.sf(np.sum(score**2 / values[along]), int(along.sum())))


def _items(
    new: FittedModel, old: FittedModel, features: Any, correlation: float, level: float
) -> tuple[pd.DataFrame | None, list[str]]:
    """Differences of relevance: of the items of both logs, or of those of the features."""
    if new.features is not None:
        if features is None:
            return None, ["relevance was not compared, which needs the features of items"]
        assert old.features is not None  # as both have features, or neither
        like = FeatureEncoding.union([new.features.how, old.features.how])
        table = read_features(features, like=like)
        table.refuse_open()
        keys = {name: table.keys[name].to_pandas() for name in ("query_id", "doc_id")}
        freedom = min(_freedom(new), _freedom(old))
        known = [_predicted(model, table) for model in (new, old)]
    else:
        if new.items is None or old.items is None:
            return None, ["relevance was not compared: a model keeps none of its items"]
        ids = [
            {name: getattr(items, name) for name in ("query_id", "doc_id")}
            for items in (new.items, old.items)
        ]
        if ids[0]["query_id"].type != ids[1]["query_id"].type:
            return None, [
                "relevance was not compared: ids are numbers in one log and text in the other"
            ]
        place = locate_rows(*ids)
        ours = np.flatnonzero(place >= 0)
        keys = {name: column.take(pa.array(ours)).to_pandas() for name, column in ids[0].items()}
        freedom = np.inf
        known = []
        for items, rows in ((new.items, ours), (old.items, place[ours])):
            own = Beta(items.alpha[rows], items.beta[rows])
            known.append((own.mean, np.sqrt(own.variance)))
    (mean, error), (before, error_before) = known
    columns = _compared(mean, before, error, error_before, correlation, level, freedom)
    return pd.DataFrame({**keys, **columns}), []


def _freedom(fitted: FittedModel) -> float:
    """Degrees of freedom of the spread of predictions: that between members of an ensemble."""
    return len(fitted.members) - 1.0 if fitted.members else np.inf


def _predicted(fitted: FittedModel, table: FeatureTable) -> tuple[np.ndarray, np.ndarray]:
    """(items,) mean of predicted relevance, and its standard error from that of the parameters."""
    means = [frame["mean"].to_numpy() for frame in relevance_frames(fitted, table, 0.9)]
    draws = parameter_draws(fitted, DRAWS)
    networks, floor, errors = networks_of(draws), floor_by(fitted, draws), []
    for alpha, beta in relevance_of_rows(fitted, networks, table, np.arange(len(table))):
        drawn = reported(alpha / (alpha + beta), floor)  # (draws, items)
        single = len(drawn) < 2
        errors.append(np.full(drawn.shape[1], np.nan) if single else drawn.std(axis=0, ddof=1))
    return np.concatenate(means), np.concatenate(errors)


def _compared(
    new: np.ndarray,
    old: np.ndarray,
    error: np.ndarray,
    error_before: np.ndarray,
    correlation: float,
    level: float,
    freedom: float = np.inf,
) -> dict[str, np.ndarray]:
    """The columns of `NUMBERS`, (rows,) each; where nothing varies there is no test."""
    difference = new - old
    variance = error**2 + error_before**2 - 2 * correlation * error * error_before
    own = np.sqrt(np.maximum(variance, 0))
    varies = own > 0
    z = np.divide(difference, own, out=np.full(len(own), np.nan), where=varies)
    far = scipy.stats.t.ppf((1 + level) / 2, freedom)
    p_value = 2 * scipy.stats.t.sf(np.abs(z), freedom)
    return {
        "new": new,
        "old": old,
        "difference": difference,
        "low": difference - far * own,
        "high": difference + far * own,
        "standard_error": own,
        "p_value": p_value,
        "q_value": _false_discoveries(p_value),
    }


def _false_discoveries(p_value: np.ndarray) -> np.ndarray:
    """Smallest false discovery rate at which each is reported (Benjamini and Hochberg)."""
    found = np.full(len(p_value), np.nan)
    known = np.flatnonzero(np.isfinite(p_value))
    if len(known):
        found[known] = scipy.stats.false_discovery_control(p_value[known])
    return found
