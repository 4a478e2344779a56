"""A fitted model's answers on all quantities in a world, with their truth.

Intervals are the model's own, from its public methods, at each level. Draws, on which scores and
ranks are based, are joint: parameters of the model first, then relevance given them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from epiclick.arguments import BiasKind
from epiclick.beta import Beta
from epiclick.calibration.answers import DRAWS, LEVELS, VALUES, Answers
from epiclick.calibration.families import Case, display_contexts, display_probability, display_rows
from epiclick.click_models.click_model import Emission
from epiclick.click_models.registry import click_model
from epiclick.data.features import FeatureTable
from epiclick.data.page_lists import PageLists
from epiclick.fitted.affine_table import lines_of
from epiclick.fitted.parameters import Parameters, parameter_draws
from epiclick.fitted.prediction import (
    emission_by,
    floor_by,
    going_on_by,
    lists_of,
    relevance_of_pairs,
)
from epiclick.posterior.conversion_items import conversion_betas, conversion_posterior
from epiclick.posterior.reading_items import reading_items
from epiclick.reading.pages import still_reading
from epiclick.relevance.reported import reported
from epiclick.simulate.users import examination_at, unattractive_at

if TYPE_CHECKING:
    from epiclick.api import BaseModel
    from epiclick.comparison.result import Comparison


FEATURES = 3
"""Number of rankers by a single feature."""

NOISE = (0.1, 0.3)
"""Standard deviations of the noise added to another ranker's scores, whose own is 1."""


def rankings_of(case: Case) -> dict[str, pa.Table]:
    """Rankings of all queries: by single features, by their sum, and near ties of both."""
    table = case.world.features
    values = table.rows(np.arange(len(table)))[:, :FEATURES].astype(np.float64)
    values = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-9)
    scores = {f"feature {i}": values[:, i] for i in range(values.shape[1])}
    scores["sum"] = values.sum(axis=1) / values.sum(axis=1).std()
    rng = np.random.default_rng([case.seed, 9])
    for noise, name in zip(NOISE, ("feature 0", "sum"), strict=True):
        scores[f"near {name}"] = scores[name] + noise * rng.standard_normal(len(table))
    return {name: _ranking(case, score) for name, score in scores.items()}


def _ranking(case: Case, score: np.ndarray) -> pa.Table:
    """The best items of each query, one per position; pairs are sorted by query and document."""
    docs, positions = case.family.docs, len(case.world.position_bias)
    best = np.argsort(-score.reshape(-1, docs), axis=1, kind="stable")[:, :positions]
    query = np.repeat(np.arange(len(best)), positions)
    return pa.table(
        {
            "query_id": query,
            "doc_id": best.ravel(),
            "position": np.tile(np.arange(1, positions + 1), len(best)),
        }
    )


def true_value(case: Case, ranking: pa.Table, measure: str = "clicks") -> float:
    """Expected clicks per page of the world's users, or conversions, or their value."""
    world = case.world
    row = ranking["query_id"].to_numpy() * case.family.docs + ranking["doc_id"].to_numpy()
    row = row.reshape(-1, len(world.position_bias))
    worth = np.ones(len(world.relevance))
    if world.purchases is not None:
        own = {"conversions": np.ones_like(worth), "value": world.purchases.value}
        worth = world.purchases.conversion * own[measure] if measure in own else worth
    return float((world.chances(row) * worth[row]).sum(axis=1).mean())


def compare_rankers(
    model: "BaseModel", case: Case, *, by_clicks: bool
) -> tuple["Comparison", np.ndarray]:
    """A model's comparison of the rankers, and (measures, rankers) their true values.

    Measures are clicks per page and, if the model knows them, conversions and their value.

    Args:
        model: fitted in the world.
        case: the world.
        by_clicks: whether the items' own clicks are used, too.
    """
    from epiclick.comparison.compare_rankers import compare, known_measures
    from epiclick.comparison.slots import OUTCOME_MEASURES

    rankings = rankings_of(case)
    features = case.world.features if case.family.with_features else None
    outcomes = tuple(name for name in known_measures(model.fitted_) if name in OUTCOME_MEASURES)
    measures = ("clicks", *outcomes)
    found = compare(
        model,
        rankings,
        features,
        clicks=case.train if by_clicks else None,
        weights="uniform",
        measures=measures,
        seed=case.seed % 2**31,
    )
    true = [[true_value(case, each, name) for each in rankings.values()] for name in measures]
    return found, np.array(true)


@dataclass(frozen=True, eq=False)
class Questions:
    """The quantities of a fitted model in a world.

    Attributes:
        model: the fitted model.
        case: the world.
        intervals: which of the model's uncertainties of examination is used.
    """

    model: "BaseModel"
    case: Case
    intervals: BiasKind

    def answers(self) -> dict[str, Answers]:
        """Answers on all quantities for which the model reports an uncertainty, by name."""
        asked: dict[str, Callable[[], Answers | None]] = {
            "position_bias": self.position_bias,
            "click_offset": self.click_offset,
            "unseen_relevance": self.unseen_relevance,
            "seen_relevance": self.seen_relevance,
            "click_probability": self.click_probability,
            "ranker_value": self.ranker_value,
            "ranker_difference": self.ranker_difference,
            "conversion": self.conversion,
            "conversions_per_page": lambda: self._per_page("conversions"),
            "value_per_page": lambda: self._per_page("value"),
        }
        found = {name: ask() for name, ask in asked.items()}
        return {name: given for name, given in found.items() if given is not None and given.known}

    def position_bias(self) -> Answers | None:
        """Examination of all contexts relative to the anchor; None if it is a point estimate.

        For the position-based model these are all positions but the first; where unattractive items
        are clicked too, slopes of a click in relevance.
        """
        if self.model.click_table()["low"].isna().all():
            return None
        fitted = self.model.fitted_
        if not len(fitted.clicks.free(len(fitted.contexts), fitted.anchor)):
            return None
        first = fitted.anchor or 0
        theta = examination_at(self.case.world.examination, fitted.contexts)
        if fitted.clicks.has_latent_state:  # going on after a click has an absolute scale
            going_on = fitted.clicks.world_going_on(self.case.world.position_bias)
            assert going_on is not None
            # nothing follows a click at the last position
            return self._of_table("", going_on, self._going_on, len(going_on) - 1)
        truth = theta / theta[first]
        emission = self._emission
        if emission.is_affine:
            values = lines_of(emission, first)[0]
        else:
            values = emission.attractive / emission.attractive[:, [first]]
        return self._of_table("relative_", truth, values, first)

    def click_offset(self) -> Answers | None:
        """Offsets of clicks in all contexts but the anchor; None without such clicks."""
        fitted = self.model.fitted_
        if not self._emission.is_affine or self.model.click_table()["low"].isna().all():
            return None
        first, world = fitted.anchor or 0, self.case.world.examination
        slope, floor = (at(world, fitted.contexts) for at in (examination_at, unattractive_at))
        truth = floor - slope / slope[first] * floor[first]
        return self._of_table("offset_", truth, lines_of(self._emission, first)[1], first)

    def _of_table(
        self, prefix: str, truth: np.ndarray, values: np.ndarray, without: int
    ) -> Answers | None:
        """Answers on columns of `click_table` but for one context; values are (draws, contexts)."""
        tables = [self.model.click_table(self.intervals, level=level) for level in LEVELS]
        low, high = (
            np.stack([table[f"{prefix}{end}"].to_numpy() for table in tables])
            for end in ("low", "high")
        )
        used = np.isfinite(low).all(axis=0) & np.isfinite(truth)  # at its bound: no interval
        used[without] = False
        if not used.any():
            return None
        own = values.T[used]
        return Answers(truth[used], np.median(own, axis=1), low[:, used], high[:, used], own)

    def unseen_relevance(self) -> Answers:
        """Relevance of some items of the queries held back."""
        counts = self.case.unseen
        pairs = self._some(len(counts), 1)
        rows = self.case.rows(counts)[pairs]
        truth = self.case.world.click_if_first[rows]
        draws = reported(self._attraction(pairs, 2).T, self._floor).T
        if not self.case.family.with_features:
            return Answers.of_draws(truth, draws)
        low, high = self._intervals(lambda: self.model.relevance(self._table(rows)))
        return Answers(truth, np.median(draws, axis=1), low, high, draws)

    def seen_relevance(self) -> Answers | None:
        """Relevance of some training items; None for a model without a posterior.

        Draws are from the Beta with the posterior's mean and variance.
        """
        posterior = getattr(self.model, "posterior", None)
        if posterior is None:
            return None
        # in the order of the counts, as subsets are; shuffled below, as ranks use the first values
        pairs = np.sort(self._some(len(self.case.train), 3))
        counts = self.case.train.subset(pairs)
        order = np.random.default_rng([self.case.seed, 4]).permutation(len(counts))
        fitted = self.model.fitted_
        if fitted.clicks.has_latent_state:
            # items need all of their pages, but most are no question
            chosen = counts.numbers_in(self.case.train)[order]
            found = [
                reading_items(fitted, self.case.train, level, pairs=chosen).attraction
                for level in LEVELS
            ]
            betas = found[0].betas
            low, high = (
                np.stack([getattr(each, end) for each in found]) for end in ("low", "high")
            )
        else:
            tables = self._frames(lambda: posterior(counts))
            betas = Beta(tables[0]["alpha"].to_numpy()[order], tables[0]["beta"].to_numpy()[order])
            low, high = (
                np.stack([table[end].to_numpy()[order] for table in tables])
                for end in ("low", "high")
            )
        truth = self.case.world.click_if_first[self.case.rows(counts)[order]]
        rng = np.random.default_rng([self.case.seed, 5])
        return Answers(truth, betas.quantile(0.5), low, high, betas.sample(rng, DRAWS).T)

    def click_probability(self) -> Answers:
        """Probability of a click on some displays of the queries held back."""
        world, counts = self.case.world, self.case.unseen
        if self.model.fitted_.clicks.has_latent_state:
            return self._clicks_on_pages()
        row, rows = display_rows(world), self.case.rows(counts)
        chance = display_probability(world)
        # what is certainly not clicked is no question
        shown = np.flatnonzero(np.isin(row, rows) & (chance > 0))
        chosen = shown[self._some(len(shown), 6)]
        pairs = np.searchsorted(rows, row[chosen])  # rows ascend as the pairs do
        model = click_model(self.case.family.click_model)
        context = display_contexts(world, model, self.model.fitted_.contexts)[chosen]
        draws = self._emission.at(context).click_probability(self._attraction(pairs, 7).T).T
        return Answers.of_draws(chance[chosen], draws)

    def _clicks_on_pages(self) -> Answers:
        """The same where it depends on the whole page above a display."""
        world, counts, fitted = self.case.world, self.case.unseen, self.model.fitted_
        lists, rows = lists_of(fitted, counts), self.case.rows(counts)
        cells = np.flatnonzero(lists.shown.ravel())
        cells = cells[self._some(len(cells), 6)]
        satisfied = None if world.satisfaction is None else world.satisfaction[rows]
        if satisfied is None:
            by_position = fitted.clicks.world_going_on(world.position_bias)
            assert by_position is not None
            stay = by_position[lists.given]
        else:
            stay = 1 - np.where(lists.shown, satisfied[lists.pair], 0.0)
        truth = _chances(lists, world.relevance[rows], stay)[cells]
        pairs = np.arange(len(counts))
        relevance = self._attraction(pairs, 7)  # (pairs, draws)
        by_item = self._satisfaction(7)
        draws = []
        for j, draw in enumerate(self._parameters):
            own = None if by_item is None else by_item[:, j]
            stay = going_on_by(fitted, draw, lists, own)
            draws.append(_chances(lists, relevance[:, j], stay)[cells])
        return Answers.of_draws(truth, np.stack(draws, axis=1))

    def _satisfaction(self, stream: int) -> np.ndarray | None:
        """(pairs, draws) draws of satisfaction of all pairs held back; None without it."""
        networks = [parameters.satisfaction for parameters in self._parameters]
        if not networks[0]:
            return None
        fitted = self.model.fitted_
        betas = relevance_of_pairs(fitted, networks, self.case.unseen)
        rng = np.random.default_rng([self.case.seed, stream, 1])
        return fitted.relevance_head.draw(*betas, rng).T

    @cached_property
    def _going_on(self) -> np.ndarray:
        """(draws, contexts) probability of going on after a click in each context."""
        fitted = self.model.fitted_
        found = [
            fitted.clicks.going_on(np.asarray(draw.position.points.logit))
            for draw in self._parameters
        ]
        return np.stack([each for each in found if each is not None])

    def ranker_value(self) -> Answers | None:
        """Clicks per page of rankers; None for "bayes", which comparisons do not offer."""
        if self.intervals == "bayes":
            return None
        found, truth = self._compared
        return _of_samples(truth[0], found.values.samples[0])

    def _per_page(self, measure: str) -> Answers | None:
        """What follows from the clicks on rankers' pages; None if the model does not know it."""
        if self.intervals == "bayes" or measure not in self._compared[0].measures:
            return None
        found, truth = self._compared
        number = found.measures.index(measure)
        return _of_samples(truth[number], found.values.samples[number])

    def conversion(self) -> Answers | None:
        """Probability of a conversion after a click on some training items, given their own."""
        model, purchases = self.model.fitted_.conversion, self.case.world.purchases
        if model is None or purchases is None:
            return None
        pairs = np.sort(self._some(len(self.case.train), 10))
        counts = self.case.train.subset(pairs)
        order = np.random.default_rng([self.case.seed, 11]).permutation(len(counts))
        found = [conversion_posterior(model, counts, level) for level in LEVELS]
        low, high = (
            np.stack([getattr(each, end)[order] for each in found]) for end in ("low", "high")
        )
        kind = "bayes" if self.intervals == "bayes" else "robust"
        drawn = parameter_draws(model, DRAWS, kind=kind, seed=self.case.seed)
        betas = conversion_betas(model, counts, [drawn[i % len(drawn)] for i in range(DRAWS)])
        draws = betas.sample(np.random.default_rng([self.case.seed, 12])).T[order]
        truth = purchases.conversion[self.case.rows(counts)[order]]
        return Answers(truth, np.median(draws, axis=1), low, high, draws)

    def ranker_difference(self) -> Answers | None:
        """Differences in clicks per page of all pairs of rankers."""
        if self.intervals == "bayes":
            return None
        found, truth = self._compared
        one, other = np.triu_indices(truth.shape[1], 1)
        values = found.values.samples[0]
        return _of_samples(truth[0, one] - truth[0, other], values[one] - values[other])

    @cached_property
    def _compared(self) -> tuple["Comparison", np.ndarray]:
        """Comparison of rankers; for the paper's estimators by features alone, as in the paper."""
        learns = self.model.fitted_.relevance_head.learns_from_clicks
        by_clicks = learns and self.intervals != "evidential"
        return compare_rankers(self.model, self.case, by_clicks=by_clicks)

    @cached_property
    def _parameters(self) -> list[Parameters]:
        """Parameters of each draw; members of an ensemble take turns."""
        kind = "bayes" if self.intervals == "bayes" else "robust"
        drawn = parameter_draws(self.model.fitted_, DRAWS, kind=kind, seed=self.case.seed)
        return [drawn[i % len(drawn)] for i in range(DRAWS)]

    @cached_property
    def _emission(self) -> Emission:
        """(draws, contexts) draws of the emission in the model's contexts."""
        fitted = self.model.fitted_
        return emission_by(fitted, self._parameters, np.arange(len(fitted.contexts)))

    @cached_property
    def _floor(self) -> np.ndarray | None:
        """(draws,) least relevance under each, or None."""
        return floor_by(self.model.fitted_, self._parameters)

    @cached_property
    def _by_draw(self) -> tuple[np.ndarray, np.ndarray]:
        """alpha and beta of all pairs held back, by draw of the parameters: (draws, pairs)."""
        networks = [parameters.layers for parameters in self._parameters]
        return relevance_of_pairs(self.model.fitted_, networks, self.case.unseen)

    def _attraction(self, pairs: np.ndarray, stream: int) -> np.ndarray:
        """(pairs, draws) draws for some pairs held back, one per draw of the parameters."""
        one, other = (part[:, pairs] for part in self._by_draw)
        rng = np.random.default_rng([self.case.seed, stream])
        return self.model.fitted_.relevance_head.draw(one, other, rng).T

    def _table(self, rows: np.ndarray) -> FeatureTable:
        """Features of some rows of the world."""
        table = self.case.world.features
        return FeatureTable(table.keys.take(rows), table.names, table.rows(rows))

    def _intervals(self, call: Callable[[], pd.DataFrame]) -> tuple[np.ndarray, np.ndarray]:
        """Low and high, (levels, values) each, of a method of the model."""
        frames = self._frames(call)
        low, high = (np.stack([f[end].to_numpy() for f in frames]) for end in ("low", "high"))
        return low, high

    def _frames(self, call: Callable[[], pd.DataFrame]) -> list[pd.DataFrame]:
        """Results of a method of the model at each level."""
        usual, frames = self.model.level, []
        try:
            for level in LEVELS:
                self.model.level = level
                frames.append(call())
        finally:
            self.model.level = usual
        return frames

    def _some(self, count: int, stream: int) -> np.ndarray:
        """Indices of at most `VALUES` of the values, in random order."""
        return np.random.default_rng([self.case.seed, stream]).permutation(count)[:VALUES]


def _chances(lists: PageLists, relevance: np.ndarray, stay: np.ndarray) -> np.ndarray:
    """(lists x depth,) probability of a click on each display given the clicks above it."""
    read = still_reading(lists, relevance, stay)
    chance: np.ndarray = (read * np.where(lists.shown, relevance[lists.pair], 0.0)).ravel()
    return chance


def _of_samples(truth: np.ndarray, samples: np.ndarray) -> Answers:
    """Answers whose intervals are quantiles of (values, samples), some of which are the draws."""
    tails = [(1 - level) / 2 for level in LEVELS]
    low, high = (np.quantile(samples, q, axis=1) for q in (tails, [1 - t for t in tails]))
    some = np.linspace(0, samples.shape[1] - 1, DRAWS).astype(int)
    return Answers(truth, np.median(samples, axis=1), low, high, samples[:, some])
