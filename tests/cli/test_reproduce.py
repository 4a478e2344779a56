"""`epiclick reproduce`, as a program or a person would call it."""

import json
from pathlib import Path

import pytest

from epiclick import arguments
from epiclick.paper import settings
from epiclick.paper.settings import Settings

from .conftest import Done, epiclick

pytestmark = pytest.mark.slow

TINY = Settings(
    preset="tiny",
    queries=40,
    docs=6,
    features=5,
    pages=400,
    theta=(1.0, 0.5, 0.3),
    runs=2,
    epochs=3,
    samples=4,
    batch_size=60,
    pointwise_batch_size=120,
    every=2,
    ranker_samples=100,
    hidden=(8, 4),
    rates=dict.fromkeys(settings.RATES, 1e-3),
)
CALL = ["reproduce", "--preset", "tiny", "--jobs", 1]
METHODS = ["--methods", "pointwise"]


@pytest.fixture(scope="module", autouse=True)
def tiny_preset():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(settings.PRESETS, "tiny", TINY)
        yield


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reproduce") / "out"


@pytest.fixture(scope="module")
def done(out: Path) -> Done:
    # the first share alone has nothing to report
    share = epiclick(*CALL, *METHODS, "--out", out, "--cells", "1/2", "--json")
    assert share.record["claims"] is None
    assert not (out / "report.html").exists()
    return epiclick(*CALL, *METHODS, "--out", out, "--json")


def test_json_has_the_claims_and_the_folder_the_rest(done: Done, out: Path) -> None:
    claims = done.record["claims"]
    assert claims
    assert {claim["outcome"] for claim in claims} <= {"holds", "does not hold", "cannot tell"}
    # nearly all of them need other methods
    assert sum("not run" in claim["reason"] for claim in claims) > len(claims) / 2
    assert json.loads((out / "claims.json").read_text())["claims"] == claims
    names = {path.name for path in out.iterdir()}
    assert names >= {"results.parquet", "settings.json", "report.html", "figures", "cells"}
    figures = {path.suffix for path in (out / "figures").iterdir()}
    assert figures == {".png", ".pdf"}


def test_a_second_call_does_nothing_again(done: Done, out: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (out / "cells").rglob("*")}
    results = (out / "results.parquet").read_bytes()
    again = epiclick(*CALL, *METHODS, "--out", out)
    assert again.code == 0, again.err
    assert "Claims of the paper" in again.out
    unasked = sum("not run" in claim["reason"] for claim in done.record["claims"])
    assert f"{unasked} of {len(done.record['claims'])} claims are about methods" in again.out
    assert "RQ4.1" not in again.out
    assert "report.html" in again.err
    assert {path: path.stat().st_mtime_ns for path in (out / "cells").rglob("*")} == before
    assert (out / "results.parquet").read_bytes() == results


def test_other_settings_in_the_folder_are_refused(done: Done, out: Path) -> None:
    refused = epiclick(*CALL, *METHODS, "--out", out, "--epochs", 4)
    refused.assert_refused("epochs is 3 there and 4 here", "settings-differ")


def test_rates_are_told_and_written(out: Path, tmp_path: Path, monkeypatch) -> None:
    from epiclick.paper import runs

    tuned = [runs.Tuned("pointwise", {0.001: -0.5, 0.003: -0.4, 0.01: -float("inf")})]
    monkeypatch.setattr(runs, "tune", lambda *given, **options: tuned)
    tuned_run = epiclick(*CALL, *METHODS, "--out", tmp_path, "--tune")
    assert tuned_run.code == 0, tuned_run.err
    assert "0.003" in tuned_run.out
    record = epiclick(*CALL, *METHODS, "--out", tmp_path, "--tune", "--json").record
    assert record["rates"] == [
        {
            "method": "pointwise",
            "rate": 0.003,
            "tried": [[0.001, -0.5], [0.003, -0.4], [0.01, None]],
        }
    ]


@pytest.mark.parametrize(
    ("arguments", "words", "error_code"),
    [
        (["--preset", "quik"], "did you mean 'quick'", "unknown-preset"),
        (["--methods", "exakt"], "did you mean 'exact'", "unknown-method"),
        (["--only", "figure9"], "'figure9'", "unknown-experiment"),
        (["--cells", "3/2"], "i/n with i from 1 to n", "invalid-share"),
        (["--runs", 0, "--epochs", 0], "epochs must be", "runs-out-of-range"),
        (["--jobs", 0], "jobs must be", "not-whole-number"),
        (["--dataset", "yahoo"], "dataset must be one of", None),
        (["--dataset", "mslr"], "--path", "missing-path"),
        (["--path", "."], "path", "path-without-dataset"),
    ],
)
def test_bad_arguments_give_code_2_and_write_nothing(
    arguments: list[object], words: str, error_code: str | None, tmp_path: Path
) -> None:
    refused = epiclick("reproduce", "--out", tmp_path / "new", *arguments)
    refused.assert_refused(words, error_code)
    assert not list(tmp_path.iterdir())


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    refused = epiclick("reproduce", "--out", tmp_path / "file")
    refused.assert_refused("name a folder", "not-a-folder")


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "find_spec", lambda name: None)
    refused = epiclick("reproduce", "--out", tmp_path)
    assert refused.error_code == "missing-extra"
    assert 'pip install "epiclick[paper]"' in refused.err


@pytest.mark.parametrize("name", ["report.html", "claims.md", "results.parquet", "figures"])
def test_a_file_of_the_user_is_not_replaced(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("mine")
    refused = epiclick(*CALL, *METHODS, "--out", tmp_path)
    refused.assert_refused(name, "foreign-files")
    assert "epiclick reproduce" in refused.err
    assert (tmp_path / name).read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 1
