"""How well the model foretells clicks: by position, against simple rules and other models."""

from collections.abc import Iterator
from dataclasses import dataclass

from epiclick.evaluation.backtest import Backtest, backtest
from epiclick.evaluation.clicks import score_clicks
from epiclick.models.prediction import click_probabilities
from epiclick.report.facts.absent import Absent
from epiclick.report.facts.contexts import drawn, labels_of
from epiclick.report.facts.rates import click_rates
from epiclick.report.facts.reliability import Reliability, reliability
from epiclick.report.facts.scores import ScoreRow, score_rows
from epiclick.report.facts.sources import Sources, Trial


@dataclass(frozen=True)
class FitRow:
    """Observed and predicted click rate of a context.

    Attributes:
        label: its values.
        displays: how many there were.
        observed: clicks a display.
        low: lower end of what may be the true rate.
        high: upper end.
        predicted: clicks a display by the model.
    """

    label: str
    displays: int
    observed: float
    low: float
    high: float
    predicted: float


@dataclass(frozen=True)
class Quality:
    """How well clicks were foretold.

    Attributes:
        of: what clicks these are: "a log that was held back".
        fair: whether the model had never seen them.
        displays: how many there were.
        context: "position".
        scores: the model first.
        rows: of the contexts.
        backtest: clicks a page, observed and predicted.
        reliability: whether rates that were foretold came true.
        missing: rivals that were not scored, and what would add them.
    """

    of: str
    fair: bool
    displays: int
    context: str
    scores: tuple[ScoreRow, ...]
    rows: tuple[FitRow, ...]
    backtest: Backtest
    reliability: Reliability
    missing: tuple[Absent, ...]


def quality(sources: Sources) -> Quality | Absent:
    """Score the model on clicks that it has seen least of."""
    tested = sources.tested
    if isinstance(tested, Absent):
        return tested
    counts = tested.counts
    chance = click_probabilities(tested.fitted, counts)
    own = score_clicks(counts, chance)
    contexts, index = counts.given
    rates = click_rates(counts, index[counts.context], len(contexts))
    labels, table = labels_of(contexts), own.by_context
    shown = [k for k in drawn(table["displays"]) if table["displays"][k]]
    return Quality(
        of=tested.words,
        fair=tested.fair,
        displays=counts.total_displays,
        context=", ".join(contexts.column_names),
        scores=score_rows(sources, tested, chance),
        rows=tuple(
            FitRow(
                labels[k],
                int(table["displays"][k]),
                observed=float(rates[0, k]),
                low=float(rates[1, k]),
                high=float(rates[2, k]),
                predicted=float(table["predicted"][k]),
            )
            for k in shown
        ),
        backtest=backtest(tested.fitted, counts, sources.model.level),
        reliability=reliability(tested.fitted, counts, chance, seed=0),
        missing=tuple(_missing(sources, tested)),
    )


def _missing(sources: Sources, tested: Trial) -> Iterator[Absent]:
    if tested.train is None:
        yield Absent("Click rates by item need the log that the model was trained on.", "LOG")
    all_fitted = (sources.fitted, *(each.fitted_ for each in sources.others.values()))
    if all(each.relevance_head.has_uncertainty for each in all_fitted):
        yield Absent(
            "A pointwise model, which has one number where this one has a distribution, is not "
            "among them. Fit one with `epiclick fit --estimator pointwise`.",
            "--against pointwise",
        )
