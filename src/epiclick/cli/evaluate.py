"""`epiclick evaluate`: how well models foretell the clicks of a log."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epiclick.cli.commas import names_in
from epiclick.cli.log_options import NOTHING_GIVEN, GivenOptions, Logs, MissingFeatures, reads_log
from epiclick.cli.log_reading import read_counts
from epiclick.cli.output import AsJson, Quiet, note, print_json, progress
from epiclick.cli.relevance import check_features
from epiclick.cli.scores import by_records, print_backtest, print_by, print_scores
from epiclick.cli.shared_options import Features, Model, Truth
from epiclick.cli.telling import known, print_text, told_warnings
from epiclick.errors import InputError

if TYPE_CHECKING:
    from epiclick.api import BaseModel
    from epiclick.data.counts import ClickCounts
    from epiclick.data.page_weights import PageWeights
    from epiclick.evaluating import Evaluation


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
    from epiclick.data.unchanged import unchanged
    from epiclick.report.facts.held import held
    from epiclick.report.facts.held import words as coverage_words
    from epiclick.report.facts.truth import read_truth

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
            covered = () if true is None else held(fitted, counts, true)

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
        print_text(coverage_words(covered))
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
    from epiclick.evaluating import evaluate as evaluate_model

    scores = evaluate_model(model.fitted_, counts, pages=pages, train=trained)
    rivals = {}
    for name, other in others.items():
        try:
            rivals[name] = evaluate_model(other.fitted_, counts, pages=pages)
        except InputError as error:
            raise InputError(f"--against {name}: {error}") from error
    return scores, rivals
