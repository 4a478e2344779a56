"""All that a report is made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from epiclick.api import BaseModel
from epiclick.comparison.result import Comparison
from epiclick.data.arrays import is_among
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.evaluation.truth import Truth
from epiclick.fitted.state import FittedModel
from epiclick.report.markup import Absent


@dataclass(frozen=True, eq=False)
class Sources:
    """What a report is made from.

    Attributes:
        model: the fitted model.
        name: what to call it.
        log: the log it was trained on, features joined where they were given; None if not given.
        later: a log that was held back, likewise.
        features: of items, where they were given.
        others: models to score beside this one, by name.
        comparison: of rankers, if some were given.
        truth: of a simulated world, if that is where the log comes from.
        true_values: ranker -> clicks a page that it truly gets in that world.
        command: what was typed.
        log_names: the log's files, as given.
        later_names: those of the log that was held back.
        made: the day, as text.
    """

    model: BaseModel
    name: str
    log: ClickCounts | None = None
    later: ClickCounts | None = None
    features: FeatureTable | None = None
    others: Mapping[str, BaseModel] = field(default_factory=dict)
    comparison: Comparison | None = None
    truth: Truth | None = None
    true_values: Mapping[str, float] = field(default_factory=dict)
    command: str = ""
    log_names: tuple[str, ...] = ()
    later_names: tuple[str, ...] = ()
    made: str = ""

    @property
    def fitted(self) -> FittedModel:
        """The model's inside."""
        return self.model.fitted_

    @property
    def can_judge(self) -> bool:
        """Whether items of a log can be judged: features are there, or not needed."""
        return self.fitted.features is None or self.features is not None

    @cached_property
    def tested(self) -> "Trial | Absent":
        """The clicks on which the model is checked."""
        if self.log is None and self.later is None:
            return Absent(
                "No clicks were given to check the model on.",
                "--backtest later.parquet",
            )
        if not self.can_judge:
            return Absent(
                "The model judges items by their features, and these were not given.",
                "--features features.parquet",
            )
        if self.later is not None:
            return Trial(self.later, self.fitted, self.log, "a log that was held back", True)
        assert self.log is not None
        return _unseen_of(self.fitted, self.log)


@dataclass(frozen=True, eq=False)
class Trial:
    """Clicks on which the model is checked.

    Attributes:
        counts: the clicks.
        fitted: the model, without what it knows of these very items.
        train: clicks from which baselines learn, if there are any.
        words: what clicks these are: "a log that was held back".
        fair: whether the model had never seen them.
    """

    counts: ClickCounts
    fitted: FittedModel
    train: ClickCounts | None
    words: str
    fair: bool


def _unseen_of(fitted: FittedModel, log: ClickCounts) -> Trial:
    """The part of a log that the model has seen least of."""
    train, held_out = (
        is_among("query_id", log.query_id, queries)
        for queries in (fitted.queries.train, fitted.queries.held_out)
    )
    for chosen, words, fair in (
        (~train & ~held_out, "queries of the log that the model had never seen", True),
        (held_out, "queries of the log that were held out while training", False),
    ):
        if chosen.any():
            learned = log.subset(train) if train.any() else None
            return Trial(log.subset(chosen), _forgetful(fitted), learned, words, fair)
    everything = np.ones(len(log), bool)
    return Trial(log.subset(everything), fitted, log, "clicks it has learned from", False)


def _forgetful(fitted: FittedModel) -> FittedModel:
    """The model without the items that it knows by their clicks, those held out among them."""
    return replace(fitted, items=None)
