"""What the demonstration does: commands as a user would type them, one after the other."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
