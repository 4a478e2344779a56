"""The README links to what is there, and the README's commands run as written."""

import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from .docs.pages import Ran, commands_of, differences, run_command, run_python

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
SMALL_WORLD = ["--queries", "150", "--docs", "8", "--features", "4", "--pages", "2000"]
"""So that the commands take seconds; the README simulates the default world."""


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    commands = [line for line in readme_lines() if line.startswith("epiclick ")]
    others = {line.split("#")[0].strip() for line in readme_lines()} - set(commands)
    assert others == {"pip install ."}, "see the test of the package"
    # the log of "your own log" is that of the simulated world
    commands.sort(key=lambda command: not command.startswith("epiclick simulate"))
    assert len(commands) >= 8
    for command in commands:
        (words,) = commands_of(command)
        simulates = words[1] == "simulate"
        printed, code = run_command(words + (SMALL_WORLD if simulates else []), tmp_path)
        assert code == 0, f"{command}\n{printed}"
        if simulates:
            for name in ("clicks", "features"):
                (tmp_path / f"{name}.parquet").write_bytes(
                    (tmp_path / "world" / f"{name}.parquet").read_bytes()
                )
            two_rankers(tmp_path)


def test_the_python_of_the_readme_prints_what_it_shows(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    ((python, shown),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", readme, re.S)
    printed, _, code = run_python(python, tmp_path)
    assert not differences(Ran(python, printed, shown, code), numbers=0.02)


def test_make_does_what_the_readme_says() -> None:
    # what they call is tested separately: the demo in tests/cli
    assert "`make demo`" in (ROOT / "README.md").read_text()
    for target, call in (("demo", ".venv/bin/epiclick demo"), ("test", "-m pytest")):
        dry = ["make", "--dry-run", "--no-print-directory", target]
        done = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout.rstrip().splitlines()[-1].split(" -n ")[0].endswith(call)


def test_pictures_and_pages_that_the_readme_links_to_are_there() -> None:
    readme = (ROOT / "README.md").read_text()
    places = re.findall(r"\]\((?!http)([^)#]+)\)", readme)
    assert len(places) >= 10
    assert [place for place in places if not (ROOT / place).is_file()] == []
    picture = ROOT / "docs" / "images" / "report.png"
    assert picture.stat().st_size < 200_000
    assert picture.relative_to(ROOT).as_posix() in places


def readme_lines() -> list[str]:
    """Lines of the shell blocks."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    return [line for block in blocks for line in block.splitlines()]


def two_rankers(folder: Path) -> None:
    """Rankings new and old, by one feature each, and the last pages of the log as later."""
    log = pd.read_parquet(folder / "clicks.parquet")
    log[log["page_id"] >= log["page_id"].quantile(0.9)].to_parquet(folder / "later.parquet")
    features = pd.read_parquet(folder / "features.parquet")
    for name, feature in {"new": "f0", "old": "f1"}.items():
        ranking = features[["query_id", "doc_id"]].copy()
        best_first = features.groupby("query_id")[feature].rank(method="first", ascending=False)
        ranking["position"] = best_first.astype(int)
        ranking[ranking["position"] <= 5].to_parquet(folder / f"{name}.parquet")
