"""A few cases of every campaign of `make torture`, and the machinery that runs them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest
from torture.campaign import Campaign, Case, Result, Run, Summary
from torture.campaigns import quick_campaigns
from torture.program import Ended
from torture.reliability import table

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("half", [0, 1])
def test_a_few_cases_of_each_campaign(half: int, tmp_path: Path) -> None:
    names = ",".join(campaign.name for campaign in quick_campaigns()[half::2])
    # in an interpreter of its own, as processes with threads must not be forked
    words = ["--quick", "--campaigns", names, "--cases", 6, "--jobs", 1, "--out", tmp_path]
    done = subprocess.run(
        [sys.executable, "-m", "torture", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Numbers(Campaign):
    """Cases are refused if odd, and fail if they are `bad`."""

    name = "numbers"
    floors: ClassVar = {"count": 0.4}
    bad: ClassVar[set[int]] = set()
    ran: ClassVar[list[int]] = []

    def prepare(self, stock: Path) -> None:
        (stock / "made").write_text("once")

    def size(self, stock: Path) -> int:
        return 60

    def run(self, case: Case) -> Result:
        self.ran.append(case.number)
        (case.folder / "file").write_text(str(case.rng.random()))
        if case.number in self.bad:
            return Result("count", "", "failed", "bad")
        return Result("count", "", "refused" if case.number % 2 else "accepted")


def test_a_stopped_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    run, numbers = Run(tmp_path, 1), Numbers()
    numbers.ran.clear()
    run.finish(numbers, list(range(30)))
    ledger = tmp_path / "numbers.jsonl"
    # killed while it wrote the last line
    ledger.write_text(ledger.read_text()[:-9])
    run.finish(numbers, list(range(60)))
    assert numbers.ran == [*range(30), 29, *range(30, 60)]
    summary = Summary.of(numbers, run.ledger(numbers), 60)
    assert summary.total == {"accepted": 30, "refused": 30}
    assert not summary.failures
    assert not summary.outside


def test_cases_do_not_depend_on_the_order_and_failed_ones_are_kept(tmp_path: Path) -> None:
    numbers = Numbers()
    numbers.bad = {4, 5}
    for name, order in (("a", [4, 5]), ("b", [5, 4])):
        Run(tmp_path / name, 1).finish(numbers, order)
    files = [
        {path.parent.parent.name: path.read_text() for path in (tmp_path / name).rglob("w/file")}
        for name in ("a", "b")
    ]
    assert files[0] == files[1]
    assert set(files[0]) == {"numbers-4", "numbers-5"}
    Run(tmp_path / "c", 2).finish(numbers, [4])
    assert (tmp_path / "c/cases/numbers-4/w/file").read_text() != files[0]["numbers-4"]


def test_failures_and_too_few_accepted_cases_are_reported(tmp_path: Path) -> None:
    numbers, run = Numbers(), Run(tmp_path, 1)
    numbers.bad = {0}
    run.finish(numbers, [0, *range(1, 60, 2)])
    summary = Summary.of(numbers, run.ledger(numbers), 60)
    assert [number for number, _ in summary.failures] == [0]
    assert summary.outside == {"count": 0.0}
    assert "| **numbers** | all | 31 | 0 | 30 | 1 |" in table([summary], 1)
    assert json.loads((tmp_path / "numbers.jsonl").read_text().splitlines()[0])["why"] == "bad"


@pytest.mark.parametrize(
    ("code", "err", "fault"),
    [
        (0, "", None),
        (2, "epiclick: no\n", None),
        (2, "epiclick: warning: x\nepiclick: no\n", None),
        (2, "", "not one message"),
        (2, "epiclick: no\nepiclick: no\n", "not one message"),
        (70, "internal error", "traceback"),
        (1, "Traceback (most recent call last):", "traceback"),
        (-11, "", "killed by signal 11"),
        (3, "", "exit code 3"),
        (0, "\x1b[31m", "raw control characters"),
        (0, "\x9b31m", "raw control characters"),
    ],
)
def test_what_must_never_happen(code: int, err: str, fault: str | None) -> None:
    found = Ended(code, "", err).fault
    assert found is None if fault is None else found is not None and fault in found


def test_too_many_accepted_cases_are_reported(tmp_path: Path) -> None:
    class Lax(Numbers):
        ceilings: ClassVar = {"count": 0.5}

    lax, run = Lax(), Run(tmp_path, 1)
    run.finish(lax, range(0, 60, 2))
    assert Summary.of(lax, run.ledger(lax), 60).outside == {"count": 1.0}
