"""All that a fit is checked for, kept with the model and told in words."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from epiclick.data.counts import ClickCounts
from epiclick.data.robots import suspicious_pages
from epiclick.evaluation.fit_check import FitCheck, chi2_per_df
from epiclick.evaluation.randomised import NOT_COMPARED, compare_randomised
from epiclick.models.fitted import FittedModel, history_of
from epiclick.models.prediction import mean_bias
from epiclick.models.uncertainty import ParameterPosterior
from epiclick.posterior.anchor import Moved, moved_words
from epiclick.posterior.at_bound import AtBound, at_bound_words, contexts_at_bound
from epiclick.posterior.identifiability import identifiability
from epiclick.posterior.known_bias import describe_known, held_contexts
from epiclick.posterior.learned import learned
from epiclick.posterior.position import KnownBias
from epiclick.posterior.unbounded import UnboundedBias, unbounded_bias

POOR_FIT = 1.5
"""Pearson's chi2/df above which clicks vary more than a position-based model allows."""

DOUBTFUL_TAIL, BAD_TAIL = 0.7, 1.0
"""Pareto's k above which a Gaussian describes the posterior poorly, or not at all."""

FEW_QUERIES = 30
"""Fewer queries than this are too few for their differences to say how sure a fit is."""


@dataclass(frozen=True)
class Checks:
    """What checks found.

    Attributes:
        records: by name, as JSON holds them; `words` among them, sentences for people.
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
) -> Checks:
    """Check data and fit.

    Args:
        fitted: the model.
        train: the pairs it was trained on.
        level: of intervals.
        known: position bias that was given.
        randomised: pages with a random ranking, kept out of the fit.
        unbounded: ratios of position bias without a bound; by default those of `train`.
        moved: why the anchor is not the first position, where that was left to be found.
        whole: the log, what was held out included; its pages are looked at for robots.
    """
    theta, _ = mean_bias(fitted)
    found, fit = identifiability(train), chi2_per_df(train, theta)
    held = () if known is None else held_contexts(known)
    at_bound: tuple[AtBound, ...] = ()
    if fitted.anchor is not None:
        at_bound = contexts_at_bound(fitted, unbounded or unbounded_bias(train), held)
    bound = [each.context for each in at_bound]
    narrowed = learned(fitted, known, bound)
    words, warnings = found.words().splitlines(), [*found.warnings]
    records: dict[str, Any] = {
        "chi2_per_df": fit.ratio,
        "chi2_df": fit.df,
        "identifiability": found.to_dict(),
        "anchor": _describe_anchor(fitted, moved),
        "at_bound": [each.to_dict(fitted.contexts) for each in at_bound],
    }
    robots = None if whole is None else suspicious_pages(whole, theta)
    records["robots"] = {
        "checked": whole is not None and whole.page_clicks is not None,
        "found": None if robots is None else {**asdict(robots), "words": robots.words},
    }
    warnings += [] if robots is None else [robots.words]
    warnings += _poor_fit(fit, fitted.clicks.title)
    warnings += _scale(fitted, known, at_bound, moved)
    if known is not None:
        records["given_bias"] = describe_known(known, fitted.contexts, level)
    if narrowed is not None and fitted.posterior is not None:
        words += [*narrowed.words(), *_borrowed(fitted, train)]
        warnings += narrowed.warnings
        doubts, notes = _tail(fitted.posterior)
        warnings += doubts
        words += notes
        queries = len(fitted.queries.train) + len(fitted.queries.held_out)
        if queries < FEW_QUERIES:
            words.append(
                f"Intervals of position bias come from the differences between queries, and there "
                f"are {queries} only: look at those of kind='bayes' too."
            )
        records["posterior"] = {
            "how": "laplace" if fitted.posterior.samples is None else "nuts",
            "pareto_k": fitted.posterior.pareto_k,
            "gradient": fitted.posterior.gradient,
            "hyperparameters": dict(fitted.posterior.hyperparameters),
            "by_position": narrowed.to_records(),
        }
    if randomised is not None and history_of(fitted):
        words.append(NOT_COMPARED)
    elif randomised is not None:
        compared = compare_randomised(fitted, randomised, level, bound)
        records["identifiability"]["randomised"] = compared.to_dict()
        words += compared.words()
        warnings += compared.warnings
    rates = train.by_context()
    records["by_context"] = {name: rates[name].tolist() for name in ("displays", "clicks")}
    records["words"] = words
    return Checks(records, tuple(warnings))


def is_poor_fit(ratio: float | None, freedom: int) -> bool:
    """Whether chi2/df is above what a position-based model allows, and beyond chance."""
    if ratio is None:
        return False
    noise = np.sqrt(2 / freedom) if freedom else 0.0
    return bool(ratio > max(POOR_FIT, 1 + 3 * noise))


def _poor_fit(fit: FitCheck, model: str) -> list[str]:
    """A word on clicks that vary too much."""
    if not is_poor_fit(fit.ratio, fit.df):
        return []
    return [
        f"clicks vary {fit.ratio:.1f} times as much as a {model} allows "
        "(chi2/df; 1 is a perfect fit): the same items attract differently at different times, "
        "positions or users, and intervals that trust the model are too narrow"
    ]


def _scale(
    fitted: FittedModel, known: KnownBias | None, at_bound: Sequence[AtBound], moved: Moved | None
) -> list[str]:
    """A word on a scale that rests on something else than clicks, or is not where one expects."""
    if fitted.anchor is None:
        if known is not None:
            return []  # which has a value for every context
        return [
            "no position is anchored at 1, so only ratios of position bias are learned from the "
            "clicks; its scale, and with it relevance, rests on the prior"
        ]
    found = []
    if moved is not None:
        found.append(moved_words(fitted.contexts, fitted.anchor, moved))
    if at_bound:
        anchors = set(fitted.clicks.anchors(fitted.contexts).tolist())
        found.append(at_bound_words(fitted.contexts, fitted.anchor, at_bound, anchors))
    return found


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
    """A word on what contexts learn from each other, where the prior says that they are alike."""
    assert fitted.posterior is not None
    spreads = fitted.posterior.hyperparameters
    if not spreads:
        return []
    named = ", ".join(f"{name} {value:.2f}" for name, value in spreads.items())
    found = [
        f"Contexts learn from each other: spreads of {fitted.clicks.parameter}, in logits, are "
        f"{named}."
    ]
    unshown = int(np.sum(np.bincount(train.context, minlength=len(fitted.contexts)) == 0))
    if unshown:
        found.append(
            f"{unshown} of {len(fitted.contexts)} contexts were never displayed and rest on that "
            "alone."
        )
    return found


def _tail(posterior: ParameterPosterior) -> tuple[list[str], list[str]]:
    """Warnings and notes on a posterior that is no Gaussian, unless Markov chains drew it."""
    k = posterior.pareto_k
    if k is None or posterior.samples is not None or not k > DOUBTFUL_TAIL:
        return [], []
    remedy = "theta_posterior='nuts' samples it instead"
    if k > BAD_TAIL:
        return [f"the posterior is far from a Gaussian (Pareto k {k:.2f}); {remedy}"], []
    return [], [f"The posterior is not quite a Gaussian (Pareto k {k:.2f}); {remedy}."]
