"""`epiclick evaluate`: how well models predict the clicks of a log."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from epiclick.cli.console import (
    AsJson,
    Quiet,
    known,
    note,
    number,
    print_json,
    print_table,
    print_text,
    progress,
    told_warnings,
)
from epiclick.cli.options import (
    NOTHING_GIVEN,
    Features,
    GivenOptions,
    Logs,
    MissingFeatures,
    Model,
    Truth,
    names_in,
    read_counts,
    reads_log,
)
from epiclick.cli.relevance import check_features
from epiclick.errors import InputError

if TYPE_CHECKING:
    from epiclick.api import BaseModel
    from epiclick.data.by_column import ByColumn
    from epiclick.data.counts import ClickCounts
    from epiclick.data.page_weights import PageWeights
    from epiclick.evaluation.click_scores import ClickScores
    from epiclick.evaluation.log_scores import Evaluation


MOST_VALUES = 30
"""Rows of the table by values; JSON holds them all."""

MARKS = {"inside": "", "just outside": "*", "far outside": "**"}
"""How a value is marked whose observed clicks differ from those predicted."""

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


def by_records(
    model: "BaseModel", counts: "ClickCounts", columns: "Sequence[ByColumn]"
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Backtest of the whole log, and of each value of some columns with its log-likelihood.

    A value's row names its `column` and `value`; `observed` and `predicted` are clicks a display.
    """
    import numpy as np

    from epiclick.evaluation.backtest import backtests
    from epiclick.evaluation.click_scores import score_clicks

    whole, apart = backtests(model.fitted_, counts, columns, model.level)
    probability = model.predict_clicks(counts) if columns else None
    rows = []
    for column in columns:
        assert probability is not None
        # to the scores, a value is as good as a context
        table = score_clicks(column.counts, probability[column.entry]).by_context
        table["log_likelihood"] = -np.log(table.pop("perplexity"))
        scores = table.drop(columns=column.name).to_dict("records")
        for value, test, score in zip(column.values, apart[column.name], scores, strict=True):
            record = test.to_dict()
            del record["predicted_clicks"], record["words"]
            named = {column.name: value, "column": column.name, "value": value}
            rows.append({**named, **record, **score})
    return whole.to_dict(), rows


def print_backtest(record: Mapping[str, Any]) -> None:
    """Observed and predicted clicks of the whole log, as a sentence."""
    print_text(f"Backtest: {record['words']}.")


def print_by(by: str, values: Sequence[Mapping[str, Any]]) -> None:
    """Clicks of each value of a column, of the most displayed ones if there are many."""
    shown = values
    if len(values) > MOST_VALUES:
        shown = sorted(values, key=lambda row: -row["displays"])[:MOST_VALUES]
    paged = all(row["per"] == "page" for row in values)
    rates = ("observed_per_page", "predicted_per_page") if paged else ("observed", "predicted")
    room = max(1, *(len(_mark(row)) for row in shown))
    print_table(
        f"By {by}: clicks a {'page' if paged else 'display'}"
        + (f", the {MOST_VALUES} most displayed" if shown is not values else ""),
        [by, *COUNTED, "observed", "predicted", "observed/predicted"],
        (
            [
                str(row["value"]),
                *(f"{row[each]:,}" for each in COUNTED),
                *(number(row[each]) for each in rates),
                f"{_ratio(row)}{_mark(row):{room}}",
            ]
            for row in shown
        ),
    )
    _print_marks(values)


def _print_marks(values: Sequence[Mapping[str, Any]]) -> None:
    """How many values lie outside, and how many would by chance."""
    from epiclick.evaluation.backtest import FAR

    graded = [row for row in values if row["grade"] is not None]
    if not any(map(_mark, graded)):
        return
    level = graded[0]["level"]
    wide = max(FAR, level)
    for grade, words, share in (
        ("just outside", f"1 lies just outside the {level:.0%} interval", wide - level),
        ("far outside", f"1 lies far outside it, beyond a {wide:.0%} interval", 1 - wide),
    ):
        many = sum(row["grade"] == grade for row in graded)
        print_text(
            f"{MARKS[grade]} {words}: {many:,} of {len(graded):,} values; by chance "
            f"{share * len(graded):.1f} would."
        )


def _ratio(row: Mapping[str, Any]) -> str:
    """Clicks observed for one predicted, with the interval where it is known."""
    if row["grade"] is None:
        return number(row["ratio"], 2)
    ends = f"{number(row['ratio_low'], 2)} to {number(row['ratio_high'], 2)}"
    return f"{number(row['ratio'], 2)} ({ends})"


def _mark(row: Mapping[str, Any]) -> str:
    return MARKS.get(row["grade"], "")


def _overall(scores: "ClickScores") -> list[str]:
    return [
        number(scores.display_log_likelihood),
        number(scores.pair_log_likelihood),
        number(scores.page_log_likelihood),
        number(scores.perplexity),
    ]


@reads_log
def evaluate(
    model: Model,
    log: Logs,
    features: Features = None,
    train: Annotated[
        list[str] | None,
        typer.Option(
            help="The model's own log, read with the model's own --where, from which baselines "
            "learn. May be repeated."
        ),
    ] = None,
    against: Annotated[
        list[Path] | None, typer.Option(help="Another model to compare with. May be repeated.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="Columns whose values are told apart, such as variant,device,day."),
    ] = None,
    truth: Truth = None,
    missing_features: MissingFeatures = "error",
    given: GivenOptions = NOTHING_GIVEN,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Score a model on a log: log-likelihood, perplexity, observed and predicted clicks.

    Columns and contexts of the log are read as the model's own log was, by default, and all its
    rows. Use pages that the model was not trained on.

    Example: epiclick evaluate model test.parquet --features features.parquet
    """
    from epiclick.api import load
    from epiclick.data.by_column import count_by
    from epiclick.data.page_weights import page_weights
    from epiclick.data.sources import unchanged
    from epiclick.evaluation.truth import coverage_in_world, coverage_summary, read_truth

    silent = quiet or as_json
    true = None if truth is None else read_truth(truth)
    fitted = load(model)
    others = {str(path): load(path) for path in against or []}
    for each in (fitted, *others.values()):
        check_features(each, features)
    uses_features = any(each.fitted_.features is not None for each in (fitted, *others.values()))
    if features is not None and not uses_features:
        note("no model was trained on features, so --features is not used", quiet=silent)

    with told_warnings(quiet=silent) as warnings:
        options = given.over_saved(fitted.fitted_.options, log, quiet=silent)
        joined = features if uses_features else None
        with unchanged(log):
            counts = read_counts(log, options, joined, missing_features, quiet=silent)
            parted = count_by(list(log), options, counts, names_in(by))
            pages = page_weights(list(log), options, counts)
        trained = None
        if train:
            own = given.over_own(fitted.fitted_.options, train, quiet=silent)
            trained = read_counts(train, own, quiet=silent)
        with progress("scoring", quiet=silent):
            scores, rivals = score(fitted, others, counts, pages, trained)
            whole, values = by_records(fitted, counts, parted)
            covered = () if true is None else coverage_in_world(fitted.fitted_, counts, true)

    if as_json:
        record = {**scores.to_dict(), "backtest": whole, "against": {}}
        record |= {"by": None if by is None else values, "warnings": warnings}
        record["coverage"] = None if true is None else [each.to_dict() for each in covered]
        for name, rival in rivals.items():
            record["against"][name] = rival.to_dict()
            del record["against"][name]["baselines"]
        print_json(known(record))
        return
    print_scores(str(model), scores, rivals)
    print_backtest(whole)
    if covered:
        print_text(coverage_summary(covered))
    for name in names_in(by):
        print_by(name, [row for row in values if row["column"] == name])


def score(
    model: "BaseModel",
    others: Mapping[str, "BaseModel"],
    counts: "ClickCounts",
    pages: "PageWeights | None",
    trained: "ClickCounts | None",
) -> tuple["Evaluation", dict[str, "Evaluation"]]:
    """Scores of the model, and of those it is compared with."""
    from epiclick.evaluation.log_scores import evaluate as evaluate_model

    scores = evaluate_model(model.fitted_, counts, pages=pages, train=trained)
    rivals = {}
    for name, other in others.items():
        try:
            rivals[name] = evaluate_model(other.fitted_, counts, pages=pages)
        except InputError as error:
            raise InputError(f"--against {name}: {error}") from error
    return scores, rivals
