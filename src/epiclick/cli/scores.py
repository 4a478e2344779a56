"""Tables of a model's scores."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from epiclick.cli.output import print_table
from epiclick.cli.telling import number

if TYPE_CHECKING:
    from epiclick.data.counts import ClickCounts
    from epiclick.evaluating import Evaluation
    from epiclick.evaluation.clicks import ClickScores
    from epiclick.pbm import PositionBasedModel

MOST_VALUES = 30
"""Rows of the table by values; JSON holds them all."""

COUNTED = ("displays", "clicks")
RATES = ("observed", "predicted", "perplexity")

BASELINE_NAMES = {
    "overall": "click rate overall",
    "by_context": "click rate by context",
    "by_document": "click rate by document",
}


def print_scores(name: str, scores: "Evaluation", rivals: Mapping[str, "Evaluation"]) -> None:
    """Scores overall beside other models and baselines, by queries and by context."""
    models = {name: scores, **rivals}
    rows = [
        [each, *_overall(evaluation.clicks), number(evaluation.fit.ratio, 2)]
        for each, evaluation in models.items()
    ]
    rows += [
        [BASELINE_NAMES.get(each, each), *_overall(baseline), ""]
        for each, baseline in scores.baselines.items()
    ]
    print_table(
        "Log-likelihood per display, pair and page; perplexity",
        ["", "display", "pair", "page", "perplexity", "chi2/df"],
        rows,
    )
    print_table(
        "By what the model has seen of the queries",
        ["queries", "displays", "display", "pair", "perplexity"],
        (
            [
                each,
                f"{int(part.by_context['displays'].sum()):,}",
                number(part.display_log_likelihood),
                number(part.pair_log_likelihood),
                number(part.perplexity),
            ]
            for each, part in scores.by_queries.items()
        ),
    )
    table = scores.clicks.by_context
    contexts = [c for c in table.columns if c not in (*COUNTED, *RATES)]
    print_table(
        f"Observed and predicted click rate by {', '.join(contexts)}",
        [*contexts, *COUNTED, *RATES],
        (
            [
                *(str(row[each]) for each in contexts),
                *(f"{row[each]:,}" for each in COUNTED),
                *(number(row[each]) for each in RATES),
            ]
            for row in table.to_dict("records")
        ),
    )


def by_records(model: "PositionBasedModel", counts: "ClickCounts", by: str) -> list[dict[str, Any]]:
    """Displays, clicks, click rates and log-likelihood per display of each value of a column.

    Args:
        model: what foretells the clicks.
        counts: kept apart by the column: it is one of the contexts, or gave the parts.
        by: the column.
    """
    import numpy as np
    import pyarrow as pa

    from epiclick.data.arrays import as_array, distinct
    from epiclick.evaluation.clicks import score_clicks

    if by in counts.contexts.column_names:
        values, index = distinct({by: as_array(counts.contexts[by])})
        group = index[counts.context]
    else:
        assert counts.part is not None
        values, group = pa.table({by: counts.parts}), counts.part
    # to the scores, a group is as good as a context
    grouped = replace(counts, contexts=values, context=group)
    table = score_clicks(grouped, model.predict_clicks(counts)).by_context
    table["log_likelihood"] = -np.log(table.pop("perplexity"))
    return table.to_dict("records")


def print_by(by: str, values: Sequence[Mapping[str, Any]]) -> None:
    """Scores of each value, of the most displayed ones if there are many."""
    shown = values
    if len(values) > MOST_VALUES:
        shown = sorted(values, key=lambda row: -row["displays"])[:MOST_VALUES]
    print_table(
        f"By {by}" + (f", the {MOST_VALUES} most displayed" if shown is not values else ""),
        [by, *COUNTED, "observed", "predicted", "log-likelihood"],
        (
            [
                str(row[by]),
                *(f"{row[each]:,}" for each in COUNTED),
                *(number(row[each]) for each in ("observed", "predicted", "log_likelihood")),
            ]
            for row in shown
        ),
    )


def _overall(scores: "ClickScores") -> list[str]:
    return [
        number(scores.display_log_likelihood),
        number(scores.pair_log_likelihood),
        number(scores.page_log_likelihood),
        number(scores.perplexity),
    ]
