"""Would another ranker get more clicks? A click model values rankers that were never shown."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from epiclick.api import BaseModel
from epiclick.arguments import is_number, is_whole, named_arguments, shown
from epiclick.comparison.item_means import ItemMeans
from epiclick.comparison.overlap import OverlapSums
from epiclick.comparison.page_layout import PageLayout
from epiclick.comparison.prepared import Prepared
from epiclick.comparison.rankings import Ranking, read_ranking
from epiclick.comparison.result import Comparison
from epiclick.comparison.shown_items import Items, items_given_clicks, items_of
from epiclick.comparison.slots import (
    ALL_MEASURES,
    OUTCOME_MEASURES,
    Slots,
    Traffic,
    slots_of,
    traffic_of,
)
from epiclick.comparison.verdict import model_checks
from epiclick.comparison.worth import WORTH, known_worth
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable, read_features
from epiclick.data.folded_features import like_queries
from epiclick.errors import InputError
from epiclick.evaluation.backtest import backtest as run_backtest
from epiclick.evaluation.truth import Truth
from epiclick.fitted.parameters import parameter_draws
from epiclick.fitted.state import FittedModel
from epiclick.fitted.tables import stored_at_bound
from epiclick.identification.identifiability import named
from epiclick.processes import one_blas_thread
from epiclick.simulate.users import has_positions_alone

Weights = Literal["traffic", "uniform"]

DECIDING = ("clicks", *OUTCOME_MEASURES)
"""Measures that a verdict may rest on."""

PARAMETERS = 250
"""Draws of the parameters, mirrored about their mode; each has several draws of relevance."""

READING_PARAMETERS = 64
"""The same where each needs a Markov chain over all pages of the log."""

SAME_LENGTH = 0.01
"""Relative difference in slots per page between rankers below which no note is given."""


@named_arguments
@one_blas_thread()
def compare(
    model: BaseModel,
    rankings: Mapping[str, Any],
    features: Any = None,
    *,
    clicks: ClickCounts | None = None,
    weights: Weights = "traffic",
    samples: int = 2_500,
    depth: int | None = None,
    extrapolate: bool = False,
    backtest: ClickCounts | None = None,
    measures: Sequence[str] | None = None,
    level: float | None = None,
    seed: int = 0,
) -> Comparison:
    """Expected clicks per page of rankers, as distributions, and a verdict between them.

    Args:
        model: a fitted model.
        rankings: name -> query_id, doc_id and position (or score) of what the ranker shows, in any
            form that `read_ranking` takes; or a function from features to scores.
        features: of the items, as `read_features` takes them, for a model that was trained on some.
        clicks: the log. The relevance of items in it is estimated from their own clicks, that of
            all others from features alone; queries are weighted by their pages in it, and slots by
            the share of pages that display them.
        weights: "uniform" weights all queries equally.
        samples: number of samples of every value.
        depth: last position that counts.
        extrapolate: give positions deeper than the model's the bias of its deepest one.
        backtest: a held-out log, on whose pages predicted clicks are compared with observed ones.
        measures: how rankers are valued; the first of them, by default `clicks`, decides the
            verdict, and may also be `conversions` or `value`, both per page, if the model knows
            them. Others are `first`, the click rate of the first result, and `gain`, relevance
            discounted by position. Default: all that the model knows.
        level: probability of the intervals; default that of the model.
        seed: of the random numbers.
    """
    fitted = checked_model(model)
    level = model.level if level is None else level
    _check_rankings(rankings)
    check_logs(clicks, backtest)
    check_numbers(weights, samples, level, seed)
    measures = _checked_measures(fitted, measures)
    prepared = prepare(
        model,
        rankings,
        features,
        clicks=clicks,
        weights=weights,
        samples=samples,
        depth=depth,
        extrapolate=extrapolate,
        seed=seed,
    )
    return compared(prepared, measures, level, samples, backtest)


def prepare(
    model: BaseModel,
    rankings: Mapping[str, Any],
    features: Any,
    *,
    clicks: ClickCounts | None,
    weights: Weights,
    samples: int,
    depth: int | None,
    extrapolate: bool,
    seed: int,
) -> Prepared:
    """Read the rankings and draw from the posterior; arguments are those of `compare`."""
    fitted = checked_model(model)
    _check_rankings(rankings)
    if not (depth is None or is_whole(depth)):
        raise InputError(f"depth must be 1 or more, not {shown(depth)}", code="depth-out-of-range")
    table = _features(fitted, features, clicks)
    if table is not None:
        table = like_queries(table, fitted.options)
    if table is not None and clicks is not None:
        table = table.including(clicks.query_id, clicks.doc_id)
    traffic = None if clicks is None else traffic_of(fitted, clicks)
    read, slots = read_slots(
        fitted,
        rankings,
        table,
        clicks,
        traffic,
        depth=depth,
        uniform=weights == "uniform",
        extrapolate=extrapolate,
    )
    if table is not None and table.is_open:
        # candidates are what the log and the rankings show
        table = table.including(slots.query_id, slots.doc_id)
        clicks = None if clicks is None else clicks.with_features(table, missing="drop")
    items = items_of(fitted, slots.query_id, slots.doc_id, table, clicks)
    most = READING_PARAMETERS if fitted.clicks.has_latent_state else PARAMETERS
    draws = parameter_draws(fitted, min(most, samples), seed=seed)
    return Prepared(
        fitted=fitted,
        names=tuple(rankings),
        rankings=tuple(read),
        slots=slots,
        items=items,
        draws=draws,
        known=items_given_clicks(fitted, items, clicks, draws, seed),
        features=table,
        clicks=clicks,
        traffic=traffic,
        seed=seed,
    )


def compared(
    prepared: Prepared,
    measures: Sequence[str],
    level: float,
    samples: int,
    backtest: ClickCounts | None = None,
) -> Comparison:
    """The comparison of rankers that were prepared; arguments are those of `compare`."""
    fitted, slots, items = prepared.fitted, prepared.slots, prepared.items
    rng = np.random.default_rng([prepared.seed, 11])
    valued = [ALL_MEASURES[name] for name in measures]
    worth = {
        name: WORTH[name](fitted, items, len(prepared.draws), prepared.seed)
        for name in dict.fromkeys(each.worth for each in valued if each.worth)
    }
    going_on = prepared.going_on(rng)
    factors = prepared.factors(slots, items.index, valued, going_on, worth)
    sums = OverlapSums.of(fitted, slots, items, prepared.traffic, prepared.draws)
    relevance = ItemMeans(prepared.moments(rng), sums.watch)
    shape = (len(measures), len(prepared.names))
    values = prepared.sampled(factors, relevance, shape, samples, rng).in_units(
        [worth[each.worth].unit if each.worth else 1.0 for each in valued]
    )
    seen, unknown = (
        _share(slots, mask[items.index]) for mask in (items.was_seen, items.is_unknown)
    )
    if backtest is not None and backtest.features is None and prepared.features is not None:
        backtest = backtest.with_features(prepared.features)
    tested = None if backtest is None else run_backtest(fitted, backtest, level)
    overlap = None
    if prepared.clicks is not None and prepared.traffic is not None:
        where = (fitted, prepared.names, slots, items, prepared.traffic, prepared.clicks)
        overlap = sums.overlap(*where, prepared.emission(), relevance, going_on, level)
    return Comparison(
        names=prepared.names,
        measures=tuple(measures),
        values=values,
        level=level,
        queries=slots.queries,
        seen=seen,
        unknown=unknown,
        pages=prepared.pages,
        backtest=None if tested is None else tested.summary,
        notes=_notes(fitted, list(prepared.rankings), slots, items, prepared.clicks),
        backtest_grade=None if tested is None else tested.grade,
        model_checks=model_checks(fitted, by_worth=bool(valued[0].worth)),
        overlap=overlap,
    )


def read_rankings(
    fitted: FittedModel,
    rankings: Mapping[str, Any],
    features: FeatureTable | None,
    clicks: ClickCounts | None,
    depth: int | None = None,
) -> dict[str, Ranking]:
    """The rankings as `compare` and `true_values` read them, for callers that need both.

    Arguments are those of `compare`.
    """
    ids = _ids(fitted, features, clicks)
    layout = PageLayout.of(fitted)
    return {
        name: read_ranking(source, name, ids=ids, depth=depth, features=features, layout=layout)
        for name, source in rankings.items()
    }


def read_slots(
    fitted: FittedModel,
    rankings: Mapping[str, Any],
    features: FeatureTable | None,
    clicks: ClickCounts | None,
    traffic: Traffic | None,
    *,
    depth: int | None = None,
    uniform: bool = False,
    extrapolate: bool = False,
) -> tuple[list[Ranking], Slots]:
    """The rankings, and those of their slots that are compared."""
    read = [*read_rankings(fitted, rankings, features, clicks, depth).values()]
    return read, slots_of(fitted, read, traffic, uniform=uniform, extrapolate=extrapolate)


def _share(slots: Slots, mask: np.ndarray) -> np.ndarray:
    """(rankers,) share of the slots under the mask, weighted by the pages that display them."""
    weight = slots.weight * slots.reach
    whole = np.bincount(slots.ranker, weight)
    return np.bincount(slots.ranker, weight * mask) / np.where(whole > 0, whole, 1)


def _notes(
    fitted: FittedModel,
    rankings: list[Ranking],
    slots: Slots,
    items: Items,
    clicks: ClickCounts | None,
) -> tuple[str, ...]:
    """What a user must know about how the comparison was made."""
    notes = [f"'{ranking.name}': {note}" for ranking in rankings for note in ranking.notes]
    notes += slots.notes
    if bound := stored_at_bound(fitted):
        notes.append(
            f"position bias is at its bound at {named(fitted.contexts, bound)}: values may be off, "
            "and their intervals too narrow; fit with another anchor, as the model's warnings say"
        )
    length = np.bincount(slots.ranker, slots.weight)  # a list's slots, weighted as the values are
    if np.ptp(length) > SAME_LENGTH * length.min():
        lengths = [f"'{r.name}' {slot:.1f}" for r, slot in zip(rankings, length, strict=True)]
        notes.append(
            f"rankers fill different numbers of slots per page ({', '.join(lengths)}), and more "
            "slots get more clicks; cut all to one depth (--depth) to compare only their order"
        )
    if clicks is None:
        evidence = (
            "features alone" if fitted.features is not None else "clicks in the model's own log"
        )
        notes.append(
            "no log was given, so all queries are weighted equally, all slots are assumed to be "
            f"displayed, and the relevance of items is estimated from their {evidence}"
        )
    placement = fitted.training.checks.get("placement") or {}
    if items.never_shown.any() and placement.get("found"):
        notes.append(
            "the ranker of the log knows more than the features, so items that it never showed are "
            f"discounted: {int(items.never_shown.sum()):,} of {len(items):,} items"
        )
    if items.unknown:
        where = np.flatnonzero(items.is_unknown[items.index])[0]
        lack, like = ("have no features", "with features")
        if fitted.features is None:
            lack, like = ("were never shown in the log", "never shown")
        notes.append(
            f"{items.unknown:,} of {len(items):,} items {lack} (the first: query "
            f"{slots.query_id[where]}, doc {slots.doc_id[where]}); they are assumed to be like any "
            f"item {like}"
        )
    return tuple(notes)


def _features(
    fitted: FittedModel, features: Any, clicks: ClickCounts | None
) -> FeatureTable | None:
    """The feature table, which may come with the log."""
    if features is None:
        return None if clicks is None else clicks.features
    if isinstance(features, FeatureTable):
        return features
    ids = "auto" if clicks is None else clicks.options.ids
    return read_features(features, ids=ids, like=fitted)


def _ids(fitted: FittedModel, features: FeatureTable | None, clicks: ClickCounts | None) -> Any:
    """How rankings must read their ids to match those of the log, the features or the model."""
    if clicks is not None:
        columns = [clicks.query_id, clicks.doc_id]
    elif features is not None and len(features):
        columns = [features.keys["query_id"], features.keys["doc_id"]]
    elif fitted.items is not None:
        columns = [fitted.items.query_id, fitted.items.doc_id]
    else:
        return None
    return ids_like(*columns)


def ids_like(*columns: pa.Array) -> Literal["string", "integer"] | None:
    """How ids must be read to match those of some columns; None if these differ in type."""
    texts = [pa.types.is_string(c.type) or pa.types.is_large_string(c.type) for c in columns]
    return "string" if all(texts) else "integer" if not any(texts) else None


def checked_model(model: Any) -> FittedModel:
    """The contents of a fitted model; refuses anything else."""
    if not isinstance(model, BaseModel):
        raise InputError(
            f"model must be a fitted model, not {shown(model)}; load(path) reads one from a folder",
            code="not-a-model",
        )
    return model._fitted


def _check_rankings(rankings: Any) -> None:
    if not isinstance(rankings, Mapping):
        raise InputError(
            "name the rankings, as in compare(model, {'new': new, 'old': old})",
            code="rankings-not-named",
        )
    if not rankings:
        raise InputError("no ranking was given; name at least one, better two", code="no-rankings")
    for name in rankings:
        if not (isinstance(name, str) and name.strip()):
            raise InputError(
                f"the name of a ranker must be a non-empty string, not {name!r}",
                code="invalid-ranker-name",
            )


def check_logs(clicks: Any, backtest: Any = None) -> None:
    """Require counts, where logs are given."""
    for name, log in {"clicks": clicks, "backtest": backtest}.items():
        if not (log is None or isinstance(log, ClickCounts)):
            raise InputError(
                f"{name} must be counts; read the log first: {name}=read_log(...)",
                code="not-counts",
            )


def check_numbers(weights: str, samples: int, level: float, seed: int) -> None:
    """Require valid arguments; see `compare`."""
    if not (isinstance(weights, str) and weights in ("traffic", "uniform")):
        raise InputError(
            f"weights must be 'traffic' or 'uniform', not {shown(weights)}", code="unknown-weights"
        )
    if not (is_whole(samples) and samples >= 100):
        raise InputError(
            f"samples must be 100 or more, not {shown(samples)}; the default is 2500",
            code="samples-out-of-range",
        )
    if not (is_number(level) and 0 < level < 1):
        raise InputError(
            f"level must lie strictly between 0 and 1, not {shown(level)}; write 0.9",
            code="level-out-of-range",
        )
    if not (is_whole(seed) and seed >= 0):
        raise InputError(f"seed must be 0 or more, not {shown(seed)}", code="seed-out-of-range")


def _checked_measures(fitted: FittedModel, measures: Sequence[str] | None) -> tuple[str, ...]:
    """The measures, by default all that the model knows; refuses others."""
    known = known_measures(fitted)
    if measures is None:
        return known
    if isinstance(measures, str) or not isinstance(measures, Sequence):
        raise InputError(
            f"measures must be names, as in ('clicks', 'first'), not {shown(measures)}",
            code="invalid-measures",
        )
    if missing := [name for name in measures if name in OUTCOME_MEASURES and name not in known]:
        lacks = "value of conversions" if "conversions" in known else "conversions"
        raise InputError(
            f"the model knows no {lacks}, so rankers cannot be valued by {missing[0]}; fit it to a "
            "log with --conversion COLUMN, and --value COLUMN for their value (in Python: "
            "read_log(..., conversion=..., value=...))",
            code="conversions-unknown",
        )
    if tuple(measures[:1]) not in [(name,) for name in DECIDING] or set(measures) - set(known):
        raise InputError(
            f"measures must be clicks, then any of {', '.join(known[1:])}, "
            f"not {', '.join(map(str, measures)) or 'none'}; conversions or value may be the first",
            code="invalid-measures",
        )
    return tuple(dict.fromkeys(measures))


def known_measures(fitted: FittedModel) -> tuple[str, ...]:
    """The measures by which a model can value rankers."""
    worth = known_worth(fitted)
    return tuple(name for name, each in ALL_MEASURES.items() if each.worth in ("", *worth))


def decided_by(fitted: FittedModel, measure: str) -> tuple[str, ...]:
    """All measures that a model knows, this one first; it need not be known."""
    return tuple(dict.fromkeys((measure, *known_measures(fitted))))


def true_values(
    model: BaseModel,
    rankings: Mapping[str, Any],
    features: FeatureTable | None,
    clicks: ClickCounts | None,
    truth: Truth,
    measure: str = "clicks",
    **how: Any,
) -> dict[str, float]:
    """True expected clicks per page of each ranker; NaN if it shows items outside the world.

    Arguments are those of `compare`; `how` may have `depth`, `extrapolate` and `uniform`. The
    measure may also be conversions or their value.
    """
    fitted = model.fitted_
    traffic = None if clicks is None else traffic_of(fitted, clicks)
    _, slots = read_slots(fitted, rankings, features, clicks, traffic, **how)
    if not has_positions_alone(fitted.contexts):
        return dict.fromkeys(rankings, float("nan"))
    relevance = truth.relevance_of(slots.query_id, slots.doc_id)
    chance = truth.click_chances(slots.page, slots.position, relevance)
    value = slots.weight * slots.reach * chance  # (slots,)
    if worth := ALL_MEASURES[measure].worth:
        value = value * truth.worth_of(worth, slots.query_id, slots.doc_id)
    sums = np.bincount(slots.ranker, value, len(rankings))
    return dict(zip(rankings, sums.tolist(), strict=True))


def true_values_sentence(found: Comparison, true: Mapping[str, float]) -> str:
    """The true values in one sentence, and how many of them the intervals contain."""
    rows = [row for row in found.rankers.to_dict("records") if not np.isnan(true[row["name"]])]
    if not rows:
        return (
            f"True {found.unit} per page: unknown, as the rankings show items outside that world, "
            "or it has no such truth."
        )
    values = _joined([f"{true[row['name']]:.3f} for {row['name']}" for row in rows])
    inside = sum(row["low"] <= true[row["name"]] <= row["high"] for row in rows)
    covered = f"; {found.level:.0%} intervals contain {inside} of {len(rows)}" * found.is_uncertain
    return f"True {found.unit} per page: {values}{covered}."


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
