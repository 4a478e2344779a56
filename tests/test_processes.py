"""Cores and threads of worker processes, and their end."""

import os
import subprocess
import sys

import pytest

from epiclick.processes import cores_of, threads_of_started

THREADS = "OPENBLAS_NUM_THREADS"


def test_processes_share_the_cores_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 4}, raising=False)
    assert cores_of(2) == [{0, 2, 4}, {1, 3}]
    assert cores_of(7) == [{0}, {1}, {2}, {3}, {4}, {0}, {1}]
    monkeypatch.delenv(THREADS, raising=False)
    with threads_of_started(2):
        assert os.environ[THREADS] == "3"
    assert THREADS not in os.environ
    monkeypatch.setenv(THREADS, "5")
    with threads_of_started(2):
        assert os.environ[THREADS] == "5"
    assert os.environ[THREADS] == "5"


PARENT = """
import os, signal, time
from multiprocessing import get_context
from epiclick.processes import start_worker

def work(cores):
    start_worker("programs", cores)
    print("started", flush=True)
    time.sleep(600)

if __name__ == "__main__":
    context = get_context("spawn")
    cores = context.SimpleQueue()
    cores.put(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0})
    context.Process(target=work, args=(cores,)).start()
    time.sleep(600)
"""


def test_a_worker_ends_when_its_parent_is_killed(tmp_path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, cwd=tmp_path) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"started\n"
        parent.kill()
        # ends once the worker has, which holds the pipe as well
        assert parent.stdout.read() == b""
