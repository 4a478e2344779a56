"""Pages of the documentation as scripts: what their blocks do, and what they say it prints.

A page is read from top to bottom, in a folder of its own:

- a `csv`, `tsv`, `json` or `sql` block after a line such as "`clicks.csv`:" is written to that file;
- every command of an `sh` block and every `python` block is run, each with names of its own, but in
  this process, as loading libraries anew would take most of the time;
- a `text` block is what the block before it prints. Lines of `...` stand for any others.

What is printed may differ in its numbers a little, since machines round differently, but not in its
words. A command whose output starts with "epiclick: " and ends in code 2 is one that is refused.
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
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
SECONDS = re.compile(r"in \d+(?:\.\d+)? s\b")
NOT_A_DEPENDENCY = ("xgboost",)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page: its language, its text, and the file it is to be written to."""

    kind: str
    text: str
    file: str | None = None


@dataclass(frozen=True)
class Ran:
    """A block that was run, what it printed, and what the page says that it prints."""

    source: str
    printed: str
    shown: str | None
    code: int


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks that have a language."""
    fence = re.compile(
        r"(?:^`(?P<file>[\w./-]+)`[^\n]*:\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.S | re.M
    )
    found = fence.finditer(page.read_text())
    return [Block(m["kind"], m["text"], m["file"] if m["kind"] in FILES else None) for m in found]


def run_page(page: Path, folder: Path) -> list[Ran]:
    """Do in the folder what the page says, block after block."""
    missing = [name for name in NOT_A_DEPENDENCY if find_spec(name) is None]
    ran: list[Ran] = []
    for block in blocks_of(page):
        if block.kind in FILES:
            assert block.file, f"{page.name}: a {block.kind} block without a file's name before it"
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
        else:
            raise AssertionError(f"{page.name}: nobody knows what to do with a {block.kind} block")
    return ran


def commands_of(text: str) -> list[list[str]]:
    """The commands of an sh block, word by word; installing is left to whoever reads the page."""
    lines = text.replace("\\\n", " ").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines]
    return [words for words in commands if words and words[0] != "pip"]


def run_command(words: list[str], folder: Path) -> tuple[str, int]:
    """What a command prints, and the code it ends with."""
    if words[0] == "python":
        printed, _, code = run_python((folder / words[1]).read_text(), folder)
        return printed, code
    assert words[0] == "epiclick", f"nobody knows how to run {words[0]}"
    with speaking(folder) as out, mock.patch.object(sys, "argv", words):
        try:
            run()
        except SystemExit as end:
            return out.getvalue(), int(end.code or 0)
    raise AssertionError("the command line ended without a code")


def run_python(source: str, folder: Path) -> tuple[str, None, int]:
    """What a block prints; what goes wrong in it is for the test to raise."""
    with speaking(folder) as out:
        exec(compile(source, "<page>", "exec"), {"__name__": "__main__"})
    return out.getvalue(), None, 0


@contextmanager
def speaking(folder: Path) -> Iterator[io.StringIO]:
    """In the folder, with all that is said in one place, as wide as a terminal is."""
    out = io.StringIO()
    wide = mock.patch.dict(os.environ, {"COLUMNS": "80"})
    with chdir(folder), wide, redirect_stdout(out), redirect_stderr(out), catch_warnings():
        simplefilter("ignore")
        yield out


def differences(ran: Ran, *, numbers: float = 0.25) -> list[str]:
    """What a page gets wrong about a block: its end, lines never printed, numbers far off."""
    refused = (ran.shown or "").startswith("epiclick: ")
    if ran.code != (2 if refused else 0):
        return [f"ended with {ran.code}:\n{ran.source}\n{ran.printed}"]
    wrong, printed = [], iter(ran.printed.splitlines())
    for line in (ran.shown or "").splitlines():
        if line.strip() in ("", "..."):
            continue
        true = next((other for other in printed if _words(other) == _words(line)), None)
        if true is None:
            wrong.append(f"not printed (there): {line}\n{ran.printed}")
            break
        if not _alike(line, true, numbers):
            wrong.append(f"shown:   {line}\nprinted: {true}")
    return wrong


def _words(line: str) -> str:
    """A line without its numbers, its seconds and the width of its columns."""
    return re.sub(
        r"[━─]+", "-", re.sub(r"\s+", " ", NUMBER.sub("#", SECONDS.sub("", line)))
    ).strip()


def _alike(shown: str, printed: str, share: float) -> bool:
    """Whether the numbers of two lines differ by no more than a share of them, or by 0.03."""
    pairs = zip(_numbers(shown), _numbers(printed), strict=True)
    return all(abs(a - b) <= max(0.03, share * abs(b)) for a, b in pairs)


def _numbers(line: str) -> list[float]:
    return [float(n.replace(",", "").rstrip(".")) for n in NUMBER.findall(SECONDS.sub("", line))]
