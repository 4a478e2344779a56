"""Tables of a fitted model: position bias, relevance of items, and rankings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import TypeAlias, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import scipy

from epiclick.arguments import BiasKind, check_choice, is_number, shown
from epiclick.beta import Beta
from epiclick.click_models.click_model import CONVERSION, SATISFACTION
from epiclick.data.features import FeatureTable
from epiclick.errors import InputError
from epiclick.fitted.affine_table import affine_table, emission_of, lines_of
from epiclick.fitted.parameters import (
    Parameters,
    bent,
    parameter_draws,
    position_betas,
    without_uncertainty,
)
from epiclick.fitted.prediction import floor_by, mean_emission, networks_of, relevance_of_rows
from epiclick.fitted.state import FittedModel, Items, given_of
from epiclick.relevance.average import beta_columns
from epiclick.relevance.network import Layers

RATIO_DRAWS = 100_000
AVERAGE_DRAWS = 10_000
NODES = 64  # Gauss-Hermite

BIAS_COLUMNS = ("mean", "low", "high", "relative", "relative_low", "relative_high")

Intervals: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""mean, low, high, relative_low, relative_high, (contexts,) each."""


def click_table(fitted: FittedModel, level: float, kind: BiasKind | None = None) -> pd.DataFrame:
    """Context columns, mean, low, high, and the same relative to the anchor (or the first context).

    A bias at its bound (see `diagnostics.contraction`) has no interval: its ends are NaN. Where
    unattractive items are clicked too, these columns are of the slope of a click in relevance (see
    `fitted.affine_table`), and further ones follow.

    Args:
        fitted: the model.
        level: probability of the intervals.
        kind: "robust": from the differences between queries, or other clusters, valid even if
            clicks do not follow the model. "bayes": assumes that they do. "evidential": the Betas
            that the paper's estimators learn. Default: the first of these that the model has.
    """
    if fitted.clicks.has_latent_state and not len(fitted.clicks.free(len(fitted.contexts), None)):
        return _reading_table(fitted, level)
    if fitted.clicks.is_affine:
        own = _resolve(fitted, kind)
        return affine_table(fitted, _parameter_draws(fitted, own), level)
    return attractive_table(fitted, level, kind)


def attractive_table(
    fitted: FittedModel, level: float, kind: BiasKind | None = None
) -> pd.DataFrame:
    """The first columns of `click_table`, of the probability of a click on attractive items."""
    mean, *ends = INTERVALS[_resolve(fitted, kind)](fitted, level)
    low, high, relative_low, relative_high = (_unless_at_bound(fitted, each) for each in ends)
    table = fitted.contexts.to_pandas()
    table["mean"], table["low"], table["high"] = mean, low, high
    table["relative"] = mean / mean[fitted.anchor or 0]
    table["relative_low"], table["relative_high"] = relative_low, relative_high
    return table


def position_bias_table(
    fitted: FittedModel, level: float, kind: BiasKind | None = None
) -> pd.DataFrame:
    """The same by given context: probability of examination on the pages of the log.

    Where it depends on the history of a page, it is averaged over the displays of the training log.
    """
    if fitted.clicks.has_latent_state:
        return _reading_table(fitted, level)
    own = click_table(fitted, level, kind)
    if not fitted.clicks.history:
        return own[[*fitted.contexts.column_names, *BIAS_COLUMNS]]
    contexts, share = _given_shares(fitted)
    mean, first = share @ own["mean"].to_numpy(), given_of(fitted)[1][fitted.anchor or 0]
    drawn = _draws(fitted, _resolve(fitted, kind)) @ share.T  # (draws, given)
    ends = relative = np.full((2, len(mean)), np.nan)
    if len(drawn) > 1:
        ends, relative = (
            np.quantile(each, _tails(level), axis=0) for each in (drawn, drawn / drawn[:, [first]])
        )
    table = contexts.to_pandas()
    table["mean"], table["low"], table["high"] = mean, *ends
    table["relative"] = mean / mean[first]
    table["relative_low"], table["relative_high"] = relative
    return table


def _given_shares(fitted: FittedModel) -> tuple[pa.Table, np.ndarray]:
    """The given contexts, and (given, contexts) the share of each context in their displays."""
    contexts, index = given_of(fitted)
    displays = np.array(fitted.training.checks["by_context"]["displays"], float)
    share = np.where(index == np.arange(len(contexts))[:, None], displays, 0)  # (given, contexts)
    unshown = share.sum(axis=1) == 0
    share[unshown] = (index == np.arange(len(contexts))[:, None])[unshown]
    return contexts, share / share.sum(axis=1, keepdims=True)


def relative_bias_draws(fitted: FittedModel, kind: BiasKind | None = None) -> np.ndarray:
    """(draws, given contexts) of `relative` in `position_bias_table`; NaN at its bound.

    A single draw for a point estimate.
    """
    if fitted.clicks.has_latent_state:
        drawn = np.array(fitted.training.checks["reading"]["draws"])
        first = fitted.anchor or 0
    elif fitted.clicks.is_affine:
        emission = emission_of(fitted, _parameter_draws(fitted, _resolve(fitted, kind)))
        return lines_of(emission, fitted.anchor or 0)[0]
    else:
        drawn, first = _draws(fitted, _resolve(fitted, kind)), fitted.anchor or 0
        if fitted.clicks.history:
            drawn, first = drawn @ _given_shares(fitted)[1].T, given_of(fitted)[1][first]
    relative: np.ndarray = drawn / drawn[:, [first]]
    if not fitted.clicks.history:
        relative[:, stored_at_bound(fitted)] = np.nan
    return relative


def _reading_table(fitted: FittedModel, level: float) -> pd.DataFrame:
    """Probability that users read as far as each given context, on the pages of the log."""
    drawn = np.array(fitted.training.checks["reading"]["draws"])  # (draws, given)
    low, high = np.quantile(drawn, _tails(level), axis=0)
    table = fitted.contexts.to_pandas()
    first = drawn[:, [fitted.anchor or 0]]
    table["mean"], table["low"], table["high"] = drawn.mean(axis=0), low, high
    table["relative"] = table["mean"] / table["mean"].iloc[fitted.anchor or 0]
    table["relative_low"], table["relative_high"] = np.quantile(
        drawn / first, _tails(level), axis=0
    )
    return table


def _draws(fitted: FittedModel, kind: BiasKind | None) -> np.ndarray:
    """(draws, contexts) of the click model's probabilities; a single draw for a point estimate."""
    rng = np.random.default_rng(0)
    betas = fitted.parameters.position.betas(np)
    if betas is not None:
        return Beta(*betas).sample(rng, AVERAGE_DRAWS)
    if kind is None:
        return INTERVALS[kind](fitted, 0.5)[0][None]
    return scipy.special.expit(_parameter_draws(fitted, kind)[:, : len(fitted.contexts)])


def _parameter_draws(fitted: FittedModel, kind: BiasKind | None) -> np.ndarray:
    """(draws, parameters) of the click model; infinite at the anchor, one draw for a point."""
    if kind is None:
        return np.asarray(fitted.parameters.position.points.logit, float)[None]
    samples = posterior_samples(fitted) if INTERVALS[kind] is _bayes else None
    if samples is not None:
        return samples
    rng = np.random.default_rng(0)
    centre, spread, freedom = _logits(fitted, kind)
    free = np.flatnonzero(np.isfinite(centre))
    if not len(free):  # all are known
        return np.tile(centre, (2, 1))
    away = rng.multivariate_normal(
        np.zeros(len(free)), spread[np.ix_(free, free)], AVERAGE_DRAWS, method="eigh"
    )
    if np.isfinite(freedom):  # Student's t, between the members of an ensemble
        away *= np.sqrt(freedom / rng.chisquare(freedom, (AVERAGE_DRAWS, 1)))
    drawn = np.tile(centre, (AVERAGE_DRAWS, 1))
    drawn[:, free] = centre[free] + away
    if fitted.posterior is not None:
        contexts = len(fitted.contexts)
        drawn[:, free] = bent(
            fitted.posterior, drawn[:, free], fitted.clicks, contexts, fitted.anchor
        )
    return drawn


def _no_intervals(fitted: FittedModel, level: float) -> Intervals:
    """A point estimate without intervals."""
    mean = fitted.parameters.position.emission(fitted.clicks, fitted.anchor, np).attractive
    nan = np.full(len(mean), np.nan)
    return mean, nan, nan, nan, nan


def _evidential(fitted: FittedModel, level: float) -> Intervals:
    """Quantiles of the Betas."""
    betas = Beta(*position_betas(fitted.parameters.position, np))
    log_theta, _ = betas.sample_logs(np.random.default_rng(0), RATIO_DRAWS)
    return betas.mean, *betas.interval(level), *_ratios(fitted, log_theta, level)


def _robust(fitted: FittedModel, level: float) -> Intervals:
    """Quantiles of a Gaussian, or of Student's t between the members of an ensemble."""
    return _gaussian(fitted, level, "robust")


def _bayes(fitted: FittedModel, level: float) -> Intervals:
    """Quantiles of draws by Markov chains, or else of a Gaussian."""
    drawn = posterior_samples(fitted)
    if drawn is None:
        return _gaussian(fitted, level, "bayes")
    drawn = drawn[:, : len(fitted.contexts)]
    theta = scipy.special.expit(drawn)
    low, high = np.quantile(theta, _tails(level), axis=0)
    relative = (low, high)
    if fitted.anchor is None:
        relative = _ratios(fitted, scipy.special.log_expit(drawn), level)
    return theta.mean(axis=0), low, high, *relative


def _gaussian(fitted: FittedModel, level: float, covariance: str) -> Intervals:
    contexts = len(fitted.contexts)
    centre, spread, freedom = _logits(fitted, covariance)
    centre, spread = centre[:contexts], spread[:contexts, :contexts]  # of attractive items
    mean, low, high = _of_logits(centre, np.sqrt(np.diag(spread)), _tails(level), freedom)
    relative = (low, high)
    if fitted.anchor is None:
        rng = np.random.default_rng(0)
        drawn = rng.multivariate_normal(centre, spread, RATIO_DRAWS, method="eigh")
        relative = _ratios(fitted, scipy.special.log_expit(drawn), level)
    return mean, low, high, *relative


INTERVALS: Mapping[BiasKind | None, Callable[[FittedModel, float], Intervals]] = {
    "robust": _robust,
    "bayes": _bayes,
    "evidential": _evidential,
    None: _no_intervals,
}


def stored_at_bound(fitted: FittedModel) -> list[int]:
    """Contexts whose bias is at its bound, that of the anchor, according to the checks of the fit.

    Empty for a model that was saved before this check existed.
    """
    return [each["index"] for each in fitted.training.checks.get("at_bound", ())]


def posterior_samples(fitted: FittedModel) -> np.ndarray | None:
    """(samples, parameters) of the click model by Markov chains, inf at the anchor; or None.

    For models of examination they are logits of position bias.
    """
    if fitted.posterior is None or fitted.posterior.samples is None:
        return None
    samples = fitted.posterior.samples
    free = fitted.clicks.free(len(fitted.contexts), fitted.anchor)
    logits = np.full((len(samples), fitted.clicks.size(len(fitted.contexts))), np.inf)
    logits[:, free] = samples[:, : len(free)]
    return logits


def _resolve(fitted: FittedModel, kind: BiasKind | None) -> BiasKind | None:
    """The requested kind, or the default; None for a point estimate without intervals."""
    has: dict[str, bool] = {
        "robust": fitted.posterior is not None or len(fitted.members) > 1,
        "bayes": fitted.posterior is not None,
        "evidential": not fitted.parameters.position.is_point,
    }
    if has["evidential"]:
        has["robust"] = False  # its members have Betas, not points
    known = [name for name in get_args(BiasKind) if has[name]]
    if kind is None:
        return known[0] if known else None
    check_choice("kind of position bias", kind, get_args(BiasKind))
    if not has[kind]:
        raise InputError(
            f"this model has no {kind} intervals of position bias"
            + (f"; it has {', '.join(known)}" if known else ", only a point estimate"),
            code="no-intervals",
        )
    return kind


def _logits(fitted: FittedModel, covariance: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Parameters (parameters,), their covariance, and its degrees of freedom.

    Those of the contexts come first, logits of position bias. Known logits, such as the anchor's,
    are infinite, without variance. For an ensemble of points it is the covariance between the
    members.
    """
    size = fitted.clicks.size(len(fitted.contexts))
    free = fitted.clicks.free(len(fitted.contexts), fitted.anchor)
    centre, spread = np.full(size, np.inf), np.zeros((size, size))
    centre[: len(fitted.contexts)][mean_emission(fitted).attractive == 0] = -np.inf
    if fitted.posterior is not None:
        own = getattr(fitted.posterior, covariance)[: len(free), : len(free)]
        mode, freedom = fitted.posterior.mean[: len(free)], np.inf
    else:
        each = np.array([np.asarray(m.position[0], float)[free] for m in fitted.members])
        own = np.cov(each, rowvar=False).reshape(len(free), len(free))
        mode, freedom = np.asarray(fitted.parameters.position[0])[free], len(each) - 1.0
    centre[free], spread[np.ix_(free, free)] = mode, own
    return centre, spread, freedom


def _of_logits(
    centre: np.ndarray, sd: np.ndarray, ends: np.ndarray, freedom: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and quantiles, (contexts,), of probabilities with Gaussian or Student's t logits."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    mean = _expit(centre[:, None] + sd[:, None] * nodes) @ (weights / weights.sum())
    low, high = _expit(centre + sd * _quantiles(ends, freedom)[:, None])
    return np.where(np.isinf(centre), centre > 0, mean), low, high


def _expit(logit: np.ndarray) -> np.ndarray:
    """The probability; without scipy, whose import takes longer than all of `position_bias`."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-logit))


def _quantiles(ends: np.ndarray, freedom: float) -> np.ndarray:
    """Quantiles of Student's t, which is a Gaussian if degrees of freedom are infinite."""
    if np.isfinite(freedom):
        return scipy.special.stdtrit(freedom, ends)
    low, _ = ends  # the upper one may round to 1
    half = -NormalDist().inv_cdf(low)
    return np.array([-half, half])


def _unless_at_bound(fitted: FittedModel, ends: np.ndarray) -> np.ndarray:
    kept = np.array(ends, float)
    kept[stored_at_bound(fitted)] = np.nan
    return kept


def _ratios(
    fitted: FittedModel, log_theta: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Central interval of theta_k relative to the anchor (or the first context), from draws."""
    first = log_theta[:, [fitted.anchor or 0]]  # (draws, 1)
    low, high = np.quantile(np.exp(log_theta - first), _tails(level), axis=0)
    return low, high


def _tails(level: float) -> np.ndarray:
    """Quantile levels of the ends of a central interval."""
    return np.array([(1 - level) / 2, (1 + level) / 2])


def relevance_frames(
    fitted: FittedModel,
    features: FeatureTable,
    level: float,
    *,
    above: float | None = None,
    draws: Sequence[Parameters] | None = None,
) -> Iterator[pd.DataFrame]:
    """query_id, doc_id, mean, low, high, alpha, beta of the features' rows, chunk by chunk.

    Mean, low and high are of the average over draws of the parameters; alpha and beta are of the
    Beta with its mean and variance. For a pointwise model low and high are quantiles over its
    members, linearly interpolated, and alpha and beta are NaN. With `above` a column `prob_above`
    is added, the probability of a relevance above it. `draws` default to `parameter_draws`.
    """
    check_above(above)
    if fitted.features is None:
        raise InputError(
            "the model was trained without features, so it cannot predict from them; ask for the "
            "items of its log, or give clicks",
            code="trained-without-features",
        )
    draws = draws or parameter_draws(fitted)
    networks, floor, start = networks_of(draws), floor_by(fitted, draws), 0
    features.refuse_open()
    rows = np.arange(len(features))
    after_click = {
        name: relevance_of_rows(model, layers, features, rows)
        for name, (model, layers) in _networks_after_click(fitted, draws).items()
    }
    for first, second in relevance_of_rows(fitted, networks, features, rows):
        keys = features.keys.slice(start, first.shape[1])
        start += len(keys)
        columns = fitted.relevance_head.columns(first, second, level, above, floor)
        for name, betas in after_click.items():
            own = fitted.relevance_head.columns(*next(betas), level)
            columns |= outcome_columns(name, own["mean"], own["low"], own["high"])
        yield frame_of(keys["query_id"], keys["doc_id"], columns)


def relevance_of_array(
    fitted: FittedModel, matrix: np.ndarray, level: float, *, above: float | None = None
) -> pd.DataFrame:
    """The same columns without ids, for features (items, features) in the order of the model's."""
    spec = fitted.features
    if spec is not None and spec.encoding is not None:
        raise InputError(
            "the model was trained with categories or missing values, which an array cannot name; "
            f"give a table with the columns {', '.join(spec.columns)}",
            code="array-without-names",
        )
    names = () if spec is None else spec.names
    is_matrix = matrix.ndim == 2 and matrix.dtype.kind in "fiub" and len(matrix) > 0
    if not is_matrix or (names and len(names) != matrix.shape[1]):
        raise InputError(
            f"features must be an array of numbers (items, {len(names)}), in the order of "
            f"feature_names_in_, not of shape {matrix.shape} and type {matrix.dtype}",
            code="wrong-feature-count",
        )
    if names and not np.isfinite(matrix).all():
        item, feature = np.argwhere(~np.isfinite(matrix))[0]
        raise InputError(
            f"{np.sum(~np.isfinite(matrix)):,} values of the array are missing or infinite, first "
            f"item {item}, feature {names[feature]}; fill them, or fit with "
            "missing_values='impute' and give a table",
            code="feature-not-finite",
        )
    number = np.arange(len(matrix))
    keys = pa.table({"query_id": np.zeros_like(number), "doc_id": number})
    table = FeatureTable(keys, names, matrix.astype(np.float32))
    frames = list(relevance_frames(fitted, table, level, above=above))
    return pd.concat(frames, ignore_index=True).drop(columns=["query_id", "doc_id"])


def _networks_after_click(
    fitted: FittedModel, draws: Sequence[Parameters]
) -> dict[str, tuple[FittedModel, list[Layers]]]:
    """Outcomes of a click that a model has: the model and networks of each."""
    found: dict[str, tuple[FittedModel, list[Layers]]] = {}
    if fitted.parameters.satisfaction:
        found[SATISFACTION.name] = (fitted, [draw.satisfaction for draw in draws])
    if fitted.conversion is not None:
        drawn = parameter_draws(fitted.conversion)
        found[CONVERSION.name] = (fitted.conversion, networks_of(drawn))
    return found


def outcome_columns(
    name: str, mean: np.ndarray, low: np.ndarray, high: np.ndarray
) -> dict[str, np.ndarray]:
    """Columns of the probability of an outcome of a click, such as satisfaction."""
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


def item_frame(
    items: Items,
    *,
    above: float | None = None,
    level: float = 0.9,
    conversion: Items | None = None,
) -> pd.DataFrame:
    """The same columns for the items of the training log, given their clicks there.

    `conversion` has the probability of a conversion after a click on each. Satisfaction has the
    interval of `level` of the Beta with its mean and variance.
    """
    check_above(above)
    betas = Beta(items.alpha, items.beta)
    share = None if above is None else scipy.special.betaincc(items.alpha, items.beta, above)
    columns = beta_columns(betas, betas.mean, items.low, items.high, share)
    if items.satisfied is not None:
        satisfied = Beta(*items.satisfied.T)
        columns |= outcome_columns(SATISFACTION.name, satisfied.mean, *satisfied.interval(level))
    if conversion is not None:
        mean = Beta(conversion.alpha, conversion.beta).mean
        columns |= outcome_columns(CONVERSION.name, mean, conversion.low, conversion.high)
    return frame_of(items.query_id, items.doc_id, columns)


def frame_of(
    query_id: pa.Array | pa.ChunkedArray,
    doc_id: pa.Array | pa.ChunkedArray,
    columns: dict[str, np.ndarray],
) -> pd.DataFrame:
    """A table of items, their ids first."""
    return pd.DataFrame(
        {"query_id": query_id.to_pandas(), "doc_id": doc_id.to_pandas(), **columns}, copy=False
    )


def check_above(above: float | None) -> None:
    """Require a threshold strictly between 0 and 1."""
    if above is not None and not (is_number(above) and 0 < above < 1):
        raise InputError(
            "above must lie strictly between 0 and 1, as relevance does, got "
            f"{shown(above)}; such as 0.3",
            code="threshold-out-of-range",
        )


Score = Callable[[pd.DataFrame, np.random.Generator], np.ndarray]
"""From a table of items, as `relevance` returns it, to their scores, (items,)."""


def ranked(items: pd.DataFrame, how: str, rng: np.random.Generator) -> pd.DataFrame:
    """query_id, doc_id, position (1 is best) and score; ties are in the order of doc_id."""
    table = items[["query_id", "doc_id"]].assign(score=SCORES[how](items, rng))
    table = table.sort_values(
        ["query_id", "score", "doc_id"], ascending=[True, False, True], ignore_index=True
    )
    table.insert(2, "position", table.groupby("query_id").cumcount() + 1)
    return table


def draws_to_rank_by(
    fitted: FittedModel, how: str, rng: np.random.Generator
) -> Sequence[Parameters]:
    """The draws to average over; a single one for "thompson"."""
    if how != "mean" and not (fitted.relevance_head.has_uncertainty or fitted.members):
        raise InputError(
            f"how={how!r} needs the uncertainty of relevance, and a pointwise model has only point "
            "estimates; rank by how='mean', fit it with members=5, or fit an EpistemicPBM",
            code="no-uncertainty",
        )
    if how != "thompson":
        return parameter_draws(fitted)
    if fitted.members:  # whose position bias may be Betas
        member = fitted.members[int(rng.integers(len(fitted.members)))]
        fitted = without_uncertainty(replace(fitted, parameters=member))
    return parameter_draws(fitted, 1, seed=int(rng.integers(2**31)))


def _thompson(items: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """A draw of each relevance; for a pointwise model the draw of a member is enough."""
    alpha, beta = items["alpha"].to_numpy(), items["beta"].to_numpy()
    if np.all(np.isnan(alpha)):
        return items["mean"].to_numpy()
    return Beta(alpha, beta).sample(rng)


SCORES: Mapping[str, Score] = {
    "mean": lambda items, _: items["mean"].to_numpy(),
    "lower": lambda items, _: items["low"].to_numpy(),
    "upper": lambda items, _: items["high"].to_numpy(),
    "thompson": _thompson,
}
