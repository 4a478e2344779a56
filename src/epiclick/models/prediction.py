"""Answers of a fitted model, with numpy and scipy alone."""

import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa

from epiclick.beta import Beta
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.data.matching import locate_rows
from epiclick.errors import InputError, InputWarning, Problem, did_you_mean
from epiclick.models.fitted import FittedPBM
from epiclick.models.position import BetaLookup, position_betas, position_points
from epiclick.models.relevance import exposure, relevance_betas, relevance_points

CHUNK = 131_072  # pairs at once


def bias_betas(fitted: FittedPBM) -> Beta | None:
    """The Beta of each context's bias; None where bias is a point."""
    lookup = fitted.parameters.position
    return Beta(*position_betas(lookup, np)) if isinstance(lookup, BetaLookup) else None


def mean_bias(fitted: FittedPBM) -> tuple[np.ndarray, np.ndarray]:
    """Expected bias and 1 minus it, (contexts,) each."""
    betas = bias_betas(fitted)
    if betas is not None:
        total = betas.alpha + betas.beta
        return betas.alpha / total, betas.beta / total
    assert not isinstance(fitted.parameters.position, BetaLookup)
    return position_points(fitted.parameters.position, fitted.anchor, np)


def position_bias_table(fitted: FittedPBM, level: float) -> pd.DataFrame:
    """Context columns, mean, low, high, and the same relative to the anchor (or the first)."""
    table = fitted.contexts.to_pandas()
    mean, _ = mean_bias(fitted)
    first = fitted.anchor if fitted.anchor is not None else 0
    betas = bias_betas(fitted)
    if betas is None:
        low = high = relative_low = relative_high = np.full(len(mean), np.nan)
    else:
        low, high = betas.interval(level)
        relative_low, relative_high = _ratio_interval(betas, first, level)
    table["mean"], table["low"], table["high"] = mean, low, high
    table["relative"] = mean / mean[first]
    table["relative_low"], table["relative_high"] = relative_low, relative_high
    return table


def _ratio_interval(betas: Beta, first: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Central interval of theta_k / theta_first for independent Betas, from 100,000 samples."""
    log_theta, _ = betas.sample_logs(np.random.default_rng(0), 100_000)
    ratio = np.exp(log_theta - log_theta[:, first : first + 1])
    low, high = np.quantile(ratio, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def contexts_of(fitted: FittedPBM, contexts: pa.Table, *, warn: bool = True) -> np.ndarray:
    """Index of each context among the model's; -1 for unknown ones, named in a warning."""
    names = fitted.contexts.column_names
    if contexts.column_names != names:
        raise InputError(
            f"the model knows contexts by {', '.join(names)}, but the log was counted by "
            f"{', '.join(contexts.column_names)}; count it with --context {','.join(names)}"
        )
    index = locate_rows(
        {name: contexts[name] for name in names}, {name: fitted.contexts[name] for name in names}
    )
    if warn and np.any(index < 0):
        rows = contexts.take(np.flatnonzero(index < 0)).to_pylist()
        named = "; ".join(", ".join(f"{k} {v}" for k, v in row.items()) for row in rows[:5])
        more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
        warnings.warn(
            f"the model has no position bias for {named}{more}: the mean bias of the contexts it "
            "knows is used there",
            InputWarning,
            stacklevel=3,
        )
    return index


def bias_at(fitted: FittedPBM, contexts: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Expected bias and 1 minus it in each of the given contexts, (contexts,) each."""
    theta, rest = mean_bias(fitted)
    index = contexts_of(fitted, contexts)
    unknown = index < 0
    return np.where(unknown, theta.mean(), theta[index]), np.where(
        unknown, rest.mean(), rest[index]
    )


def draw_bias(
    fitted: FittedPBM, contexts: pa.Table, samples: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Biases drawn from the model and 1 minus them, (samples, contexts); one if it has no Betas."""
    betas = bias_betas(fitted)
    if betas is None:
        theta, rest = bias_at(fitted, contexts)
        return theta[None], rest[None]
    logs = betas.sample_logs(np.random.default_rng(seed), samples)
    # a bias of 0 would have no logarithm
    drawn = (np.exp(np.maximum(part, -700.0)) for part in logs)
    index = contexts_of(fitted, contexts, warn=False)
    theta, rest = (
        np.where(index < 0, part.mean(axis=1, keepdims=True), part[:, index]) for part in drawn
    )
    return theta, rest


def columns_of(fitted: FittedPBM, features: FeatureTable) -> np.ndarray | None:
    """Columns of the features in the model's order; None if they are in it already."""
    assert fitted.features is not None
    wanted, given = fitted.features.names, features.names
    if given == wanted:
        return None
    missing = [name for name in wanted if name not in given]
    extra = [name for name in given if name not in wanted]
    if missing:
        shown = [f"'{name}'{did_you_mean(name, extra)}" for name in missing[:3]]
        problem = Problem(
            f"the model was trained on {len(wanted)} features, and of these are missing",
            len(missing),
            "feature",
            shown,
            f"The table has {len(given)} features. Give those the model was trained on, under the "
            "same names.",
        )
        raise InputError.of("features", [problem])
    if extra:
        warnings.warn(
            f"features that the model does not know are left out: {', '.join(extra[:5])}"
            + (f" and {len(extra) - 5} more" if len(extra) > 5 else ""),
            InputWarning,
            stacklevel=3,
        )
    place = {name: i for i, name in enumerate(given)}
    return np.array([place[name] for name in wanted])


def relevance_of_rows(
    fitted: FittedPBM, features: FeatureTable, rows: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """alpha and beta of chunk after chunk of feature rows; relevance and 1 - it if pointwise."""
    assert fitted.features is not None
    columns = columns_of(fitted, features)
    predict = relevance_betas if fitted.kind == "EpistemicPBM" else relevance_points
    for start in range(0, len(rows), CHUNK):
        raw = features.rows(rows[start : start + CHUNK])
        x = fitted.features.scaler.transform(raw if columns is None else raw[:, columns])
        yield predict(fitted.parameters.layers, x, np)


def relevance_of(fitted: FittedPBM, counts: ClickCounts) -> tuple[np.ndarray, np.ndarray]:
    """alpha and beta of the pairs of counts before their own clicks, (pairs,) each.

    A pointwise model gives relevance and 1 - relevance. A model without features judges by where
    the pairs were shown.
    """
    if fitted.features is None:
        return _relevance_by_exposure(fitted, counts)
    if counts.features is None or counts.feature_row is None:
        raise InputError(
            "the model was trained with features, and the log comes without; give them with "
            "--features (in Python: read_log(..., features=...))"
        )
    parts = list(relevance_of_rows(fitted, counts.features, counts.feature_row))
    first, second = (np.concatenate(part) for part in zip(*parts, strict=True))
    return first, second


def _relevance_by_exposure(fitted: FittedPBM, counts: ClickCounts) -> tuple[np.ndarray, np.ndarray]:
    known = contexts_of(fitted, counts.contexts, warn=False)
    alpha, beta = np.empty(len(counts)), np.empty(len(counts))
    for start in range(0, len(counts), CHUNK):
        pairs = np.arange(start, min(start + CHUNK, len(counts)))
        displays = np.zeros((len(pairs), len(fitted.contexts)))
        displays[:, known[known >= 0]] = counts.dense(pairs)[0][:, known >= 0]
        alpha[pairs], beta[pairs] = relevance_betas(
            fitted.parameters.layers, exposure(displays), np
        )
    return alpha, beta


def relevance_before(fitted: FittedPBM, counts: ClickCounts) -> tuple[np.ndarray, np.ndarray]:
    """alpha and beta of the pairs of counts, given the clicks of training only, (pairs,) each.

    A model without features knows the pairs of its log by their clicks there, and all others alike.
    """
    one, other = relevance_of(fitted, counts)
    if fitted.items is not None:
        row = locate_rows(
            {"query_id": counts.query_id, "doc_id": counts.doc_id},
            {"query_id": fitted.items.query_id, "doc_id": fitted.items.doc_id},
        )
        known = row >= 0
        one = np.where(known, fitted.items.alpha[row], one)
        other = np.where(known, fitted.items.beta[row], other)
    return one, other


def click_probabilities(fitted: FittedPBM, counts: ClickCounts) -> np.ndarray:
    """Probability of a click at each entry of the counts: E[theta] E[zeta]; (entries,)."""
    theta, _ = bias_at(fitted, counts.contexts)
    alpha, beta = relevance_before(fitted, counts)
    return theta[counts.context] * (alpha / (alpha + beta))[counts.pair]


def relevance_frames(
    fitted: FittedPBM, features: FeatureTable, level: float
) -> Iterator[pd.DataFrame]:
    """query_id, doc_id, mean, low, high, alpha, beta of the features' rows, chunk after chunk."""
    if fitted.features is None:
        raise InputError(
            "the model was trained without features, so it cannot predict from them; ask for the "
            "items of its log, or give clicks"
        )
    start = 0
    for first, second in relevance_of_rows(fitted, features, np.arange(len(features))):
        keys = features.keys.slice(start, len(first))
        start += len(first)
        frame = pd.DataFrame({name: keys[name].to_pandas() for name in ("query_id", "doc_id")})
        if fitted.kind == "PointwisePBM":
            nothing = np.full(len(first), np.nan)
            yield frame.assign(mean=first, low=nothing, high=nothing, alpha=nothing, beta=nothing)
        else:
            low, high = Beta(first, second).interval(level)
            mean = first / (first + second)
            yield frame.assign(mean=mean, low=low, high=high, alpha=first, beta=second)
