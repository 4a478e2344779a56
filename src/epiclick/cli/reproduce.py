"""`epiclick reproduce`: the paper's experiments again, and its questions answered from them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from epiclick.arguments import require_extra
from epiclick.cli.console import (
    AsJson,
    Quiet,
    check_folder,
    check_taken,
    kept_when_stopped,
    known,
    note,
    print_json,
    print_table,
    print_text,
    told_warnings,
    written_to,
)
from epiclick.cli.options import names_in
from epiclick.errors import InputError

if TYPE_CHECKING:
    from epiclick.paper.results import Results
    from epiclick.paper.runs import Tuned
    from epiclick.paper.statement import Claim

Dataset = Literal["synthetic", "mslr", "istella", "letor"]
FIGURES, CLAIMS, TABLE, PAGE = "figures", "claims.json", "claims.md", "report.html"


def reproduce(
    out: Annotated[
        Path, typer.Option(help="Folder for cells, tables, figures and the report; goes on there.")
    ],
    preset: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="quick: ten minutes on two cores; tenth; paper: its own sizes.",
            autocompletion=lambda: ["quick", "tenth", "paper"],
        ),
    ] = "quick",
    dataset: Annotated[
        Dataset,
        typer.Option(
            metavar="NAME", help="synthetic, mslr, istella, or letor for another such set."
        ),
    ] = "synthetic",
    path: Annotated[
        Path | None, typer.Option(help="Folder of the LETOR data, unless they are synthetic.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(help="Logging policies, clicks and first weights.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training pairs.")] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Methods, such as pointwise,exact,conditioned@0.001.", show_default="all"
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Experiments: a to e or figure2 to figure7, why.", show_default="all"),
    ] = None,
    cells: Annotated[
        str | None,
        typer.Option(help="Share of the cells to do, such as 2/3; the last one merges."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes.", show_default="one a core")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same numbers.")] = 0,
    rates: Annotated[
        Path | None, typer.Option(help="Learning rates, a JSON file as --tune writes it.")
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose learning rates on validation queries instead.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run the paper's experiments again, and answer its questions from what was measured.

    A run that was stopped or killed goes on where it was.

    Example: epiclick reproduce --out R --preset quick
    """
    require_extra("reproduce", ("matplotlib",), "paper")
    check_folder(out)
    from epiclick.paper.cells import CELLS, SETTINGS, Share
    from epiclick.paper.runs import RATES, RESULTS, TRIED, TUNING
    from epiclick.paper.runs import reproduce as run
    from epiclick.paper.runs import tune as try_rates
    from epiclick.paper.settings import choose_preset, with_rates
    from epiclick.paper.variants import choose_methods

    if tune:
        begun = (out / TUNING).is_dir() or ((out / RATES).exists() and (out / TRIED).exists())
        check_taken(out, (RATES, TRIED), "reproduce --tune", begun=begun)
    else:
        names = (CELLS, RESULTS, CLAIMS, TABLE, FIGURES, PAGE)
        check_taken(out, names, "reproduce", begun=(out / SETTINGS).is_file())
    begin = choose_preset(preset)
    settings = replace(
        begin,
        dataset=dataset,
        runs=begin.runs if runs is None else runs,
        epochs=begin.epochs if epochs is None else epochs,
        seed=seed,
        methods=choose_methods(
            None if methods is None else names_in(methods),
            None if only is None else names_in(only),
        ),
    )
    if rates is not None:
        settings = with_rates(settings, rates)
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs must be a whole number above 0, not {jobs}")
    share = None if cells is None else Share.parse(cells)
    shown = not (quiet or as_json)
    kept = f"what is done is kept in {out}. To go on, give the same command again."
    writing = written_to(out, f"{kept[:1].upper()}{kept[1:]}")
    with kept_when_stopped(kept), writing, told_warnings(quiet=not shown) as warnings:
        if tune:
            tuned = try_rates(settings, out, path, jobs=jobs, progress=shown)
        else:
            results = run(settings, out, path, share=share, jobs=jobs, progress=shown)
            claims = None if results is None else write_report(results, out)
    if tune:
        if as_json:
            print_json(
                known({"rates": [rate_record(each) for each in tuned], "warnings": warnings})
            )
        else:
            show_rates(tuned)
            note(f"written to {out / RATES}; take them with --rates", quiet=quiet)
        return
    if as_json:
        listed = None if claims is None else [claim.to_dict() for claim in claims]
        print_json(known({"claims": listed, "warnings": warnings}))
        return
    if claims is None:
        note(f"this share is done; others are not yet. Merge with --out {out}", quiet=quiet)
        return
    show_claims(claims)
    note(f"written to {out}: {PAGE}, {FIGURES}, results.parquet, {CLAIMS}", quiet=quiet)


def write_report(results: "Results", out: Path) -> list["Claim"]:
    """Claims, figures and the page, from the table alone."""
    from epiclick.paper.claims import make_claims, write_claims, write_claims_table
    from epiclick.paper.figures import draw_all
    from epiclick.paper.reproduction_page import write_page

    claims = make_claims(results)
    write_claims(claims, out / CLAIMS)
    write_claims_table(claims, out / TABLE)
    draw_all(results, out / FIGURES)
    write_page(results, claims, out)
    return claims


def show_claims(claims: list["Claim"]) -> None:
    """What became of every claim whose methods were run."""
    asked = [claim for claim in claims if claim.was_asked]
    if asked:
        print_table(
            "claims of the paper",
            ["", "claim", "outcome"],
            ([claim.id, claim.claim, str(claim.outcome)] for claim in asked),
            prose=("", "claim"),
        )
    if others := len(claims) - len(asked):
        print(f"{others} of {len(claims)} claims are about methods that were not run.")


def rate_record(tuned: "Tuned") -> dict[str, Any]:
    """Learning rates of a method, for JSON."""
    return {"method": tuned.method, "rate": tuned.rate, "tried": list(tuned.tried.items())}


def show_rates(tuned: "Sequence[Tuned]") -> None:
    """Learning rates that were tried, for people."""
    grid = sorted(tuned[0].tried)
    print_table(
        "log-likelihood per display of validation queries after the last epoch, by rate",
        ["method", *(f"{rate:g}" for rate in grid), "best"],
        (
            [each.method, *(f"{each.tried[rate]:.5f}" for rate in grid), f"{each.rate:g}"]
            for each in tuned
        ),
    )
    edge = [each.method for each in tuned if each.at_the_edge]
    if edge:
        print_text(f"At the end of the grid: {', '.join(edge)}; rates beyond may be better.")
