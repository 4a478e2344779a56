"""The same rankers valued by several click models: does the verdict depend on the model?

Where `select` cannot tell click models apart, each of them may be right. A verdict on which all of
them agree does not depend on that choice.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from epiclick.api import BaseModel
from epiclick.arguments import shown
from epiclick.comparison.compare_rankers import compare
from epiclick.comparison.result import Comparison
from epiclick.comparison.verdict import SURE, Difference, chance
from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError

SELECT = (
    "`epiclick select` says which of them predicts held-out pages of the log better; if it cannot "
    "tell either, do not choose yet."
)


@dataclass(frozen=True, eq=False)
class SeveralModels:
    """Comparisons of the same rankers, by the names of the models behind them.

    Attributes:
        comparisons: of each model.
    """

    comparisons: Mapping[str, Comparison]

    def __str__(self) -> str:
        """Values of the rankers under each model, and the verdict."""
        return f"{self.table.to_string(index=False, float_format='{:.4f}'.format)}\n{self.verdict}"

    @property
    def table(self) -> pd.DataFrame:
        """A row for each model and ranker: value with its interval, and the lead of the first.

        `difference` and `prob_better` are those of the ranker named first from this one, by the
        measure that decides; they are NaN for that ranker itself.
        """
        rows: list[dict[str, Any]] = []
        for model, found in self.comparisons.items():
            first = found.names[0]
            for ranker in found.rankers.to_dict("records"):
                row = {name: ranker[name] for name in ("value", "low", "high", "prob_best")}
                lead = {"difference": float("nan"), "prob_better": float("nan")}
                if ranker["name"] != first:
                    own = found.difference(first, ranker["name"])
                    lead = {"difference": own.difference, "prob_better": own.prob_better}
                rows.append({"model": model, "ranker": ranker["name"], **row, **lead})
        return pd.DataFrame(rows)

    @property
    def agree(self) -> bool:
        """Whether all models are sure of the same ranker, or none is sure of any."""
        return len({_sure(lead) for lead in self._leads().values()}) < 2

    @property
    def verdict(self) -> str:
        """What the click models agree on, or how their verdicts differ."""
        leads = self._leads()
        if not leads:
            return self._values()
        first = next(iter(leads.values()))
        if not self.agree:
            opinions = "; ".join(f"{model}: {_opinion(own)}" for model, own in leads.items())
            return f"the verdict depends on the click model: {opinions}. {SELECT}{self._checks()}"
        who = "both click models agree" if len(leads) == 2 else f"all {len(leads)} models agree"
        found = f"{first.name} beats {_rivals(leads)} with"
        if _sure(first) is None:
            leads = {
                model: own.difference(first.name, first.against)
                for model, own in self.comparisons.items()
            }
            found = f"cannot tell {first.name} from {first.against}: {first.name} is better with"
        each = ", ".join(f"{model} {chance(own.prob_better)}" for model, own in leads.items())
        return f"{who}: {found} probability {each}.{self._checks()}"

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        return {
            "table": self.table.to_dict("records"),
            "agree": self.agree,
            "verdict": self.verdict,
            "verdicts": {model: found.verdict for model, found in self.comparisons.items()},
        }

    def _leads(self) -> dict[str, Difference]:
        """The best ranker of each model against its second best; none of a single ranker."""
        found = {}
        for model, own in self.comparisons.items():
            if len(own.names) > 1:
                order = own.rankers.sort_values("value", ascending=False)["name"].tolist()
                found[model] = own.difference(order[0], order[1])
        return found

    def _values(self) -> str:
        """The values of a single ranker."""
        rows = self.table.to_dict("records")
        each = (f"{r['value']:.3f} ({r['low']:.3f} to {r['high']:.3f})" for r in rows)
        listed = ", ".join(
            f"{value} by {row['model']}" for value, row in zip(each, rows, strict=True)
        )
        unit = next(iter(self.comparisons.values())).unit
        return f"{rows[0]['ranker']} is worth, in {unit} per page: {listed}."

    def _checks(self) -> str:
        """Which models failed which checks."""
        failed = {
            model: ", ".join(check.name for check in own.checks_failed)
            for model, own in self.comparisons.items()
            if own.checks_failed
        }
        listed = "; ".join(f"{model} ({names})" for model, names in failed.items())
        return f" Checks failed: {listed}." if failed else ""


def _sure(lead: Difference) -> str | None:
    """The ranker that a model is sure of; None if it is not."""
    return lead.name if lead.prob_better >= SURE else None


def _opinion(lead: Difference) -> str:
    """What one model says."""
    prob = chance(lead.prob_better)
    if _sure(lead) is None:
        return f"cannot tell {lead.name} from {lead.against} (probability {prob})"
    return f"{lead.name} beats {lead.against} with probability {prob}"


def _rivals(leads: Mapping[str, Difference]) -> str:
    """The second best rankers, each once."""
    return " and ".join(dict.fromkeys(lead.against for lead in leads.values()))


def compare_models(
    models: Mapping[str, BaseModel],
    rankings: Mapping[str, Any],
    features: Any = None,
    *,
    clicks: Any = None,
    backtest: Any = None,
    **settings: Any,
) -> SeveralModels:
    """The same rankers valued by several fitted models, side by side.

    Args:
        models: name -> fitted model, such as {"pbm": one, "ubm": other}.
        rankings: name -> ranking, as in `compare`.
        features: of the items, as in `compare`.
        clicks: the log, in any form that `read_log` takes: each model reads it with its own
            options. Counts are given to every model as they are.
        backtest: a held-out log, in the same forms.
        **settings: further arguments of `compare`.
    """
    if not isinstance(models, Mapping) or len(models) < 2:
        raise InputError(
            f"models must be two or more fitted models by name, not {shown(models)}; compare(...) "
            "takes a single one",
            code="too-few-models",
        )
    found = {}
    for name, model in models.items():
        if not isinstance(model, BaseModel):
            raise InputError(
                f"models: {name} must be a fitted model, not {shown(model)}; load(path) reads one "
                "from a folder",
                code="not-a-model",
            )
        own, tested = (_counts(model, log) for log in (clicks, backtest))
        found[name] = compare(model, rankings, features, clicks=own, backtest=tested, **settings)
    return SeveralModels(found)


def _counts(model: BaseModel, log: Any) -> ClickCounts | None:
    """The counts of a log, read with the model's options."""
    if log is None or isinstance(log, ClickCounts):
        return log
    from epiclick.data.readers import read_log  # which loads the engine

    return read_log(log, options=model.fitted_.options.for_another_log())
