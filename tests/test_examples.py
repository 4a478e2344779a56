"""Every script in examples/ runs, with tiny settings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[1] / "examples"

SETTINGS = {
    "ranker_values.py": ["--runs", "1", "--queries", "40", "--pages", "300"],
    "rounds.py": ["--rounds", "1", "--pages", "60", "--queries", "12", "--docs", "6",
                  "--batches", "2", "--seeds", "1"],
}  # fmt: skip


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SETTINGS)


@pytest.mark.parametrize("name", SETTINGS)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    # compiled as users compile; see conftest.py
    as_users = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *SETTINGS[name]],
        cwd=tmp_path,
        env=as_users,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if name == "rounds.py":
        played = json.loads(done.stdout)["strategies"]
        assert list(played) == ["mean", "thompson"]
        for strategy in played.values():
            assert strategy["cumulative_regret_by_seed"][0] >= 0
    else:
        assert (tmp_path / "ranker-values.png").read_bytes().startswith(b"\x89PNG")
        assert "90 % intervals contain" in done.stdout
