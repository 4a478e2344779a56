"""The data at a glance: how much there is, and the click rate of every context."""

from dataclasses import dataclass

import numpy as np

from epiclick.models.fitted import given_of
from epiclick.report.facts.contexts import drawn, labels_of
from epiclick.report.facts.rates import click_rates
from epiclick.report.facts.sources import Sources


@dataclass(frozen=True)
class RateRow:
    """Displays and clicks of a context.

    Attributes:
        label: its values.
        displays: how often something was shown there.
        clicks: how often that was clicked.
        rate: clicks a display; NaN where nothing was shown.
        low: lower end of the rate's interval; NaN where the queries are not known.
        high: upper end.
    """

    label: str
    displays: int
    clicks: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class Glance:
    """Size of the data.

    Attributes:
        of: what was counted: "the log", or "the part of the log that the model learned from".
        pages: result pages; None where that is not known.
        queries: different queries.
        pairs: different items, an item being a document shown for a query.
        displays: items shown.
        clicks: items clicked.
        context: what click rates are told by: "position".
        rows: of the contexts, the most displayed if there are many.
        contexts: how many there are.
    """

    of: str
    pages: int | None
    queries: int
    pairs: int
    displays: int
    clicks: int
    context: str
    rows: tuple[RateRow, ...]
    contexts: int


def glance(sources: Sources) -> Glance:
    """Count the log; without one, what the model keeps of its own."""
    fitted, log = sources.fitted, sources.log
    if log is not None:
        log = log.by_given()
        table, contexts = log.by_context(), log.contexts
        displays, clicks = table["displays"].to_numpy(), table["clicks"].to_numpy()
        rates = click_rates(log, log.context, len(contexts))
        sizes = (log.num_queries, len(log), log.total_displays, log.total_clicks)
    else:
        kept, (contexts, index) = fitted.training.checks["by_context"], given_of(fitted)
        displays, clicks = (
            np.bincount(index, kept[name]).astype(np.int64) for name in ("displays", "clicks")
        )
        rate = clicks / np.where(displays > 0, displays, np.nan)
        rates = np.stack([rate, np.full(len(rate), np.nan), np.full(len(rate), np.nan)])
        training = fitted.training
        sizes = (len(fitted.queries.train), training.pairs, training.displays, training.clicks)
    labels = labels_of(contexts)
    return Glance(
        "the log" if log is not None else "the part of its log that the model learned from",
        None if log is None else log.pages,
        *sizes,
        context=", ".join(contexts.column_names),
        rows=tuple(
            RateRow(labels[k], int(displays[k]), int(clicks[k]), *map(float, rates[:, k]))
            for k in drawn(displays)
        ),
        contexts=len(contexts),
    )
