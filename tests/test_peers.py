"""The benchmark with peers: our own side and what it prints, with no peer installed."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from epiclick.data.counts import ClickCounts
from epiclick.evaluation.click_scores import score_clicks

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TINY = ["--queries", "30", "--docs", "8", "--features", "4", "--pages", "400", "--positions", "3"]


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import peers

    return peers


def printed(*arguments: str) -> dict[str, Any]:
    script = [
        sys.executable,
        str(BENCHMARKS / "peers.py"),
        "--no-install",
        "--warm",
        "--rounds",
        "1",
    ]
    done = subprocess.run([*script, *TINY, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_fit(found: dict[str, Any], truth: dict[str, float]) -> None:
    """Every measure is there, and the probabilities are those of a model that learned."""
    for name in ("seconds", "import_seconds", "processor_seconds", "epoch_seconds", "peak_gb"):
        assert found[name] > 0, name
    assert found["seconds_by_round"] == [pytest.approx(found["seconds"], abs=0.01)]
    assert found["relative"][0] == 1
    # 120 displays: within a quarter of the truth's, and far from a coin's
    assert abs(found["log_likelihood"] - truth["log_likelihood"]) < 0.25
    assert found["log_likelihood"] < 0
    assert 1 < found["perplexity"] < 2


def test_features_without_a_peer_that_works(peers: ModuleType, tmp_path: Path) -> None:
    broken = tmp_path / "clax"
    (broken / "bin").mkdir(parents=True)
    (broken / "installed.txt").write_text("\n".join(peers.PEERS["clax"].requirements))
    python = broken / "bin" / "python"
    python.write_text("#!/bin/sh\necho 'no module of that name' >&2\nexit 1\n")
    python.chmod(0o755)
    sides = ["clax PositionBasedModel", "epiclick PointwisePBM"]
    result = printed("features", "--envs", str(tmp_path), "--epochs", "30", "--sides", *sides)
    assert "ids" not in result
    found = result["features"]
    assert found["log"]["training_displays"] == 3 * found["log"]["training_pages"]
    assert list(found["sides"]) == ["epiclick PointwisePBM"]
    check_fit(found["sides"]["epiclick PointwisePBM"], found["truth"])
    assert found["missing"]["clax PositionBasedModel"] == "failed: no module of that name"
    assert found["missing"]["lightgbm lambdarank"] == "left out by --sides"
    assert {"obp", "ultra"} < set(found["missing"])


def test_ids_with_nothing_installed(tmp_path: Path) -> None:
    found = printed("ids", "--envs", str(tmp_path), "--epochs", "30")["ids"]
    assert list(found["sides"]) == ["epiclick EpistemicPBM"]
    ours = found["sides"]["epiclick EpistemicPBM"]
    check_fit(ours, found["truth"])
    assert all(np.array(ours["low"]) <= ours["relative"])
    assert ours["position_bias"]["intervals_covering_truth"][0].endswith(" of 2")
    assert found["missing"]["clax"].endswith(f"not installed in {tmp_path}")
    assert "not in the package registry" in found["missing"]["pyclick"]


def test_scores_are_those_of_epiclick(peers: ModuleType) -> None:
    rng = np.random.default_rng(0)
    probability = rng.uniform(0.05, 0.95, (50, 3))
    click = (rng.random((50, 3)) < probability).astype(np.int64)
    row = np.arange(150)
    columns = {"query_id": row // 3, "doc_id": row, "position": row % 3 + 1}
    once = {"displays": np.ones(150, np.int64), "clicks": click.ravel()}
    counts = ClickCounts.from_table(pa.table({**columns, **once}))
    expected = score_clicks(counts, probability.ravel())
    found = peers.scores(probability, click)
    assert found["log_likelihood"] == pytest.approx(expected.display_log_likelihood, rel=1e-12)
    assert found["perplexity"] == pytest.approx(expected.perplexity, rel=1e-12)
    assert peers.scores(probability[::-1], click) != found  # the control


def test_errors_of_bias_leave_the_first_position_out(peers: ModuleType) -> None:
    truth = np.array([0.8, 0.4, 0.2])  # relative: 1, 0.5, 0.25
    record = {"relative": [1, 0.6, 0.25], "low": [1, 0.55, 0.2], "high": [1, 0.65, 0.3]}
    found = peers.bias_errors(record, truth)
    assert found["mean_error"] == pytest.approx(0.05)
    assert found["largest_error"] == pytest.approx(0.1)
    assert found["intervals_covering_truth"] == "1 of 2"
    assert "intervals_covering_truth" not in peers.bias_errors({"relative": [1, 0.6, 0.25]}, truth)


def test_rounds_become_medians(peers: ModuleType) -> None:
    rounds = [
        {"seconds": 3.0, "relative": [1, 0.2], "bias": {"error": 0.3}, "epoch": None},
        {"seconds": 1.0, "relative": [1, 0.4], "bias": {"error": 0.1}, "epoch": 0.5},
        {"seconds": 2.0, "relative": [1, 0.9], "bias": {"error": 0.2}, "epoch": 0.7},
    ]
    found = peers.summary(rounds)
    assert found["seconds"] == 2
    assert found["relative"] == [1, 0.4]
    assert found["bias"] == {"error": 0.2}
    assert found["epoch"] == 0.6  # of those that know
    assert found["seconds_by_round"] == [3, 1, 2]


def test_every_requirement_is_exact(peers: ModuleType) -> None:
    for peer in peers.PEERS.values():
        assert bool(peer.requirements) != bool(peer.why_not)
        assert all("==" in requirement for requirement in peer.requirements)


def test_every_benchmark_named_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import run

    assert "peers" in run.LONG
    assert "peers" not in run.BENCHMARKS
    assert all((BENCHMARKS / f"{name}.py").exists() for name in (*run.BENCHMARKS, *run.LONG))
