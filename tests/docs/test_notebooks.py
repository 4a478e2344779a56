"""Notebooks run, and their outputs are what is stored in them."""

import json
from pathlib import Path

import pytest

from .notebooks import FOLDER, NOTEBOOKS, code_cells, run_notebook, text_of
from .pages import Ran, differences

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    cells = code_cells(FOLDER / name)
    assert cells
    for cell, outputs in zip(cells, run_notebook(FOLDER / name, tmp_path), strict=True):
        source, text = "".join(cell["source"]), text_of(outputs)
        stored = text_of(cell["outputs"])
        assert bool(text) == bool(stored), source
        assert not differences(Ran(source, text, stored, 0))
        drawn, kept = (
            sum("image/png" in each.get("data", {}) for each in every)
            for every in (outputs, cell["outputs"])
        )
        assert drawn == kept, source


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_of_the_format_and_links_to_pages_that_exist(name: str) -> None:
    notebook = json.loads((FOLDER / name).read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in notebook["cells"]:
        for link in "".join(cell["source"]).split("](")[1:]:
            target = link.split(")")[0].split("#")[0]
            assert (FOLDER / target).is_file(), target


def test_other_numbers_and_words_are_noticed() -> None:
    assert differences(Ran("x", "value 0.50", "value 0.80", 0))
    assert differences(Ran("x", "new beats old", "old beats new", 0))
