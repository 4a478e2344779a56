"""The reference has every public name and verb; commands in the pages use existing options."""

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

import epiclick
from epiclick.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
REFERENCE = (ROOT / "docs" / "reference.md").read_text()


@cache
def verbs() -> dict[str, Any]:
    group: Any = typer.main.get_command(app)
    return group.commands


def test_every_public_name_has_its_entry_and_no_other() -> None:
    entries = re.findall(r"^::: (\S+)$", REFERENCE, re.M)
    homes = {f"{home}.{name}" for name, home in epiclick._MODULES.items()}
    assert set(entries) == homes
    linked = re.findall(r"\[`\w+`\]\(#(\S+?)\)", REFERENCE)
    assert set(linked) == homes


def test_every_verb_has_its_row_and_no_other() -> None:
    table = REFERENCE.split("| verb |")[1].split("##")[0]
    assert set(re.findall(r"^\| `([\w-]+)` \|", table, re.M)) == set(verbs())


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    assert sorted(listed) == [str(page.relative_to(ROOT / "docs")) for page in PAGES]


def unknown(command: str) -> str | None:
    """The mistake in a command line: a verb or an option that does not exist."""
    verb, *words = shlex.split(command)[1:]
    if verb not in verbs():
        return f"no verb {verb}"
    parameters = verbs()[verb].params
    known = {
        name for parameter in parameters for name in (*parameter.opts, *parameter.secondary_opts)
    }
    strange = {word.split("=")[0] for word in words if word.startswith("--")} - known
    return f"{verb} has no {', '.join(sorted(strange))}" if strange - {"--help"} else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_verbs_and_options_exist(page: Path) -> None:
    text = page.read_text().replace("\\\n", " ")
    fenced = "".join(re.findall(r"^```(?:sh|bash)\n(.*?)^```", text, re.S | re.M))
    prose = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    lines = re.findall(r"^(epiclick .*)$", fenced, re.M)
    lines += re.findall(r"^    (epiclick [a-z-]+ .*)$", prose, re.M)
    lines += re.findall(r"`(epiclick [a-z-]+(?: [^`]*)?)`", prose)
    assert not [wrong for line in lines if (wrong := unknown(line))]


def test_a_wrong_command_would_be_noticed() -> None:
    assert unknown("epiclick guess model") == "no verb guess"
    assert unknown("epiclick count log --no-such 1") == "count has no --no-such"
    assert unknown("epiclick count log --position-base 0") is None
