"""`epiclick calibrate`: coverage of the intervals in simulated worlds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from epiclick.arguments import require_extra
from epiclick.cli import console, options

if TYPE_CHECKING:
    from epiclick.calibration.table import CalibrationTable, CoverageRow, UniformityRow


def calibrate(
    worlds: Annotated[
        int, Option(help="Worlds per family: 60 for a quick look, 240 for a verdict.")
    ] = 60,
    families: Annotated[
        str | None,
        Option(
            help="Families of worlds, such as sparse,dense, or a group: well-specified, "
            "misspecified, own-prior.",
            show_default="all",
        ),
    ] = None,
    methods: Annotated[
        str, Option(help="Methods: marginal,ensemble,exact,control, ...")
    ] = "marginal",
    seed: Annotated[int, Option(help="Random seed.")] = 0,
    shrink: Annotated[
        float, Option(help="Factor on the width of intervals; 0.7 is a negative control.")
    ] = 1.0,
    jobs: Annotated[int, Option(help="Number of processes.")] = 2,
    out: Annotated[
        Path | None,
        Option(help="Folder for tables, figures and worlds; a stopped run resumes from it."),
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure the coverage of intervals in simulated worlds, where the truth is known.

    Example: epiclick calibrate --worlds 60 --families well-specified --out calibration
    """
    require_extra("calibrate", ("scoringrules", "matplotlib"), "calibration")
    from epiclick.calibration.runner import WORLDS
    from epiclick.calibration.runner import calibrate as run

    if out is not None:
        console.check_folder(out)
        end = _suffix(shrink)
        names = [f"calibration{end}.json", f"calibration{end}.md", f"own-prior{end}.png"]
        names += [f"{method}{end}.png" for method in options.names_in(methods)]
        begun = any((out / WORLDS).glob("*/*/*.npz"))
        console.check_own_files(out, names, "calibrate", begun=begun)

    silent = quiet or as_json
    kept = "Nothing is kept; with --out FOLDER, finished worlds would be."
    if out is not None:
        kept = f"Finished worlds are kept in {out}. To resume, run the same command again."
    with console.keeps(kept, out), console.collect_warnings(quiet=silent) as warnings:
        table = run(
            worlds,
            None if families is None else options.names_in(families),
            options.names_in(methods),
            seed,
            shrink=shrink,
            jobs=jobs,
            folder=out,
            progress=not silent,
        )
        if out is not None:
            write(table, out)
    if as_json:
        console.print_json(console.json_safe({**table.to_dict(), "warnings": warnings}))
        return
    show(table)
    if out is not None:
        name = f"calibration{_suffix(table.shrink)}"
        console.note(f"written to {out}: {name}.json, {name}.md, figures", quiet=quiet)


def write(table: "CalibrationTable", out: Path) -> None:
    """Write tables and a figure per method; a control's names end in its factor."""
    import json

    from epiclick.data.writing import written_aside
    from epiclick.report.calibration_figure import draw_calibration, draw_own_prior

    record = {"schema_version": console.SCHEMA_VERSION, **console.json_safe(table.to_dict())}
    for name, text in (
        (f"calibration{_suffix(table.shrink)}.json", json.dumps(record, indent=1) + "\n"),
        (f"calibration{_suffix(table.shrink)}.md", table.to_markdown()),
    ):
        with written_aside(out / name) as aside:
            aside.write_text(text, encoding="utf-8")
    for method in dict.fromkeys(row.method for row in table.rows):
        draw_calibration(table, method, out / f"{method}{_suffix(table.shrink)}.png")
    if table.own_prior:
        draw_own_prior(table, out / f"own-prior{_suffix(table.shrink)}.png")


def _suffix(shrink: float) -> str:
    return "" if shrink == 1 else f"-x{shrink:g}"


def show(table: "CalibrationTable") -> None:
    """Print a table per method, and a verdict."""
    tests = {(test.method, test.family, test.quantity): test for test in table.uniformity}
    levels = sorted({row.nominal for row in table.rows})
    for method in dict.fromkeys(row.method for row in table.rows):
        cells: dict[tuple[str, str], list[CoverageRow]] = {}
        for row in table.rows:
            if row.method == method:
                cells.setdefault((row.family, row.quantity), []).append(row)
        console.print_table(
            f"{method}: coverage in %, {table.worlds} worlds per family",
            ["family", "quantity", *(f"of {level:.0%}" for level in levels), "CRPS", "ranks"],
            (
                [
                    family + ("" if rows[0].well_specified else " *"),
                    quantity.replace("_", " "),
                    *map(_share, rows),
                    console.format_number(rows[0].crps),
                    _p_value(tests[method, family, quantity]),
                ]
                for (family, quantity), rows in cells.items()
            ),
        )
    show_orders(table)
    if table.own_prior:
        show_own_prior(table)
    if not table.rows:
        return
    judged = [row for row in table.rows if row.well_specified]
    console.print_text(
        "( ): 99% interval of the coverage, from the variation between worlds. ranks: p-value of "
        "the test that ranks of the truth are uniform. *: worlds that violate the model. !: off.\n"
        f"{len(table.flagged)} of {len(judged)} coverages in well-specified worlds are off: the "
        "nominal level lies outside the 99% interval. About 1 in 100 does by chance."
    )


def show_orders(table: "CalibrationTable") -> None:
    """Print predicted and actual frequencies of the first of two rankers being better."""
    from epiclick.calibration.families import WELL_SPECIFIED

    shown = [row for row in table.orders if row.family == WELL_SPECIFIED or not row.well_specified]
    if shown:
        console.print_table(
            "P(first of two rankers is better): predicted, and how often it is, in %",
            ["method", "worlds", "predicted", "pairs", "mean", "actual"],
            (
                [
                    row.method,
                    row.family + ("" if row.well_specified else " *"),
                    f"{row.bin_low:.0%} to {row.bin_high:.0%}",
                    f"{row.pairs:,}",
                    f"{100 * row.predicted:.1f}",
                    f"{100 * row.actual:.1f} ({100 * row.low:.0f} to {100 * row.high:.0f})"
                    + (" !" if row.flagged else ""),
                ]
                for row in shown
            ),
        )


def show_own_prior(table: "CalibrationTable") -> None:
    """Print tests of ranks in worlds drawn from the model's own prior, one column per method."""
    tests = {(test.quantity, test.method): test for test in table.own_prior}
    methods = list(dict.fromkeys(test.method for test in table.own_prior))
    console.print_table(
        f"p-values of uniform ranks in {table.worlds} worlds from the model's own prior",
        ["quantity", *methods],
        (
            [
                quantity.replace("_", " "),
                *(_p_value(tests[quantity, m]) if (quantity, m) in tests else "" for m in methods),
            ]
            for quantity in dict.fromkeys(test.quantity for test in table.own_prior)
        ),
    )
    console.print_text(
        "laplace: Gaussian approximation. chain: Markov chain on the same log density. prior: "
        "ignores the clicks, must pass. !: not uniform."
    )


def _share(row: "CoverageRow") -> str:
    interval = f"({100 * row.low:.0f}-{100 * row.high:.0f})"
    return f"{100 * row.actual:.1f} {interval}{'!' if row.flagged else ''}"


def _p_value(test: "UniformityRow") -> str:
    return f"{test.p_value:.3f}{'!' if test.flagged else ''}"
