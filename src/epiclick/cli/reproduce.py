"""`epiclick reproduce`: rerun the paper's experiments and check its claims."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from epiclick.arguments import check_whole, require_extra
from epiclick.cli import console, options

if TYPE_CHECKING:
    from epiclick.paper.results import Results
    from epiclick.paper.runs import Tuned
    from epiclick.paper.statement import Claim

Dataset = Literal["synthetic", "mslr", "istella", "letor"]
FIGURES, CLAIMS, TABLE, PAGE = "figures", "claims.json", "claims.md", "report.html"


def reproduce(
    out: Annotated[
        Path,
        Option(help="Folder for cells, tables, figures and the report; runs resume from it."),
    ],
    preset: Annotated[
        str,
        Option(
            metavar="NAME",
            help="quick: ten minutes on two cores; tenth: a tenth of the paper; paper: its sizes.",
            autocompletion=lambda: ["quick", "tenth", "paper"],
        ),
    ] = "quick",
    dataset: Annotated[
        Dataset, Option(metavar="NAME", help="synthetic, mslr, istella, or letor: any LETOR data.")
    ] = "synthetic",
    path: Annotated[Path | None, Option(help="Folder of the LETOR data.")] = None,
    runs: Annotated[
        int | None,
        Option(help="Runs, each with its policy, clicks and weights.", show_default="the preset's"),
    ] = None,
    epochs: Annotated[int | None, Option(help="Epochs.", show_default="the preset's")] = None,
    methods: Annotated[
        str | None,
        Option(help="Methods, such as pointwise,exact,conditioned@0.001.", show_default="all"),
    ] = None,
    only: Annotated[
        str | None, Option(help="Experiments: a to e, figure2 to figure7, why.", show_default="all")
    ] = None,
    cells: Annotated[
        str | None,
        Option(help="Part of the cells to run, such as 2/3; the last to finish merges all."),
    ] = None,
    jobs: Annotated[int | None, Option(help="Processes.", show_default="one per core")] = None,
    seed: Annotated[int, Option(help="Random seed.")] = 0,
    rates: Annotated[
        Path | None, Option(help="JSON file of learning rates, as written by --tune.")
    ] = None,
    tune: Annotated[
        bool, Option("--tune", help="Only choose learning rates, on validation queries.")
    ] = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Rerun the paper's experiments, and check its claims against the measurements.

    A run that was stopped or killed resumes where it was.

    Example: epiclick reproduce --out R --preset quick
    """
    require_extra("reproduce", ("matplotlib",), "paper")
    console.check_folder(out)
    from epiclick.paper.cells import CELLS, SETTINGS, Share
    from epiclick.paper.runs import RATES, RESULTS, TRIED, TUNING
    from epiclick.paper.runs import reproduce as run
    from epiclick.paper.runs import tune as try_rates
    from epiclick.paper.settings import choose_preset, with_rates
    from epiclick.paper.variants import choose_methods

    if tune:
        begun = (out / TUNING).is_dir() or ((out / RATES).exists() and (out / TRIED).exists())
        console.check_own_files(out, (RATES, TRIED), "reproduce --tune", begun=begun)
    else:
        names = (CELLS, RESULTS, CLAIMS, TABLE, FIGURES, PAGE)
        console.check_own_files(out, names, "reproduce", begun=(out / SETTINGS).is_file())
    begin = choose_preset(preset)
    settings = replace(
        begin,
        dataset=dataset,
        runs=begin.runs if runs is None else runs,
        epochs=begin.epochs if epochs is None else epochs,
        seed=seed,
        methods=choose_methods(
            None if methods is None else options.names_in(methods),
            None if only is None else options.names_in(only),
        ),
    )
    if rates is not None:
        settings = with_rates(settings, rates)
    if jobs is not None:
        check_whole("--jobs", jobs, 1)
    share = None if cells is None else Share.parse(cells)
    shown = not (quiet or as_json)
    kept = f"Finished cells are kept in {out}. To resume, run the same command again."
    with console.keeps(kept, out), console.collect_warnings(quiet=not shown) as warnings:
        if tune:
            tuned = try_rates(settings, out, path, jobs=jobs, progress=shown)
        else:
            results = run(settings, out, path, share=share, jobs=jobs, progress=shown)
            claims = None if results is None else write_report(results, out)
    if tune:
        if as_json:
            console.print_json(
                console.json_safe(
                    {"rates": [rate_record(each) for each in tuned], "warnings": warnings}
                )
            )
        else:
            show_rates(tuned)
            console.note(f"written to {out / RATES}; use them with --rates", quiet=quiet)
        return
    if as_json:
        listed = None if claims is None else [claim.to_dict() for claim in claims]
        console.print_json(console.json_safe({"claims": listed, "warnings": warnings}))
        return
    if claims is None:
        console.note(f"this part is done, others are not. Merge them with --out {out}", quiet=quiet)
        return
    show_claims(claims)
    console.note(f"written to {out}: {PAGE}, {FIGURES}, results.parquet, {CLAIMS}", quiet=quiet)


def write_report(results: "Results", out: Path) -> list["Claim"]:
    """Write claims, figures and the page, from the results."""
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
    """Print the outcome of every claim whose methods were run."""
    asked = [claim for claim in claims if claim.was_asked]
    if asked:
        console.print_table(
            "Claims of the paper",
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
    """Print the learning rates that were tried."""
    grid = sorted(tuned[0].tried)
    console.print_table(
        "Log-likelihood per display of validation queries after the last epoch, by rate",
        ["method", *(f"{rate:g}" for rate in grid), "best"],
        (
            [each.method, *(f"{each.tried[rate]:.5f}" for rate in grid), f"{each.rate:g}"]
            for each in tuned
        ),
    )
    edge = [each.method for each in tuned if each.at_the_edge]
    if edge:
        console.print_text(
            f"At the edge of the grid: {', '.join(edge)}; rates beyond it may be better."
        )
