"""Libraries that verbs after a fit load: most of their time would be spent on importing them."""

import subprocess
import sys
from pathlib import Path

import pytest

from epiclick import read_features

from .conftest import Done, epiclick

pytestmark = pytest.mark.slow

READING_LOGS = {"ibis", "sqlglot"}
SLOW = {"jax", "duckdb", "matplotlib", "scipy.optimize", "scipy.stats", *READING_LOGS}


def loaded_by(*arguments: object) -> set[str]:
    """All modules that a verb has loaded when it ends."""
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from epiclick.cli.main import run; run()"
    )
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(done.stderr.splitlines()[-1].split())


def test_position_bias_needs_no_engine_and_no_scipy(marginal: tuple[Path, Done]) -> None:
    loaded = loaded_by("position-bias", marginal[0])
    assert "pandas" in loaded
    assert loaded & {*SLOW, "scipy.special"} == set()


def test_relevance_from_cached_features_needs_no_engine(
    world: Path, marginal: tuple[Path, Done], tmp_path: Path
) -> None:
    features = world / "features.parquet"
    read_features(features)  # which caches them
    loaded = loaded_by(
        "relevance", marginal[0], "--features", features, "--out", tmp_path / "r.parquet"
    )
    assert "scipy.special" in loaded
    assert loaded & SLOW == set()


def test_counts_are_evaluated_without_what_only_reads_logs(
    world: Path, marginal: tuple[Path, Done], tmp_path: Path
) -> None:
    counts, features = tmp_path / "counts.parquet", world / "features.parquet"
    assert epiclick("count", world / "late.parquet", "--out", counts).code == 0
    read_features(features)  # which caches them
    loaded = loaded_by("evaluate", marginal[0], counts, "--features", features)
    assert loaded & READING_LOGS == set()
    # the control: a log of displays does need them
    loaded = loaded_by("evaluate", marginal[0], world / "late.parquet", "--features", features)
    assert loaded >= READING_LOGS
