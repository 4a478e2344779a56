"""`epiclick demo`: from a simulated log to a page about it, every step as a command to type."""

import io
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from epiclick.cli.console import (
    AsJson,
    Interrupted,
    Quiet,
    check_folder,
    note,
    print_json,
    written_to,
)
from epiclick.errors import InputError

WIDTH = 78
"""Characters of a line; longer commands go on in the next. A prompt comes before the first."""

MADE_BY = "# Made by `epiclick demo`."
"""How the script begins that lists the commands; a folder with it may be written to again."""


@dataclass(frozen=True)
class Sizes:
    """Of the simulated world.

    Attributes:
        queries: of which every fifth is held out.
        pages: of which the first half is last month's.
        seed: of everything random.
    """

    queries: int
    pages: int
    seed: int


@dataclass(frozen=True)
class Step:
    """A command, and what it is for.

    Attributes:
        why: in a sentence.
        arguments: of `epiclick`, the verb first.
    """

    why: str
    arguments: tuple[str, ...]

    @property
    def typed(self) -> str:
        """The command for a shell, in lines that fit a terminal where words allow."""
        return _broken(["epiclick", *self.arguments])


def steps_of(out: Path, sizes: Sizes, epochs: int | None = None) -> tuple[Step, ...]:
    """From nothing to the page."""
    world, train, test = out / "world", out / "train.parquet", out / "test.parquet"
    model, ranker, run = out / "model", out / "ranker", out / "learned.run"
    clicks, features = world / "clicks.parquet", world / "features.parquet"
    this_month = f"page_id >= {sizes.pages // 2}"
    learning = ["--seed", sizes.seed, *([] if epochs is None else ["--epochs", epochs])]
    learning.append("--overwrite")  # so that all commands can be given again
    rankings = [
        *("--ranking", f"live={clicks}", "--ranking", f"learned={run}"),
        *("--ranking", f"f1={features}:f1", "--depth", 5),
    ]

    def step(why: str, *arguments: object) -> Step:
        return Step(why, tuple(map(str, arguments)))

    return (
        step(
            "A click log whose truth is known: what users look at, and what they like.",
            *("simulate", "--out", world, "--queries", sizes.queries, "--docs", 10),
            *("--features", 6, "--pages", sizes.pages, "--positions", 5),
            *("--relevance", "beta", "--seed", sizes.seed),
        ),
        step(
            "This month's pages, to learn from; every fifth query is kept out.",
            *("count", clicks, "--where", f"{this_month} AND query_id % 5 > 0", "--out", train),
        ),
        step(
            "The queries that were kept out, to check with.",
            *("count", clicks, "--where", f"{this_month} AND query_id % 5 = 0", "--out", test),
        ),
        step(
            "A model of the clicks. It never sees the truth, nor the queries kept out.",
            *("fit", train, "--features", features, "--out", model, *learning),
        ),
        step(
            "Does it foretell clicks on new queries? Do intervals hold what they promise?",
            *("evaluate", model, test, "--features", features),
            *("--train", train, "--truth", world),
        ),
        step(
            "A ranker to compare: learned from last month's clicks by a plainer model.",
            *("fit", clicks, "--where", f"page_id < {sizes.pages // 2} AND query_id % 5 > 0"),
            *("--features", features, "--estimator", "pointwise", "--out", ranker, *learning),
        ),
        step(
            "What that ranker would show.",
            *("export", ranker, "--to", "run", "--features", features, "--out", run),
        ),
        step(
            "Which gets more clicks: what was live, the new ranker, or feature f1 alone?",
            *("compare", model, *rankings, "--features", features),
            *("--clicks", train, "--backtest", test, "--truth", world),
        ),
        step(
            "All of it on one page.",
            *("report", model, train, "--features", features, "--backtest", test),
            *(*rankings, "--against", ranker, "--truth", world),
            *("--title", "A simulated click log", "--out", out / "report.html"),
        ),
    )


def script_of(steps: Sequence[Step]) -> str:
    """All commands for a shell, each with what it is for."""
    head = f"{MADE_BY} Given in the same place, these commands write the same files.\nset -e\n"
    return head + "".join(f"\n# {step.why}\n{step.typed}\n" for step in steps)


def _broken(words: Sequence[str]) -> str:
    """Words for a shell, in lines that break before options."""
    parts: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        is_value = before.startswith("--") and not word.startswith("--")
        parts.append(f"{parts.pop()} {shlex.quote(word)}" if is_value else shlex.quote(word))
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + len("  \\") > WIDTH:
            lines.append(f"  {part}")
        else:
            lines[-1] += f" {part}"
    return " \\\n".join(lines)


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
    from epiclick.data.writing import check_replaceable, named, written_aside
    from epiclick.fitted.storage import MODEL
    from epiclick.simulate.world_files import WORLD

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
