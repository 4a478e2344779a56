"""`epiclick interleave`: pages on which two rankers take turns, and what their clicks say."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from epiclick.cli import console, options
from epiclick.errors import InputError

if TYPE_CHECKING:
    from epiclick.experiments.interleaving_analysis import InterleavingResult

Rankings = Annotated[
    list[str] | None,
    Option(
        metavar="NAME=FILE",
        help="Ranking to interleave; two are needed: a table with query_id, doc_id, and position "
        "or score, or a TREC run. FILE:COLUMN names the column of scores.",
        show_default=False,
    ),
]


@options.reads_log
def interleave(
    ranking: Rankings = None,
    out: Annotated[Path | None, Option(help="Parquet file of interleaved pages to write.")] = None,
    pages_per_query: Annotated[
        int | None, Option(help="Pages to make for every query.", show_default="1")
    ] = None,
    traffic: Annotated[
        list[str] | None,
        Option(metavar="LOG", help="Log: make as many pages as queries have in it instead."),
    ] = None,
    depth: options.Depth = None,
    seed: Annotated[int, Option(help="Random seed of the coins.")] = 0,
    clicks: Annotated[
        list[str] | None,
        Option(metavar="LOG", help="Log of interleaved pages to analyse. May be repeated."),
    ] = None,
    pages: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Interleaved pages that were shown, if the log has no column team.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        Option(metavar="NAME", help="Ranker to compare with.", show_default="first by name"),
    ] = None,
    cluster: Annotated[
        Literal["query", "page"], Option(help="What the interval is clustered by.")
    ] = "query",
    level: Annotated[float, Option(help="Nominal coverage of the interval.")] = 0.95,
    given: options.GivenOptions = options.NOTHING_GIVEN,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Interleave two rankers by team draft, or analyse clicks on interleaved pages.

    With --ranking and --out, writes pages: page_id, query_id, doc_id, position, team. With
    --clicks, compares the clicks that were credited to the two teams.

    Example: epiclick interleave --ranking new=new.csv --ranking live=old.csv --out pages.parquet
    """
    silent = quiet or as_json
    making: dict[str, Any] = {
        "--ranking": ranking,
        "--out": out,
        "--pages-per-query": pages_per_query,
        "--traffic": traffic,
        "--depth": depth,
    }
    check_task(making, clicks, pages, against)
    log_options = given.over(options.DEFAULTS)
    with console.collect_warnings(quiet=silent) as warnings:
        if clicks:
            from epiclick.experiments.interleaving_analysis import analyse_interleaving

            with console.progress("counting", quiet=silent):
                result = analyse_interleaving(
                    list(clicks),
                    pages,
                    against=against,
                    cluster=cluster,
                    level=level,
                    options=log_options,
                )
            if as_json:
                record = {**result.to_dict(), "warnings": warnings}
                console.print_json(console.json_safe(record))
            else:
                print_result(result, quiet=quiet)
            return
        from epiclick.experiments.interleave_rankings import interleave as interleave_rankings

        assert ranking is not None
        assert out is not None
        console.check_file(out, console.PARQUET, "Parquet", "pages.parquet", traffic or [])
        rankings = options.named_rankings(ranking)
        counts = options.read_counts(traffic, log_options, quiet=silent) if traffic else None
        made = interleave_rankings(
            rankings,
            pages=1 if pages_per_query is None else pages_per_query,
            traffic=counts,
            depth=depth,
            ids=log_options.ids,
            seed=seed,
        )
        write_table(made.table, out)
    if as_json:
        console.print_json({**made.to_dict(), "warnings": warnings})
        return
    for each in made.notes:
        console.note(each, quiet=quiet)
    console.print_text(
        f"{made.pages:,} interleaved pages of {made.queries:,} queries; on {made.differing:.0%} of "
        "them the two lists differ."
    )
    console.note(f"written to {out}", quiet=quiet)


def check_task(
    making: Mapping[str, Any], clicks: Sequence[str] | None, pages: str | None, against: str | None
) -> None:
    """Refuse options that belong to the other of the two tasks, or lack one that is needed."""
    if clicks:
        given = [name for name, value in making.items() if value is not None and value != []]
        if given:
            raise InputError(
                f"--clicks analyses pages that were shown, and {given[0]} makes new ones; give one "
                "of them",
                code="options-conflict",
            )
        return
    for name, value in {"--pages": pages, "--against": against}.items():
        if value is not None:
            raise InputError(
                f"{name} has no effect without --clicks; give the log of the pages",
                code="option-needs-another",
            )
    if not making["--ranking"] or making["--out"] is None:
        raise InputError(
            "give two --ranking NAME=FILE and --out FILE to make pages, or --clicks LOG to analyse "
            "them",
            code="nothing-to-do",
        )
    if making["--traffic"] and making["--pages-per-query"] is not None:
        raise InputError(
            "--traffic and --pages-per-query both set the number of pages; give one of them",
            code="options-conflict",
        )


def print_result(found: "InterleavingResult", *, quiet: bool) -> None:
    """Print clicks, wins, notes unless quiet, and the verdict."""
    console.print_table(
        f"{found.pages:,} interleaved pages of {found.queries:,} queries",
        ["ranker", "credited clicks", "pages won"],
        [
            [found.name, f"{found.clicks:,}", f"{found.wins:,}"],
            [found.against, f"{found.clicks_against:,}", f"{found.losses:,}"],
            ["neither", f"{found.uncredited:,}", f"{found.ties:,}"],
        ],
        prose=["ranker"],
    )
    console.print_text(
        f"{found.name} - {found.against}: {found.difference:+.4f} credited clicks per page, "
        f"{found.level:.0%} interval {found.low:+.4f} to {found.high:+.4f}, clustered by "
        f"{found.cluster}."
    )
    for each in found.notes:
        console.note(each, quiet=quiet)
    console.print_text(f"Verdict: {found.verdict}")


def write_table(table: Any, out: Path) -> None:
    """Write an Arrow table to a Parquet file."""
    from epiclick.data.checked_tables import write_tables
    from epiclick.data.writing import written_aside

    with console.written_to(out), written_aside(out) as aside:
        write_tables([table], aside)
