"""`epiclick compare`: would another ranker get more clicks?"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Option

from epiclick.arguments import check_level
from epiclick.cli import console, options
from epiclick.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from epiclick.comparison.overlap import Overlap
    from epiclick.comparison.result import Comparison
    from epiclick.comparison.verdict import Difference, Spread


def check_names(
    names: Sequence[str], against: str | None, threshold: float | None, gate: str | None = None
) -> None:
    """Refuse questions that these rankers cannot answer, before anything is read."""
    if against is not None and against not in names:
        raise InputError(
            f"--against {against}: there is no such ranker{did_you_mean(against, names)}; the "
            f"rankers are {', '.join(names)}",
            code="unknown-ranker",
        )
    if threshold is not None and gate is not None:
        raise InputError(
            "--fail-unless-better and --gate are two rules for one exit code; give one of them",
            code="option-does-not-apply",
        )
    if threshold is None and gate is None:
        return
    if len(names) < 2:
        raise InputError(
            f"{gate_option(gate)} needs a second --ranking to compare with", code="too-few-rankers"
        )
    if threshold is not None:
        check_level("--fail-unless-better", threshold)


def gate_option(gate: str | None) -> str:
    """The option that makes the comparison a gate."""
    return "--fail-unless-better" if gate is None else f"--gate {gate}"


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
    if found.overlap is not None:
        _print_overlap(found, found.overlap, digits)
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


def _print_overlap(found: "Comparison", overlap: "Overlap", digits: int) -> None:
    """Print what the log has shown of the rankers, and other estimates on that."""
    from epiclick.comparison.overlap import ESTIMATOR_NAMES, reason_of

    console.print_table(
        "Support: items that the log has shown, at any position",
        ["ranker", "of slots", "of expected clicks", "effective displays", "exposure moved"],
        (
            [
                each.name,
                f"{each.slots:.0%}",
                f"{each.clicks:.0%}",
                f"{each.effective_displays:,.0f} of {each.displays:,}",
                f"{each.moved:.0%}",
            ]
            for each in overlap.support
        ),
    )
    reasons = {reason_of(each) for each in overlap.estimates}
    if len(reasons) == 1 and "" not in reasons:
        console.print_text(f"Other estimators: not available, as {reasons.pop()}.")
        return
    by_ranker: dict[str, list[Any]] = {}
    for each in overlap.estimates:
        by_ranker.setdefault(each.name, []).append(each)
    console.print_table(
        "Clicks per page on these items, and differences from the model's value",
        ["ranker", "model", *ESTIMATOR_NAMES.values()],
        (
            [name, f"{own[0].model:.{digits}f}" if own[0].available else "-"]
            + [
                f"{each.value:.{digits}f} ({each.difference:+.{digits}f})"
                if each.available
                else "not available"
                for each in own
            ]
            for name, own in by_ranker.items()
        ),
    )
    for name in dict.fromkeys(each.name for each in overlap.estimates if not each.available):
        (why, *_) = {reason_of(each) for each in overlap.estimates if each.name == name}
        console.print_text(f"No estimate for {name}: {why}.")


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
    ranking: options.Ranking,
    features: options.GivenFeatures = options.NO_FEATURES,
    clicks: options.Traffic = None,
    exposure_from: options.ExposureFrom = None,
    backtest: options.Backtest = None,
    weights: options.Weights = "traffic",
    depth: options.Depth = None,
    extrapolate: options.Extrapolate = False,
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
    gate: Annotated[
        Literal["lower"] | None,
        Option(
            help="Exit with code 1 unless the lower bound of the first ranker's difference from "
            "every other one is above 0, at --level, and no check of the model failed.",
        ),
    ] = None,
    despite: Annotated[
        str | None,
        Option(
            metavar="CHECKS",
            help="Checks that --fail-unless-better and --gate ignore, such as unseen,positions.",
        ),
    ] = None,
    also: Annotated[
        list[Path] | None,
        Option(
            metavar="MODEL",
            help="Another model to value the same rankers with, side by side. May be repeated.",
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
    from epiclick.cli.compare_also import Logs, compared_by, load_others, print_several
    from epiclick.comparison.compare_rankers import compare as compare_rankings
    from epiclick.comparison.compare_rankers import (
        decided_by,
        read_rankings,
        true_values,
        true_values_sentence,
    )
    from epiclick.comparison.several_models import SeveralModels
    from epiclick.data.files import unchanged
    from epiclick.evaluation.truth import read_truth

    silent = quiet or as_json
    world = None if truth is None else read_truth(truth)
    rankings: Mapping[str, Any] = options.named_rankings(ranking)
    check_names(list(rankings), against, fail_unless_better, gate)
    is_gate = fail_unless_better is not None or gate is not None
    ignored = ignored_checks(despite, is_gate=is_gate)
    fitted = load(model)
    options.check_features(fitted, features)
    others = load_others(model, also or [], features)
    joined = options.used_features([fitted, *others.values()], features, quiet=silent)
    with console.collect_warnings(quiet=silent) as warnings:
        logs = [*(clicks or []), *(backtest or [])]
        log_options = given.over_saved(fitted.fitted_.options, logs, quiet=silent)
        if backtest:
            options.warn_of_same_files(backtest, clicks or [])
        with unchanged([*logs, *joined.paths]):
            table = joined.read(log_options.ids, quiet=silent) if joined else None
            counts = options.read_counts(clicks, log_options, quiet=silent) if clicks else None
            if exposure_from and counts is not None:
                earlier = options.read_counts(exposure_from, log_options, quiet=silent)
                counts = counts.placed_by(earlier)
            tested = None
            if backtest:
                tested = options.read_counts(
                    backtest, log_options, joined, missing_features, quiet=silent
                )
        how: dict[str, Any] = {
            **{"weights": weights, "samples": samples, "depth": depth},
            **{"extrapolate": extrapolate, "level": level, "seed": seed},
        }
        with console.progress("comparing", quiet=silent):
            if world is not None:  # files are read once, not for each of the two results
                rankings = read_rankings(fitted.fitted_, rankings, table, counts, depth)
            found = compare_rankings(
                fitted,
                rankings,
                table,
                clicks=counts,
                backtest=tested,
                measures=decided_by(fitted.fitted_, measure),
                **how,
            )
            by_model = {str(model): found}
            for name, other in others.items():
                read = Logs(clicks or [], backtest or [], joined, missing_features, given)
                own = {**how, "measures": decided_by(other.fitted_, measure)}
                by_model[name] = compared_by(other, rankings, table, read, own)
            several = SeveralModels(by_model) if others else None
            true = None
            if world is not None:
                slots = {
                    "depth": depth,
                    "extrapolate": extrapolate,
                    "uniform": weights == "uniform",
                }
                true = true_values(fitted, rankings, table, counts, world, measure, **slots)
    if is_gate and not found.is_uncertain:
        raise InputError(
            f"{gate_option(gate)} needs probabilities, and this model has no uncertainty; fit an "
            "epistemic model, or one with --members",
            code="no-uncertainty",
        )
    # a central interval lies above 0 if a gain has at least this probability
    threshold = fail_unless_better if gate is None else (1 + found.level) / 2
    verdict = verdict_of(found, threshold)
    reasons = None
    if is_gate:
        reasons = list(found.gate(fail_unless_better, ignored))
        for name in others:
            more = by_model[name].gate(fail_unless_better, ignored)
            reasons += [replace(each, words=f"{name}: {each.words}") for each in more]
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
        if several is not None:
            record["models"] = several.to_dict()
        console.print_json(console.json_safe(record))
    else:
        print_comparison(found, differences(found, against), verdict, quiet=quiet)
        if true is not None:
            console.print_text(true_values_sentence(found, true))
        if several is not None:
            print_several(several, digits_for(several.table["high"] - several.table["low"]))
    if reasons:
        words = [
            f"{each} (--despite {each.check} ignores that)" if each.check else str(each)
            for each in reasons
        ]
        console.note(f"epiclick: {'; '.join(words)}", quiet=silent)
        raise typer.Exit(1)


def differences(found: "Comparison", against: str | None) -> list[Any]:
    """The difference of every two rankers, or of all others from one."""
    names = found.names
    if against is not None:
        return [found.difference(name, against) for name in names if name != against]
    pairs = ((one, other) for i, one in enumerate(names) for other in names[i + 1 :])
    return [found.difference(one, other) for one, other in pairs]


def ignored_checks(despite: str | None, *, is_gate: bool) -> tuple[str, ...]:
    """The checks that may fail."""
    names = tuple(options.names_in(despite))
    if not names:
        return ()
    if not is_gate:
        raise InputError(
            "--despite has no effect without --fail-unless-better or --gate; give one of them, or "
            "leave it out",
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
