"""Cores and threads of worker processes, their end, and processes forked after jax has started."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from epiclick.processes import cores_of, threads_of_started

from .fitted.hand_made import by_features, clicks_on, items, model_of

pytestmark = pytest.mark.slow

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


FORKED = """
import json, os, signal, sys
import jax, pandas
import epiclick as ec
from epiclick.evaluation.log_scores import evaluate

started, log, features, model = sys.argv[1] == "started", *sys.argv[2:]
counts = ec.read_log(log, features=features)
fitted = ec.load(model)
shown = pandas.read_csv(features)[["query_id", "doc_id"]]
shown["position"] = shown.groupby("query_id").cumcount() + 1
if started:
    jax.numpy.zeros(1).block_until_ready()

calls = {
    "load": lambda: ec.load(model),
    "read_log": lambda: ec.read_log(log),
    "position_bias": fitted.position_bias,
    "relevance": lambda: fitted.relevance(features),
    "rank": lambda: fitted.rank(features),
    "predict_clicks": lambda: fitted.predict_clicks(counts),
    "posterior": lambda: fitted.posterior(counts),
    "evaluate": lambda: evaluate(fitted.fitted_, counts, train=counts),
    "compare": lambda: ec.compare(fitted, {"one": shown}, features, clicks=counts),
    "simulate": lambda: ec.simulate(queries=20, pages=50),
    "fit": lambda: ec.EpistemicPBM(epochs=1).fit(counts, progress=False),
    "fit exact": lambda: ec.EpistemicPBM("exact", epochs=1).fit(counts, progress=False),
}
if not started:
    calls = {"fit exact": calls["fit exact"]}
reading, writing = os.pipe()
if os.fork() == 0:
    signal.alarm(100)
    ended = {}
    for name, call in calls.items():
        try:
            call()
            ended[name] = "done"
        except Exception as error:
            ended[name] = repr(error)
    os.write(writing, json.dumps(ended).encode())
    os._exit(0)
os.close(writing)
os.wait()
print(os.read(reading, 100_000).decode())
"""


def in_a_fork(state: str, folder: Path) -> dict[str, str]:
    """How calls end in a process that is forked before or after jax has started."""
    table = items(10, 3)
    keys = table.keys.to_pandas()
    keys.assign(**dict(zip(table.names, table.matrix.T, strict=True))).to_csv(
        folder / "features.csv", index=False
    )
    rows = clicks_on(table, 20).to_table().to_pandas()
    rows.to_csv(folder / "log.csv", index=False)
    model_of(by_features()).save(folder / "model")
    files = [folder / name for name in ("log.csv", "features.csv", "model")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, state, *files],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.stdout.strip(), f"the fork did not end by itself: {done.stderr}"
    return json.loads(done.stdout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_after_a_fork_jax_is_refused_and_all_else_works(tmp_path: Path) -> None:
    ended = in_a_fork("started", tmp_path)
    assert "get_context('spawn')" in ended.pop("fit exact")
    assert set(ended.values()) == {"done"}, ended
    assert {"fit", "posterior", "evaluate", "compare", "simulate"} <= ended.keys()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_before_jax_has_started_may_use_it(tmp_path: Path) -> None:
    assert in_a_fork("not yet", tmp_path) == {"fit exact": "done"}
