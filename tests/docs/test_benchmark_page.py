"""The committed benchmark: its page has every number, and says what the numbers say."""

import json
from pathlib import Path
from typing import Any

import pytest

USERS = ("pbm", "ubm", "trust", "cascade", "dcm", "sdbn")
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "benchmark"
PAGE = (FOLDER / "README.md").read_text()
DATASETS: list[dict[str, Any]] = json.loads((FOLDER / "results.json").read_text())["datasets"]


def test_every_click_model_was_run_on_real_pages_and_in_every_world() -> None:
    names = [each["name"] for each in DATASETS]
    assert {"yandex-pages", *USERS} <= set(names)
    for each in DATASETS:
        own = {row["model"] for row in each["rows"] if row["version"] == "epiclick"}
        assert set(USERS) <= own, each["name"]


@pytest.mark.parametrize("found", DATASETS, ids=lambda each: each["name"])
def test_the_tables_agree_with_the_numbers(found: dict[str, Any]) -> None:
    section = PAGE.split(f"## {found['title']}\n")[1].split("\n## ")[0]
    for row in found["rows"]:
        value = row["scores"]["log_likelihood"]
        shown = "-" if value is None else f"{value:.5f}"
        assert f"| `{row['model']}` | `{row['version']}` | {shown} |" in section
        assert (value is None) == (row["impossible"] > 0)
    for each in found["from_ours"]:
        assert each["low"] <= each["difference"] <= each["high"]


def test_no_click_model_is_worse_than_plain_em_on_real_pages() -> None:
    (found,) = [each for each in DATASETS if each["name"] == "yandex-pages"]
    judged = [
        each
        for each in found["from_ours"]
        if (each["metric"], each["other"][1]) == ("log_likelihood", "plain")
    ]
    assert len(judged) >= 5  # all but the cascade, in which pages with two clicks are impossible
    assert all(each["high"] > 0 for each in judged)


@pytest.mark.parametrize("users", ["dcm", "sdbn"])
def test_users_who_read_on_are_predicted_better_than_by_counting(users: str) -> None:
    (found,) = [each for each in DATASETS if each["name"] == users]
    (own,) = [
        each
        for each in found["from_ours"]
        if each["metric"] == "log_likelihood" and each["other"] == [users, "counting"]
    ]
    assert own["low"] > 0
