"""`epiclick`: parse, call, print. Bad input gives exit code 2 and one message."""

import sys
from typing import Annotated

import typer

from epiclick.cli import (
    calibrate,
    compare,
    count,
    demo,
    evaluate,
    export,
    fit,
    position_bias,
    relevance,
    report,
    reproduce,
    simulate,
)
from epiclick.cli.exit_codes import end_code
from epiclick.cli.fit import FitCommand
from epiclick.cli.help import Verb, Verbs
from epiclick.cli.options import AsTheModel
from epiclick.errors import BAD_INPUT

app = typer.Typer(
    name="epiclick",
    cls=Verbs,
    subcommand_metavar="VERB ...",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo", cls=Verb)(demo.demo)
app.command("simulate", cls=Verb)(simulate.simulate)
app.command("count", cls=Verb)(count.count)
app.command("fit", cls=FitCommand)(fit.fit)
app.command("position-bias", cls=Verb)(position_bias.position_bias)
app.command("relevance", cls=AsTheModel)(relevance.relevance)
app.command("evaluate", cls=AsTheModel)(evaluate.evaluate)
app.command("compare", cls=AsTheModel)(compare.compare)
app.command("export", cls=AsTheModel)(export.export)
app.command("report", cls=AsTheModel)(report.report)
app.command("calibrate", cls=Verb)(calibrate.calibrate)
app.command("reproduce", cls=Verb)(reproduce.reproduce)


@app.callback(invoke_without_command=True)
def begin(
    context: typer.Context,
    show: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    """From click logs to distributions of relevance and position bias.

    Each verb has a help of its own: epiclick fit --help

    Exit codes: 0 done, 1 the machine failed or the answer is no, 2 bad input or a place that cannot
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
    sys.exit(end_code(lambda: app(prog_name="epiclick", standalone_mode=False)))
