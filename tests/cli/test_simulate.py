"""`epiclick simulate`, as a program or a person would call it."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from epiclick.cli.main import run

from .conftest import epiclick

pytestmark = pytest.mark.slow

SMALL = ["--queries", "30", "--docs", "6", "--features", "4", "--pages", "300", "--positions", "3"]


def test_json_has_the_documented_keys_and_the_files_the_documented_columns(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "epiclick", "simulate", "--out", str(tmp_path / "w"), *SMALL]
    done = subprocess.run(
        [*command, "--theta", "1,.5,.2", "--json"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert list(record) == [
        "schema_version",
        "pages",
        "pairs",
        "displays",
        "clicks",
        "position_bias",
        "warnings",
    ]
    assert (record["pages"], record["pairs"], record["displays"]) == (300, 180, 900)
    assert record["position_bias"] == [1, 0.5, 0.2]
    names = {
        name: pq.read_schema(tmp_path / "w" / f"{name}.parquet").names
        for name in ("clicks", "features")
    }
    assert names["clicks"] == ["page_id", "query_id", "doc_id", "position", "click"]
    assert names["features"] == ["query_id", "doc_id", "split", "f0", "f1", "f2", "f3"]
    truth = pq.read_table(tmp_path / "w" / "relevance.parquet")
    assert truth.column_names[:4] == ["query_id", "doc_id", "relevance", "click_if_first"]
    assert json.loads((tmp_path / "w" / "truth.json").read_text())["position_bias"] == [1, 0.5, 0.2]


def test_its_log_is_counted_as_it_says(tmp_path: Path) -> None:
    world = epiclick("simulate", "--out", tmp_path / "w", *SMALL, "--json").record
    counts = epiclick("count", tmp_path / "w" / "clicks.parquet", "--json").record
    assert {k: counts[k] for k in ("pages", "displays", "clicks")} == {
        k: world[k] for k in ("pages", "displays", "clicks")
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--theta", "1,x"], "write numbers such as 1,.5,.33"),
        (["--theta", "1,2"], "theta must be probabilities"),
        (["--pages", "0", "--seed", "-1"], "seed must be a whole number"),
        (["--dataset", "nowhere"], "nowhere"),
    ],
)
def test_bad_arguments_give_code_2_and_no_folder(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["epiclick", "simulate", "--out", str(tmp_path / "w"), *arguments]
    )
    with pytest.raises(SystemExit) as stopped:
        run()
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("beside", [True, False])
def test_a_folder_with_files_of_the_user_is_refused_before_any_work(
    beside: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    command = ["epiclick", "simulate", "--out", str(tmp_path / "w"), *SMALL]
    monkeypatch.setattr(sys, "argv", command)
    if beside:
        with pytest.raises(SystemExit):
            run()
        capsys.readouterr()
    for name in ("thesis.tex", "a.txt", "b.txt", "c.txt"):
        (tmp_path / "w").mkdir(exist_ok=True)
        (tmp_path / "w" / name).write_text("years of work")
    before = {path: path.read_bytes() for path in (tmp_path / "w").iterdir()}
    monkeypatch.setattr("epiclick.simulate", lambda **_: pytest.fail("work began"))
    with pytest.raises(SystemExit) as stopped:
        run()
    assert stopped.value.code == 2
    assert "a.txt, b.txt, c.txt and 1 more" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (tmp_path / "w").iterdir()} == before
