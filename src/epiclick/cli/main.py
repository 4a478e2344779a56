"""`epiclick`: parse, call, print. Bad input gives exit code 2 and one message."""

import sys
from typing import Annotated

import typer

from epiclick.cli import (
    calibrate,
    compare,
    count,
    evaluate,
    export,
    fit,
    position_bias,
    relevance,
    report,
    reproduce,
    simulate,
)
from epiclick.cli.log_options import AsTheModel
from epiclick.cli.telling import Interrupted

INTERRUPTED = 130
"""Exit code with which Typer ends a command at Ctrl-C."""

app = typer.Typer(
    name="epiclick",
    help="From click logs to distributions of relevance and position bias.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("simulate")(simulate.simulate)
app.command("count")(count.count)
app.command("fit", cls=fit.FitCommand)(fit.fit)
app.command("position-bias")(position_bias.position_bias)
app.command("relevance", cls=AsTheModel)(relevance.relevance)
app.command("evaluate", cls=AsTheModel)(evaluate.evaluate)
app.command("compare", cls=AsTheModel)(compare.compare)
app.command("export", cls=AsTheModel)(export.export)
app.command("report", cls=AsTheModel)(report.report)
app.command("calibrate")(calibrate.calibrate)
app.command("reproduce")(reproduce.reproduce)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    """From click logs to distributions of relevance and position bias."""
    if show:
        from epiclick import __version__

        print(f"epiclick {__version__}")
        raise typer.Exit


def run() -> None:
    """Run the command line; what is wrong with the input is said in words, not in a traceback."""
    from epiclick.errors import InputError

    try:
        app()
    except InputError as error:
        print(f"epiclick: {error}", file=sys.stderr)
        sys.exit(2)
    except MemoryError as error:
        print(f"epiclick: {error or 'out of memory'}", file=sys.stderr)
        sys.exit(1)
    except Interrupted as stopped:
        print(f"epiclick: stopped; {stopped}", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            print("epiclick: stopped; nothing was written", file=sys.stderr)
        raise


if __name__ == "__main__":
    run()
