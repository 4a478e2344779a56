"""`epiclick compare`: would another ranker get more clicks?"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from epiclick.cli.commas import names_in
from epiclick.cli.compare_input import check_names, named_rankings, warn_of_same_files
from epiclick.cli.compare_output import print_comparison
from epiclick.cli.log_options import NOTHING_GIVEN, GivenOptions, MissingFeatures, reads_log
from epiclick.cli.log_reading import read_counts
from epiclick.cli.output import AsJson, Quiet, note, print_json, progress
from epiclick.cli.relevance import check_features
from epiclick.cli.shared_options import Backtest, Depth, Features, Model, Truth
from epiclick.cli.telling import known, print_text, told_warnings
from epiclick.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from epiclick.comparison.result import Comparison


@reads_log
def compare(
    model: Model,
    ranking: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=FILE",
            help="What a ranker shows: query_id, doc_id, position or score; or a TREC run. "
            "FILE:COLUMN names the scores. May be repeated.",
            show_default=False,
        ),
    ],
    features: Features = None,
    clicks: Annotated[
        list[str] | None,
        typer.Option(help="The log: clicks of the items, traffic of the queries. May be repeated."),
    ] = None,
    backtest: Backtest = None,
    weights: Annotated[
        Literal["traffic", "uniform"], typer.Option(help="How much each query counts.")
    ] = "traffic",
    depth: Depth = None,
    extrapolate: Annotated[
        bool,
        typer.Option(
            "--extrapolate",
            help="Take positions deeper than the model's to be looked at as its last one is.",
        ),
    ] = False,
    against: Annotated[
        str | None, typer.Option(help="Tell the differences of all others to this ranker only.")
    ] = None,
    fail_unless_better: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="End with code 1 unless the ranker named first beats each other with this "
            "probability, and no check of the model failed.",
        ),
    ] = None,
    despite: Annotated[
        str | None,
        typer.Option(
            metavar="CHECKS",
            help="Checks that --fail-unless-better lets fail, such as unseen,positions.",
        ),
    ] = None,
    truth: Truth = None,
    samples: Annotated[int, typer.Option(help="Samples of every value.")] = 2_500,
    level: Annotated[
        float | None,
        typer.Option(help="Probability of the intervals.", show_default="the model's"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the samples.")] = 0,
    missing_features: MissingFeatures = "error",
    given: GivenOptions = NOTHING_GIVEN,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare rankers that need never have been shown by the clicks a page they would get.

    With --clicks items are judged by their own clicks too, and queries weigh by their traffic.
    Columns and contexts of logs are read as the model's own log was, by default, and all rows.

    Example: epiclick compare model --ranking new=new.csv --ranking old=old.csv --clicks log.csv
    """
    from epiclick.api import load
    from epiclick.comparison.compare import compare as compare_rankings
    from epiclick.data.features import read_features
    from epiclick.data.unchanged import unchanged
    from epiclick.report.facts.true_values import true_values
    from epiclick.report.facts.true_values import words as true_words
    from epiclick.report.facts.truth import read_truth

    silent = quiet or as_json
    world = None if truth is None else read_truth(truth)
    rankings = named_rankings(ranking)
    check_names(list(rankings), against, fail_unless_better)
    accepted = accepted_checks(despite, fail_unless_better)
    fitted = load(model)
    check_features(fitted, features)
    with told_warnings(quiet=silent) as told:
        logs = [*(clicks or []), *(backtest or [])]
        options = given.over_saved(fitted.fitted_.options, logs, quiet=silent)
        uses_features = fitted.fitted_.features is not None
        if features is not None and not uses_features:
            note("the model was trained without features, so --features is not used", quiet=silent)
        joined = features if uses_features else None
        if backtest:
            warn_of_same_files(backtest, clicks or [])
        with unchanged([*logs, *([joined] if joined else [])]):
            table = None if joined is None else read_features(joined, ids=options.ids)
            counts = read_counts(clicks, options, quiet=silent) if clicks else None
            tested = None
            if backtest:
                tested = read_counts(backtest, options, joined, missing_features, quiet=silent)
        with progress("comparing", quiet=silent):
            found = compare_rankings(
                fitted,
                rankings,
                table,
                clicks=counts,
                weights=weights,
                samples=samples,
                depth=depth,
                extrapolate=extrapolate,
                backtest=tested,
                level=level,
                seed=seed,
            )
            how = {"depth": depth, "extrapolate": extrapolate, "uniform": weights == "uniform"}
            true = None
            if world is not None:
                true = true_values(fitted, rankings, table, counts, world, **how)
    if fail_unless_better is not None and not found.is_uncertain:
        raise InputError(
            "--fail-unless-better: the model knows no uncertainty, and so no probabilities; fit an "
            "epistemic one, or one with --members"
        )
    verdict = verdict_of(found, fail_unless_better)
    reasons = None
    if fail_unless_better is not None:
        reasons = reasons_to_fail(found, fail_unless_better, accepted)
    if as_json:
        record: dict[str, Any] = {**found.to_dict(), "verdict": verdict}
        if against is not None:
            record["differences"] = [each.to_dict() for each in differences(found, against)]
        record |= {"passed": None if reasons is None else not reasons, "warnings": told}
        record["true_values"] = true
        print_json(known(record))
    else:
        print_comparison(found, differences(found, against), verdict, quiet=quiet)
        if true is not None:
            print_text(true_words(found, true))
    if reasons:
        note(f"epiclick: {'; '.join(reasons)}", quiet=silent)
        raise typer.Exit(1)


def differences(found: "Comparison", against: str | None) -> list[Any]:
    """Every two rankers, or all others against one."""
    names = found.names
    if against is not None:
        return [found.difference(name, against) for name in names if name != against]
    pairs = ((one, other) for i, one in enumerate(names) for other in names[i + 1 :])
    return [found.difference(one, other) for one, other in pairs]


def not_beaten(found: "Comparison", sure: float) -> list[str]:
    """The rankers that the one named first is not better than with this probability."""
    first, *others = found.names
    return [each for each in others if found.difference(first, each).prob_better < sure]


def reasons_to_fail(found: "Comparison", sure: float, accepted: Sequence[str]) -> list[str]:
    """Why the ranker named first does not pass: others that it does not beat, checks that failed.

    A probability from a model that failed a check is no reason to ship, however high it is.
    """
    reasons = []
    if unbeaten := not_beaten(found, sure):
        reasons.append(
            f"{found.names[0]} does not beat {' and '.join(unbeaten)} with probability {sure:g} or "
            "more"
        )
    for check in found.checks(found.names):
        if check.state == "failed" and check.name not in accepted:
            reasons.append(f"{check.title} (--despite {check.name} accepts that)")
    return reasons


def accepted_checks(despite: str | None, sure: float | None) -> tuple[str, ...]:
    """The checks that may fail, if there are such."""
    names = tuple(names_in(despite))
    if not names:
        return ()
    if sure is None:
        raise InputError("--despite needs --fail-unless-better, whose checks it is about")
    from epiclick.comparison.checks import NAMES

    for name in names:
        if name not in NAMES:
            raise InputError(
                f"--despite {name}: there is no such check{did_you_mean(name, NAMES)}; there are "
                f"{', '.join(NAMES)}"
            )
    return names


def verdict_of(found: "Comparison", sure: float | None) -> str:
    """The verdict, given from the probability that was asked for."""
    # below a half the question is whether the first is not much worse, which no verdict answers
    return found.verdict if sure is None or sure < 0.5 else found.verdict_at(sure)
