"""What a selection of a click model found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from epiclick.api import BaseModel
from epiclick.selection import result_in_words
from epiclick.selection.held_out_scores import HeldOutScores
from epiclick.selection.parsimony import RULE, ModelScores, best_of, chosen_of

COLUMNS = (
    *("click_model", "log_likelihood", "perplexity", "difference", "low", "high"),
    *("chi2_per_df", "parameters", "seconds"),
)


@dataclass(frozen=True, eq=False)
class Selection:
    """Click models fitted to the same training pages and scored on the same held-out ones.

    Attributes:
        scores: of each model, in the order they were asked for.
        models: the fitted models by name.
        held_out: their scores by query and by position.
        level: probability of the intervals.
        pages: held-out pages; None where no model needed to know them.
        displays: held-out displays.
        queries: held-out queries.
        last_position: the position of `ModelScores.relative_bias`, such as "position 10".
        notes: what was left out or assumed.
        aliases: columns of the log found under another name -> that name.
    """

    scores: tuple[ModelScores, ...]
    models: Mapping[str, BaseModel] = field(repr=False)
    held_out: Mapping[str, HeldOutScores] = field(repr=False)
    level: float
    pages: int | None
    displays: int
    queries: int
    last_position: str
    notes: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """The table and the verdict."""
        return f"{self.table.to_string(index=False, na_rep='-')}\n{self.verdict}"

    @property
    def best(self) -> str | None:
        """The model with the highest held-out log-likelihood; None if none could be scored."""
        found = best_of(self.scores)
        return None if found is None else found.click_model

    @property
    def chosen(self) -> str | None:
        """The simplest model that predicts as well as the best; None if none could be scored."""
        found = chosen_of(self.scores)
        return None if found is None else found.click_model

    @property
    def verdict(self) -> str:
        """Which model to choose, by how much, and what the choice changes."""
        return result_in_words.verdict(self.scores, self.last_position)

    @property
    def table(self) -> pd.DataFrame:
        """Scores of every model.

        `log_likelihood` is per display, given the clicks above it; `difference`, `low` and `high`
        are its difference from the best model, paired by query. `perplexity` is marginal, averaged
        over positions. All are NaN for a model that gives some pages probability 0.
        """
        rows = [each.to_dict() for each in self.scores]
        table = pd.DataFrame(rows, columns=list(COLUMNS))
        numbers = [name for name in COLUMNS if name not in ("click_model", "parameters")]
        return table.astype(dict.fromkeys(numbers, float))

    @property
    def by_position(self) -> pd.DataFrame:
        """Marginal perplexity by position, a row for each model and position."""
        parts = [
            self.held_out[each.click_model].by_position.assign(click_model=each.click_model)
            for each in self.scores
            if each.is_scored
        ]
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def to_dict(self) -> dict[str, Any]:
        """Everything except the fitted models, as a record for JSON."""
        return {
            "models": [
                {
                    **each.to_dict(),
                    "by_position": self._positions(each),
                    "warnings": list(self.models[each.click_model].fitted_.training.warnings),
                }
                for each in self.scores
            ],
            "best": self.best,
            "chosen": self.chosen,
            "verdict": self.verdict,
            "rule": RULE,
            "level": self.level,
            "pages": self.pages,
            "displays": self.displays,
            "queries": self.queries,
            "last_position": self.last_position,
            "notes": list(self.notes),
        }

    def _positions(self, model: ModelScores) -> list[dict[str, Any]]:
        if not model.is_scored:
            return []
        return self.held_out[model.click_model].by_position.to_dict("records")
