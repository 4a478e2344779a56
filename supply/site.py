"""Builds the documentation of this version beside those of others: site/0.2.0, site/0.1.0 ...

    python supply/site.py [FOLDER]        (default: site)

The folder can be served as it is. `index.html` opens the newest version, `versions.html` lists all
of them. A version that is built again is replaced; others are left as they are.
"""

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

NEWEST = """<!doctype html><meta charset="utf-8"><title>epiclick</title>
<meta http-equiv="refresh" content="0; url={newest}/"><a href="{newest}/">epiclick {newest}</a>
"""
ALL = """<!doctype html><meta charset="utf-8"><title>epiclick: versions</title>
<h1>epiclick</h1><ul>{items}</ul>
"""


def versions_of(folder: Path) -> list[str]:
    """The versions that have been built, newest first."""
    found = [each.parent.name for each in folder.glob("*/index.html")]
    numbered = [each for each in found if all(part.isdigit() for part in each.split("."))]
    return sorted(numbered, key=lambda each: [int(part) for part in each.split(".")], reverse=True)


def write_index(folder: Path) -> None:
    """The two pages that lead to the versions."""
    found = versions_of(folder)
    items = "".join(f'<li><a href="{each}/">{each}</a></li>' for each in found)
    for name, text in (
        ("index.html", NEWEST.format(newest=found[0])),
        ("versions.html", ALL.format(items=items)),
    ):
        aside = folder / f".{name}"
        aside.write_text(text)
        aside.replace(folder / name)


def build(folder: Path) -> None:
    """Build this version, then the index."""
    own = version("epiclick")
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f".{own}"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    subprocess.run(
        [*command, str(aside.resolve())],
        cwd=ROOT,
        env=os.environ | {"SITE_NAME": f"epiclick {own}"},
        check=True,
    )
    shutil.rmtree(folder / own, ignore_errors=True)
    aside.rename(folder / own)
    write_index(folder)


if __name__ == "__main__":
    build(Path(*(sys.argv[1:2] or ["site"])))
