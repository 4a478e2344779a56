"""`epiclick reproduce`: the paper's experiments again, and its questions answered from them."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from epiclick.cli.out_file import check_writable
from epiclick.cli.output import AsJson, Quiet, note, print_json, print_table
from epiclick.cli.telling import Interrupted, known, print_text
from epiclick.errors import InputError

if TYPE_CHECKING:
    from epiclick.paper.results import Results
    from epiclick.paper.settings import Settings
    from epiclick.paper.statement import Claim

FIGURES, CLAIMS = "figures", "claims.json"


def reproduce(
    out: Annotated[
        Path, typer.Option(help="Folder for cells, tables, figures and the report; goes on there.")
    ],
    preset: Annotated[
        str, typer.Option(help="quick: ten minutes on two cores; tenth; paper: its own sizes.")
    ] = "quick",
    dataset: Annotated[
        str, typer.Option(help="synthetic, mslr, istella, or letor for another such set.")
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

    A run that was stopped or killed goes on where it was. Example: epiclick reproduce --out R
    """
    check_extra()
    check_folder(out)
    from epiclick.paper.cells import Share
    from epiclick.paper.presets import choose_preset, with_rates
    from epiclick.paper.reproduce import reproduce as run
    from epiclick.paper.variants import choose_methods

    begin = choose_preset(preset)
    settings = replace(
        begin,
        dataset=dataset,
        runs=begin.runs if runs is None else runs,
        epochs=begin.epochs if epochs is None else epochs,
        seed=seed,
        methods=choose_methods(_names(methods), _names(only)),
    )
    if rates is not None:
        settings = with_rates(settings, rates)
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs must be a whole number above 0, not {jobs}")
    share = None if cells is None else Share.parse(cells)
    shown = not (quiet or as_json)
    try:
        if tune:
            show_rates(settings, out, path, jobs, as_json=as_json, quiet=quiet)
            return
        results = run(settings, out, path, share=share, jobs=jobs, progress=shown)
    except KeyboardInterrupt:
        raise Interrupted(f"what is done is kept in {out}; the same command goes on") from None
    if results is None:
        if as_json:
            print_json({"claims": None})
        note(f"this share is done; others are not yet. Merge with --out {out}", quiet=quiet)
        return
    claims = write_report(results, out)
    if as_json:
        print_json(known({"claims": [claim.to_dict() for claim in claims]}))
        return
    show_claims(claims)
    note(f"written to {out}: report.html, {FIGURES}, results.parquet, {CLAIMS}", quiet=quiet)


def check_extra() -> None:
    """Refuse to start without the package that draws figures."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise InputError(
            "reproduce needs matplotlib; install it with pip install 'epiclick[paper]'"
        )


def check_folder(out: Path) -> None:
    """Refuse a folder that cannot be written to."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; name a folder")
    check_writable(out / "settings.json")


def write_report(results: "Results", out: Path) -> list["Claim"]:
    """Claims, figures and the page, from the table alone."""
    from epiclick.paper.claims import make_claims, write_claims
    from epiclick.report.paper_figures import draw_all
    from epiclick.report.reproduction_page import write_page

    claims = make_claims(results)
    write_claims(claims, out / CLAIMS)
    draw_all(results, out / FIGURES)
    write_page(results, claims, out)
    return claims


def show_claims(claims: list["Claim"]) -> None:
    """What became of every claim."""
    print_table(
        "claims of the paper",
        ["", "claim", "outcome"],
        ([claim.id, claim.claim, str(claim.outcome)] for claim in claims),
    )


def show_rates(
    settings: "Settings",
    out: Path,
    path: Path | None,
    jobs: int | None,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Try learning rates and tell of them."""
    from epiclick.paper.tuning import RATES, tune

    tuned = tune(settings, out, path, jobs=jobs, progress=not (quiet or as_json))
    if as_json:
        rows = [
            {"method": each.method, "rate": each.rate, "tried": list(each.tried.items())}
            for each in tuned
        ]
        print_json(known({"rates": rows}))
        return
    grid = sorted(tuned[0].tried)
    print_table(
        "log-likelihood a display of validation queries after the last epoch, by rate",
        ["method", *(f"{rate:g}" for rate in grid), "best"],
        (
            [each.method, *(f"{each.tried[rate]:.5f}" for rate in grid), f"{each.rate:g}"]
            for each in tuned
        ),
    )
    edge = [each.method for each in tuned if each.at_the_edge]
    if edge:
        print_text(f"At the end of the grid: {', '.join(edge)}; rates beyond may be better.")
    note(f"written to {out / RATES}; take them with --rates", quiet=quiet)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
