"""Which click model fits a log? Fit several to the same pages, and score them on held-out ones."""

import itertools
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from epiclick.api import EPISTEMIC, BaseModel, without_caveats
from epiclick.arguments import check_choice, check_level, check_whole, is_number, shown
from epiclick.click_models.click_model import SATISFACTION
from epiclick.click_models.registry import REGISTRY, click_model
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable, read_features
from epiclick.data.files import unchanged
from epiclick.data.held_out_displays import split_displays
from epiclick.data.log_formats.log_registry import open_rows
from epiclick.data.readers import count_log, counts_files
from epiclick.data.schema import LogOptions, options_of, resolve_columns
from epiclick.data.shown_pages import ShownPages, read_pages
from epiclick.diagnostics.relevance_slopes import RELEVANCE_SLOPES
from epiclick.errors import InputError, InputWarning
from epiclick.evaluation.paired_differences import paired_difference
from epiclick.fitted.state import given_of
from epiclick.selection.held_out_scores import HeldOutScores, held_out_scores
from epiclick.selection.parsimony import IN_PROPORTION, ModelScores
from epiclick.selection.selected import Selection
from epiclick.training.progress import working

LEAST_HELD_OUT, MOST_HELD_OUT = 0.01, 0.9
FOLDS_HELD_OUT = 4
"""Folds of pages that are held out, at least: a share is met to within half a fold."""


def select(
    source: Any,
    models: Sequence[str] | None = None,
    features: Any = None,
    *,
    holdout: float = 0.2,
    level: float = 0.9,
    seed: int = 0,
    parameters: Mapping[str, Any] | None = None,
    missing_features: Literal["error", "drop"] = "error",
    progress: bool = True,
    options: LogOptions | None = None,
    **settings: Any,
) -> Selection:
    """Fit click models to the same training pages and compare them on the same held-out pages.

    Queries are shared between training and held-out pages. Where a log has no `page_id`, single
    displays are held out, and models that depend on earlier clicks of a page are left out.

    Args:
        source: a log, as `read_log` accepts it.
        models: names of click models; default all.
        features: of the items, as `read_features` accepts them.
        holdout: share of the pages to hold out.
        level: probability of the intervals, which come from the differences between queries.
        seed: of the choice of held-out pages, and of the fits.
        parameters: of the models, such as `{"epochs": 20}`; see `EpistemicPBM`.
        missing_features: what to do with pairs without features.
        progress: show progress, on a terminal.
        options: how to read the log; see `read_log`.
        **settings: fields of `LogOptions`, which override those of `options`.
    """
    _check(holdout, level, seed)
    check_choice("missing_features", missing_features, ("error", "drop"))
    # which model predicts clicks best does not depend on what follows from them
    reading = options_of(options, settings)
    reading = replace(reading, part=None, page_parts=None, conversion=None, value=None)
    names = _names(models)
    with unchanged(source):
        log = _log(source, reading, holdout, seed, missing_features, features)
        names, notes = _readable(log, names, by_default=models is None)
        if not log.has_pages:
            notes.append(
                "the pages of the log are unknown, so single displays were held out at random"
            )
        for note in notes:
            warnings.warn(note, InputWarning, stacklevel=2)
        fitted = {
            name: _fit_and_score(log, name, seed, parameters or {}, progress=progress)
            for name in names
        }
    first = next(iter(fitted.values()))
    return Selection(
        scores=compared(fitted, level),
        models={name: each.model for name, each in fitted.items()},
        held_out={name: each.scores for name, each in fitted.items()},
        level=level,
        pages=next((each.pages for each in fitted.values() if each.pages is not None), None),
        displays=int(first.scores.displays.sum()),
        queries=len(first.scores.displays),
        last_position=first.last_position,
        notes=tuple(notes),
        aliases=log.aliases,
    )


class Candidate(NamedTuple):
    """A fitted model and its scores.

    Attributes:
        model: the model.
        scores: on held-out pages.
        seconds: duration of the fit.
        pages: held-out pages; None if unknown.
    """

    model: BaseModel
    scores: HeldOutScores
    seconds: float
    pages: int | None

    @property
    def parameters(self) -> int:
        """Free parameters of the click model besides relevance; satisfaction has one per item."""
        fitted = self.model.fitted_
        free = len(fitted.clicks.free(len(fitted.contexts), fitted.anchor))
        return free + (fitted.training.pairs if SATISFACTION in fitted.clicks.channels else 0)

    @property
    def last_position(self) -> str:
        """The last given context, in words."""
        row = given_of(self.model.fitted_)[0].to_pylist()[-1]
        return ", ".join(f"{name} {value}" for name, value in row.items())

    @property
    def relative_bias(self) -> float:
        """Position bias there, relative to the anchor."""
        return float(self.model.position_bias()["relative"].iloc[-1])


def compared(fitted: Mapping[str, Candidate], level: float) -> tuple[ModelScores, ...]:
    """The scores of all models, with differences from the best, paired by query."""
    redundant = _redundant(fitted)
    possible = {
        name: each
        for name, each in fitted.items()
        if not each.scores.impossible and name not in redundant
    }
    best = min(
        possible.values(),
        key=lambda each: (-each.scores.log_likelihood, each.parameters, each.model.click_model),
        default=None,
    )
    rows = (_compared(name, each, best, level) for name, each in fitted.items())
    return tuple(replace(row, is_redundant=row.click_model in redundant) for row in rows)


def _redundant(fitted: Mapping[str, Candidate]) -> set[str]:
    """Models with clicks on unattractive items, where a fit without them shows no sign of them."""
    found = set()
    for name, other in itertools.product(fitted, fitted):
        affine, plain = click_model(name), click_model(other)
        alike = affine.history == plain.history and not plain.knows_examination
        if not (affine.is_affine and alike and not plain.is_affine):
            continue
        tests = fitted[other].model.fitted_.training.checks["assumptions"]["tests"]
        known = [test for test in tests if test["name"] == RELEVANCE_SLOPES.name]
        if any(test.get("p_value", 0) >= IN_PROPORTION for test in known):
            found.add(name)
    return found


def _compared(name: str, each: Candidate, best: Candidate | None, level: float) -> ModelScores:
    scores, checks = each.scores, each.model.fitted_.training.checks
    row = ModelScores(
        click_model=name,
        parameters=each.parameters,
        log_likelihood=None,
        chi2_per_df=checks.get("chi2_per_df"),
        relative_bias=each.relative_bias,
        seconds=each.seconds,
        impossible=scores.impossible,
        unit=scores.unit,
        is_contradicted=any(test["found"] for test in checks["assumptions"]["tests"]),
    )
    if scores.impossible or best is None:
        return row
    assert np.array_equal(scores.displays, best.scores.displays), "other held-out displays"
    given = paired_difference(scores.given - best.scores.given, scores.displays, level)
    marginal = paired_difference(scores.marginal - best.scores.marginal, scores.displays, level)
    return replace(
        row,
        log_likelihood=scores.log_likelihood,
        difference=given.difference,
        low=given.low,
        high=given.high,
        perplexity=scores.perplexity,
        marginal_log_likelihood=scores.marginal_log_likelihood,
        marginal_difference=marginal.difference,
        marginal_low=marginal.low,
        marginal_high=marginal.high,
        pair_log_likelihood=scores.pair_log_likelihood,
    )


@dataclass(frozen=True, eq=False)
class _Log:
    """A log to be read once for each click model, and how its pages are divided.

    Attributes:
        source: as `read_log` accepts it.
        options: how it is read, for a model without history.
        has_pages: whether pages can be held out; else single displays are.
        holdout: share to hold out.
        seed: of the division.
        missing_features: what to do with pairs without features.
        features: as given, or read.
        warned: messages that were already given, as every read repeats them.
        without_history: the counts that models without history share, once they are read.
        aliases: columns found under another name -> that name.
    """

    source: Any
    options: LogOptions
    has_pages: bool
    holdout: float
    seed: int
    missing_features: Literal["error", "drop"]
    features: Any
    warned: set[str] = field(default_factory=set)
    without_history: dict[str, ClickCounts] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    def options_for(self, name: str) -> LogOptions:
        """How the log is read for a click model."""
        return replace(self.options, click_model=name)

    def counts(self, name: str) -> ClickCounts:
        """The counts of all pages for a click model; those without history share one read."""
        if _needs_pages(name):
            return self._read(name)
        if not self.without_history:
            self.without_history["pbm"] = self._read("pbm").by_given()
        counts = self.without_history["pbm"]
        return replace(counts, options=replace(counts.options, click_model=name))

    def split(self, counts: ClickCounts) -> tuple[ClickCounts, ClickCounts]:
        """Training and held-out counts, the same pages for every click model."""
        if not self.has_pages:
            return split_displays(counts, self.holdout, self.seed)
        train, test = counts.split(1 - self.holdout, self.holdout, by="page", seed=self.seed)
        return train, test

    def _read(self, name: str) -> ClickCounts:
        if isinstance(self.source, ClickCounts):
            counts = self.source
        else:
            counts, report = count_log(self.source, self.options_for(name))
            self.aliases.update(report.aliases)
            robots = () if report.robots is None else (report.robots.message,)
            self._warn(*report.warnings, *robots)
        if self.features is None:
            return counts
        table = self.features
        if not isinstance(table, FeatureTable):
            table = read_features(table, ids=counts.options.ids)
        joined = counts.with_features(table, missing=self.missing_features)
        if missing := len(counts) - len(joined):
            self._warn(f"{missing:,} of {len(counts):,} pairs have no features and were left out")
        return joined

    def _warn(self, *messages: str) -> None:
        for message in messages:
            if message not in self.warned:
                self.warned.add(message)
                warnings.warn(message, InputWarning, stacklevel=6)


def _log(
    source: Any,
    options: LogOptions,
    holdout: float,
    seed: int,
    missing_features: Literal["error", "drop"],
    features: Any,
) -> _Log:
    paged = _has_pages(source, options)
    if paged:
        folds = int(np.ceil(FOLDS_HELD_OUT / min(holdout, 1 - holdout)))
        options = replace(options, page_parts=folds)
    return _Log(source, options, paged, holdout, seed, missing_features, features)


def _has_pages(source: Any, options: LogOptions) -> bool:
    """Whether a log has pages and one row per display."""
    if isinstance(source, ClickCounts) or counts_files(source):
        return False
    opened = open_rows(source, options)
    columns = resolve_columns(
        opened.table.columns, replace(options, click_model="pbm"), opened.name
    )
    return "page_id" in columns.found and not columns.counted


def _readable(log: _Log, names: Sequence[str], *, by_default: bool) -> tuple[list[str], list[str]]:
    """The models that the log can be read for, and why others are left out.

    A model that was asked for by name is never left out: what prevents it is raised.
    """
    kept, notes = [], []
    for name in names:
        try:
            _check_readable(log, name)
            kept.append(name)
        except InputError as error:
            # without their remedies, which name another option
            why = "; ".join(problem.what for problem in error.problems) or str(error)
            if not by_default:
                raise error.with_message(
                    f"{name} cannot be fitted: {why}. Leave it out of --models (in Python: "
                    "models=...), or change the log."
                ) from error
            notes.append(f"{name} is left out: {why}")
    return kept, notes


def _check_readable(log: _Log, name: str) -> None:
    model = click_model(name)
    if not _needs_pages(name):
        return
    options = log.options_for(name)  # which refuses contexts without a position
    if isinstance(log.source, ClickCounts) or counts_files(log.source):
        raise InputError(
            f"the {model.title} depends on earlier clicks on the page, which counts do not "
            "contain; give the log itself",
            code="needs-single-displays",
        )
    opened = open_rows(log.source, options)
    resolve_columns(opened.table.columns, options, opened.name)


def _fit_and_score(
    log: _Log, name: str, seed: int, parameters: Mapping[str, Any], *, progress: bool
) -> Candidate:
    with working(f"{name}: reading", shown=progress):
        train, test = log.split(log.counts(name))
        if test.num_queries < 2:
            raise InputError(
                f"held-out pages have {test.num_queries} query; differences between models are "
                "judged by how they vary between queries, so at least 2 are needed. Give a log "
                "with more queries, or hold more out (--holdout, in Python: holdout)",
                code="too-few-queries",
            )
        pages: ShownPages | None = None
        if click_model(name).history:
            pages = read_pages(log.source, log.options_for(name), test)
    begun = time.perf_counter()
    model = EPISTEMIC[name](**{"seed": seed, **parameters})
    try:
        with without_caveats():  # the verdict names the assumptions that pages contradict
            model.fit(train, progress=progress)
    except InputError as error:
        raise error.with_message(f"{name}: {error}") from error
    seconds = time.perf_counter() - begun
    with working(f"{name}: scoring", shown=progress):
        scores = held_out_scores(model, test, pages)
    return Candidate(model, scores, seconds, None if pages is None else len(pages.entry))


def _needs_pages(name: str) -> bool:
    """Whether a click model depends on earlier clicks of a page."""
    model = click_model(name)
    return bool(model.history) or model.has_latent_state


def _names(models: Sequence[str] | None) -> list[str]:
    if models is None:
        return list(REGISTRY)
    if isinstance(models, str) or not isinstance(models, Sequence) or not models:
        raise InputError(
            f"models must be names of click models, as in ('pbm', 'ubm'), not {shown(models)}",
            code="invalid-type",
        )
    for name in models:
        click_model(name)  # refuses an unknown one
    if len(set(models)) < len(models):
        raise InputError("models: name each click model once", code="repeated-model")
    return list(models)


def _check(holdout: Any, level: Any, seed: Any) -> None:
    if not (is_number(holdout) and LEAST_HELD_OUT <= holdout <= MOST_HELD_OUT):
        raise InputError(
            f"holdout must be a share of pages from {LEAST_HELD_OUT} to {MOST_HELD_OUT}, not "
            f"{shown(holdout)}; for example 0.2",
            code="holdout-out-of-range",
        )
    check_level("level", level)
    check_whole("seed", seed)
