"""Ctrl-C and other requests to end: one line that says what is kept, and nothing half-written."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from epiclick.cli.exit_codes import exit_code, signals_as_ctrl_c
from epiclick.errors import InputError

from .conftest import Done, epiclick

pytestmark = pytest.mark.slow

CALIBRATE = ["calibrate", "--methods", "control", "--families", "three-positions", "--jobs", 1]
REPRODUCE = ["reproduce", "--preset", "tiny", "--methods", "pointwise", "--jobs", 1]

AS_A_PROGRAM = """
import signal
from epiclick.cli.main import run
from epiclick.paper import settings
from epiclick.paper.settings import Settings

settings.PRESETS["tiny"] = Settings(
    preset="tiny", queries=40, docs=6, features=5, pages=400, theta=(1.0, 0.5, 0.3), runs=99,
    epochs=3, samples=4, batch_size=60, pointwise_batch_size=120, every=2, ranker_samples=100,
    hidden=(8, 4), rates=dict.fromkeys(settings.RATES, 1e-3),
)
# a shell that starts the tests in the background has children ignore Ctrl-C
signal.signal(signal.SIGINT, signal.default_int_handler)
run()
"""


def stopped(arguments: list[object], begun: Callable[[], bool], number: signal.Signals) -> Done:
    """A call in a process of its own that gets a signal once it has begun."""
    command = [sys.executable, "-c", AS_A_PROGRAM, *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as process:
        try:
            deadline = time.monotonic() + 120
            while not begun():
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline, "it does not begin"
                time.sleep(0.01)
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()  # does nothing to a process that has ended
    return Done(process.returncode, out, err)


def half_written(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.endswith((".part", ".old", ".tmp"))]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_calibration_goes_on_with_the_worlds_it_has(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = stopped(
        [*CALIBRATE, "--worlds", 2_000, "--out", out], lambda: any(out.rglob("*.npz")), number
    )
    assert (done.code, done.out) == (code, "")
    assert done.err == (
        f"epiclick: stopped; finished worlds are kept in {out}. "
        "To resume, run the same command again.\n"
    )
    assert not half_written(out)
    worlds = {path: path.stat().st_mtime_ns for path in out.rglob("*.npz")}
    assert 0 < len(worlds) < 2_000
    again = epiclick(*CALIBRATE, "--worlds", len(worlds), "--out", out, "--json")
    assert again.record["worlds"] == len(worlds)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.npz")} == worlds


def test_a_stopped_reproduction_keeps_its_cells(tmp_path: Path) -> None:
    out = tmp_path / "out"
    cells = out / "cells"
    done = stopped([*REPRODUCE, "--out", out], lambda: any(cells.rglob("*")), signal.SIGINT)
    assert (done.code, done.out) == (130, "")
    assert done.err == (
        f"epiclick: stopped; finished cells are kept in {out}. "
        "To resume, run the same command again.\n"
    )
    assert not half_written(out)
    assert any(cells.rglob("*"))
    assert not (out / "report.html").exists()


@pytest.mark.parametrize(
    ("verb", "where"),
    [
        ("evaluate", "epiclick.evaluation.log_scores.evaluate"),
        ("compare", "epiclick.comparison.compare_rankers.compare"),
        ("report", "epiclick.report.page.gather"),
        ("export", "epiclick.export.judgements.judge"),
    ],
)
def test_other_verbs_leave_nothing_behind(
    verb: str,
    where: str,
    world: Path,
    marginal: tuple[Path, Done],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    module, name = where.rsplit(".", 1)
    monkeypatch.setattr(import_module(module), name, interrupted)
    monkeypatch.chdir(tmp_path)
    log = world / "late.parquet"
    calls = {
        "evaluate": [log],
        "compare": ["--ranking", f"one={log}"],
        "report": [log],
        "export": ["--to", "qrels", "--out", "qrels.txt"],
    }
    done = epiclick(verb, marginal[0], *calls[verb], "--features", world / "features.parquet")
    assert (done.code, done.out) == (130, "")
    last = done.err.splitlines()[-1]
    assert last == "epiclick: stopped; nothing was written. The same command starts over."
    assert not list(tmp_path.iterdir())


def test_a_request_to_end_comes_even_where_ctrl_c_is_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), signals_as_ctrl_c() as ended:
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_request_to_end_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with signals_as_ctrl_c() as ended:
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ended == []


def test_other_ends_keep_their_codes(capsys: pytest.CaptureFixture) -> None:
    def refuses() -> None:
        raise InputError("no", code="no")

    def fills_memory() -> None:
        raise MemoryError

    assert [exit_code(call) for call in (lambda: None, lambda: 1, refuses, fills_memory)] == [
        *(0, 1, 2, 1)
    ]
    assert capsys.readouterr().err == "epiclick: no\nepiclick: out of memory\n"
