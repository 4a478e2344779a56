"""`epiclick calibrate`: does an interval of 90 % hold the truth nine times in ten?"""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    number,
    print_json,
    print_table,
    print_text,
    told_warnings,
    written_to,
)
from epiclick.cli.options import names_in

if TYPE_CHECKING:
    from epiclick.calibration.table import CalibrationTable, CoverageRow, UniformityRow


def calibrate(
    worlds: Annotated[
        int, typer.Option(help="Worlds of each family: 60 for a quick look, 240 for a verdict.")
    ] = 60,
    families: Annotated[
        str | None,
        typer.Option(
            help="Families of worlds, such as sparse,dense, or well-specified, misspecified, "
            "own-prior.",
            show_default="all",
        ),
    ] = None,
    methods: Annotated[
        str, typer.Option(help="Methods: marginal,ensemble,exact,control, ...")
    ] = "marginal",
    seed: Annotated[int, typer.Option(help="Same seed, same table.")] = 0,
    shrink: Annotated[
        float, typer.Option(help="Factor on all widths; 0.7 is a negative control.")
    ] = 1.0,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 2,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for tables, figures and worlds; a stopped run goes on there."),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check intervals in simulated worlds, where the truth is known.

    Example: epiclick calibrate --worlds 60 --families well-specified --out calibration
    """
    require_extra("calibrate", ("scoringrules", "matplotlib"), "calibration")
    from epiclick.calibration.runner import WORLDS
    from epiclick.calibration.runner import calibrate as run

    if out is not None:
        check_folder(out)
        end = _suffix(shrink)
        names = [f"calibration{end}.json", f"calibration{end}.md", f"own-prior{end}.png"]
        names += [f"{method}{end}.png" for method in names_in(methods)]
        begun = any((out / WORLDS).glob("*/*/*.npz"))
        check_taken(out, names, "calibrate", begun=begun)

    silent = quiet or as_json
    kept = "nothing is kept; with --out FOLDER, worlds that are done would be"
    if out is not None:
        kept = f"worlds that are done are kept in {out}. To go on, give the same command again."
    writing = nullcontext() if out is None else written_to(out, f"{kept[:1].upper()}{kept[1:]}")
    with kept_when_stopped(kept), writing, told_warnings(quiet=silent) as warnings:
        table = run(
            worlds,
            None if families is None else names_in(families),
            names_in(methods),
            seed,
            shrink=shrink,
            jobs=jobs,
            folder=out,
            progress=not silent,
        )
        if out is not None:
            write(table, out)
    if as_json:
        print_json(known({**table.to_dict(), "warnings": warnings}))
        return
    show(table)
    if out is not None:
        name = f"calibration{_suffix(table.shrink)}"
        note(f"written to {out}: {name}.json, {name}.md, figures", quiet=quiet)


def write(table: "CalibrationTable", out: Path) -> None:
    """Tables and a figure of each method; a control's beside those of the run it belongs to."""
    import json

    from epiclick.cli.console import SCHEMA_VERSION
    from epiclick.data.writing import written_aside
    from epiclick.report.calibration_figure import draw_calibration, draw_own_prior

    record = {"schema_version": SCHEMA_VERSION, **known(table.to_dict())}
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
    """A table for each method, and a verdict in words."""
    tests = {(test.method, test.family, test.quantity): test for test in table.uniformity}
    levels = sorted({row.nominal for row in table.rows})
    for method in dict.fromkeys(row.method for row in table.rows):
        cells: dict[tuple[str, str], list[CoverageRow]] = {}
        for row in table.rows:
            if row.method == method:
                cells.setdefault((row.family, row.quantity), []).append(row)
        print_table(
            f"{method}: truths held, in % of {table.worlds} worlds a family",
            ["family", "quantity", *(f"of {level:.0%}" for level in levels), "CRPS", "ranks"],
            (
                [
                    family + ("" if rows[0].well_specified else " *"),
                    quantity.replace("_", " "),
                    *map(_share, rows),
                    number(rows[0].crps),
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
    print_text(
        "( ): interval of 99 % of the share, from the differences between worlds. ranks: p-value "
        "of uniform ranks of the truth. *: worlds that break the model. !: off.\n"
        f"{len(table.flagged)} of {len(judged)} levels in well-specified worlds are off: the "
        "nominal one lies outside the interval of the actual one. By chance alone about 1 in 100 "
        "does."
    )


def show_orders(table: "CalibrationTable") -> None:
    """How often the ranker told to be better is: all well-specified worlds together, and others."""
    from epiclick.calibration.families import WELL_SPECIFIED

    shown = [row for row in table.orders if row.family == WELL_SPECIFIED or not row.well_specified]
    if shown:
        print_table(
            "of two rankers, the first is better: told, and how often it is, in %",
            ["method", "worlds", "told", "pairs", "mean", "actual"],
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
    """Tests of ranks in worlds drawn from the model's own prior, a column for a method."""
    tests = {(test.quantity, test.method): test for test in table.own_prior}
    methods = list(dict.fromkeys(test.method for test in table.own_prior))
    print_table(
        f"p-values of uniform ranks in {table.worlds} worlds of the model's own prior",
        ["quantity", *methods],
        (
            [
                quantity.replace("_", " "),
                *(_p_value(tests[quantity, m]) if (quantity, m) in tests else "" for m in methods),
            ]
            for quantity in dict.fromkeys(test.quantity for test in table.own_prior)
        ),
    )
    print_text(
        "laplace: the Gaussian around the mean. chain: a Markov chain on the same log density. "
        "prior: no clicks looked at, must pass. !: not uniform."
    )


def _share(row: "CoverageRow") -> str:
    interval = f"({100 * row.low:.0f}-{100 * row.high:.0f})"
    return f"{100 * row.actual:.1f} {interval}{'!' if row.flagged else ''}"


def _p_value(test: "UniformityRow") -> str:
    return f"{test.p_value:.3f}{'!' if test.flagged else ''}"
