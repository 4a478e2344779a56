"""`epiclick fit`, as a program or a person would call it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pandas as pd
import pyarrow as pa
import pytest
from safetensors import safe_open

from epiclick.api import EpistemicPBM, EstimatorName, PointwisePBM, load
from epiclick.cli.fit import Estimator, parse_anchor, print_fit
from epiclick.data.counts import ClickCounts
from epiclick.data.readers import read_log
from epiclick.errors import InputError
from epiclick.plans import EPOCHS, STEPS_TO_MODE

from .conftest import TRAINING, Done, epiclick

pytestmark = pytest.mark.slow

# long enough to be stopped, in steps small enough to be quick
LONG = ["--epochs", 150, "--patience", 0, "--hidden", "4", "--batch-size", 100]

AS_A_PROGRAM = (
    "import signal; from epiclick.cli.main import run; "
    # a shell that starts the tests in the background has children ignore Ctrl-C
    "signal.signal(signal.SIGINT, signal.default_int_handler); run()"
)


def test_json_has_the_documented_keys(world: Path, marginal: tuple[Path, Done]) -> None:
    record = marginal[1].record
    assert {
        *("schema_version", "pairs", "displays", "clicks", "epochs", "seconds", "log_likelihood"),
        *("position_bias", "identifiability", "chi2_per_df", "warnings"),
    } <= set(record)
    log = pd.read_parquet(world / "early.parquet")
    assert record["pairs"] == len(log.groupby(["query_id", "doc_id"]))
    assert (record["displays"], record["clicks"]) == (len(log), log["click"].sum())
    assert 0 < record["trained_on"]["pairs"] < record["pairs"]
    assert record["epochs"] == 3
    assert record["log_likelihood"] < 0 < record["seconds"]
    assert record["identifiability"]["groups"] == [[{"position": k} for k in (1, 2, 3)]]
    assert marginal[1].err == ""


def test_the_model_is_what_was_asked_for(
    marginal: tuple[Path, Done], exact: tuple[Path, Done], pointwise: tuple[Path, Done]
) -> None:
    model = load(marginal[0])
    own = {"epochs": 3, "hidden": (8, 4), "seed": 3}
    assert model.get_params() == {**EpistemicPBM().get_params(), **own}
    own |= {"estimator": "exact", "baseline": True, "samples": 4, "level": 0.8}
    assert load(exact[0]).get_params() == {**EpistemicPBM().get_params(), **own}
    assert isinstance(load(pointwise[0]), PointwisePBM)
    assert sorted(p.name for p in marginal[0].parent.glob("*.checkpoint")) == []


def test_members_are_trained_when_asked_for(world: Path, tmp_path: Path) -> None:
    log = ["fit", world / "early.parquet", "--features", world / "features.parquet"]
    asked = ["--estimator", "pointwise", "--epochs", 1, "--hidden", "4", "--members"]
    assert epiclick(*log, "--out", tmp_path / "m", *asked, 2, "--json").code == 0
    model = load(tmp_path / "m")
    assert model.get_params()["members"] == len(model.fitted_.members) == 2
    refused = epiclick(*log, "--out", tmp_path / "none", *asked, 0)
    refused.assert_refused("--members must", "invalid-parameter")


def test_every_estimator_of_the_library_can_be_named() -> None:
    assert set(get_args(Estimator)) == {*get_args(EstimatorName), "pointwise"}


def test_people_get_tables_and_words(world: Path, tmp_path: Path) -> None:
    given = ["--features", world / "features.parquet", *TRAINING]
    done = epiclick("fit", world / "early.parquet", "--out", tmp_path / "model", *given)
    assert done.code == 0, done.err
    for words in (
        "240 pages, ",
        "3 epochs in ",
        "log-likelihood per display -0.",
        "held-out queries",
        "chi2/df",
        "Position bias, 90% intervals; relative to position 1",
        "Comparable: position 1, 2, 3.",
        "Assumed, because it cannot be checked",
    ):
        assert words in " ".join(done.out.split())
    assert max(map(len, done.out.splitlines())) <= 80
    assert done.err == f"written to {tmp_path / 'model'}\n"


def test_the_fit_is_judged_in_words(
    world: Path, marginal: tuple[Path, Done], capsys: pytest.CaptureFixture
) -> None:
    model, counts = load(marginal[0]), read_log(world / "early.parquet")
    training = model.fitted_.training
    for ratio, words in ((24.31, "chi2/df 24.31, df "), (None, "chi2/df unknown: too few")):
        checked = replace(training, checks={**training.checks, "chi2_per_df": ratio})
        model.fitted_ = replace(model.fitted_, training=checked)
        print_fit(model, counts, valid=False, quiet=True)
        assert words in capsys.readouterr().out


def test_warnings_are_told_as_notes_and_kept_for_programs(world: Path, tmp_path: Path) -> None:
    given = ["fit", world / "early.parquet", "--features", world / "features.parquet"]
    given += [*TRAINING, "--out", tmp_path / "model", "--valid", world / "early.parquet"]
    done = epiclick(*given)
    assert "epiclick: warning: " in done.err
    assert "queries of the validation set are in the training set too" in done.err
    assert "of the validation log" in done.out
    record = epiclick(*given, "--overwrite", "--json").record
    assert "queries of the validation set are in the training set too" in record["warnings"][0]
    assert record["trained_on"]["pairs"] == record["pairs"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_model_can_start_from_another_and_take_its_place(
    world: Path, marginal: tuple[Path, Done], tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(marginal[0], model)
    given = ["--features", world / "features.parquet", *TRAINING, "--init", model, "--out", model]
    given.append("--overwrite")
    assert epiclick("fit", world / "early.parquet", *given).code == 0
    before, after = load(marginal[0]).history_, load(model).history_
    # the same seed starts a new model in the same place
    assert after["log_likelihood"][0] > before["log_likelihood"][0]


@pytest.mark.parametrize(
    ("arguments", "words", "error_code"),
    [
        (["nowhere.csv"], "nowhere.csv", "file-missing"),
        (["LOG", "--features", "nowhere.csv"], "nowhere.csv", "file-missing"),
        (["LOG", "--features", "few.parquet"], "--missing-features drop", "missing-features"),
        (["LOG", "--estimator", "pointwise"], "needs features", "features-needed"),
        (
            ["LOG", "--estimator", "pointwise", "--samples", "9"],
            "--samples",
            "option-does-not-apply",
        ),
        (["LOG", "--hidden", "64,x"], "whole numbers such as 64,64,32", "not-a-number"),
        (["LOG", "--epochs", "0", "--level", "2"], "--epochs must", "invalid-parameter"),
        (["LOG", "--epochs", "0", "--level", "2"], "; --level must", "invalid-parameter"),
        (["LOG", "--anchor", "9"], "anchor 9", "unknown-context"),
        (["LOG", "--anchor", "first"], "Choose one of: 1; 2; 3", "unknown-context"),
        (["LOG", "--anchor", "1", "--estimator", "exact"], "marginal", "anchor-needs-marginal"),
        (["LOG", "--resume"], "model.checkpoint", "checkpoint-missing"),
        (["LOG", "--init", "nowhere"], "no model nowhere", "file-missing"),
        (["LOG", "--init", "MODEL", "--hidden", "8,4"], "features", "init-feature-mismatch"),
        (
            ["LOG", "--init", "MODEL", "--features", "FEATURES"],
            "hidden layers",
            "init-layer-mismatch",
        ),
        (["LOG", "--column", "position"], "position=slot", "malformed-option"),
        (["LOG", "--context", "devise,position"], "did you mean 'device'?", "unknown-column"),
    ],
)
def test_bad_input_gives_code_2_one_message_and_no_file(
    arguments: list[str],
    words: str,
    error_code: str | None,
    world: Path,
    marginal: tuple[Path, Done],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features = pd.read_parquet(world / "features.parquet")
    features[features["query_id"] < 50].to_parquet(tmp_path / "few.parquet")
    monkeypatch.chdir(tmp_path)
    own = {"LOG": world / "early.parquet", "FEATURES": world / "features.parquet"}
    own["MODEL"] = marginal[0]
    done = epiclick("fit", *(own.get(each, each) for each in arguments), "--out", "model")
    done.assert_refused(words, error_code)
    assert [p.name for p in tmp_path.iterdir()] == ["few.parquet"]


@pytest.mark.parametrize(
    ("out", "words", "error_code"),
    [
        ("logs/log.parquet", "log.parquet", "output-is-input"),
        ("logs", "log.parquet", "output-is-input"),
        ("logs/model", "is inside", "output-inside-input"),
        ("notes.txt", "something other than a model", "foreign-folder"),
        ("thesis", "something other than a model", "foreign-folder"),
        ("notes.txt/model", "--out notes.txt/model", "cannot-write"),
    ],
)
def test_out_is_refused_before_training(
    out: str,
    words: str,
    error_code: str | None,
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "logs").mkdir()
    shutil.copy(world / "early.parquet", tmp_path / "logs" / "log.parquet")
    (tmp_path / "thesis").mkdir()
    for name in ("notes.txt", "thesis/chapter.txt"):
        (tmp_path / name).write_text("years of work")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def trained(*_: object, **__: object) -> None:
        pytest.fail("training began")

    monkeypatch.setattr(EpistemicPBM, "fit", trained)
    monkeypatch.chdir(tmp_path)
    done = epiclick("fit", "logs", "--out", out)
    done.assert_refused(words, error_code)
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize("arguments", [[], ["--resume"], ["--init", "MODEL"]], ids=str)
def test_a_model_is_replaced_only_where_that_is_asked_for(
    arguments: list[str],
    world: Path,
    marginal: tuple[Path, Done],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tmp_path / "model"
    shutil.copytree(marginal[0], model)
    (tmp_path / "model.checkpoint").write_bytes(b"a run that was stopped")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.setattr("epiclick.data.readers.count_log", lambda *_: pytest.fail("a log was read"))
    given = [model if each == "MODEL" else each for each in arguments]
    done = epiclick("fit", world / "early.parquet", "--out", model, *given)
    done.assert_refused("--overwrite", "model-exists")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    # nothing but a model is replaced, whatever is asked for
    (model / "notes.txt").write_text("mine")
    done = epiclick("fit", world / "early.parquet", "--out", model, *given, "--overwrite")
    done.assert_refused("notes.txt", "foreign-files")
    assert (model / "notes.txt").read_text() == "mine"


def test_a_log_inside_the_model_is_not_deleted_with_it(
    world: Path, marginal: tuple[Path, Done], tmp_path: Path
) -> None:
    shutil.copytree(marginal[0], tmp_path / "model")
    log = tmp_path / "model" / "log.parquet"
    shutil.copy(world / "early.parquet", log)
    done = epiclick("fit", log, "--out", tmp_path / "model")
    done.assert_refused("log.parquet", "output-is-input")
    assert log.exists()


@pytest.fixture(scope="session")
def uninterrupted(world: Path) -> Path:
    out = world.parent / "uninterrupted"
    given = ["--features", world / "features.parquet", *LONG, "--out", out]
    assert epiclick("fit", world / "early.parquet", *given).code == 0
    return out


@pytest.fixture(scope="session")
def stopped(world: Path, uninterrupted: Path) -> tuple[Path, Done]:
    """A run that was stopped by Ctrl-C while it trained, and its words."""
    folder = world.parent / "stopped"
    given = ["--features", world / "features.parquet", *LONG, "--out", folder / "model"]
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(world.parent / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    command = [sys.executable, "-c", AS_A_PROGRAM, "fit", world / "early.parquet", *given]
    with subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            deadline = time.monotonic() + 120
            while not (folder / "model.checkpoint").exists():
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline, "no checkpoint was written"
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()  # does nothing to a process that has ended
    return folder, Done(process.returncode, out, err)


def test_ctrl_c_keeps_a_checkpoint_and_says_how_to_go_on(stopped: tuple[Path, Done]) -> None:
    folder, done = stopped
    assert done.code == 130
    assert done.out == ""
    assert done.err.startswith(f"epiclick: stopped; {folder / 'model'} was not written")
    assert str(folder / "model.checkpoint") in done.err
    assert "--resume" in done.err
    assert "Traceback" not in done.err
    assert [p.name for p in folder.iterdir()] == ["model.checkpoint"]


def test_a_resumed_run_ends_in_the_very_same_model(
    world: Path, stopped: tuple[Path, Done], uninterrupted: Path, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copy(stopped[0] / "model.checkpoint", tmp_path)
    given = ["--features", world / "features.parquet", *LONG, "--out", model]
    done = epiclick("fit", world / "early.parquet", *given, "--resume", "--json")
    assert done.record["epochs"] == 150
    for name in ("weights.safetensors", "queries.safetensors"):
        assert (model / name).read_bytes() == (uninterrupted / name).read_bytes()
    history, expected = load(model).history_, load(uninterrupted).history_
    pd.testing.assert_frame_equal(history.drop(columns="seconds"), expected.drop(columns="seconds"))
    # the first epochs are those of the stopped run, whose times no other run shares
    with safe_open(stopped[0] / "model.checkpoint", framework="numpy") as checkpoint:
        before = json.loads(checkpoint.metadata()["epiclick"])["history"]
    assert 0 < len(before) < 150
    assert history["seconds"][: len(before)].tolist() == [row["seconds"] for row in before]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize(
    ("log", "arguments", "words"),
    [
        ("early.parquet", ["--learning-rate", "0.1"], "differs in its settings"),
        ("early.parquet", ["--seed", "1"], "differs in its settings"),
        ("late.parquet", [], "differs in its log"),
    ],
)
def test_another_run_is_not_resumed(
    log: str,
    arguments: list[str],
    words: str,
    world: Path,
    stopped: tuple[Path, Done],
    tmp_path: Path,
) -> None:
    shutil.copy(stopped[0] / "model.checkpoint", tmp_path)
    given = ["--features", world / "features.parquet", *LONG, "--out", tmp_path / "model"]
    done = epiclick("fit", world / log, *given, *arguments, "--resume")
    done.assert_refused(words)
    assert [p.name for p in tmp_path.iterdir()] == ["model.checkpoint"]


def test_without_resume_a_run_starts_anew_and_says_so(
    world: Path, stopped: tuple[Path, Done], tmp_path: Path
) -> None:
    shutil.copy(stopped[0] / "model.checkpoint", tmp_path)
    given = ["--features", world / "features.parquet", *TRAINING, "--out", tmp_path / "model"]
    done = epiclick("fit", world / "early.parquet", *given)
    assert done.code == 0
    assert "is from a stopped run; this run starts over" in done.err
    assert "3 epochs in" in done.out
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_an_interrupt_before_training_writes_nothing(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("epiclick.data.readers.count_log", interrupted)
    done = epiclick("fit", world / "early.parquet", "--out", tmp_path / "model")
    assert done.code == 130
    assert "stopped; nothing was written" in done.err
    assert not list(tmp_path.iterdir())


def test_an_earlier_runs_checkpoint_is_not_taken_for_this_ones(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "model.checkpoint").write_bytes(b"an earlier run")
    monkeypatch.setattr(EpistemicPBM, "fit", interrupted)
    given = ["fit", world / "early.parquet", "--out", tmp_path / "model"]
    assert "nothing was written" in epiclick(*given).err
    assert "To continue, run the same command" in epiclick(*given, "--resume").err


def test_a_model_that_cannot_be_written_is_not_lost(
    world: Path, marginal: tuple[Path, Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise InputError("the disk is full.", code="cannot-write")

    given = ["--features", world / "features.parquet", *TRAINING]
    given += ["--out", tmp_path / "model"]
    with monkeypatch.context() as patch:
        patch.setattr(EpistemicPBM, "save", full)
        done = epiclick("fit", world / "early.parquet", *given)
    done.assert_refused("the disk is full.", "cannot-write")
    assert "the same command with --resume" in done.err
    assert epiclick("fit", world / "early.parquet", *given, "--resume").code == 0
    weights = "weights.safetensors"
    assert (tmp_path / "model" / weights).read_bytes() == (marginal[0] / weights).read_bytes()


def test_an_anchor_is_typed_as_the_contexts_are() -> None:
    rows = {"query_id": [1, 1], "doc_id": [1, 2], "device": ["a,b", "1"], "position": [1, 2]}
    table = pa.table({**rows, "displays": [5, 5], "clicks": [1, 1]})
    both = ClickCounts.from_table(table, context=("device", "position"))
    device = ClickCounts.from_table(table, context=("device",))
    position = ClickCounts.from_table(table)
    assert parse_anchor("2", position) == 2
    assert parse_anchor("a,b", device) == "a,b"
    assert parse_anchor("1", device) == "1"
    assert parse_anchor("1, 2", both) == ("1", 2)
    assert parse_anchor("None", both) is None
    assert parse_anchor("auto", both) == "auto"
    assert parse_anchor("top", position) == "top"


def test_help_shows_the_defaults_of_the_models() -> None:
    words = epiclick("fit", "--help").out
    assert "Example: epiclick fit clicks.parquet" in words
    text = " ".join(words.split())
    assert f"[default: {EPOCHS}, without features {STEPS_TO_MODE} (the paper's" in text
    assert f"[default: {EpistemicPBM().level}]" in text
    assert f"pointwise {PointwisePBM().batch_size}]" in text
    assert max(map(len, words.splitlines())) <= 80
    assert "[default: the model's]" in epiclick("evaluate", "--help").out


def test_the_command_line_starts_without_what_only_models_need() -> None:
    slow = ["jax", "pandas", "pyarrow", "scipy", "duckdb"]
    program = f"import sys, epiclick.cli.main; print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n"
