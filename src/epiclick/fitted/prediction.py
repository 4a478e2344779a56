"""Predictions of a fitted model, with numpy and scipy alone."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from epiclick.beta import Beta
from epiclick.click_models.click_model import Emission
from epiclick.data.arrays import locate_rows
from epiclick.data.counts import ClickCounts
from epiclick.data.feature_encoding import lacking_columns, warn_unknown
from epiclick.data.features import FeatureTable
from epiclick.data.page_lists import PageLists
from epiclick.data.placement import Placement
from epiclick.errors import InputError, InputWarning
from epiclick.fitted.exposure import Exposure, exposure_of, without_exposure
from epiclick.fitted.parameters import DrawnLayer, Parameters, parameter_draws
from epiclick.fitted.state import FittedModel, Items, given_of, history_of
from epiclick.reading.pages import still_reading
from epiclick.relevance.average import matched_beta
from epiclick.relevance.heads import exposure, scaled_confidence
from epiclick.relevance.network import Layers, given_to_last


def networks_of(draws: Sequence[Parameters]) -> list[Layers]:
    """The networks of the draws, in order; only one if all draws share it."""
    first = draws[0].layers
    if all(draw.layers is first for draw in draws):
        return [first]
    return [draw.layers for draw in draws]


def relevance_by(
    fitted: FittedModel, networks: Sequence[Layers], x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """alpha and beta under every network, (networks, pairs) each, for inputs (pairs, features).

    For a pointwise model, relevance and 1 - relevance.
    """
    raw = _outputs(networks, x)
    return fitted.relevance_head.of_outputs(raw, np, smooth=fitted.parameters.smooth)


def _outputs(networks: Sequence[Layers], x: np.ndarray) -> np.ndarray:
    """(networks, pairs, outputs) float64; a body that networks share is evaluated once."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, layers in enumerate(networks):
        body = [id(array) for layer in layers[:-1] for array in layer]
        centre = id(layers[-1].centre) if isinstance(layers[-1], DrawnLayer) else 0
        groups.setdefault((*body, centre), []).append(i)
    outputs = np.empty((len(networks), len(x), len(networks[0][-1][1])))
    for group in groups.values():
        first = networks[group[0]]
        inputs = np.concatenate(given_to_last(first[:-1], x, len(first[-1][0])), axis=-1)
        weight, bias = (
            np.concatenate([networks[i][-1][part] for i in group], axis=-1) for part in (0, 1)
        )
        both = (inputs @ weight + bias).reshape(len(x), len(group), -1)
        if isinstance(first[-1], DrawnLayer) and both.shape[-1] == 2:
            weight, bias = (part[..., 1:] for part in first[-1].centre)
            both[..., 1] = scaled_confidence(both[..., 1], (inputs @ weight + bias).astype(float))
        outputs[group] = both.swapaxes(0, 1)
    return outputs


def emission_by(fitted: FittedModel, draws: Sequence[Parameters], index: np.ndarray) -> Emission:
    """The emission under every draw, (draws, contexts) each.

    Args:
        fitted: the model.
        draws: of its parameters.
        index: (contexts,) indices of the model's contexts; -1 for the mean of all of them.
    """
    each = [draw.position.emission(fitted.clicks, fitted.anchor, np) for draw in draws]
    return _stacked([_located_at(emission, index) for emission in each])


def floor_by(fitted: FittedModel, draws: Sequence[Parameters]) -> np.ndarray | None:
    """(draws,) floor of relevance under every draw, see `relevance.reported`; None for 0.

    Without an anchor attraction is reported, on a scale that rests on the prior.
    """
    if fitted.anchor is None or not fitted.clicks.is_affine:
        return None
    at = emission_by(fitted, draws, np.array([fitted.anchor])).unattractive
    return at[:, 0]


def reported_emission(emission: Emission, floor: np.ndarray | None) -> Emission:
    r"""The same clicks as a function of reported relevance c, not of attraction zeta.

    With f the floor,

    .. math:: A \zeta + B (1 - \zeta) = A\, c + O\, (1 - c), \qquad O = \frac{B - f A}{1 - f},

    so O, the probability of a click at c = 0, replaces B. It may be below 0: no item has such a c.

    Args:
        emission: (draws, contexts) each.
        floor: (draws,), or None.
    """
    if floor is None or emission.unattractive is None:
        return emission
    f = floor[:, None]
    offset = (emission.unattractive - f * emission.attractive) / (1 - f)
    return emission._replace(unattractive=offset, unattractive_rest=1 - offset)


def _located_at(emission: Emission, index: np.ndarray) -> Emission:
    """The emission in some contexts, (contexts,) each; the mean of all of them for -1."""
    return Emission(
        *(
            None if part is None else np.where(index < 0, part.mean(), part[index])
            for part in emission
        )
    )


def _stacked(emissions: Sequence[Emission]) -> Emission:
    """Emissions (contexts,) as one, (draws, contexts)."""
    return Emission(
        *(None if parts[0] is None else np.stack(parts) for parts in zip(*emissions, strict=True))
    )


CHUNK = 131_072  # pairs processed at once


def bias_betas(fitted: FittedModel) -> Beta | None:
    """The Beta of each context's bias; None where bias is a point."""
    betas = fitted.parameters.position.betas(np)
    return None if betas is None else Beta(*betas)


def mean_emission(fitted: FittedModel) -> Emission:
    """The emission under the model's own parameters, (contexts,) each."""
    return fitted.parameters.position.emission(fitted.clicks, fitted.anchor, np)


def own_floor(fitted: FittedModel) -> float:
    """The floor of relevance under the model's own parameters; 0 where there is none."""
    floor = floor_by(fitted, [fitted.parameters])
    return 0.0 if floor is None else float(floor[0])


def contexts_of(fitted: FittedModel, contexts: pa.Table, *, warn: bool = True) -> np.ndarray:
    """Index of each context among the model's; -1 for unknown ones, with a warning."""
    index = _located(fitted, contexts, fitted.contexts)
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


def given_contexts_of(fitted: FittedModel, given: pa.Table) -> np.ndarray:
    """Index of each given context among the model's given ones; -1 for unknown ones."""
    return _located(fitted, given, given_of(fitted)[0])


def _located(fitted: FittedModel, contexts: pa.Table, known: pa.Table) -> np.ndarray:
    names = known.column_names
    if contexts.column_names != names:
        history = history_of(fitted)
        how = f"--context {','.join(name for name in names if name not in history)}"
        how += f" and --click-model {fitted.options.click_model}" if history else ""
        raise InputError(
            f"the model knows contexts by {', '.join(names)}, but the log was counted by "
            f"{', '.join(contexts.column_names)}; count it with {how}",
            code="context-mismatch",
        )
    return locate_rows(
        {name: contexts[name] for name in names}, {name: known[name] for name in names}
    )


def emission_at(fitted: FittedModel, contexts: pa.Table) -> Emission:
    """Expected emission in each context of a table, (contexts,) each."""
    return _located_at(mean_emission(fitted), contexts_of(fitted, contexts))


def draw_emission(fitted: FittedModel, contexts: pa.Table, samples: int, seed: int = 0) -> Emission:
    """Draws of the emission, (samples, contexts) each; one sample if bias is a point."""
    betas = bias_betas(fitted)
    if betas is None:
        return _stacked([emission_at(fitted, contexts)])
    logs = betas.sample_logs(np.random.default_rng(seed), samples)
    # the logarithm of a bias must be finite
    thetas = (np.exp(np.maximum(part, -700.0)) for part in logs)
    index = contexts_of(fitted, contexts, warn=False)
    theta, rest = (
        np.where(index < 0, part.mean(axis=1, keepdims=True), part[:, index]) for part in thetas
    )
    return Emission(theta, rest)


def seen_by(fitted: FittedModel, features: FeatureTable) -> FeatureTable:
    """The table with the features of the model: encoded as in training, if that is needed."""
    assert fitted.features is not None
    spec = fitted.features
    if spec.encoding is None and features.is_plain:
        return features
    return features.encoded(spec.how)


def columns_of(fitted: FittedModel, features: FeatureTable) -> np.ndarray | None:
    """Indices of the features `seen_by` the model in its order; None if they are in that order."""
    assert fitted.features is not None
    wanted, given = fitted.features.names, features.names
    if given == wanted:
        return None
    if (lacking := lacking_columns(wanted, given)) is not None:
        raise InputError.of("features", [lacking])
    if extra := [name for name in given if name not in wanted]:
        warn_unknown(extra)
    place = {name: i for i, name in enumerate(given)}
    return np.array([place[name] for name in wanted])


def relevance_of_rows(
    fitted: FittedModel,
    networks: Sequence[Layers],
    features: FeatureTable,
    rows: np.ndarray,
    exposure: Exposure | None = None,
    factors: np.ndarray | None = None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """alpha and beta under every network, (networks, rows) each, chunk by chunk of feature rows.

    For a pointwise model, relevance and 1 - relevance.

    Args:
        fitted: the model.
        networks: of relevance, or of another outcome of the same items.
        features: table of features.
        rows: of the table.
        exposure: of these rows, see `exposure_of_rows`; None if it is unknown, where items are
            assumed to be shown as often and as high as their features suggest.
        factors: (networks,) on what exposure adds to the mean of relevance, in logits; default 1.
    """
    assert fitted.features is not None
    features = seen_by(fitted, features)
    scaler, columns = fitted.features.scaler, columns_of(fitted, features)
    if exposure is None and fitted.features.exposure is not None:
        exposure = fitted.features.exposure.unknown(len(rows))
    for start in range(0, len(rows), CHUNK):
        part = slice(start, start + CHUNK)
        raw = features.rows(rows[part])
        x = scaler.transform(raw if columns is None else raw[:, columns])
        if exposure is None:
            yield relevance_by(fitted, networks, x)
        else:
            own = Exposure(*(each[part] for each in exposure))
            yield _exposed_relevance(fitted, networks, x, own, factors)


def exposure_of_rows(
    fitted: FittedModel, features: FeatureTable, rows: np.ndarray, placement: Placement | None
) -> Exposure | None:
    """Exposure of rows by their placement in a log; None where the network takes none."""
    assert fitted.features is not None
    model, scaler = fitted.features.exposure, fitted.features.scaler
    if model is None or placement is None:
        return None
    layers = without_exposure(fitted.parameters.layers)
    features = seen_by(fitted, features)
    columns = columns_of(fitted, features)
    return exposure_of(model, scaler, layers, features, rows, placement, columns)


OUTER = np.sqrt(3.0)
"""Outer nodes of the rule that integrates fifth powers of a standard Gaussian exactly: -sqrt 3, 0
and sqrt 3, with weights 1/6, 2/3 and 1/6."""


def _exposed_relevance(
    fitted: FittedModel,
    networks: Sequence[Layers],
    x: np.ndarray,
    exposure: Exposure,
    factors: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """alpha and beta, averaged over what placement leaves open about exposure."""
    head, smooth = fitted.relevance_head, fitted.parameters.smooth
    raw = _outputs(networks, np.column_stack([x, exposure.columns()]))
    weight = np.stack([layers[-1][0][x.shape[1]] for layers in networks])  # (networks, outputs)
    if factors is not None:
        assert fitted.features is not None
        assert fitted.features.exposure is not None
        beyond = exposure.shift - fitted.features.exposure.centre
        raw[:, :, 0] += ((factors - 1) * weight[:, 0])[:, None] * beyond
    first, second = head.of_outputs(raw, np, smooth=smooth)
    (left,) = np.nonzero(exposure.spread > 0)
    if not len(left):
        return first, second
    some: np.ndarray | slice = slice(None) if len(left) == len(x) else left  # all, without a copy
    raw = raw[:, some]
    away = OUTER * np.sqrt(exposure.spread[some])[:, None] * weight[:, None]
    mean, variance = head.moments(first[:, some], second[:, some])
    mean, square = 2 / 3 * mean, 2 / 3 * (variance + mean**2)
    for outer in (raw - away, raw + away):
        own, variance = head.moments(*head.of_outputs(outer, np, smooth=smooth))
        mean += own / 6
        square += (variance + own**2) / 6
    both = matched_beta(mean, square - mean**2)
    first[:, some], second[:, some] = both.alpha, both.beta
    return first, second


def relevance_of(fitted: FittedModel, counts: ClickCounts) -> tuple[np.ndarray, np.ndarray]:
    """alpha and beta of the pairs of counts under the model's own parameters, (pairs,) each."""
    alpha, beta = relevance_of_pairs(fitted, [fitted.parameters.layers], counts)
    return alpha[0], beta[0]


def relevance_of_pairs(
    fitted: FittedModel, networks: Sequence[Layers], counts: ClickCounts
) -> tuple[np.ndarray, np.ndarray]:
    """alpha and beta of pairs before their own clicks under every network, (networks, pairs) each.

    For a pointwise model, relevance and 1 - relevance. A model without features predicts from where
    the pairs were shown.
    """
    if fitted.features is None:
        return _relevance_by_exposure(fitted, networks, counts)
    if counts.features is None or counts.feature_row is None:
        raise InputError(
            "the model was trained with features, and the log comes without; give them with "
            "--features (in Python: read_log(..., features=...))",
            code="features-needed",
        )
    table, rows = counts.features, counts.feature_row
    exposure = exposure_of_rows(fitted, table, rows, counts.placed)
    parts = list(relevance_of_rows(fitted, networks, table, rows, exposure))
    if not parts:
        return np.empty((len(networks), 0)), np.empty((len(networks), 0))
    first, second = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    return first, second


def _relevance_by_exposure(
    fitted: FittedModel, networks: Sequence[Layers], counts: ClickCounts
) -> tuple[np.ndarray, np.ndarray]:
    counts = counts.by_given()
    known, size = given_contexts_of(fitted, counts.contexts), len(given_of(fitted)[0])
    alpha, beta = (np.empty((len(networks), len(counts))) for _ in range(2))
    for start in range(0, len(counts), CHUNK):
        pairs = np.arange(start, min(start + CHUNK, len(counts)))
        displays = np.zeros((len(pairs), size))
        displays[:, known[known >= 0]] = counts.dense(pairs)[0][:, known >= 0]
        alpha[:, pairs], beta[:, pairs] = relevance_by(fitted, networks, exposure(displays))
    return alpha, beta


def relevance_before(fitted: FittedModel, counts: ClickCounts) -> tuple[np.ndarray, np.ndarray]:
    """alpha and beta of the pairs of counts, given only the clicks of training, (pairs,) each.

    In a model without features, pairs of its training log have the posterior given their clicks
    there; all others have the prior. All are of attraction, as the likelihood needs it.
    """
    first, second = relevance_of(fitted, counts)
    if fitted.items is not None:
        row = _known_items(fitted.items, counts)
        alpha, beta = attraction_of_items(fitted, fitted.items)
        first = np.where(row >= 0, alpha[row], first)
        second = np.where(row >= 0, beta[row], second)
    return first, second


def attraction_of_items(fitted: FittedModel, items: Items) -> tuple[np.ndarray, np.ndarray]:
    """alpha and beta of the attraction of kept items, whose reported relevance is stored."""
    if floor := own_floor(fitted):
        from epiclick.relevance.reported import attraction_betas  # which needs scipy

        betas = attraction_betas(items.alpha, items.beta, floor)
        return betas.alpha, betas.beta
    return items.alpha, items.beta


def _known_items(items: Items, counts: ClickCounts) -> np.ndarray:
    """(pairs,) row of each pair among the items of the training log; -1 for unknown pairs."""
    return locate_rows(
        {"query_id": counts.query_id, "doc_id": counts.doc_id},
        {"query_id": items.query_id, "doc_id": items.doc_id},
    )


def satisfaction_before(fitted: FittedModel, counts: ClickCounts) -> np.ndarray | None:
    """(pairs,) expected probability that a click satisfies, given only the clicks of training.

    None for click models without that channel.
    """
    layers = fitted.parameters.satisfaction
    if not layers:
        return None
    alpha, beta = (each[0] for each in relevance_of_pairs(fitted, [layers], counts))
    if fitted.items is not None and fitted.items.satisfied is not None:
        row = _known_items(fitted.items, counts)
        alpha, beta = (
            np.where(row >= 0, known[row], own)
            for known, own in zip(fitted.items.satisfied.T, (alpha, beta), strict=True)
        )
    mean: np.ndarray = alpha / (alpha + beta)
    return mean


def lists_of(fitted: FittedModel, counts: ClickCounts) -> PageLists:
    """The pages of counts, with given contexts numbered as in the model."""
    if counts.lists is None:
        raise InputError(
            f"a {fitted.clicks.title} needs whole pages, which these counts do not have; read the "
            f"log with read_log(..., click_model={fitted.click_model!r}), and take whole queries",
            code="pages-needed",
        )
    index = contexts_of(fitted, counts.contexts)
    return replace(counts.lists, given=index[counts.lists.given])


def going_on_by(
    fitted: FittedModel, draw: Parameters, lists: PageLists, satisfaction: np.ndarray | None
) -> np.ndarray:
    """(lists, depth) probability of going on after a click, under a draw of the parameters.

    Args:
        fitted: the model.
        draw: of its parameters.
        lists: pages, from `lists_of`.
        satisfaction: (pairs,) probability that a click satisfies, where it depends on the item.
    """
    if satisfaction is not None:
        return 1 - np.where(lists.shown, satisfaction[lists.pair], 0.0)
    by_context = fitted.clicks.going_on(np.asarray(draw.position.points.logit))
    assert by_context is not None
    return np.where(lists.given < 0, by_context.mean(), by_context[lists.given])


def display_chances(fitted: FittedModel, counts: ClickCounts) -> tuple[np.ndarray, np.ndarray]:
    """For a model that needs whole pages, probability that each place is read, and clicked.

    Both are given the clicks above, at the expected parameters and items: (lists, depth) each.
    """
    lists = lists_of(fitted, counts)
    alpha, beta = relevance_before(fitted, counts)
    mean = alpha / (alpha + beta)
    stay = going_on_by(fitted, fitted.parameters, lists, satisfaction_before(fitted, counts))
    read = still_reading(lists, mean, stay)
    return read, read * np.where(lists.shown, mean[lists.pair], 0.0)


def over_entries(counts: ClickCounts, of_displays: np.ndarray) -> np.ndarray:
    """(entries,) means over the displays of each entry, of values (lists, depth)."""
    lists = counts.lists
    assert lists is not None
    parts = 1 if counts.parts is None else len(counts.parts)
    contexts = len(counts.contexts)

    def key(pair: np.ndarray, context: np.ndarray, part: np.ndarray | None) -> np.ndarray:
        place = pair.astype(np.int64) * contexts + context
        return place if part is None else place * parts + part

    shown, pages = lists.shown, np.broadcast_to(lists.pages[:, None], lists.pair.shape)
    part = None if lists.part is None else np.broadcast_to(lists.part[:, None], shown.shape)[shown]
    entry = np.searchsorted(
        key(counts.pair, counts.context, counts.part),
        key(lists.pair[shown], lists.given[shown], part if counts.part is not None else None),
    )
    total = np.bincount(entry, (pages * of_displays)[shown], len(counts.pair))
    return total / np.bincount(entry, pages[shown], len(counts.pair))


def click_probabilities(fitted: FittedModel, counts: ClickCounts) -> np.ndarray:
    """Probability of a click at each entry of the counts, E[theta zeta]; (entries,).

    Averaged over joint draws of the parameters, in which theta and zeta are negatively correlated.
    For items known by their clicks in training it is E[theta] E[zeta], with their reported
    relevance in place of zeta where unattractive items are clicked too. Where it depends on the
    other items of a page, it is the mean over the entry's displays.
    """
    if fitted.clicks.has_latent_state:
        return over_entries(counts, display_chances(fitted, counts)[1])
    draws = parameter_draws(fitted)
    networks = networks_of(draws)
    if len(networks) == 1:
        alpha, beta = relevance_before(fitted, counts)
        emission = emission_at(fitted, counts.contexts).at(counts.context)
        return emission.click_probability((alpha / (alpha + beta))[counts.pair])
    emission = emission_by(fitted, draws, contexts_of(fitted, counts.contexts))
    chance = np.empty(len(counts.pair))
    for start, stop, part in chunks_of(counts, CHUNK):
        alpha, beta = relevance_of_pairs(fitted, networks, part)
        mean = alpha / (alpha + beta)
        chance[start:stop] = sum(
            drawn(emission, j).at(part.context).click_probability(mean[j, part.pair])
            for j in range(len(draws))
        )
    chance /= len(draws)
    if fitted.items is not None:
        items, row = fitted.items, _known_items(fitted.items, counts)[counts.pair]
        mean = (items.alpha / (items.alpha + items.beta))[row]
        lines = reported_emission(emission, floor_by(fitted, draws))
        average = Emission(*(None if part is None else part.mean(axis=0) for part in lines))
        known = average.at(counts.context).click_probability(mean)
        if average.is_affine:
            # an item whose relevance is below the floor of some draws
            known = np.clip(known, LEAST_CHANCE, 1)
        chance = np.where(row >= 0, known, chance)
    return chance


LEAST_CHANCE = 1e-9


def drawn(emission: Emission, draw: int) -> Emission:
    """One of several draws of an emission, (contexts,) each."""
    return Emission(*(None if part is None else part[draw] for part in emission))


def chunks_of(counts: ClickCounts, size: int) -> Iterator[tuple[int, int, ClickCounts]]:
    """The counts in chunks of `size` pairs, each with the first and last index of its entries."""
    for first in range(0, max(len(counts), 1), size):
        last = min(first + size, len(counts))
        start, stop = (int(i) for i in np.searchsorted(counts.pair, [first, last]))
        yield (
            start,
            stop,
            replace(
                counts,
                query_id=counts.query_id.slice(first, last - first),
                doc_id=counts.doc_id.slice(first, last - first),
                pair=counts.pair[start:stop] - first,
                context=counts.context[start:stop],
                **counts.amounts(slice(start, stop)),
                pages=None,
                lists=None,  # its pages may have items of other chunks
                sample=None,
                clusters=None,
                feature_row=None if counts.feature_row is None else counts.feature_row[first:last],
                placement=None if counts.features is None else counts.placed.at(slice(first, last)),
            ),
        )
