"""What a report is made from, and the clicks that its model is tested on."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from epiclick.api import BaseModel
from epiclick.comparison.result import Comparison
from epiclick.data.arrays import is_among
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.evaluation.truth import Truth
from epiclick.fitted.state import FittedModel
from epiclick.report.markup import Absent
from epiclick.selection.selection_file import StoredSelection

NO_FEATURES = Absent(
    "The model needs features of items, which were not given.", "--features features.parquet"
)


@dataclass(frozen=True, eq=False)
class Sources:
    """What a report is made from.

    Attributes:
        model: the fitted model.
        name: what to call it.
        log: the log it was trained on, joined with features if there are any; None if not given.
        later: a log that was held back; the same.
        features: of items, if given.
        others: models to score beside this one, by name.
        comparison: of rankers, if any were given.
        truth: of a simulated world, if the log comes from one.
        true_values: ranker -> its true clicks per page in that world.
        selection: of click models on the log, if given.
        command: the command line.
        log_names: the log's files, as given.
        later_names: those of the log that was held back.
        created: the date, as text.
        previous: the model before this one, if given.
        previous_name: what to call it.
        overlap: share of the log's displays that the previous model was fitted to, too.
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
    selection: StoredSelection | None = None
    command: str = ""
    log_names: tuple[str, ...] = ()
    later_names: tuple[str, ...] = ()
    created: str = ""
    previous: BaseModel | None = None
    previous_name: str = ""
    overlap: float = 0.0

    @property
    def fitted(self) -> FittedModel:
        """The state of the model."""
        return self.model.fitted_

    @property
    def can_judge(self) -> bool:
        """Whether relevance can be estimated: features are given, or not needed."""
        return self.fitted.features is None or self.features is not None

    @cached_property
    def tested(self) -> "Trial | Absent":
        """The clicks that the model is tested on."""
        if self.log is None and self.later is None:
            return Absent("No clicks were given to test the model on.", "--backtest later.parquet")
        if not self.can_judge:
            return NO_FEATURES
        if self.later is not None:
            return Trial(self.later, self.fitted, self.log, "a log that was held back", True)
        assert self.log is not None
        return _least_seen(self.fitted, self.log)


@dataclass(frozen=True, eq=False)
class Trial:
    """Clicks that the model is tested on.

    Attributes:
        counts: the clicks.
        fitted: the model, without posteriors of items that it is tested on.
        train: clicks that baselines learn from, if there are any.
        description: which clicks: "a log that was held back".
        unseen: whether the model had never seen them.
    """

    counts: ClickCounts
    fitted: FittedModel
    train: ClickCounts | None
    description: str
    unseen: bool


def _least_seen(fitted: FittedModel, log: ClickCounts) -> Trial:
    """The part of a log that the model has seen least of."""
    train, held_out = (
        is_among("query_id", log.query_id, queries)
        for queries in (fitted.queries.train, fitted.queries.held_out)
    )
    for chosen, description, unseen in (
        (~train & ~held_out, "queries of the log that the model had never seen", True),
        (held_out, "queries of the log that were held out during training", False),
    ):
        if chosen.any():
            # held-out queries are among the items whose posterior is stored
            without_items = replace(fitted, items=None)
            learned = log.subset(train) if train.any() else None
            return Trial(log.subset(chosen), without_items, learned, description, unseen)
    return Trial(log, fitted, log, "the clicks it was trained on", False)
