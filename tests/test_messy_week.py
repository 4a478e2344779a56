"""From the raw files of a company's week to a verdict; traps that are ignored give wrong answers.

Traps of single options are tested where these are: `data/test_displays.py` (second pages, views,
sponsored slots, query variants), `data/log_formats/` (late, repeated and orphan clicks).
"""

import importlib.util
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from .cli.conftest import Done, epiclick

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "messy"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = importlib.util.spec_from_file_location("make_week", EXAMPLE / "make_week.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    folder = tmp_path_factory.mktemp("week")
    example.main(folder, 40_000)
    return folder


def commands() -> list[list[str]]:
    """The commands of the page, as arguments of epiclick."""
    text = (EXAMPLE / "README.md").read_text().replace("\\\n", " ")
    lines = [line for line in text.split("\n") if line.startswith("epiclick ")]
    return [shlex.split(line)[1:] for line in lines]


def run(arguments: list[str], *more: str) -> Done:
    done = epiclick(*arguments, *more)
    assert done.code == 0, done.err
    return done


def largest_error(fit: dict[str, Any], truth: dict[str, Any]) -> float:
    """Of relative position bias on the first results page; of both devices, or of desktops."""
    rows = [row for row in fit["position_bias"] if row["position"] <= 10]

    def true(row: dict[str, Any]) -> float:
        return float(truth["looked_at"][row.get("device", "desktop")][row["position"] - 1])

    (anchor,) = [row for row in rows if row["relative"] == 1]
    return max(abs(row["relative"] - true(row) / true(anchor)) for row in rows)


def without(arguments: list[str], option: str) -> list[str]:
    """The arguments without an option and its value."""
    at = arguments.index(option)
    return [*arguments[:at], *arguments[at + 2 :]]


def test_the_commands_of_the_page_lead_to_the_right_verdict(
    week: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(week)
    truth = json.loads((week / "truth.json").read_text())
    inspect, fit, compare = commands()
    found = json.loads(run(inspect, "--json").out)
    advice = " ".join(found["advice"])
    for option in ("--page-number results_page --page-size 10", "--viewed in_view", "--sponsored"):
        assert option in advice
    codes = " ".join(map(str, found["problems"]))
    for flaw in ("not displayed on their page", "position is missing", "twice on a page"):
        assert flaw in codes
    fitted = json.loads(run(fit, "--json").out)
    assert largest_error(fitted, truth) < 0.05
    compared = json.loads(run(compare, "--json").out)
    (gain,) = compared["differences"]
    live, new = (truth["clicks_per_page"][name] for name in ("live", "new"))
    spread = gain["relative_high"] - gain["relative_low"]
    assert gain["relative"] == pytest.approx(new / live - 1, abs=spread)
    assert compared["verdict"].startswith("new beats live")

    robots = [*without(fit, "--drop-busiest")[: fit.index("--features") - 2], "--out", "robots"]
    assert largest_error(json.loads(run(robots, "--json").out), truth) > 0.1


def test_the_page_names_the_files_that_are_made(week: Path) -> None:
    text = (EXAMPLE / "README.md").read_text()
    for path in week.iterdir():
        assert path.stem in text
