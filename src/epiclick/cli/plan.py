"""`epiclick plan`: which experiment would tell two rankers apart?"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from epiclick.cli import console, options
from epiclick.cli.interleave import write_table
from epiclick.cli.select import write_record
from epiclick.errors import InputError

if TYPE_CHECKING:
    from epiclick.experiments.planned import Plan


def print_plan(found: "Plan", *, quiet: bool) -> None:
    """Print the experiments, notes unless quiet, and the verdict."""
    timed = found.pages_per_day is not None
    if found.experiments:
        console.print_table(
            f"Experiments with a power of {found.power:.0%}, if the difference is as expected",
            ["experiment", "pages", *(["days"] if timed else []), "by query", "power", "remark"],
            (_row(found, at, timed=timed) for at in range(len(found.experiments))),
            prose=["experiment", "remark"],
        )
    record = found.to_dict()
    if found.experiments:
        lead = record["lead"]
        console.print_text(
            "By query: pages with intervals clustered by query. Power: expected, over what the "
            "difference may be."
        )
        console.print_text(
            f"Interleaved pages: expect a lead of {lead['mean']:+.4f} credited clicks per page "
            f"({lead['low']:+.4f} to {lead['high']:+.4f}) for {found.comparison.names[0]}; it has "
            f"the sign of the difference in clicks with probability {lead['agreement']:.2f}."
        )
    if not quiet:
        print("Notes")
        for each in record["notes"]:
            console.print_text(f"- {each}.")
    console.print_text(f"Verdict: {found.verdict}")


def _row(found: "Plan", at: int, *, timed: bool) -> list[str]:
    each = found.experiments[at]
    days = each.days(found.pages_per_day)
    shown = [] if not timed else ["-" if days is None else f"{days:,.1f}"]
    power = "-" if each.expected_power is None else f"{each.expected_power:.0%}"
    remark = each.obstacle or ("" if each.pages_per_arm is None else f"{each.pages_per_arm:,} each")
    pages, by_query = (
        "-" if number is None else f"{number:,}" for number in (each.pages, each.pages_by_query)
    )
    return [each.title, pages, *shown, by_query, power, remark or each.how]


@contextmanager
def _named_pages_out() -> Iterator[None]:
    """Errors on a file name its option."""
    try:
        yield
    except InputError as error:
        raise error.with_message(str(error).replace("--out", "--pages-out", 1)) from error


@options.reads_log
def plan(
    model: options.Model,
    ranking: options.Ranking,
    features: options.GivenFeatures = options.NO_FEATURES,
    clicks: options.Traffic = None,
    power: Annotated[
        float, Option(help="Probability with which the experiment is to decide.")
    ] = 0.8,
    significance: Annotated[float, Option(help="Of two-sided tests on users.")] = 0.05,
    sure: Annotated[
        float, Option(help="Probability of being better at which a ranker is preferred.")
    ] = 0.95,
    pages_per_day: Annotated[
        float | None, Option(help="Pages of all queries per day, to print days as well.")
    ] = None,
    out: Annotated[Path | None, Option(help="JSON file to write.")] = None,
    pages_out: Annotated[
        Path | None,
        Option(help="Parquet file to write: queries, items and positions of the experiments."),
    ] = None,
    weights: options.Weights = "traffic",
    depth: options.Depth = None,
    extrapolate: options.Extrapolate = False,
    samples: Annotated[int, Option(help="Posterior samples of every value.")] = 2_500,
    level: options.Level = None,
    seed: Annotated[int, Option(help="Random seed.")] = 0,
    given: options.GivenOptions = options.NOTHING_GIVEN,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Plan the cheapest experiment that tells two rankers apart.

    Give two rankings, the new one first. Prints the pages that an A/B test, interleaving, swapped
    positions, items never shown and more of the log would need, from what the model expects and
    how uncertain it is.

    Example: epiclick plan model --ranking new=new.csv --ranking live=old.csv --clicks log.csv
    """
    from epiclick.api import load
    from epiclick.data.files import unchanged
    from epiclick.experiments.plan_experiment import plan as plan_experiment

    silent = quiet or as_json
    inputs = [*(clicks or []), *features.paths]
    if out is not None:
        console.check_file(out, (".json",), "JSON", "plan.json", inputs)
    if pages_out is not None:
        with _named_pages_out():
            console.check_file(pages_out, console.PARQUET, "Parquet", "pages.parquet", inputs)
    rankings = options.named_rankings(ranking)
    fitted = load(model)
    options.check_features(fitted, features)
    joined = options.used_features([fitted], features, quiet=silent)
    with console.collect_warnings(quiet=silent) as warnings:
        log_options = given.over_saved(fitted.fitted_.options, clicks or [], quiet=silent)
        with unchanged(inputs):
            table = joined.read(log_options.ids, quiet=silent) if joined else None
            counts = options.read_counts(clicks, log_options, quiet=silent) if clicks else None
        with console.progress("planning", quiet=silent):
            found = plan_experiment(
                fitted,
                rankings,
                table,
                clicks=counts,
                weights=weights,
                samples=samples,
                depth=depth,
                extrapolate=extrapolate,
                power=power,
                significance=significance,
                sure=sure,
                pages_per_day=pages_per_day,
                level=level,
                seed=seed,
            )
    record = console.json_safe({**found.to_dict(), "warnings": warnings})
    if out is not None:
        write_record(record, out)
    if pages_out is not None:
        with _named_pages_out():
            write_table(found.pages, pages_out)
    if as_json:
        console.print_json(record)
        return
    print_plan(found, quiet=quiet)
    for written in filter(None, (out, pages_out)):
        console.note(f"written to {written}", quiet=quiet)
