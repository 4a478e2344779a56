"""What a comparison of rankers found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from epiclick.comparison.gate import Reason, check_gate, reasons_against
from epiclick.comparison.never_shown import tipping_point
from epiclick.comparison.overlap import Overlap
from epiclick.comparison.slots import ALL_MEASURES, OUTCOME_MEASURES
from epiclick.comparison.value_samples import ValueSamples
from epiclick.comparison.verdict import (
    SURE,
    Check,
    Difference,
    Spread,
    backtest_check,
    chance,
    unseen_check,
)
from epiclick.errors import InputError
from epiclick.evaluation.backtest import Grade
from epiclick.views.summaries import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Values of rankers as distributions, and which is best.

    Attributes:
        names: of the rankers, as given.
        measures: how rankers are valued; the first decides the verdict.
        values: samples of the values, common to all rankers, so that shared uncertainty cancels in
            differences.
        level: probability of the intervals.
        queries: number of queries compared.
        seen: (rankers,) share of slots whose items' relevance is estimated from their own clicks.
        unknown: (rankers,) share of slots with items about which nothing is known.
        pages: of the log, where one was given.
        backtest: predicted and observed clicks per page, as text; None if not done.
        notes: what was left out or assumed.
        backtest_grade: "inside", "just outside" or "far outside"; None if unknown.
        model_checks: of the fit, those that failed and matter for rankers.
        overlap: what the log has shown of the rankers, and other estimates; None without a log.
    """

    names: tuple[str, ...]
    measures: tuple[str, ...]
    values: ValueSamples = field(repr=False)
    level: float
    queries: int
    seen: np.ndarray
    unknown: np.ndarray
    pages: float | None
    backtest: str | None
    notes: tuple[str, ...]
    backtest_grade: Grade | None = None
    model_checks: tuple[Check, ...] = ()
    overlap: Overlap | None = None

    def __str__(self) -> str:
        """The values of the rankers, and the verdict."""
        table = self.rankers[["name", "value", "low", "high", "prob_best", "expected_loss", "seen"]]
        return f"{table.to_string(index=False, float_format='{:.4f}'.format)}\n{self.verdict}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For notebooks: the values of the rankers, and the verdict."""
        table = self.rankers[["name", "value", "low", "high", "prob_best", "expected_loss", "seen"]]
        caption = f"{self.unit.capitalize()} per page, with {100 * self.level:g} % intervals:"
        facts = [("queries", f"{self.queries:,}")]
        notes = [self.verdict, *self.notes]
        return Summary("Comparison of rankers", facts, table, caption, notes)._repr_html_()

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the values of the rankers with their intervals; needs matplotlib.

        Args:
            ax: axes to draw on; default, those of a new figure.
        """
        from epiclick.views.figures import plot_rankers

        return plot_rankers(self.rankers, self.unit, self.level, ax)

    @property
    def unit(self) -> str:
        """What is counted per page by the measure that decides."""
        return ALL_MEASURES[self.measures[0]].unit

    @property
    def further(self) -> tuple[str, ...]:
        """Measures besides the first that count clicks or their outcomes on whole pages."""
        return tuple(name for name in self.measures[1:] if name in ("clicks", *OUTCOME_MEASURES))

    def samples(self, measure: str | None = None) -> pd.DataFrame:
        """Common samples of the values, a column for each ranker; by default, as the first says."""
        drawn = self.values.samples[self._measure(measure)]
        return pd.DataFrame(dict(zip(self.names, drawn, strict=True)))

    @property
    def rankers(self) -> pd.DataFrame:
        """Of each ranker: value, low, high, prob_best, expected_loss, and the other measures.

        The first are of the measure that decides, by default clicks per page. `expected_loss` is
        the expected difference between the best ranker and this one. `seen` and `unknown` are
        shares of its slots, columns ending in `_share` are shares of its variance.
        """
        table: dict[str, Any] = {"name": list(self.names)}
        for number, measure in enumerate(self.measures):
            column = ALL_MEASURES[measure].column
            prefix = "" if number == 0 else f"{column}_"
            drawn = self.values.samples[number]
            low, high = self.interval(drawn)
            table |= {"value" if number == 0 else column: drawn.mean(axis=1)}
            table |= {f"{prefix}low": low, f"{prefix}high": high}
            if number == 0 or measure in self.further:
                table[f"{prefix}prob_best"] = _prob_best(drawn)
            if number == 0:
                table["expected_loss"] = (drawn.max(axis=0) - drawn).mean(axis=1)
        table |= {"seen": self.seen, "unknown": self.unknown}
        spreads = [self.spread(name).shares() for name in self.names]
        table |= {f"{part}_share": [s[part] for s in spreads] for part in spreads[0]}
        return pd.DataFrame(table)

    @property
    def support(self) -> pd.DataFrame:
        """What the log has shown of each ranker; no rows without a log.

        Shares of its `slots` and of its expected `clicks` with items that the log has shown, at any
        position; `displays` of these in the log, and `effective_displays`, the number of displays
        of equal weight that they are worth; `moved`, the share of what users look at that it moves
        to other items than the log shows.
        """
        return (self.overlap or Overlap()).support_table()

    @property
    def estimators(self) -> pd.DataFrame:
        """Clicks per page on items that the log has shown, by other estimators than the model's.

        One row per ranker and estimator: `value`, `low`, `high`; `model`, the model's value of the
        same slots; `difference` from it with `diff_low`, `diff_high` and its `p_value`. Where it is
        not `available`, numbers are missing and `reason` says why. No rows without a log.
        """
        return (self.overlap or Overlap()).estimates_table()

    @property
    def differences(self) -> pd.DataFrame:
        """Every pair of rankers: the one named first against the other."""
        return self.differences_in()

    def differences_in(self, measure: str | None = None) -> pd.DataFrame:
        """The same by any measure; by default, by the first."""
        pairs = [
            self.difference(one, other, measure)
            for i, one in enumerate(self.names)
            for other in self.names[i + 1 :]
        ]
        columns = [name for name in Difference.__dataclass_fields__ if name != "spread"]
        columns += [f"{part}_share" for part in Spread.__dataclass_fields__]
        return pd.DataFrame([pair.to_dict() for pair in pairs], columns=columns)

    def difference(self, name: str, against: str, measure: str | None = None) -> Difference:
        """One ranker against another, by the first or another measure."""
        i, j = (_index(self.names, each, "ranker") for each in (name, against))
        m = self._measure(measure)
        drawn, spread = self.values.samples[m], self.spread(name, against, measure)
        unit = ALL_MEASURES[self.measures[m]].unit
        return Difference.of_samples((name, against), drawn[i], drawn[j], self.level, spread, unit)

    def _measure(self, name: str | None) -> int:
        """Number of a measure; of the first for None."""
        return 0 if name is None else _index(self.measures, name, "measure")

    def spread(self, name: str, against: str | None = None, measure: str | None = None) -> Spread:
        """Where the variance of a ranker's value, or of a difference, comes from.

        Of the variance between draws of the parameters, position bias gets the share that it
        explains with relevance at its mean.
        """
        m, contrast = self._measure(measure), np.zeros(len(self.names))
        contrast[_index(self.names, name, "ranker")] = 1
        if against is not None:
            contrast[_index(self.names, against, "ranker")] -= 1
        values = self.values
        seen, unseen = (contrast @ part[m] @ contrast for part in (values.seen, values.unseen))
        expected, by_bias = contrast @ values.expected[m], contrast @ values.by_bias[m]
        between = expected.var(ddof=int(values.members))
        explained = 0.0
        if between > 0 and by_bias.var() > 0:
            explained = float(np.corrcoef(expected, by_bias)[0, 1] ** 2)
        return Spread(
            max(float(seen), 0.0),
            max(float(unseen), 0.0),
            float(explained * between),
            float((1 - explained) * between),
        )

    def tipping_point(self, name: str, against: str, sure: float = SURE) -> float | None:
        """How much worse than predicted items never shown must be for a verdict to flip.

        A share of their predicted relevance, beyond the discount that they have already; None if
        the first ranker is not ahead with probability `sure`, or stays ahead whatever the discount.
        """
        pair = (_index(self.names, name, "ranker"), _index(self.names, against, "ranker"))
        return tipping_point(self.values, pair, sure)

    @property
    def best(self) -> str:
        """The ranker with the highest expected value."""
        return self.names[int(self.values.samples[0].mean(axis=1).argmax())]

    @property
    def is_uncertain(self) -> bool:
        """Whether the model has any uncertainty; a pointwise one without members does not."""
        return bool(np.ptp(self.values.samples[0], axis=1).any())

    @property
    def has_log(self) -> bool:
        """Whether there were clicks to estimate relevance from, in a log or kept by the model."""
        return self.pages is not None or bool(self.seen.any())

    @property
    def checks_failed(self) -> tuple[Check, ...]:
        """Failed checks, which argue against acting on the verdict."""
        return tuple(check for check in self.checks() if check.state == "failed")

    def checks(self, names: Sequence[str] | None = None) -> tuple[Check, ...]:
        """Checks that did not pass: of the model, its backtest, and of what these rankers show.

        By default, of the two rankers that the verdict compares.
        """
        shown = {name: self.seen[_index(self.names, name, "ranker")] for name in names or self._two}
        found = [*backtest_check(self.backtest_grade, self.backtest)]
        if self.has_log:
            found += unseen_check(list(shown), list(shown.values()))
        found += () if self.overlap is None else self.overlap.checks(list(shown))
        return (*found, *self.model_checks)

    def gate(self, sure: float | None = None, despite: Sequence[str] = ()) -> tuple[Reason, ...]:
        """Reasons not to choose the ranker named first over all others; none if it passes.

        It must be better than each other one, and no check of what any ranker shows may fail.

        Args:
            sure: least probability of being better. By default, the lower bound of each difference
                must be above 0, for intervals of `level`.
            despite: names of checks that may fail.
        """
        check_gate(self, sure, despite)
        first, *others = self.names
        differences = [self.difference(first, other) for other in others]
        return reasons_against(differences, self.checks(self.names), self.level, sure, despite)

    @property
    def verdict(self) -> str:
        """Which ranker to choose, with what probability, and which checks argue against it."""
        return self.verdict_at(SURE)

    def verdict_at(self, sure: float, more: Sequence[Check] = ()) -> str:
        """The verdict, with another probability required to prefer a ranker.

        Args:
            sure: the least probability of being better.
            more: further checks that did not pass.
        """
        order, checks = self._order, (*self.checks(), *more)
        sentences = [self._value_sentence(order[0])]
        if len(order) > 1:
            sentences = [self.difference(order[0], order[1]).verdict(self.pages, sure, checks)]
            sentences += self._tipping(order[0], order[1], sure)
        if len(order) > 2 and self.is_uncertain:
            prob_best = chance(self.rankers.set_index("name").loc[order[0], "prob_best"])
            sentences.append(
                f"{order[0]} is the best of all {len(order)} with probability {prob_best}."
            )
        sentences += self._unseen()
        tested = ["Not backtested." if self.backtest is None else f"Backtest: {self.backtest}."]
        for check in checks:
            remedy = check.remedy.replace("`", "")
            if check.name == "backtest" and self.backtest is not None:
                tested.append(remedy)
            elif check.name == "unseen":
                sentences.append(remedy)  # its finding is among the sentences already
            else:
                sentences += [check.sentence(titled=check.title in sentences[0]), remedy]
        return " ".join(filter(None, [*sentences, *tested]))

    def _unseen(self) -> list[str]:
        """A warning where most items that rankers show have no clicks of their own."""
        if not self.has_log:
            return ["No log was given: the relevance of all items is predicted without clicks."]
        return [check.found for check in unseen_check(self.names, self.seen.tolist())]

    def _tipping(self, name: str, against: str, sure: float) -> list[str]:
        """At which discount of items never shown a verdict flips, if it rests on any of them."""
        gain = self.difference(name, against)
        if not (gain.spread.total > 0 and gain.prob_better >= sure):
            return []
        if not self.values.never_shown[0].any():
            return []
        share = self.tipping_point(name, against, sure)
        if share is None:
            return ["It holds even if items that were never shown get no clicks at all."]
        return [
            f"It holds unless items that were never shown are {share:.0%} worse than predicted."
        ]

    @property
    def _order(self) -> list[str]:
        """The rankers, highest expected value first."""
        return [self.names[i] for i in np.argsort(-self.values.samples[0].mean(axis=1))]

    @property
    def _two(self) -> list[str]:
        """The rankers that the verdict compares."""
        return self._order[:2]

    @property
    def _tipping_point(self) -> float | None:
        """That of the verdict."""
        if len(self.names) < 2:
            return None
        first, second = self._two
        return self.tipping_point(first, second)

    def _value_sentence(self, name: str) -> str:
        row = self.rankers.set_index("name").loc[name]
        value, low, high = (f"{row[column]:.3f}" for column in ("value", "low", "high"))
        return f"{name} is worth {value} {self.unit} per page ({low} to {high})."

    def interval(self, drawn: np.ndarray) -> np.ndarray:
        """Ends of central intervals of samples, (2, ...) of (..., samples)."""
        return np.quantile(drawn, [(1 - self.level) / 2, (1 + self.level) / 2], axis=-1)

    def to_dict(self) -> Mapping[str, Any]:
        """Everything except the samples, as a record for JSON."""
        return {
            "rankers": self.rankers.to_dict("records"),
            "differences": self.differences.to_dict("records"),
            "measure": self.measures[0],
            "differences_by": {
                name: self.differences_in(name).to_dict("records") for name in self.further
            },
            "verdict": self.verdict,
            "tipping_point": self._tipping_point,
            "queries": self.queries,
            "pages": self.pages,
            "level": self.level,
            "backtest": self.backtest,
            "backtest_grade": self.backtest_grade,
            "checks_failed": [check.to_dict() for check in self.checks_failed],
            "notes": list(self.notes),
            "support": self.support.to_dict("records"),
            "estimators": self.estimators.to_dict("records"),
        }


def _prob_best(values: np.ndarray) -> np.ndarray:
    """(rankers,) probability of the highest value, from samples; ties are shared."""
    is_best = values == values.max(axis=0)
    return (is_best / is_best.sum(axis=0)).mean(axis=1)


def _index(names: Sequence[str], name: str, kind: str) -> int:
    """Number of a ranker or measure."""
    if name not in names:
        raise InputError(
            f"there is no {kind} '{name}'; there are {', '.join(names)}", code=f"unknown-{kind}"
        )
    return names.index(name)
