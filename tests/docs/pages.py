"""Runs pages of the documentation as scripts, and compares output with what the pages show.

A page is read from top to bottom, in its own folder:

- a `csv`, `tsv`, `json` or `sql` block after a line such as "`clicks.csv`:" is written to that file;
- every command of an `sh` block and every `python` block is run, each in a fresh namespace, but in
  this process, since importing libraries again would take most of the time;
- `bash`, `py` and `yaml` blocks are for a cluster, and are not run;
- a `text` block is the output of the block before it. A line `...` stands for any lines.

Numbers in the output may differ slightly, since machines round differently, but words may not. A
command whose shown output starts with "epiclick: " must end with exit code 2.
"""

import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from unittest import mock
from warnings import catch_warnings, simplefilter

from epiclick.cli.main import run

DOCS = Path(__file__).resolve().parents[2] / "docs"
FILES = ("csv", "tsv", "json", "sql")
NOT_RUN = ("bash", "py", "yaml")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
SECONDS = re.compile(r"in +\d+(?:\.\d+)? s\b")
OPTIONAL_PACKAGES = ("xgboost",)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page: its language, its text, and the file to write it to."""

    kind: str
    text: str
    file: str | None = None


@dataclass(frozen=True)
class Ran:
    """A block that was run, its output, and the output that the page shows."""

    source: str
    printed: str
    shown: str | None
    code: int


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks with a language."""
    fence = re.compile(
        r"(?:^`(?P<file>[\w./-]+)`[^\n]*:\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.S | re.M
    )
    found = fence.finditer(page.read_text())
    return [Block(m["kind"], m["text"], m["file"] if m["kind"] in FILES else None) for m in found]


def run_page(page: Path, folder: Path) -> list[Ran]:
    """Run the blocks of a page in the folder, in order."""
    missing = [name for name in OPTIONAL_PACKAGES if find_spec(name) is None]
    ran: list[Ran] = []
    for block in blocks_of(page):
        if block.kind in FILES:
            assert block.file, f"{page.name}: a {block.kind} block without a file name before it"
            (folder / block.file).write_text(block.text)
        elif block.kind == "sh":
            outcomes = [run_command(words, folder) for words in commands_of(block.text)]
            printed = "".join(text for text, _ in outcomes)
            ran.append(Ran(block.text, printed, None, max(code for _, code in outcomes)))
        elif block.kind == "python":
            if not any(f"import {name}" in block.text for name in missing):
                ran.append(Ran(block.text, *run_python(block.text, folder)))
        elif block.kind == "text":
            ran[-1] = Ran(ran[-1].source, ran[-1].printed, block.text, ran[-1].code)
        elif block.kind not in NOT_RUN:
            raise AssertionError(f"{page.name}: unknown kind of block: {block.kind}")
    return ran


def commands_of(text: str) -> list[list[str]]:
    """The commands of an sh block as lists of words, without `pip`."""
    lines = text.replace("\\\n", " ").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines]
    return [words for words in commands if words and words[0] != "pip"]


def run_command(words: list[str], folder: Path) -> tuple[str, int]:
    """The output of a command, and its exit code."""
    if words[0] == "python":
        printed, _, code = run_python((folder / words[1]).read_text(), folder)
        return printed, code
    assert words[0] == "epiclick", f"unknown command: {words[0]}"
    with captured_output(folder) as out, mock.patch.object(sys, "argv", words):
        try:
            run()
        except SystemExit as end:
            return out.getvalue(), int(end.code or 0)
    raise AssertionError("the command ended without an exit code")


def run_python(source: str, folder: Path) -> tuple[str, None, int]:
    """The output of a block; its errors are not caught."""
    with captured_output(folder) as out:
        exec(compile(source, "<page>", "exec"), {"__name__": "__main__"})
    return out.getvalue(), None, 0


@contextmanager
def captured_output(folder: Path) -> Iterator[io.StringIO]:
    """In the folder, with all output captured, 80 columns wide."""
    out = io.StringIO()
    wide = mock.patch.dict(os.environ, {"COLUMNS": "80"})
    with chdir(folder), wide, redirect_stdout(out), redirect_stderr(out), catch_warnings():
        simplefilter("ignore")
        yield out


def differences(ran: Ran, *, numbers: float = 0.25) -> list[str]:
    """Mistakes of a page about a block: exit code, lines never printed, numbers far off."""
    refused = (ran.shown or "").startswith("epiclick: ")
    if ran.code != (2 if refused else 0):
        return [f"ended with {ran.code}:\n{ran.source}\n{ran.printed}"]
    wrong, printed = [], iter(ran.printed.splitlines())
    for line in (ran.shown or "").splitlines():
        if line.strip() in ("", "..."):
            continue
        actual = next((other for other in printed if _words(other) == _words(line)), None)
        if actual is None:
            wrong.append(f"not printed (there): {line}\n{ran.printed}")
            break
        if not _close(line, actual, numbers):
            wrong.append(f"shown:   {line}\nprinted: {actual}")
    return wrong


def _words(line: str) -> str:
    """A line without numbers, seconds and column widths."""
    return re.sub(
        r"[━─]+", "-", re.sub(r"\s+", " ", NUMBER.sub("#", SECONDS.sub("", line)))
    ).strip()


def _close(shown: str, printed: str, share: float) -> bool:
    """Whether the numbers of two lines differ by at most that share, or by 0.03."""
    pairs = zip(_numbers(shown), _numbers(printed), strict=True)
    return all(abs(a - b) <= max(0.03, share * abs(b)) for a, b in pairs)


def _numbers(line: str) -> list[float]:
    return [float(n.replace(",", "").rstrip(".")) for n in NUMBER.findall(SECONDS.sub("", line))]
