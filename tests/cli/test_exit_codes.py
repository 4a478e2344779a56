"""Every way a call can end: its exit code, one message, no traceback, nothing half-written."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import epiclick as package
from epiclick.cli.console import written_to
from epiclick.cli.exit_codes import exit_code
from epiclick.errors import REFUSALS, InputError, refusal_of

from .conftest import Done, epiclick

pytestmark = pytest.mark.slow

AS_A_PROGRAM = [sys.executable, "-m", "epiclick"]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small log and a file named as a folder might be; the current one."""
    rows = {"query_id": [1, 1, 2], "doc_id": [1, 2, 1], "position": [1, 2, 1], "click": [1, 0, 0]}
    pd.DataFrame(rows).to_csv(tmp_path / "clicks.csv", index=False)
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def typed(shop: Path, world: Path, marginal: tuple[Path, Done]) -> dict[str, list[object]]:
    """A call of each verb that writes a file; its target comes last."""
    features = ["--features", world / "features.parquet"]
    lists = pd.read_parquet(world / "features.parquet")[["query_id", "doc_id"]]
    rankings: list[object] = []
    for name in ("new", "live"):
        lists = lists.iloc[::-1]
        top = lists.assign(position=lists.groupby("query_id").cumcount() + 1)
        top[top["position"] <= 3].to_parquet(shop / f"{name}.parquet")
        rankings += ["--ranking", f"{name}={shop / name}.parquet"]
    return {
        "simulate": ["simulate", "--queries", 20, "--pages", 50, "--out", "out"],
        "count": ["count", "clicks.csv", "--out", "out.parquet"],
        "relevance": ["relevance", marginal[0], *features, "--out", "out.parquet"],
        "export": ["export", marginal[0], "--to", "qrels", *features, "--out", "out.txt"],
        "report": ["report", marginal[0], *features, "--out", "out.html"],
        "drift": ["drift", marginal[0], marginal[0], "--out", "out.parquet"],
        "select": ["select", world / "clicks.parquet", "--models", "pbm", "--out", "out.json"],
        "plan": ["plan", marginal[0], *rankings, *features, "--out", "out.json"],
        "interleave": ["interleave", *rankings, "--out", "out.parquet"],
    }


VERBS = (
    *("simulate", "count", "relevance", "export", "report", "drift", "select", "plan"),
    "interleave",
)


def is_one_message(done: Done) -> bool:
    """Whether all that was said is one message, which says what to do."""
    return (
        done.out == ""
        and done.err.count("epiclick: ") == 1
        and "Traceback" not in done.err
        and done.err.rstrip().endswith((".", "?"))
    )


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (errno.ENOSPC, 1, "the disk is full. Free some space"),
        (errno.EFBIG, 1, "ulimit -f"),
        (errno.EROFS, 2, "the file system is read-only. Name another place"),
    ],
)
@pytest.mark.parametrize("verb", VERBS)
def test_what_cannot_be_written_is_named_and_leaves_nothing(
    verb: str,
    number: int,
    code: int,
    words: str,
    typed: dict[str, list[object]],
    shop: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replace = os.replace

    def full(source: Any, target: Any) -> None:
        if not Path(target).resolve().is_relative_to(shop):
            return replace(source, target)  # the cache of features has another place
        raise OSError(number, os.strerror(number), os.fspath(source), None, os.fspath(target))

    before = sorted(shop.rglob("*"))
    monkeypatch.setattr(os, "replace", full)
    done = epiclick(*typed[verb], "--quiet")
    assert (done.code, is_one_message(done)) == (code, True), done.err
    assert f"{typed[verb][-1]} cannot be written: " in done.err
    assert words in done.err
    assert sorted(shop.rglob("*")) == before


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("file/{}", "is not a writable folder"),
        ("{}" + "x" * 300, "the name is too long. Choose a shorter one"),
        ("y" * 235 + "{}", "the name is too long"),
        (("z" * 200 + "/") * 30 + "{}", "the name is too long"),
    ],
)
@pytest.mark.parametrize("verb", VERBS)
def test_a_bad_place_is_refused_before_any_work(
    verb: str,
    place: str,
    words: str,
    typed: dict[str, list[object]],
    shop: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("epiclick.api.load_model", lambda _: pytest.fail("work was done"))
    monkeypatch.setattr(package, "simulate", lambda **_: pytest.fail("work was done"))
    before = sorted(shop.rglob("*"))
    *call, out = typed[verb]
    stem, suffix = os.path.splitext(str(out))
    done = epiclick(*call, place.format(stem) + suffix, "--quiet")
    assert (done.code, is_one_message(done)) == (2, True), done.err
    assert words in done.err
    assert len(done.err) < 600
    assert sorted(shop.rglob("*")) == before


@pytest.mark.parametrize(
    "call",
    [
        ["count", "x" * 300 + ".parquet"],
        ["fit", "x" * 300 + ".parquet", "--out", "model"],
        ["fit", "clicks.csv", "--out", "x" * 300],
        ["position-bias", "x" * 300],
        ["compare", "x" * 300, "--ranking", "a=b.csv"],
        ["calibrate", "--out", "x" * 300],
        ["reproduce", "--out", "x" * 300],
        ["demo", "--out", "x" * 300],
        ["simulate", "--out", "w", "--dataset", "x" * 300],
    ],
    ids=lambda call: call[0],
)
def test_names_that_are_too_long_get_a_message(call: list[str], shop: Path) -> None:
    done = epiclick(*call)
    assert (done.code, is_one_message(done)) == (2, True), done.err
    assert "too long" in done.err


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "simulate"])
def test_a_pipe_is_not_replaced_by_a_file(
    verb: str, typed: dict[str, list[object]], shop: Path
) -> None:
    os.mkfifo(shop / str(typed[verb][-1]))
    done = epiclick(*typed[verb], "--quiet")
    assert (done.code, is_one_message(done)) == (2, True), done.err
    assert "is a device or a pipe" in done.err
    assert (shop / str(typed[verb][-1])).is_fifo()


def test_a_folder_that_was_deleted_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for call in (["count", "clicks.csv", "--out", "c.parquet"], ["simulate", "--out", "w"]):
        done = epiclick(*call)
        assert (done.code, is_one_message(done)) == (2, True), done.err
        assert "the current folder no longer exists" in done.err


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["count", ""], "count: an argument is empty; is a shell variable not set?"),
        (["count", "clicks.csv", "--out", ""], "count: --out is empty"),
        (["count", "clicks.csv", "--out="], "count: --out is empty"),
        (["count", "clicks.csv", "--context", " "], "count: --context is empty"),
        (["count", "a\0b.csv"], "count: an argument contains a NUL character"),
        (["fit", "clicks.csv", "--out", ""], "fit: --out is empty"),
        (["fit", "clicks.csv", "--features", "", "--out", "m"], "fit: --features is empty"),
        (["position-bias", ""], "position-bias: an argument is empty"),
        (["simulate", "--out", ""], "simulate: --out is empty"),
        (["demo", "--out", ""], "demo: --out is empty"),
        ([""], "there is no verb ''"),
        (["count", "\udcff.csv"], r"no file at \udcff.csv"),
        (["count", "clicks.csv", "--out", "\udcff.parquet"], "is not UTF-8"),
        (["simulate", "--queries", "20", "--pages", "50", "--out", "\udcff"], "is not UTF-8"),
        (["demo", "--out", "\udcff"], "is not UTF-8"),
    ],
)
def test_odd_arguments_are_answered(call: list[str], words: str, shop: Path) -> None:
    before = sorted(shop.rglob("*.*"))
    done = epiclick(*call, *(["--quiet"] if call != [""] else []))
    assert done.code == 2
    assert words in done.err
    assert is_one_message(done) or call == [""], done.err
    assert sorted(shop.rglob("*.*")) == before


def test_json_that_is_nested_too_deeply_is_refused(
    shop: Path, marginal: tuple[Path, Done], world: Path
) -> None:
    deep = shop / "deep.json"
    deep.write_text("[" * 100_000)
    damaged = shop / "world"
    damaged.mkdir()
    (damaged / "truth.json").write_text("[" * 100_000)
    (damaged / "relevance.parquet").write_bytes((world / "relevance.parquet").read_bytes())
    log, features = world / "late.parquet", world / "features.parquet"
    for call in (
        ["fit", "clicks.csv", "--out", "m", "--position-bias", deep],
        ["reproduce", "--out", "R", "--rates", deep],
        ["evaluate", marginal[0], log, "--features", features, "--truth", damaged],
    ):
        done = epiclick(*call, "--quiet")
        assert (done.code, "Traceback" in done.err) == (2, False), done.err
        assert done.err.startswith("epiclick: ")


def raising(error: BaseException) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (
            PermissionError(errno.EACCES, "Permission denied", "log.csv"),
            2,
            "log.csv cannot be used",
        ),
        (OSError(errno.EMFILE, "Too many open files"), 1, "ulimit -n"),
        (OSError(errno.EIO, "Input/output error", "log.csv"), 1, "Check the disk"),
        (OSError(errno.ENOSPC, "No space left on device", "standard output"), 1, "is incomplete."),
        (OSError("no number"), 1, "no number"),
        (
            FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"),
            1,
            "set TMPDIR",
        ),
        (BrokenPipeError(), 141, ""),
        (RuntimeError("IO Error: Could not write: No space left on device"), 1, "disk is full"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes."), 1, "out of memory"),
        (MemoryError(), 1, "out of memory"),
        (RuntimeError("Out of Memory Error: Failed to allocate block"), 1, "out of memory"),
        (RuntimeError("can't start new thread"), 1, "ulimit -u"),
        (RuntimeError("launch: Resource temporarily unavailable"), 1, "ulimit -u"),
        (RuntimeError("std::bad_alloc"), 1, "out of memory"),
        (ImportError("x.so: failed to map segment from shared object"), 1, "out of memory"),
        (KeyError("theta"), 70, "internal error: KeyError: 'theta' (epiclick "),
        (AssertionError(), 70, "internal error: AssertionError (epiclick "),
        (RecursionError("too deep"), 70, "EPICLICK_TRACEBACK=1"),
        (EOFError("cut off"), 70, "internal error: EOFError"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else None,
)
def test_errors_have_their_codes(
    error: Exception, code: int, words: str, capsys: pytest.CaptureFixture
) -> None:
    assert exit_code(raising(error)) == code
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
    assert said == "" or said.startswith("epiclick: ")


def test_the_traceback_can_be_asked_for(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPICLICK_TRACEBACK", "1")
    assert exit_code(raising(KeyError("theta"))) == 70
    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last)")
    assert "\nepiclick: internal error: KeyError" in said


def test_no_file_may_be_open_but_the_streams(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        assert exit_code(raising(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))) == 1
    assert "ulimit -n" in capsys.readouterr().err


def test_a_refusal_has_the_code_of_what_is_behind_it() -> None:
    full, missing = (
        OSError(number, os.strerror(number)) for number in (errno.ENOSPC, errno.ENOENT)
    )
    for behind, code in ((full, 1), (missing, 2), (ValueError("bad"), 2)):
        error = InputError("the model cannot be written", code="cannot-write")
        error.__cause__ = InputError("inner", code="inner")
        error.__cause__.__cause__ = behind
        assert exit_code(raising(error)) == code
    assert refusal_of(ValueError("File too large (os error 27)")) is REFUSALS[errno.EFBIG]
    assert refusal_of(ValueError("clicks must not exceed displays")) is None
    # what Arrow says of damage is an OSError without a number: the input is bad, not the machine
    damaged = InputError("counts.parquet is damaged", code="damaged-file")
    damaged.__cause__ = OSError("Unexpected end of stream")
    assert refusal_of(damaged) is None


def test_what_another_file_refuses_is_not_blamed_on_the_output(tmp_path: Path) -> None:
    out = tmp_path / "out" / "r.parquet"
    with pytest.raises(PermissionError), written_to(out):
        raise PermissionError(errno.EACCES, "Permission denied", "/elsewhere/features.parquet")
    with pytest.raises(InputError, match="cannot be written: permission denied"), written_to(out):
        raise PermissionError(errno.EACCES, "Permission denied", str(out.parent))
    with pytest.raises(OSError, match="open files"), written_to(out):
        raise OSError(errno.EMFILE, "Too many open files")


def test_every_code_is_documented() -> None:
    page = Path(__file__).parents[2] / "docs" / "exit-codes.md"
    rows = [line.split("|")[1].strip() for line in page.read_text().splitlines() if line[:1] == "|"]
    codes = {refusal.code for refusal in REFUSALS.values()}
    assert {"0", *map(str, codes), "70", "130", "141", "143"} <= set(rows)


def shell(line: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A call by a shell, which can close streams."""
    command = ["sh", "-c", f'"$@" {line}', "sh", *AS_A_PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_output_that_is_lost_is_no_success(shop: Path) -> None:
    full = shell("> /dev/full", "count", "clicks.csv", "--json")
    assert full.returncode == 1
    assert full.stderr == (
        "epiclick: standard output cannot be written: the disk is full. Free some space, or name "
        "another place. What was printed is incomplete.\n"
    )
    closed = shell(">&-", "count", "clicks.csv", "--out", "counts.parquet")
    assert closed.returncode == 2
    assert closed.stderr.startswith("epiclick: standard output is closed")
    assert not (shop / "counts.parquet").exists()


def test_notes_that_are_lost_are_no_failure(shop: Path) -> None:
    for line in ("2>&-", "2> /dev/full", "<&- 2>&-"):
        done = shell(line, "count", "clicks.csv", "--out", "counts.parquet")
        assert (done.returncode, done.stderr) == (0, ""), line
        assert "3 displays" in done.stdout
        assert "written to" not in done.stdout  # where print sends what has no stream
        assert pd.read_parquet(shop / "counts.parquet")["displays"].sum() == 3
        (shop / "counts.parquet").unlink()


def test_names_that_are_not_utf8_can_be_printed(shop: Path) -> None:
    command = [*map(os.fsencode, AS_A_PROGRAM), b"count", b"\xff.csv"]
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert done.returncode == 2
    assert b"no file at \\udcff.csv" in done.stderr
