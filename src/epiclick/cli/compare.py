"""`epiclick compare`: would another ranker get more clicks?"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from epiclick.arguments import check_level
from epiclick.cli import console, options
from epiclick.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from epiclick.comparison.result import Comparison
    from epiclick.comparison.verdict import Difference, Spread


def check_names(names: Sequence[str], against: str | None, threshold: float | None) -> None:
    """Refuse questions that these rankers cannot answer, before anything is read."""
    if against is not None and against not in names:
        raise InputError(
            f"--against {against}: there is no such ranker{did_you_mean(against, names)}; the "
            f"rankers are {', '.join(names)}",
            code="unknown-ranker",
        )
    if threshold is None:
        return
    if len(names) < 2:
        raise InputError(
            "--fail-unless-better needs a second --ranking to compare with", code="too-few-rankers"
        )
    check_level("--fail-unless-better", threshold)


PARTS = {
    "seen": "items seen",
    "unseen": "items never shown",
    "position_bias": "position bias",
    "network": "network",
}
"""Titles of the parts of the variance."""


def print_comparison(
    found: "Comparison", differences: Sequence["Difference"], verdict: str, *, quiet: bool
) -> None:
    """Print values, differences, sources of uncertainty, notes unless quiet, and the verdict."""
    rankers = found.rankers.to_dict("records")
    digits = digits_for(row["high"] - row["low"] for row in rankers)
    pages = "" if found.pages is None else f", a log of {found.pages:,.0f} pages"
    unit = f"{found.unit} per page"
    console.print_table(
        f"{unit[:1].upper()}{unit[1:]}, {found.level:.0%} intervals; {found.queries:,} queries"
        f"{pages}",
        ["ranker", unit, "P(best)", "expected loss", "slots seen"],
        (
            [
                row["name"],
                f"{row['value']:.{digits}f} ({row['low']:.{digits}f} to {row['high']:.{digits}f})",
                _chance(found, row["prob_best"]),
                console.format_number(row["expected_loss"], digits),
                f"{row['seen']:.0%}",
            ]
            for row in rankers
        ),
    )
    if differences:
        _print_differences(found, differences, digits)
    for measure in found.further:
        _print_further(found, measure, differences)
    spreads = {name: found.spread(name) for name in found.names}
    spreads |= {f"{each.name} - {each.against}": each.spread for each in differences}
    if found.is_uncertain:
        _print_spreads(spreads)
    if found.notes and not quiet:
        print("Notes")
        for each in found.notes:
            console.print_text(f"- {each}.")
    console.print_text(f"Verdict: {verdict}")


def _print_further(found: "Comparison", measure: str, differences: Sequence["Difference"]) -> None:
    """Print values and differences by another measure than the one that decides."""
    from epiclick.comparison.slots import ALL_MEASURES

    column, unit = ALL_MEASURES[measure].column, f"{ALL_MEASURES[measure].unit} per page"
    rankers = found.rankers.to_dict("records")
    digits = digits_for(row[f"{column}_high"] - row[f"{column}_low"] for row in rankers)
    console.print_table(
        f"{unit[:1].upper()}{unit[1:]}, {found.level:.0%} intervals",
        ["ranker", unit, "P(best)"],
        (
            [
                row["name"],
                f"{row[column]:.{digits}f} ({row[f'{column}_low']:.{digits}f} to "
                f"{row[f'{column}_high']:.{digits}f})",
                _chance(found, row[f"{column}_prob_best"]),
            ]
            for row in rankers
        ),
    )
    if differences:
        own = [found.difference(each.name, each.against, measure) for each in differences]
        _print_differences(found, own, digits)


def _print_differences(
    found: "Comparison", differences: Sequence["Difference"], digits: int
) -> None:
    """Print differences per page: absolute, relative with intervals, P(better)."""
    unit = f"{differences[0].unit} per page"
    console.print_table(
        f"Differences, {found.level:.0%} intervals",
        ["ranker", "against", unit, "relative", "P(better)"],
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
    """Print the shares of the variance."""
    console.print_table(
        "Sources of uncertainty, in shares of the variance",
        ["", *PARTS.values()],
        (
            [name, *(f"{spread.shares()[part]:.0%}" for part in PARTS)]
            for name, spread in spreads.items()
        ),
    )


def _chance(found: "Comparison", probability: float) -> str:
    """A probability, never rounded to 0 or 1; "-" for a model without uncertainty."""
    if not found.is_uncertain:
        return "-"
    if probability < 0.005:
        return "< 0.01"
    return "> 0.99" if probability > 0.995 else f"{probability:.2f}"


def digits_for(widths: Iterable[float]) -> int:
    """Digits that distinguish the ends of intervals; 3 to 6."""
    narrow = min((width for width in widths if width > 0), default=0.1)
    return min(max(math.ceil(-math.log10(narrow)) + 1, 3), 6)


@options.reads_log
def compare(
    model: options.Model,
    ranking: Annotated[
        list[str],
        Option(
            metavar="NAME=FILE",
            help="Ranking to compare: a table with query_id, doc_id, and position or score, or a "
            "TREC run. FILE:COLUMN names the column of scores. May be repeated.",
            show_default=False,
        ),
    ],
    features: options.Features = None,
    clicks: Annotated[
        list[str] | None,
        Option(metavar="LOG", help="Log: clicks on items, traffic of queries. May be repeated."),
    ] = None,
    backtest: options.Backtest = None,
    weights: Annotated[
        Literal["traffic", "uniform"], Option(help="Weights of the queries.")
    ] = "traffic",
    depth: options.Depth = None,
    extrapolate: Annotated[
        bool,
        Option(
            "--extrapolate",
            help="Assume that positions below the model's last are examined as often as that one.",
        ),
    ] = False,
    against: Annotated[
        str | None, Option(metavar="NAME", help="Ranker to compare the others with.")
    ] = None,
    measure: Annotated[
        Literal["clicks", "conversions", "value"],
        Option(help="What decides the verdict, per page; the others are printed as well."),
    ] = "clicks",
    fail_unless_better: Annotated[
        float | None,
        Option(
            metavar="P",
            help="Exit with code 1 unless the first ranker beats every other one with at least "
            "this probability and no check of the model failed.",
        ),
    ] = None,
    despite: Annotated[
        str | None,
        Option(
            metavar="CHECKS",
            help="Checks that --fail-unless-better ignores, such as unseen,positions.",
        ),
    ] = None,
    truth: options.Truth = None,
    samples: Annotated[int, Option(help="Posterior samples of every value.")] = 2_500,
    level: options.Level = None,
    seed: Annotated[int, Option(help="Random seed of the samples.")] = 0,
    missing_features: options.MissingFeatures = "error",
    given: options.GivenOptions = options.NOTHING_GIVEN,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Predict the clicks per page of rankers, shown or not, and compare them.

    A model that was fitted with --conversion also predicts conversions per page, and their value.

    With --clicks, items are also judged by their own clicks, and queries are weighted by traffic.
    Logs are read with the options saved in the model by default, but all their rows are used.

    Example: epiclick compare model --ranking new=new.csv --ranking old=old.csv --clicks log.csv
    """
    from epiclick.api import load
    from epiclick.comparison.compare_rankers import compare as compare_rankings
    from epiclick.comparison.compare_rankers import (
        decided_by,
        read_rankings,
        true_values,
        true_values_sentence,
    )
    from epiclick.data.features import read_features
    from epiclick.data.files import unchanged
    from epiclick.evaluation.truth import read_truth

    silent = quiet or as_json
    world = None if truth is None else read_truth(truth)
    rankings: Mapping[str, Any] = options.named_rankings(ranking)
    check_names(list(rankings), against, fail_unless_better)
    ignored = ignored_checks(despite, fail_unless_better)
    fitted = load(model)
    options.check_features(fitted, features)
    joined = options.used_features([fitted], features, quiet=silent)
    with console.collect_warnings(quiet=silent) as warnings:
        logs = [*(clicks or []), *(backtest or [])]
        log_options = given.over_saved(fitted.fitted_.options, logs, quiet=silent)
        if backtest:
            options.warn_of_same_files(backtest, clicks or [])
        with unchanged([*logs, *([joined] if joined else [])]):
            table = None if joined is None else read_features(joined, ids=log_options.ids)
            counts = options.read_counts(clicks, log_options, quiet=silent) if clicks else None
            tested = None
            if backtest:
                tested = options.read_counts(
                    backtest, log_options, joined, missing_features, quiet=silent
                )
        with console.progress("comparing", quiet=silent):
            if world is not None:  # files are read once, not for each of the two results
                rankings = read_rankings(fitted.fitted_, rankings, table, counts, depth)
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
                measures=decided_by(fitted.fitted_, measure),
                level=level,
                seed=seed,
            )
            how = {"depth": depth, "extrapolate": extrapolate, "uniform": weights == "uniform"}
            true = None
            if world is not None:
                true = true_values(fitted, rankings, table, counts, world, measure, **how)
    if fail_unless_better is not None and not found.is_uncertain:
        raise InputError(
            "--fail-unless-better needs probabilities, and this model has no uncertainty; fit an "
            "epistemic model, or one with --members",
            code="no-uncertainty",
        )
    verdict = verdict_of(found, fail_unless_better)
    reasons = None
    if fail_unless_better is not None:
        reasons = reasons_to_fail(found, fail_unless_better, ignored)
    if as_json:
        record: dict[str, Any] = {**found.to_dict(), "verdict": verdict}
        if against is not None:
            chosen = differences(found, against)
            record["differences"] = [each.to_dict() for each in chosen]
            record["differences_by"] = {
                name: [found.difference(each.name, each.against, name).to_dict() for each in chosen]
                for name in found.further
            }
        record |= {"passed": None if reasons is None else not reasons, "warnings": warnings}
        record["true_values"] = true
        console.print_json(console.json_safe(record))
    else:
        print_comparison(found, differences(found, against), verdict, quiet=quiet)
        if true is not None:
            console.print_text(true_values_sentence(found, true))
    if reasons:
        console.note(f"epiclick: {'; '.join(reasons)}", quiet=silent)
        raise typer.Exit(1)


def differences(found: "Comparison", against: str | None) -> list[Any]:
    """The difference of every two rankers, or of all others from one."""
    names = found.names
    if against is not None:
        return [found.difference(name, against) for name in names if name != against]
    pairs = ((one, other) for i, one in enumerate(names) for other in names[i + 1 :])
    return [found.difference(one, other) for one, other in pairs]


def reasons_to_fail(found: "Comparison", threshold: float, ignored: Sequence[str]) -> list[str]:
    """Why the first ranker does not pass: rankers that it does not beat, checks that failed.

    A probability from a model that failed a check is no reason to ship, however high it is.
    """
    reasons = []
    first, *others = found.names
    unbeaten = [each for each in others if found.difference(first, each).prob_better < threshold]
    if unbeaten:
        reasons.append(
            f"{first} does not beat {' and '.join(unbeaten)} with probability {threshold:g} or more"
        )
    for check in found.checks(found.names):
        if check.state == "failed" and check.name not in ignored:
            reasons.append(f"{check.title} (--despite {check.name} ignores that)")
    return reasons


def ignored_checks(despite: str | None, threshold: float | None) -> tuple[str, ...]:
    """The checks that may fail."""
    names = tuple(options.names_in(despite))
    if not names:
        return ()
    if threshold is None:
        raise InputError(
            "--despite has no effect without --fail-unless-better; give both, or neither",
            code="option-needs-another",
        )
    from epiclick.comparison.verdict import NAMES

    for name in names:
        if name not in NAMES:
            raise InputError(
                f"--despite {name}: there is no such check{did_you_mean(name, NAMES)}; the checks "
                f"are {', '.join(NAMES)}",
                code="unknown-check",
            )
    return names


def verdict_of(found: "Comparison", threshold: float | None) -> str:
    """The verdict, at the given threshold if there is one."""
    # below 0.5 the question is whether the first is not much worse, which no verdict answers
    if threshold is None or threshold < 0.5:
        return found.verdict
    return found.verdict_at(threshold)
