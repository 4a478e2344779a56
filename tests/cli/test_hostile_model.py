"""A condition that came with a model from someone else looks at nothing but the log."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from epiclick import load

from .conftest import Done, epiclick

pytestmark = pytest.mark.slow

STRACE = shutil.which("strace")
CALLS = "trace=open,openat,openat2,stat,lstat,newfstatat,statx,access,faccessat2,socket,connect"

HOSTILE = (
    "EXISTS(SUMMARIZE '{probe}')",
    "EXISTS(FROM read_csv('{probe}'))",
    "(SELECT count(*) FROM glob('{probe}')) > 0",
    "click IN (FROM 'https://example.org/x.parquet')",
    "st_point(1, 2) IS NOT NULL",
)


def traced(out: Path, *command: object) -> tuple[int, str]:
    """Run Python under strace; its exit code and its calls that reach for files or the network."""
    if STRACE is None:
        pytest.skip("strace is not here")
    tracing = [STRACE, "-f", "--seccomp-bpf", "-s", "4096", "-e", CALLS, "-o", str(out)]
    done = subprocess.run(
        [*tracing, sys.executable, *map(str, command)], capture_output=True, text=True, check=False
    )
    if "ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    return done.returncode, out.read_text(errors="replace")


def with_condition(model: Path, condition: str, out: Path) -> Path:
    """The same model as if it had been fitted to the rows that meet a condition."""
    changed = load(model)
    options = replace(changed.fitted_.options, where=condition)
    changed.fitted_ = replace(changed.fitted_, options=options)
    changed.save(out)
    return out


@pytest.mark.parametrize("condition", HOSTILE)
def test_a_hostile_condition_in_a_model_is_bad_input(
    condition: str, world: Path, without_features: tuple[Path, Done], tmp_path: Path
) -> None:
    (tmp_path / "probe.csv").write_text("a\n1\n")
    where = condition.format(probe=tmp_path / "probe.csv")
    model = with_condition(without_features[0], where, tmp_path / "model")
    # a model's own condition is used where its own log is read
    own = ("--train", world / "early.parquet")
    done = epiclick("evaluate", model, world / "late.parquet", *own, "--json")
    done.assert_refused(
        "where must be a condition on the log's columns alone", "forbidden-condition"
    )


def test_a_hostile_condition_opens_no_other_file_and_no_socket(
    world: Path, without_features: tuple[Path, Done], tmp_path: Path
) -> None:
    probe = tmp_path / "probe.csv"
    probe.write_text("a\n1\n")
    log = world / "late.parquet"
    where = HOSTILE[0].format(probe=probe)
    model = with_condition(without_features[0], where, tmp_path / "model")
    own = ("--train", world / "early.parquet")
    code, calls = traced(tmp_path / "calls", "-m", "epiclick", "evaluate", model, log, *own)
    assert code == 2
    assert str(log) in calls
    assert str(probe) not in calls
    assert "socket(" not in calls


def test_the_engine_itself_reaches_for_nothing_else(world: Path, tmp_path: Path) -> None:
    """Were a hostile condition to pass the parser, the engine would still refuse it."""
    probe = tmp_path / "probe.csv"
    probe.write_text("a\n1\n")
    script = """
import sys
import duckdb
from epiclick.data.sources import open_source
table = open_source(sys.argv[1]).table
refused = 0
for query in sys.argv[2:]:
    try:
        table.alias("log").sql(f"SELECT * FROM log WHERE ({query})").count().to_pyarrow()
    except duckdb.Error:
        refused += 1
sys.exit(refused)
"""
    asked = [condition.format(probe=probe) for condition in HOSTILE]
    code, calls = traced(tmp_path / "calls", "-c", script, world / "late.parquet", *asked)
    assert code == len(asked)
    assert str(world / "late.parquet") in calls
    opened = [line for line in calls.splitlines() if str(probe) in line and "execve" not in line]
    assert opened == []
    assert "socket(" not in calls


def test_the_trace_sees_what_it_is_there_to_see(tmp_path: Path) -> None:
    probe = tmp_path / "probe.csv"
    probe.write_text("a\n1\n")
    script = (
        "import socket, sys, duckdb; socket.socket().close(); "
        "duckdb.sql(f\"SELECT EXISTS(SUMMARIZE '{sys.argv[1]}')\").fetchall()"
    )
    code, calls = traced(tmp_path / "calls", "-c", script, probe)
    assert code == 0
    assert "socket(" in calls
    assert f'"{probe}"' in calls
