"""`epiclick demo`: from a simulated log to a page about it, every step as a command to type."""

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from epiclick.cli.demo_steps import MADE_BY, Sizes, Step, script_of, steps_of
from epiclick.cli.out_file import check_folder, written_to
from epiclick.cli.output import AsJson, Quiet, note, print_json
from epiclick.cli.telling import Interrupted
from epiclick.errors import InputError

SCRIPT = "commands.sh"

NEXT = """\
This is one world, in which all intervals share some luck. How often they hold
over many worlds, epiclick calibrate counts.

Next, with a log of your own, one row a display (query_id, doc_id, position,
click):

  epiclick fit clicks.parquet --out model
  epiclick report model clicks.parquet --out report.html

and --features features.parquet to both if items have features."""


def demo(
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("demo"),
    queries: Annotated[
        int,
        typer.Option(
            min=50, metavar="N", help="Queries of the simulated world, 10 documents each."
        ),
    ] = 1_000,
    pages: Annotated[
        int, typer.Option(min=300, metavar="N", help="Pages shown, 5 results each.")
    ] = 24_000,
    epochs: Annotated[int | None, typer.Option(hidden=True, help="Of training, at most.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same files.")] = 0,
    browse: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show what this is for: simulate a log, fit, check against the truth, compare rankers, report.

    Every step is shown as the command that does it. Takes a minute or two.

    Example: epiclick demo --out demo
    """
    steps = steps_of(out, Sizes(queries, pages, seed), epochs)
    prepare(out, steps)
    silent = quiet or as_json
    for number, step in enumerate(steps, start=1):
        if not silent:
            tell(number, len(steps), step)
        # results of the last step are what the page begins with
        hidden = as_json or (quiet and step is not steps[-1])
        with stopped_at(number, steps, out), ExitStack() as stack:
            if hidden:
                stack.enter_context(redirect_stdout(io.StringIO()))
            run(step, quiet=silent)
        sys.stdout.flush()  # so that notes of the next step come after it
    page = out / "report.html"
    if as_json:
        print_json({"report": str(page)})
    else:
        print(f"\nThe page is {page}: open it in a browser.")
        note(f"\n{NEXT}", quiet=quiet)
    if browse:
        typer.launch(str(page))


def prepare(out: Path, steps: Sequence[Step]) -> None:
    """Make the folder, with a script of the commands in it; refuse one that holds other things."""
    from epiclick.data.atomic import written_aside
    from epiclick.data.replacing import check_replaceable, named
    from epiclick.models.seal import MODEL
    from epiclick.simulate.storage import WORLD

    script = out / SCRIPT
    check_folder(out)
    ours = script.is_file() and script.read_bytes().startswith(MADE_BY.encode())
    if out.is_dir() and any(out.iterdir()) and not ours:
        raise InputError(
            f"--out {out} holds files that epiclick demo did not write "
            f"({named(sorted(entry.name for entry in out.iterdir()))}), and is left as it is; name "
            "a new folder, or remove this one first"
        )
    for name, kind in (("world", WORLD), ("model", MODEL), ("ranker", MODEL)):
        check_replaceable(out / name, kind)
    with written_to(out), written_aside(script) as aside:
        aside.write_text(script_of(steps), encoding="utf-8")


def tell(number: int, total: int, step: Step) -> None:
    """What comes now, and the command that does it."""
    typer.secho(f"\n{number}/{total}  {step.why}", bold=True)
    print(f"$ {step.typed}")
    sys.stdout.flush()


def run(step: Step, *, quiet: bool) -> None:
    """Give the command, within this process: libraries and compiled programs are there already."""
    from epiclick.cli.main import app

    verb, *arguments = step.arguments
    command = typer.main.get_command(app)
    with typed(step.arguments):
        context = command.make_context("epiclick", [verb, *arguments, *["--quiet"] * quiet])
        with context:
            command.invoke(context)


@contextmanager
def typed(arguments: Sequence[str]) -> Iterator[None]:
    """Let it look as if the command had been typed, as the page tells how it was made."""
    before = sys.argv
    sys.argv = ["epiclick", *arguments]
    try:
        yield
    finally:
        sys.argv = before


@contextmanager
def stopped_at(number: int, steps: Sequence[Step], out: Path) -> Iterator[None]:
    """Say at Ctrl-C what is there, and how to go on."""
    try:
        yield
    except (KeyboardInterrupt, Interrupted) as stop:
        done = f"steps 1 to {number - 1} are done" if number > 1 else "no step was done"
        raise Interrupted(
            f"{done}, and {out} holds no half-written file. To go on by hand, give the commands "
            f"of {out / SCRIPT} from step {number} on ({steps[number - 1].arguments[0]}); "
            "epiclick demo starts anew." + (f"\n{stop}" if isinstance(stop, Interrupted) else "")
        ) from stop
