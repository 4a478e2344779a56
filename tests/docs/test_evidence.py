"""The committed evidence: every claim is present with its number, and the tables agree."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from epiclick.paper.claims import STATEMENTS

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reproduction"
RUNS = sorted(path.parent.name for path in FOLDER.glob("*/claims.json"))


def claims_of(run: str) -> list[dict[str, Any]]:
    return json.loads((FOLDER / run / "claims.json").read_text())["claims"]


def words_of(claim: dict[str, Any]) -> tuple[str, ...]:
    return tuple(claim[key] for key in ("id", "question", "claim", "measured", "note"))


def test_all_methods_were_run_at_a_tenth_of_the_papers_size() -> None:
    assert "tenth" in RUNS
    settings = json.loads((FOLDER / "tenth" / "settings.json").read_text())
    assert settings["runs"] == 15
    for claim in claims_of("tenth"):
        assert not claim["reason"].startswith("not run"), claim["id"]
        assert claim["checks"], claim["id"]


def test_our_estimators_and_pointwise_were_run_at_the_papers_size() -> None:
    settings = json.loads((FOLDER / "paper" / "settings.json").read_text())
    assert {"exact", "marginal", "pointwise"} <= set(settings["methods"])
    assert (settings["queries"], settings["pages"]) == (10_000, 100_000)
    assert settings["runs"] == 15
    assert settings["epochs"] >= 300
    one = json.loads((FOLDER / "paper-one-run" / "settings.json").read_text())
    assert (one["methods"], one["epochs"]) == (["exact"], 1_500)


@pytest.mark.parametrize("run", RUNS)
def test_every_claim_is_present_with_its_number(run: str) -> None:
    claims = claims_of(run)
    assert [words_of(claim) for claim in claims] == [
        (statement.id, statement.question, statement.claim, statement.measured, statement.note)
        for statement in STATEMENTS
    ]
    runs = json.loads((FOLDER / run / "settings.json").read_text())["runs"]
    for claim in claims:
        assert claim["outcome"] in ("holds", "does not hold", "cannot tell")
        if claim["outcome"] == "cannot tell":
            assert claim["reason"]
        else:
            assert claim["checks"]
        for check in claim["checks"]:
            assert check["runs"] == runs
            assert check["low"] <= check["mean"] <= check["high"]


@pytest.mark.parametrize("run", RUNS)
def test_the_table_agrees_with_the_numbers(run: str) -> None:
    table = (FOLDER / run / "claims.md").read_text()
    for claim in claims_of(run):
        assert f"| {claim['id']} | {claim['claim']} |" in table
    outcomes = [line.rsplit("|", 2)[1].strip() for line in table.splitlines() if "| RQ" in line]
    assert outcomes == [f"**{claim['outcome']}**" for claim in claims_of(run)]


@pytest.mark.parametrize("run", RUNS)
def test_its_figures_are_shown(run: str) -> None:
    pages = "".join(path.read_text() for path in FOLDER.glob("*.md"))
    shown = [name for name in FOLDER.glob(f"{run}/*.png") if f"{run}/{name.name}" in pages]
    assert shown
    assert len(shown) == len(list(FOLDER.glob(f"{run}/*.png")))


@pytest.mark.parametrize("run", sorted(path.parent.name for path in FOLDER.glob("*/settings.json")))
def test_numbers_and_costs_of_every_method_and_run_are_present(run: str) -> None:
    settings = json.loads((FOLDER / run / "settings.json").read_text())
    table = pq.read_table(FOLDER / run / "results.parquet", columns=["method", "run"])
    measured = {tuple(row.values()) for row in table.to_pylist()}
    costs = json.loads((FOLDER / run / "costs.json").read_text())
    assert {(cost["method"], cost["run"]) for cost in costs} == measured
    runs = range(settings["first_run"], settings["first_run"] + settings["runs"])
    assert {number for _, number in measured} == set(runs)
    assert len(measured) == len({method for method, _ in measured}) * settings["runs"]
    assert all(cost["seconds"] >= cost["training_seconds"] > 0 for cost in costs)
    assert all(cost["memory_mb"] > 0 for cost in costs)
