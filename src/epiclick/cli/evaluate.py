"""`epiclick evaluate`: how well models predict the clicks of a log."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from epiclick.cli import console, options
from epiclick.errors import InputError

if TYPE_CHECKING:
    from epiclick.api import BaseModel
    from epiclick.data.by_column import ByColumn
    from epiclick.data.counts import ClickCounts
    from epiclick.data.page_weights import PageWeights
    from epiclick.evaluation.click_scores import ClickScores
    from epiclick.evaluation.log_scores import Evaluation


MOST_VALUES = 30
"""Largest table by value that is printed; JSON has all rows."""

MARKS = {"inside": "", "just outside": "*", "far outside": "**"}
"""Marks of values whose observed clicks differ from the predicted ones."""

COUNTED = ("displays", "clicks")
RATES = ("observed", "predicted", "perplexity")

BASELINE_NAMES = {
    "overall": "click rate overall",
    "by_context": "click rate by context",
    "by_document": "click rate by document",
}


def print_scores(name: str, scores: "Evaluation", rivals: Mapping[str, "Evaluation"]) -> None:
    """Print overall scores next to other models and baselines, then by query and by context."""
    models = {name: scores, **rivals}
    rows = [
        [each, *_overall(evaluation.clicks), console.format_number(evaluation.fit.ratio, 2)]
        for each, evaluation in models.items()
    ]
    rows += [
        [BASELINE_NAMES.get(each, each), *_overall(baseline), ""]
        for each, baseline in scores.baselines.items()
    ]
    console.print_table(
        "Log-likelihood per display, pair and page; perplexity",
        ["", "display", "pair", "page", "perplexity", "chi2/df"],
        rows,
    )
    console.print_table(
        "By whether the model was trained on the query",
        ["queries", "displays", "display", "pair", "perplexity"],
        (
            [
                each,
                f"{int(part.by_context['displays'].sum()):,}",
                console.format_number(part.display_log_likelihood),
                console.format_number(part.pair_log_likelihood),
                console.format_number(part.perplexity),
            ]
            for each, part in scores.by_queries.items()
        ),
    )
    table = scores.clicks.by_context
    contexts = [c for c in table.columns if c not in (*COUNTED, *RATES)]
    console.print_table(
        f"Observed and predicted click rate by {', '.join(contexts)}",
        [*contexts, *COUNTED, *RATES],
        (
            [
                *(str(row[each]) for each in contexts),
                *(f"{row[each]:,}" for each in COUNTED),
                *(console.format_number(row[each]) for each in RATES),
            ]
            for row in table.to_dict("records")
        ),
    )


def by_records(
    model: "BaseModel", counts: "ClickCounts", columns: "Sequence[ByColumn]"
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Backtest of the whole log, and of each value of some columns with its log-likelihood.

    A row has the `column` and the `value`; `observed` and `predicted` are clicks per display.
    """
    import numpy as np

    from epiclick.evaluation.backtest import backtests
    from epiclick.evaluation.click_scores import score_clicks

    whole, apart = backtests(model.fitted_, counts, columns, model.level)
    probability = model.predict_clicks(counts) if columns else None
    rows = []
    for column in columns:
        assert probability is not None
        # scores treat a value like a context
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
    """Print observed and predicted clicks of the whole log."""
    console.print_text(f"Backtest: {record['words']}.")


def print_by(by: str, values: Sequence[Mapping[str, Any]]) -> None:
    """Print clicks by value of a column; if there are many, of the most displayed ones."""
    shown = values
    if len(values) > MOST_VALUES:
        shown = sorted(values, key=lambda row: -row["displays"])[:MOST_VALUES]
    paged = all(row["per"] == "page" for row in values)
    rates = ("observed_per_page", "predicted_per_page") if paged else ("observed", "predicted")
    room = max(1, *(len(_mark(row)) for row in shown))
    console.print_table(
        f"By {by}: clicks per {'page' if paged else 'display'}"
        + (f", the {MOST_VALUES} most displayed" if shown is not values else ""),
        [by, *COUNTED, "observed", "predicted", "observed/predicted"],
        (
            [
                str(row["value"]),
                *(f"{row[each]:,}" for each in COUNTED),
                *(console.format_number(row[each]) for each in rates),
                f"{_ratio(row)}{_mark(row):{room}}",
            ]
            for row in shown
        ),
    )
    _print_marks(values)


def _print_marks(values: Sequence[Mapping[str, Any]]) -> None:
    """Print how many values are marked, and how many would be by chance."""
    from epiclick.evaluation.backtest import FAR

    graded = [row for row in values if row["grade"] is not None]
    if not any(map(_mark, graded)):
        return
    level = graded[0]["level"]
    wide = max(FAR, level)
    for grade, meaning, share in (
        ("just outside", f"1 is just outside the {level:.0%} interval", wide - level),
        ("far outside", f"1 is far outside it, beyond the {wide:.0%} interval", 1 - wide),
    ):
        many = sum(row["grade"] == grade for row in graded)
        console.print_text(
            f"{MARKS[grade]} {meaning}: {many:,} of {len(graded):,} values; "
            f"{share * len(graded):.1f} expected by chance."
        )


def _ratio(row: Mapping[str, Any]) -> str:
    """Observed clicks per predicted click, with the interval if it is known."""
    names = ("ratio", "ratio_low", "ratio_high")
    ratio, low, high = (console.format_number(row[name], 2) for name in names)
    return ratio if row["grade"] is None else f"{ratio} ({low} to {high})"


def _mark(row: Mapping[str, Any]) -> str:
    return MARKS.get(row["grade"], "")


def _overall(scores: "ClickScores") -> list[str]:
    return [
        console.format_number(scores.display_log_likelihood),
        console.format_number(scores.pair_log_likelihood),
        console.format_number(scores.page_log_likelihood),
        console.format_number(scores.perplexity),
    ]


@options.reads_log
def evaluate(
    model: options.Model,
    log: options.Logs,
    features: options.GivenFeatures = options.NO_FEATURES,
    train: Annotated[
        list[str] | None,
        Option(
            metavar="LOG",
            help="Log that the model was fitted to, to fit the baselines; read with the --where of "
            "the fit. May be repeated.",
        ),
    ] = None,
    against: options.OtherModels = None,
    by: Annotated[
        str | None,
        Option(metavar="COLUMNS", help="Also score by these columns, such as variant,device."),
    ] = None,
    truth: options.Truth = None,
    missing_features: options.MissingFeatures = "error",
    given: options.GivenOptions = options.NOTHING_GIVEN,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Score a model on a log: log-likelihood, perplexity, observed and predicted clicks.

    The log is read with the options saved in the model by default, but all its rows are used.
    Use pages that the model was not trained on.

    Example: epiclick evaluate model test.parquet --features features.parquet
    """
    from epiclick.api import load
    from epiclick.data.by_column import count_by
    from epiclick.data.files import unchanged
    from epiclick.data.page_weights import page_weights
    from epiclick.evaluation.truth import coverage_in_world, coverage_summary, read_truth

    silent = quiet or as_json
    true = None if truth is None else read_truth(truth)
    fitted = load(model)
    others = {str(path): load(path) for path in against or []}
    for each in (fitted, *others.values()):
        options.check_features(each, features)
    joined = options.used_features([fitted, *others.values()], features, quiet=silent)

    with console.collect_warnings(quiet=silent) as warnings:
        log_options = given.over_saved(fitted.fitted_.options, log, quiet=silent)
        with unchanged(log):
            counts = options.read_counts(log, log_options, joined, missing_features, quiet=silent)
            columns = count_by(list(log), log_options, counts, options.names_in(by))
            pages = page_weights(list(log), log_options, counts)
        trained = None
        if train:
            own = given.over_own(fitted.fitted_.options, train, quiet=silent)
            trained = options.read_counts(train, own, quiet=silent)
        with console.progress("scoring", quiet=silent):
            scores, rivals = score(fitted, others, counts, pages, trained)
            whole, values = by_records(fitted, counts, columns)
            covered = () if true is None else coverage_in_world(fitted.fitted_, counts, true)

    if as_json:
        record = {**scores.to_dict(), "backtest": whole, "against": {}}
        record |= {"by": None if by is None else values, "warnings": warnings}
        record["coverage"] = None if true is None else [each.to_dict() for each in covered]
        for name, rival in rivals.items():
            record["against"][name] = rival.to_dict()
            del record["against"][name]["baselines"]
        console.print_json(console.json_safe(record))
        return
    print_scores(str(model), scores, rivals)
    print_backtest(whole)
    if covered:
        console.print_text(coverage_summary(covered))
    for name in options.names_in(by):
        print_by(name, [row for row in values if row["column"] == name])


def score(
    model: "BaseModel",
    others: Mapping[str, "BaseModel"],
    counts: "ClickCounts",
    pages: "PageWeights | None",
    trained: "ClickCounts | None",
) -> tuple["Evaluation", dict[str, "Evaluation"]]:
    """Scores of the model and of the models it is compared with."""
    from epiclick.evaluation.log_scores import evaluate as evaluate_model

    scores = evaluate_model(model.fitted_, counts, pages=pages, train=trained)
    rivals = {}
    for name, other in others.items():
        try:
            rivals[name] = evaluate_model(other.fitted_, counts, pages=pages)
        except InputError as error:
            raise error.with_message(f"--against {name}: {error}") from error
    return scores, rivals
