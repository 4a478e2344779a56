r"""All checks of a fit: whether the click model fits the data, and the records kept with it.

.. math:: \chi^2 = \sum_i \Big(1 - \frac{h_i}{N_i}\Big) \frac{(M_i - N_i p_i)^2}{N_i p_i (1 - p_i)},
          \quad p_i = \theta_{k(i)} \hat\zeta_{j(i)}, \quad
          h_i \propto N_i \frac{p_i}{1 - p_i}

over the entries i, each of a pair j in a context k. h_i, which adds to 1 over a pair, is the
entry's share of the information about its relevance: as p is fitted, p (1 - p) is too small by
1 - h / N on average. (Where theta is constant that is 1 - 1/n with n the displays of the pair, and
the mean of chi-squared is exact for any counts.)

The ratio is 1 where clicks vary as the model expects, and larger where they are overdispersed. It
detects only relevance that changes with context or part: it is invariant to theta -> c theta.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from epiclick.click_models.click_model import Emission
from epiclick.data.counts import ClickCounts
from epiclick.data.robots import suspicious_pages
from epiclick.diagnostics.assumptions import check_assumptions
from epiclick.diagnostics.confounding import check_confounding
from epiclick.diagnostics.contraction import (
    AtBound,
    at_bound_warning,
    contexts_at_bound,
    prior_contraction,
)
from epiclick.diagnostics.placement_slope import PlacementSlope
from epiclick.diagnostics.position_features import PositionFeatures
from epiclick.diagnostics.randomised import (
    NOT_COMPARED,
    compare_randomised,
    has_bias_by_position,
)
from epiclick.diagnostics.unattractive import unattractive_clicks
from epiclick.errors import InputError
from epiclick.fitted.clusters_used import ClustersUsed
from epiclick.fitted.parameters import ParameterPosterior
from epiclick.fitted.prediction import (
    display_chances,
    emission_at,
    mean_emission,
    over_entries,
)
from epiclick.fitted.state import FittedModel
from epiclick.identification.anchor import Moved, moved_sentence
from epiclick.identification.bias_estimate import BiasEstimate
from epiclick.identification.identifiability import identifiability
from epiclick.identification.unbounded import UnboundedBias, unbounded_bias
from epiclick.posterior.known_bias import describe_known, fixed_contexts
from epiclick.posterior.laplace import KnownBias

LEAST_EXPECTED = (5.0, 1.0)
"""Least expected clicks, and displays without one, of an entry; the second if the first leaves less
than ENOUGH. From 5 on (Cochran's rule) an entry is nearly Gaussian, and shows variation that noise
hides in smaller ones; but most logs have few such entries. At 1 the ratio was within 1.5 % of 1,
with the spread of a chi-squared, in seven well-specified simulations of 6 to 300 displays per pair;
with no bound at all the spread was up to 1.9 times that."""

ENOUGH = 100
"""Degrees of freedom with which the standard error of the ratio is 0.14."""

ROUNDING = 1e-9  # whether an entry expects exactly 1 must not depend on the last digit of a fit
HALVINGS = 60  # of the range of a relevance: beyond the resolution of float64


@dataclass(frozen=True)
class FitCheck:
    """Pearson's chi-squared of the position-based model.

    Attributes:
        chi2: the sum over entries.
        df: degrees of freedom: entries, minus one relevance per pair, minus the free biases.
        ratio: chi2 / df, 1 with standard error sqrt(2 / df) for a model that fits; None without df.
        entries: number of entries expected to have enough of both outcomes.
        least_expected: how many are enough.
    """

    chi2: float
    df: int
    ratio: float | None
    entries: int
    least_expected: float


def chi2_of(fitted: FittedModel, counts: ClickCounts) -> FitCheck:
    """Check counts against the examination that a model expects."""
    if fitted.clicks.has_latent_state:
        read, _ = display_chances(fitted, counts)
        return chi2_per_df(counts, over_entries(counts, read), by_entry=True)
    return chi2_of_emission(counts, emission_at(fitted, counts.contexts))


def chi2_of_emission(counts: ClickCounts, emission: Emission) -> FitCheck:
    """Check counts against an emission (contexts,), with each pair's best relevance under it."""
    if emission.unattractive is None:
        examined = emission.attractive > 0  # elsewhere there is nothing to check
        if not examined.all():
            counts = counts.of_contexts(examined)
        return chi2_per_df(counts, emission.attractive[examined])
    rise = emission.attractive - emission.unattractive
    return chi2_per_df(counts, rise, emission.unattractive)


def chi2_per_df(
    counts: ClickCounts,
    theta: np.ndarray,
    floor: np.ndarray | None = None,
    *,
    by_entry: bool = False,
) -> FitCheck:
    """Check counts against a position bias, with each pair's best relevance under it.

    Position bias is (contexts,), or (entries,) if `by_entry`, where it differs between pages.

    Where unattractive items are clicked too, with probability `floor` (contexts,), p is
    floor + theta zeta, and h is proportional to N theta^2 / (p (1 - p)).

    Entries are chosen by a relevance fitted to all of a pair's entries, and tested with one fitted
    to the chosen ones alone: otherwise the entries left out absorb part of the fit, and the ratio
    is 40 % too high in a well-specified simulation.
    """
    theta = np.asarray(theta, np.float64)
    size = len(counts.pair if by_entry else counts.contexts)
    if theta.shape != (size,) or not np.all((theta > 0) & np.isfinite(theta)):
        raise InputError(
            f"theta must have one number above 0 for each of {size} "
            f"{'entries' if by_entry else 'contexts'}, not {theta}",
            code="invalid-position-bias",
        )
    # entries that can never be chosen are not fitted: in most logs, nearly all
    smallest = 2 * min(LEAST_EXPECTED)
    eligible = _of_two_or_more(counts.pair, counts.displays >= smallest)
    used = np.isin(counts.pair, counts.pair[eligible])
    pair, context = counts.pair[used], counts.context[used]
    displays, clicks = (
        values[used].astype(np.float64) for values in (counts.displays, counts.clicks)
    )
    bias = theta[used] if by_entry else theta[context]
    base = None if floor is None else floor[context]
    expected = displays * _best_chance(pair, bias, displays, clicks, base)
    rarer = np.minimum(expected, displays - expected)  # of clicks and displays without one

    for least in LEAST_EXPECTED:
        chosen = _of_two_or_more(pair, rarer >= least * (1 - ROUNDING))
        own = None if base is None else base[chosen]
        of_chosen = (pair[chosen], bias[chosen], displays[chosen], clicks[chosen], own)
        entries = int(chosen.sum())
        # of each context but one, its bias, and how often unattractive items are clicked
        biases = max(len(np.unique(context[chosen])) - 1, 0) * (1 if floor is None else 2)
        df = entries - len(np.unique(pair[chosen])) - biases
        if df >= ENOUGH:
            break
    chi2 = _pearson(*of_chosen)
    return FitCheck(chi2, df, chi2 / df if df > 0 else None, entries, least)


def best_relevance(
    pair: np.ndarray,
    bias: np.ndarray,
    displays: np.ndarray,
    clicks: np.ndarray,
    floor: np.ndarray | None = None,
) -> np.ndarray:
    r"""Maximum-likelihood relevance of each entry's pair given the position bias: (entries,).

    It solves, between 0 and the largest value that keeps every probability at or below 1,

    .. math:: \sum_k M_k = \sum_k W_k \frac{\theta_k \zeta}{1 - \theta_k \zeta},

    whose right side increases with zeta. With a floor f_k it solves, between the values that keep
    every probability between 0 and 1,

    .. math:: \sum_k M_k \frac{\theta_k}{f_k + \theta_k \zeta} =
              \sum_k W_k \frac{\theta_k}{1 - f_k - \theta_k \zeta}.

    Args:
        pair: (entries,) in ascending order.
        bias: (entries,) theta of the entry's context.
        displays: (entries,) N.
        clicks: (entries,) M; W = N - M.
        floor: (entries,) probability of a click without relevance; None for 0.
    """
    if not len(pair):
        return np.zeros(0)
    first = np.flatnonzero(np.r_[True, pair[1:] != pair[:-1]])
    size = np.diff(np.r_[first, len(pair)])
    total = np.add.reduceat(clicks, first)  # (pairs,)
    low, high = np.zeros(len(first)), 1 / np.maximum.reduceat(bias, first)
    if floor is not None:
        low = np.maximum.reduceat(-floor / bias, first)
        high = np.minimum.reduceat((1 - floor) / bias, first)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        p = bias * np.repeat(middle, size)
        if floor is None:
            # p rounds to 1 only where the upper end is the solution: all displays have clicks
            below = np.add.reduceat((displays - clicks) * _ratio(p, 1 - p), first) < total
        else:
            p = floor + p
            score = clicks * _ratio(bias, p) - (displays - clicks) * _ratio(bias, 1 - p)
            below = np.add.reduceat(score, first) > 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.repeat((low + high) / 2, size)


def _best_chance(
    pair: np.ndarray,
    bias: np.ndarray,
    displays: np.ndarray,
    clicks: np.ndarray,
    floor: np.ndarray | None,
) -> np.ndarray:
    """(entries,) probability of a click with each pair's best relevance."""
    chance = bias * best_relevance(pair, bias, displays, clicks, floor)
    return chance if floor is None else np.clip(floor + chance, 0, 1)


def _of_two_or_more(pair: np.ndarray, good: np.ndarray) -> np.ndarray:
    """Mask of the good entries whose pair has two or more of them."""
    if not len(pair):
        return good
    return good & (np.bincount(pair, good)[pair] >= 2)


def _pearson(
    pair: np.ndarray,
    bias: np.ndarray,
    displays: np.ndarray,
    clicks: np.ndarray,
    floor: np.ndarray | None = None,
) -> float:
    p = _best_chance(pair, bias, displays, clicks, floor)
    # a fit to no clicks, or to clicks only, is exact: 0 / 0 is 0
    gap = _ratio((clicks - displays * p) ** 2, displays * p * (1 - p))
    information = _ratio(displays * p, 1 - p)
    if floor is not None:
        information = _ratio(displays * bias**2, p * (1 - p))
    leverage = _ratio(information, np.bincount(pair, information)[pair])
    return float(np.sum(gap * (1 - leverage / displays)))


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Quotient; 0 where the divisor is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


READ_FROM_THE_TOP = "Assumed: users read from the top, and skip no item unseen."
EXAMINATION_KNOWN = (
    "In a {} the clicks of a page determine which of its items were examined, so relevance is "
    "learned without comparing positions."
)
EXAMINATION_DRAWN = (
    "In a {} everything down to the last click of a page was examined, so relevance is learned "
    "without comparing positions; who read on below it is not in the log, and is averaged over."
)

POOR_FIT = 1.5
"""Pearson's chi2/df above which clicks are overdispersed for a position-based model."""

HIGH_TAIL, BAD_TAIL = 0.7, 1.0
"""Pareto's k above which a Gaussian describes the posterior poorly, or not at all."""


@dataclass(frozen=True)
class Checks:
    """Results of the checks.

    Attributes:
        records: by name, as stored in JSON; `words` among them, sentences for people.
        warnings: what the user should know.
    """

    records: dict[str, Any]
    warnings: tuple[str, ...]


def check_fit(
    fitted: FittedModel,
    train: ClickCounts,
    level: float,
    known: KnownBias | None = None,
    randomised: ClickCounts | None = None,
    unbounded: UnboundedBias | None = None,
    moved: Moved | None = None,
    whole: ClickCounts | None = None,
    bias: BiasEstimate | None = None,
) -> Checks:
    """Check data and fit.

    Args:
        fitted: the model.
        train: the pairs it was trained on.
        level: of intervals.
        known: position bias that was given.
        randomised: pages with a random ranking, kept out of the fit.
        unbounded: ratios of position bias without a bound; default those of `train`.
        moved: why the anchor is not the first position, where it was chosen automatically.
        whole: the log including held-out pairs, whose pages are searched for robots.
        bias: position bias of the model given the whole log, and what it owes to its queries.
    """
    emission = mean_emission(fitted)
    known_examination = fitted.clicks.knows_examination
    found, fit = identifiability(train), chi2_of(fitted, train)
    held = () if known is None else fixed_contexts(known)
    at_bound: tuple[AtBound, ...] = ()
    if fitted.anchor is not None and not known_examination:
        at_bound = contexts_at_bound(fitted, unbounded or unbounded_bias(train), held)
    bound = [each.context for each in at_bound]
    narrowed = prior_contraction(fitted, known, bound)
    words, warnings = found.summary().splitlines(), [*found.warnings]
    if known_examination:
        latent = fitted.clicks.has_latent_state
        known_by = EXAMINATION_DRAWN if latent else EXAMINATION_KNOWN
        words, warnings = [known_by.format(fitted.clicks.title), READ_FROM_THE_TOP], []
    records: dict[str, Any] = {
        "chi2_per_df": fit.ratio,
        "chi2_df": fit.df,
        "identifiability": found.to_dict(),
        "anchor": _describe_anchor(fitted, moved),
        "at_bound": [each.to_dict(fitted.contexts) for each in at_bound],
    }
    robots = None if whole is None else suspicious_pages(whole, emission.attractive)
    records["robots"] = {
        "checked": whole is not None and whole.page_clicks is not None,
        "found": None if robots is None else {**asdict(robots), "words": robots.message},
    }
    warnings += [] if robots is None else [robots.message]
    warnings += _poor_fit(fit, fitted.clicks.title)
    assumed = check_assumptions(train if whole is None else whole, fitted.clicks)
    records["assumptions"] = assumed.to_dict()
    words += assumed.sentences()
    warnings += assumed.warnings
    warnings += _scale(fitted, known, at_bound, moved)
    if not known_examination and not fitted.clicks.is_affine:
        log = train if whole is None else whole
        reason = _not_compared(known, at_bound)
        confounded = check_confounding(fitted, log, unbounded or unbounded_bias(log), bias, reason)
        records["confounding"] = confounded.to_dict()
        words += confounded.sentences()
        warnings += confounded.warnings
    if (placed := PlacementSlope.of(fitted, level)) is not None:
        records["placement"] = placed.to_dict()
        words.append(placed.sentence())
    if (leaked := PositionFeatures.of(train if whole is None else whole)) is not None:
        records["position_features"] = leaked.to_dict()
        warnings += leaked.warnings
    if known is not None:
        records["given_bias"] = describe_known(known, fitted.contexts, level)
    if narrowed is not None and fitted.posterior is not None:
        words += [*narrowed.sentences(), *_borrowed(fitted, train)]
        warnings += narrowed.warnings
        affine = unattractive_clicks(fitted, level) if fitted.clicks.is_affine else None
        if affine is not None:
            words += affine.sentences()
            warnings += affine.warnings
        tail_warnings, tail_notes = _tail(fitted.posterior)
        warnings += tail_warnings
        words += tail_notes
        used = ClustersUsed.of(fitted, (train if whole is None else whole).clusters)
        words.append(used.sentence())
        records["posterior"] = {
            "how": "laplace" if fitted.posterior.samples is None else "nuts",
            "pareto_k": fitted.posterior.pareto_k,
            "gradient": fitted.posterior.gradient,
            "hyperparameters": dict(fitted.posterior.hyperparameters),
            "clusters": used.to_dict(),
            "by_position": narrowed.to_records(),
            **({} if affine is None else {"unattractive": affine.to_records()}),
        }
    if randomised is not None and not has_bias_by_position(fitted):
        words.append(NOT_COMPARED)
    elif randomised is not None:
        compared = compare_randomised(fitted, randomised, level, bound)
        records["identifiability"]["randomised"] = compared.to_dict()
        words += compared.sentences()
        warnings += compared.warnings
    rates = train.by_context()
    records["by_context"] = {name: rates[name].tolist() for name in ("displays", "clicks")}
    records["words"] = words
    return Checks(records, tuple(warnings))


def is_poor_fit(ratio: float | None, freedom: int) -> bool:
    """Whether chi2/df is too high for a position-based model, and not by chance."""
    if ratio is None:
        return False
    noise = np.sqrt(2 / freedom) if freedom else 0.0
    return bool(ratio > max(POOR_FIT, 1 + 3 * noise))


def _poor_fit(fit: FitCheck, model: str) -> list[str]:
    """A warning about overdispersed clicks."""
    if not is_poor_fit(fit.ratio, fit.df):
        return []
    return [
        f"clicks are overdispersed: they have {fit.ratio:.1f} times the variance that a {model} "
        "allows (chi2/df; 1 is a perfect fit). Items differ in attractiveness between times, "
        "positions or users, and intervals that rely on the model are too narrow"
    ]


def _scale(
    fitted: FittedModel, known: KnownBias | None, at_bound: Sequence[AtBound], moved: Moved | None
) -> list[str]:
    """Warnings about a scale that clicks do not determine, or whose anchor may surprise."""
    if fitted.anchor is None:
        if known is not None:
            return []  # it has a value for every context
        return [
            "no position is anchored at 1, so only ratios of position bias are learned from the "
            "clicks; its scale, and with it relevance, rests on the prior"
        ]
    found = []
    if moved is not None:
        found.append(moved_sentence(fitted.contexts, fitted.anchor, moved))
    if at_bound:
        anchors = set(fitted.clicks.anchors(fitted.contexts).tolist())
        found.append(at_bound_warning(fitted.contexts, fitted.anchor, at_bound, anchors))
    return found


def _not_compared(known: KnownBias | None, at_bound: Sequence[AtBound]) -> str:
    """Why the model's position bias is no estimate from clicks alone, as a clause; else empty."""
    if known is not None:
        return "position bias was given"
    return "a bias is at its bound" if at_bound else ""


def _describe_anchor(fitted: FittedModel, moved: Moved | None) -> dict[str, Any] | None:
    """A record of the anchor: its context, and the one it was moved from; None without one."""
    if fitted.anchor is None:
        return None
    rows = fitted.contexts.to_pylist()
    return {
        "context": rows[fitted.anchor],
        "moved_from": None if moved is None else rows[moved.usual],
        "ratio": None if moved is None else moved.ratio,
    }


def _borrowed(fitted: FittedModel, train: ClickCounts) -> list[str]:
    """Sentences on what contexts learn from each other, where their prior is hierarchical."""
    assert fitted.posterior is not None
    spreads = fitted.posterior.hyperparameters
    if not spreads:
        return []
    named = ", ".join(f"{name} {value:.2f}" for name, value in spreads.items())
    found = [
        f"Contexts learn from each other: standard deviations of {fitted.clicks.parameter}, in "
        f"logits, are {named}."
    ]
    unshown = int(np.sum(np.bincount(train.context, minlength=len(fitted.contexts)) == 0))
    if unshown:
        found.append(
            f"{unshown} of {len(fitted.contexts)} contexts were never displayed: their values come "
            "from the others alone."
        )
    return found


def _tail(posterior: ParameterPosterior) -> tuple[list[str], list[str]]:
    """Warnings and notes on a posterior that is not Gaussian, unless it was sampled."""
    k = posterior.pareto_k
    if k is None or posterior.samples is not None or not k > HIGH_TAIL:
        return [], []
    remedy = "theta_posterior='nuts' samples it instead"
    if k > BAD_TAIL:
        return [f"the posterior is far from Gaussian (Pareto k {k:.2f}); {remedy}"], []
    return [], [f"The posterior is not quite Gaussian (Pareto k {k:.2f}); {remedy}."]
