"""What a comparison rests on, for callers that value further pages of the same items."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from epiclick.click_models.click_model import SATISFACTION, Emission
from epiclick.comparison.factors import Factors, GoingOn, Moments, factors_of
from epiclick.comparison.item_means import ItemMeans
from epiclick.comparison.rankings import Ranking
from epiclick.comparison.shown_items import Items, Satisfaction, moments_of, of_betas
from epiclick.comparison.shown_items import Moments as Chunk
from epiclick.comparison.slots import Measure, Slots, Traffic
from epiclick.comparison.value_samples import ValueSamples, sample_values
from epiclick.comparison.worth import Worth
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.fitted.parameters import Parameters
from epiclick.fitted.prediction import emission_by, floor_by, reported_emission
from epiclick.fitted.state import FittedModel
from epiclick.posterior.reading_items import ItemDraws


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a comparison rests on: slots and items of the rankers, and draws of the posterior.

    Attributes:
        fitted: the model.
        names: of the rankers, as given.
        rankings: one per ranker.
        slots: of all rankers.
        items: in the slots.
        draws: of the parameters.
        known: items of the log under every draw, for models that need whole pages; else None.
        features: of the items, if the model was trained on some.
        clicks: the log, if one was given.
        traffic: of the log, if one was given.
        seed: of the random numbers.
    """

    fitted: FittedModel
    names: tuple[str, ...]
    rankings: tuple[Ranking, ...]
    slots: Slots
    items: Items
    draws: Sequence[Parameters]
    known: ItemDraws | None
    features: FeatureTable | None
    clicks: ClickCounts | None
    traffic: Traffic | None
    seed: int

    @property
    def pages(self) -> int | None:
        """Of the log, if one was given."""
        return None if self.traffic is None else round(self.traffic.pages.sum())

    def emission(self) -> Emission:
        """Of reported relevance, (draws, contexts): of items that a model keeps as of all others"""
        emission = emission_by(self.fitted, self.draws, np.arange(len(self.fitted.contexts)))
        return reported_emission(emission, floor_by(self.fitted, self.draws))

    def moments(self, rng: np.random.Generator) -> Iterator[Chunk]:
        """Mean and variance of relevance under every draw, in chunks of items."""
        given = of_betas(None if self.known is None else self.known.attraction)
        return moments_of(self.fitted, self.items, self.draws, rng, given)

    def going_on(self, rng: np.random.Generator) -> GoingOn | None:
        """Whether users go on after a click, under every draw; None if they always do."""
        return _going_on(self.fitted, self.items, self.draws, rng, self.known)

    def factors(
        self,
        slots: Slots,
        item: np.ndarray,
        measures: Sequence[Measure],
        going_on: GoingOn | None,
        worth: Mapping[str, Worth] | None = None,
    ) -> Factors:
        """How values of pages made of these items depend on relevance; `item` is (slots,)."""
        return factors_of(
            slots,
            item,
            measures,
            len(self.items),
            self.fitted.clicks.states(self.fitted.contexts),
            self.emission(),
            going_on,
            {name: each.moments for name, each in (worth or {}).items()},
        )

    @property
    def _never_shown(self) -> np.ndarray | None:
        """(items,) whether the log shows an item nowhere, for whatever reason; None without one."""
        has_log = self.clicks is not None or len(self.items.kept) > 0
        return ~self.items.was_seen if has_log else None

    def sampled(
        self,
        factors: Factors,
        moments: Moments,
        shape: tuple[int, int],
        samples: int,
        rng: np.random.Generator,
    ) -> ValueSamples:
        """Samples of values; `shape` is the number of measures and of rankers."""
        return sample_values(
            factors,
            np.tile(self.items.was_seen, factors.kinds),
            moments,
            shape,
            samples,
            rng,
            never_shown=self._never_shown,
            members=bool(self.fitted.members),
        )


def _going_on(
    fitted: FittedModel,
    items: Items,
    draws: Sequence[Parameters],
    rng: np.random.Generator,
    known: ItemDraws | None,
) -> GoingOn | None:
    """Whether users go on after a click, under every draw; None if they always do."""
    if not fitted.clicks.has_latent_state:
        return None
    if SATISFACTION in fitted.clicks.channels:
        own = Satisfaction.of(fitted, draws)
        clicked = of_betas(None if known is None else known.satisfaction)
        return GoingOn(
            satisfaction=ItemMeans(moments_of(own.fitted, items, own.draws, rng, clicked))
        )
    by_context = [fitted.clicks.going_on(np.asarray(draw.position.points.logit)) for draw in draws]
    return GoingOn(np.stack([each for each in by_context if each is not None]))
