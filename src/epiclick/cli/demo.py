"""`epiclick demo`: from a simulated log to a report, every step as a command to type."""

import io
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from epiclick.cli import console, options
from epiclick.errors import InputError

WIDTH = 78
"""Line width of commands, without the prompt; longer ones are continued on the next line."""

MADE_BY = "# Made by `epiclick demo`."
"""First words of the script of commands; a folder with such a script may be overwritten."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of the simulated world.

    Attributes:
        queries: number of queries; every fifth is held out.
        pages: number of pages; the first half is last month's.
        seed: random seed.
    """

    queries: int
    pages: int
    seed: int


@dataclass(frozen=True)
class Step:
    """A command and its purpose.

    Attributes:
        why: the purpose, a sentence.
        arguments: arguments of `epiclick`, the verb first.
    """

    why: str
    arguments: tuple[str, ...]

    @property
    def typed(self) -> str:
        """The command for a shell, in lines that fit a terminal if possible."""
        return _broken(["epiclick", *self.arguments])


def steps_of(out: Path, sizes: Sizes, epochs: int | None = None) -> tuple[Step, ...]:
    """All steps from simulation to the report."""
    world, train, test = out / "world", out / "train.parquet", out / "test.parquet"
    model, ranker, run = out / "model", out / "ranker", out / "learned.run"
    choice = out / "selection.json"
    clicks, features = world / "clicks.parquet", world / "features.parquet"
    this_month = f"page_id >= {sizes.pages // 2}"
    learning = ["--seed", sizes.seed, *([] if epochs is None else ["--epochs", epochs])]
    learning.append("--overwrite")  # so that all commands can be run again
    rankings = [
        *("--ranking", f"live={clicks}", "--ranking", f"learned={run}"),
        *("--ranking", f"f1={features}:f1", "--depth", 5),
    ]

    def step(why: str, *arguments: object) -> Step:
        return Step(why, tuple(map(str, arguments)))

    return (
        step(
            "Simulate a click log with known truth: what users examine, and what they like.",
            *("simulate", "--out", world, "--queries", sizes.queries, "--docs", 10),
            *("--features", 6, "--pages", sizes.pages, "--positions", 5),
            *("--relevance", "beta", "--seed", sizes.seed),
        ),
        step(
            "Count this month's pages to train on; every fifth query is held out.",
            *("count", clicks, "--where", f"{this_month} AND query_id % 5 > 0", "--out", train),
        ),
        step(
            "Count the held-out queries, to test on.",
            *("count", clicks, "--where", f"{this_month} AND query_id % 5 = 0", "--out", test),
        ),
        step(
            "Fit a model. It never sees the truth or the held-out queries.",
            *("fit", train, "--features", features, "--out", model, *learning),
        ),
        step(
            "Do users look further after a click? Compare click models on held-out pages.",
            *("select", clicks, "--where", f"{this_month} AND query_id % 5 > 0"),
            *("--models", "pbm,ubm", "--seed", sizes.seed, "--out", choice),
        ),
        step(
            "Does it predict clicks on new queries? Are its intervals calibrated?",
            *("evaluate", model, test, "--features", features),
            *("--train", train, "--truth", world),
        ),
        step(
            "Train a ranker to compare: a pointwise model of last month's clicks.",
            *("fit", clicks, "--where", f"page_id < {sizes.pages // 2} AND query_id % 5 > 0"),
            *("--features", features, "--estimator", "pointwise", "--out", ranker, *learning),
        ),
        step(
            "Write the ranking of that ranker.",
            *("export", ranker, "--to", "run", "--features", features, "--out", run),
        ),
        step(
            "Which gets more clicks: the live ranking, the new ranker, or feature f1 alone?",
            *("compare", model, *rankings, "--features", features),
            *("--clicks", train, "--backtest", test, "--truth", world),
        ),
        step(
            "Put all of it on one page.",
            *("report", model, train, "--features", features, "--backtest", test),
            *(*rankings, "--against", ranker, "--truth", world, "--selection", choice),
            *("--title", "A simulated click log", "--out", out / "report.html"),
        ),
    )


def script_of(steps: Sequence[Step]) -> str:
    """All commands for a shell, each with its purpose."""
    head = f"{MADE_BY} Run in the same folder, these commands write the same files.\nset -e\n"
    return head + "".join(f"\n# {step.why}\n{step.typed}\n" for step in steps)


def _broken(words: Sequence[str]) -> str:
    """Words for a shell, with line breaks before options."""
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
This is a single world, in which the errors of intervals are correlated.
epiclick calibrate measures their coverage over many worlds.

Next, with your own log, one row per display (query_id, doc_id, position,
click):

  epiclick fit clicks.parquet --out model
  epiclick report model clicks.parquet --out report.html

and add --features features.parquet to both if items have features."""


def demo(
    out: Annotated[Path, Option(help="Folder to write.")] = Path("demo"),
    queries: Annotated[
        int,
        Option(min=50, metavar="N", help="Queries of the simulated world, with 10 documents each."),
    ] = 1_000,
    pages: Annotated[
        int, Option(min=300, metavar="N", help="Pages shown, with 5 results each.")
    ] = 24_000,
    epochs: Annotated[
        int | None, Option(hidden=True, help="Largest number of training epochs.")
    ] = None,
    seed: Annotated[int, Option(help="Random seed.")] = 0,
    browse: Annotated[bool, Option("--open", help="Open the page in a browser.")] = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Run the whole workflow: simulate a log, fit, check against the truth, compare, report.

    The command of every step is shown. Takes a minute or two.

    Example: epiclick demo --out demo
    """
    steps = steps_of(out, Sizes(queries, pages, seed), epochs)
    prepare(out, steps)
    silent = quiet or as_json
    for number, step in enumerate(steps, start=1):
        if not silent:
            print_step(number, len(steps), step)
        # the last step prints how the page begins
        hidden = as_json or (quiet and step is not steps[-1])
        with stopped_at(number, steps, out), ExitStack() as stack:
            if hidden:
                stack.enter_context(redirect_stdout(io.StringIO()))
            run(step, quiet=silent)
        sys.stdout.flush()  # so that notes of the next step appear after it
    page = out / "report.html"
    if as_json:
        console.print_json({"report": str(page)})
    else:
        print(f"\nThe report is {page}: open it in a browser.")
        console.note(f"\n{NEXT}", quiet=quiet)
    if browse:
        typer.launch(str(page))


def prepare(out: Path, steps: Sequence[Step]) -> None:
    """Create the folder with a script of the commands; refuse one with other files."""
    from epiclick.data.leftovers import clean_up
    from epiclick.data.writing import check_replaceable, named, written_aside
    from epiclick.fitted.storage import MODEL
    from epiclick.simulate.world_files import WORLD

    script = out / SCRIPT
    console.check_folder(out)
    clean_up(script)  # what was left of it is no file of somebody else
    ours = script.is_file() and script.read_bytes().startswith(MADE_BY.encode())
    if out.is_dir() and any(out.iterdir()) and not ours:
        raise InputError(
            f"--out {out} contains files that epiclick demo did not write "
            f"({named(sorted(entry.name for entry in out.iterdir()))}); nothing was changed. Name "
            "a new folder, or remove this one first",
            code="foreign-files",
        )
    for name, kind in (("world", WORLD), ("model", MODEL), ("ranker", MODEL)):
        check_replaceable(out / name, kind)
    with console.written_to(out), written_aside(script) as aside:
        aside.write_text(script_of(steps), encoding="utf-8")


def print_step(number: int, total: int, step: Step) -> None:
    """Print the purpose of the next step and its command."""
    typer.secho(f"\n{number}/{total}  {step.why}", bold=True)
    print(f"$ {step.typed}")
    sys.stdout.flush()


def run(step: Step, *, quiet: bool) -> None:
    """Run the command in this process, where libraries and compiled functions are loaded."""
    from epiclick.cli.main import app

    verb, *arguments = step.arguments
    command = typer.main.get_command(app)
    with typed(step.arguments):
        context = command.make_context("epiclick", [verb, *arguments, *["--quiet"] * quiet])
        with context:
            command.invoke(context)


@contextmanager
def typed(arguments: Sequence[str]) -> Iterator[None]:
    """Set sys.argv as if the command had been typed, since the report shows its command."""
    before = sys.argv
    sys.argv = ["epiclick", *arguments]
    try:
        yield
    finally:
        sys.argv = before


@contextmanager
def stopped_at(number: int, steps: Sequence[Step], out: Path) -> Iterator[None]:
    """On Ctrl-C, report which steps are done and how to continue."""
    try:
        yield
    except (KeyboardInterrupt, console.Interrupted) as stop:
        done = f"steps 1 to {number - 1} are done" if number > 1 else "no step was done"
        raise console.Interrupted(
            f"{done}, and {out} has no partly written file. To continue, run the commands of "
            f"{out / SCRIPT} from step {number} on ({steps[number - 1].arguments[0]}); epiclick "
            "demo starts over." + (f"\n{stop}" if isinstance(stop, console.Interrupted) else "")
        ) from stop
