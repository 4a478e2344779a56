"""The `epiclick` command and its verbs."""

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from epiclick.cli import (
    benchmark,
    calibrate,
    compare,
    count,
    demo,
    drift,
    evaluate,
    export,
    fit,
    inspect,
    interleave,
    plan,
    position_bias,
    relevance,
    report,
    reproduce,
    select,
    simulate,
)
from epiclick.cli.exit_codes import exit_code
from epiclick.cli.help import Verb, Verbs
from epiclick.cli.options import ModelVerb
from epiclick.errors import BAD_INPUT

app = typer.Typer(
    name="epiclick",
    cls=Verbs,
    subcommand_metavar="VERB ...",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _add(*verbs: Callable[..., None], cls: type[Verb] = Verb) -> None:
    for verb in verbs:
        app.command(verb.__name__.replace("_", "-"), cls=cls)(verb)


_add(demo.demo, simulate.simulate, inspect.inspect, count.count)
_add(fit.fit, cls=fit.FitVerb)
_add(select.select)
_add(position_bias.position_bias, drift.drift)
_add(relevance.relevance, evaluate.evaluate, compare.compare, cls=ModelVerb)
_add(plan.plan, cls=ModelVerb)
_add(interleave.interleave)
_add(export.export, report.report, cls=ModelVerb)
_add(calibrate.calibrate, benchmark.benchmark, reproduce.reproduce)


@app.callback(invoke_without_command=True)
def begin(
    context: typer.Context,
    show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """From click logs to distributions of relevance and position bias.

    Every verb has its own help: epiclick fit --help

    Exit codes: 0 done, 1 the machine failed or the answer is no, 2 bad input or a path that cannot
    be written, 70 a bug (EPICLICK_TRACEBACK=1 shows where), 130 stopped.

    Example: epiclick fit clicks.parquet --features features.parquet --out model
    """
    if show:
        from epiclick import __version__

        print(f"epiclick {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(BAD_INPUT)


def run() -> None:
    """Run the command line."""
    code = exit_code(lambda: app(prog_name="epiclick", standalone_mode=False))
    shared = sys.modules.get("epiclick.distributed")
    if code and shared is not None and shared.is_connected():
        # jax would first wait for the other processes, which wait for this one
        os._exit(code)
    sys.exit(code)
