"""`epiclick inspect`, and the options on displays that a model keeps for later logs."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from .conftest import epiclick

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def messy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log whose ranks start again on page 2, with a bad row and queries typed in two ways."""
    rng = np.random.default_rng(0)
    rows = []
    for page in range(400):
        docs, typed = rng.permutation(6), ["red  shoes", "Red Shoes"][page % 2]
        rows += [
            (
                page,
                f"{typed} {page % 40 // 2}",
                docs[k],
                k % 3 + 1,
                k // 3 + 1,
                int(rng.random() < 0.3),
            )
            for k in range(6)
        ]
    log = pd.DataFrame(rows, columns=["search_id", "query", "sku", "rank", "page", "click"])
    log["device"] = np.where(log.search_id % 3 == 0, "phone", "desktop")
    log = log.astype({"rank": object})
    log.loc[7, "rank"] = "?"
    path = tmp_path_factory.mktemp("messy") / "clicks.csv"
    log.to_csv(path, index=False)
    return path


def test_people_are_shown_what_is_in_a_log(messy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(messy.parent)
    done = epiclick("inspect", "clicks.csv")
    assert done.code == 0
    *shown, command = done.out.splitlines()
    assert max(map(len, shown)) <= 80
    for words in ("2,400 rows", "page_number", "Problems", "position must be a number", "Advice"):
        assert words in done.out, words
    assert "--context device,position" in done.out.replace("\n", " ")
    assert "--normalise-queries" in done.err
    assert command == (
        "epiclick fit clicks.csv --on-bad drop --page-number page --page-size 3 --out model"
    )


def test_the_command_runs_as_printed_and_the_model_keeps_its_options(
    messy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(messy.parent)
    call = ["inspect", "clicks.csv", "--normalise-queries", "--context", "device,position"]
    record = epiclick(*call, "--json").record
    assert {"columns", "pages", "pairs", "displays", "clicks", "problems", "advice"} <= set(record)
    assert (record["pages"], record["displays"]) == (400, 2399)
    assert [problem["code"] for problem in record["problems"]] == ["not-a-number"]
    program, *words = shlex.split(record["command"])
    assert program == "epiclick"
    fitted = epiclick(*words, "--json").record
    assert fitted["displays"] == record["displays"]
    assert [row["position"] for row in fitted["position_bias"]] == [1, 2, 3, 4, 5, 6] * 2

    # a later log is read alike, and a ranking without a device is shown on both
    later = epiclick("evaluate", "model", "clicks.csv", "--json").record
    assert sum(row["displays"] for row in later["by_position"]) == 2399
    lists = {f" RED shoes {query}": np.roll(range(6), query) for query in range(20)}
    rows = [(query, doc, k) for query, docs in lists.items() for k, doc in enumerate(docs, 1)]
    ranking = pd.DataFrame(rows, columns=["query_id", "doc_id", "position"])
    ranking.to_csv("new.csv", index=False)
    compared = epiclick(
        "compare", "model", "--ranking", "new.csv", "--clicks", "clicks.csv", "--json"
    ).record
    assert any("no column device" in note for note in compared["notes"])
    assert compared["rankers"][0]["unknown"] == 0
    # the name of the model is taken now
    again = epiclick(*call, "--json").record["command"]
    assert again.endswith(" --out model-2")


def test_a_log_that_is_not_there_is_refused(tmp_path: Path) -> None:
    epiclick("inspect", tmp_path / "no.csv").assert_refused("no file", "file-missing")
