"""`epiclick compare`: would another ranker get more clicks?"""

import math
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    Backtest,
    Depth,
    Features,
    GivenOptions,
    MissingFeatures,
    Model,
    Truth,
    names_in,
    read_counts,
    reads_log,
)
from epiclick.cli.relevance import check_features
from epiclick.errors import InputError, InputWarning, did_you_mean

if TYPE_CHECKING:
    from epiclick.comparison.result import Comparison
    from epiclick.comparison.verdict import Difference, Spread


def named_rankings(given: Sequence[str]) -> dict[str, str | tuple[str, str]]:
    """NAME=FILE as a mapping; a file without a name is called by its own.

    FILE:COLUMN is the file and its column of scores.
    """
    rankings: dict[str, str | tuple[str, str]] = {}
    files: dict[str, str] = {}
    for each in given:
        name, equals, file = each.partition("=")
        # a path may hold an equals sign itself, as in day=1/new.parquet
        if not equals or Path(each).exists():
            name, file = _column(each) or Path(each.removesuffix(".gz")).stem, each
        if not (name.strip() and file):
            raise InputError(f"--ranking {each}: write it as new=new.parquet")
        if name in rankings:
            raise InputError(
                f"--ranking: two rankers are called '{name}' ({files[name]} and {file}); give "
                "each a name of its own, as in new=new.parquet"
            )
        files[name] = file
        column = _column(file)
        rankings[name] = (file.removesuffix(f":{column}"), column) if column else file
    return rankings


def _column(file: str) -> str:
    """The column of FILE:COLUMN; empty where the colon is the path's own, or there is none."""
    path, _, column = file.rpartition(":")
    return column if path and Path(path).is_file() and not Path(file).exists() else ""


def warn_of_same_files(backtest: Sequence[str], clicks: Sequence[str]) -> None:
    """Tell if a log is given twice: a backtest needs pages that the model has not learned from."""
    from epiclick.data.files import find_files

    both = {file.resolve() for file in find_files(clicks)}
    same = [file for file in find_files(backtest) if file.resolve() in both]
    if same:
        warnings.warn(
            f"--backtest and --clicks both name {same[0]}; a backtest tells something only of "
            "pages that the model was not trained on",
            InputWarning,
            stacklevel=2,
        )


def check_names(names: Sequence[str], against: str | None, sure: float | None) -> None:
    """Refuse what cannot be asked of these rankers, before anything is read."""
    if against is not None and against not in names:
        raise InputError(
            f"--against {against}: there is no such ranker{did_you_mean(against, names)}; there "
            f"are {', '.join(names)}"
        )
    if sure is None:
        return
    if len(names) < 2:
        raise InputError("--fail-unless-better needs another ranker to be better than")
    if not 0 < sure < 1:
        raise InputError(
            f"--fail-unless-better must lie strictly between 0 and 1, not {sure}; write 0.95"
        )


PARTS = {
    "seen": "items seen",
    "unseen": "items never shown",
    "position_bias": "position bias",
    "network": "network",
}
"""What the parts of the variance are called."""


def print_comparison(
    found: "Comparison", differences: Sequence["Difference"], verdict: str, *, quiet: bool
) -> None:
    """Values, differences, where the uncertainty comes from, notes unless quiet, the verdict."""
    rankers = found.rankers.to_dict("records")
    digits = digits_for(row["high"] - row["low"] for row in rankers)
    pages = "" if found.pages is None else f", a log of {found.pages:,.0f} pages"
    print_table(
        f"Clicks a page, {found.level:.0%} intervals; {found.queries:,} queries{pages}",
        ["ranker", "clicks a page", "P(best)", "expected loss", "slots seen"],
        (
            [
                row["name"],
                f"{row['value']:.{digits}f} ({row['low']:.{digits}f} to {row['high']:.{digits}f})",
                _chance(found, row["prob_best"]),
                number(row["expected_loss"], digits),
                f"{row['seen']:.0%}",
            ]
            for row in rankers
        ),
    )
    if differences:
        _print_differences(found, differences, digits)
    spreads = {name: found.spread(name) for name in found.names}
    spreads |= {f"{each.name} - {each.against}": each.spread for each in differences}
    if found.is_uncertain:
        _print_spreads(spreads)
    if found.notes and not quiet:
        print("Notes")
        for each in found.notes:
            print_text(f"- {each}.")
    print_text(f"Verdict: {verdict}")


def _print_differences(
    found: "Comparison", differences: Sequence["Difference"], digits: int
) -> None:
    """One ranker against another: clicks a page, as a share with its interval, how sure it is."""
    print_table(
        f"Differences, {found.level:.0%} intervals",
        ["ranker", "against", "clicks a page", "relative", "P(better)"],
        (
            [
                each.name,
                each.against,
                f"{each.difference:+.{digits}f}",
                f"{each.relative:+.1%} ({each.relative_low:+.1%} to {each.relative_high:+.1%})",
                _chance(found, each.prob_better),
            ]
            for each in differences
        ),
    )


def _print_spreads(spreads: dict[str, "Spread"]) -> None:
    """Shares of the variance."""
    print_table(
        "Where the uncertainty comes from, in shares of the variance",
        ["", *PARTS.values()],
        (
            [name, *(f"{spread.shares()[part]:.0%}" for part in PARTS)]
            for name, spread in spreads.items()
        ),
    )


def _chance(found: "Comparison", probability: float) -> str:
    """A probability, never a 0 or 1 that is none; a model without uncertainty knows no other."""
    if not found.is_uncertain:
        return "-"
    if probability < 0.005:
        return "< 0.01"
    return "> 0.99" if probability > 0.995 else f"{probability:.2f}"


def digits_for(widths: Iterable[float]) -> int:
    """Digits with which the ends of intervals differ; 3 to 6."""
    narrow = min((width for width in widths if width > 0), default=0.1)
    return min(max(math.ceil(-math.log10(narrow)) + 1, 3), 6)


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
    from epiclick.comparison.compare_rankers import compare as compare_rankings
    from epiclick.comparison.compare_rankers import true_values, true_values_sentence
    from epiclick.data.features import read_features
    from epiclick.data.sources import unchanged
    from epiclick.evaluation.truth import read_truth

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
            print_text(true_values_sentence(found, true))
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
    from epiclick.comparison.verdict import NAMES

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
