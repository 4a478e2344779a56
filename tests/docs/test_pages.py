"""The tutorial and the how-to pages run, and print what they show."""

import re
import shutil
from pathlib import Path

import pytest

from .pages import DOCS, Ran, blocks_of, differences, run_page

pytestmark = pytest.mark.slow

HOW_TO = sorted(path.name for path in (DOCS / "howto").glob("*.md"))


def test_the_tutorial_prints_what_it_shows(tmp_path: Path) -> None:
    # one test: with several, each worker would run the page
    shutil.copy(DOCS / "shop.py", tmp_path)
    ran = run_page(DOCS / "tutorial.md", tmp_path)
    assert not [wrong for one in ran for wrong in differences(one)]

    shown = re.findall(r"^    (s.*,.*)$", (DOCS / "tutorial.md").read_text(), re.M)
    assert len(shown) == 4
    assert shown == (tmp_path / "week1.csv").read_text().splitlines()[:4]

    (fit,) = [one for one in ran if one.source.startswith("epiclick fit")]
    rows = re.findall(r"│ +(\d) │ (\S+) │ (\S+) │ (\S+) │", fit.printed)
    assert len(rows) == 6
    for (_, _, low, high), true in zip(rows, [1, 0.62, 0.45, 0.33, 0.25, 0.20], strict=True):
        assert float(low) <= true <= float(high)


def test_the_tutorial_states_the_true_values_of_its_shop(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    shop: dict = {}
    exec((DOCS / "shop.py").read_text(), shop)
    np, rankers = shop["np"], shop["rankers"]
    traffic = shop["popular"] / shop["popular"].sum()

    def value(score) -> float:
        best = np.argsort(-score, axis=1)[:, : len(shop["LOOKED_AT"])]
        clicks = shop["LOOKED_AT"] * np.take_along_axis(shop["relevance"], best, axis=1)
        return float(traffic @ clicks.sum(axis=1))

    page = (DOCS / "tutorial.md").read_text()
    new, newer = value(rankers["new"]), value(rankers["newer"])
    assert f"drew: +{new / value(rankers['old']) - 1:.1%}" in page
    assert f"`newer` is {100 * (newer / new - 1):.1f} % better" in page
    bias = ", ".join(f"{looked:.2f}" for looked in shop["LOOKED_AT"][1:])
    assert f"the truth is {bias}" in re.sub(r"\s+", " ", page)


@pytest.mark.parametrize("name", HOW_TO)
def test_a_how_to_page_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    ran = run_page(DOCS / "howto" / name, tmp_path)
    assert ran
    assert not [wrong for one in ran for wrong in differences(one)]


def test_wrong_pages_would_be_noticed() -> None:
    printed = "12 rows, first 0.5\nwritten to model\n"
    right = Ran("epiclick x", printed, "12 rows, first 0.51\n...\n", 0)
    assert not differences(right)
    assert differences(Ran("epiclick x", printed, "12 rows, first 0.9\n", 0))
    assert differences(Ran("epiclick x", printed, "written to models\n", 0))
    assert differences(Ran("epiclick x", printed, "written to model\n12 rows, first 0.5\n", 0))
    assert differences(Ran("epiclick x", printed, "12 rows, first 0.5\n", 2))
    assert differences(Ran("epiclick x", "epiclick: no\n", "epiclick: no\n", 0))


def test_every_shown_output_belongs_to_a_command() -> None:
    for page in [DOCS / "tutorial.md", *(DOCS / "howto").glob("*.md")]:
        kinds = [block.kind for block in blocks_of(page)]
        before = {kinds[i - 1] for i, kind in enumerate(kinds) if kind == "text"}
        assert before <= {"sh", "python"}, page.name
        assert all(block.text.strip() for block in blocks_of(page)), page.name
