"""`epiclick demo`: what it shows, what it leaves, and that its commands are what it says."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from epiclick.cli import demo as verb
from epiclick.cli.demo import Sizes, Step, script_of, steps_of
from epiclick.data.leftovers import temporary

from .conftest import Done, epiclick

pytestmark = pytest.mark.slow

SMALL = ["--queries", 60, "--pages", 800, "--epochs", 2, "--seed", 3]

# a line for every call of a script, its words parted by tabs
TELL = 'epiclick() { for word in "$@"; do printf \'%s\\t\' "$word"; done; echo; }\n'


def calls(script: str) -> list[list[str]]:
    """The words of every call of epiclick, as a shell understands them."""
    done = subprocess.run(["sh", "-c", TELL + script], capture_output=True, text=True, check=True)
    return [line.rstrip("\t").split("\t") for line in done.stdout.splitlines()]


def shown(out: str) -> str:
    """The commands that were printed, as a script."""
    found = re.findall(r"^\$ ((?:.*\\\n)*.*)$", out, re.M)
    return "\n".join(found)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Done]]:
    """A folder with a small demonstration in it, and what was said."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = epiclick("demo", *SMALL)
        assert done.code == 0, done.err
        yield folder / "demo", done


def test_it_ends_with_the_page_and_what_to_do_next(made: tuple[Path, Done]) -> None:
    folder, done = made
    assert (folder / "report.html").stat().st_size > 50_000
    assert "The report is demo/report.html" in done.out
    assert "epiclick fit clicks.parquet" in done.err
    assert all(len(line) <= 80 for line in verb.NEXT.splitlines())
    said = re.sub(r"\s+", " ", done.out)
    for words in (
        *("Backtest: predicted", "true position biases, 50% intervals contain"),
        *("true relevances, 50% intervals contain", "Verdict:", "True clicks per page:"),
        "For every 100 times that a result at position 1 is looked at",
    ):
        assert words in said
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "A simulated click log" in page
    assert 'class="missing"' not in page


def test_every_step_is_shown_as_its_command(made: tuple[Path, Done]) -> None:
    folder, done = made
    printed = calls(shown(done.out))
    assert [words[0] for words in printed] == [
        *("simulate", "count", "count", "fit", "select"),
        *("evaluate", "fit", "export", "compare", "report"),
    ]
    assert printed == calls((folder / "commands.sh").read_text(encoding="utf-8"))
    assert all(len(line) <= 80 for line in done.out.splitlines() if line.startswith(("$", "  --")))


def test_the_commands_typed_by_hand_write_the_same_files(
    made: tuple[Path, Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, done = made
    monkeypatch.chdir(tmp_path)
    for words in calls(shown(done.out)):
        by_hand = epiclick(*words)
        assert by_hand.code == 0, by_hand.err
        assert by_hand.out.splitlines()[0] in done.out
    theirs, ours = (
        {file.relative_to(each): file for file in each.rglob("*") if file.is_file()}
        for each in (tmp_path / "demo", folder)
    )
    assert {Path("commands.sh"), *theirs} == set(ours)
    for name, file in theirs.items():
        # how long training took differs, all else is the same to the bit
        assert timeless(file) == timeless(ours[name]), name


def timeless(file: Path) -> object:
    """What a file holds, but for seconds, and the digest of what has them."""
    content = file.read_bytes()
    if file.name == "report.html":
        return re.sub(rb"[\d.]+ s\b", b"", content)
    if file.name in ("model.json", "selection.json"):
        note = json.loads(content)
        return json.dumps(without(note, {"seconds", "digest"}))
    return content


def without(value: object, names: set[str]) -> object:
    if isinstance(value, dict):
        return {name: without(each, names) for name, each in value.items() if name not in names}
    return [without(each, names) for each in value] if isinstance(value, list) else value


def test_a_program_gets_one_object_and_other_files_stay(made: tuple[Path, Done]) -> None:
    folder, _ = made
    (folder / "notes.txt").write_text("mine")
    before = (folder / "learned.run").read_bytes()
    done = epiclick("demo", *SMALL, "--json")
    assert done.record == {"schema_version": 1, "report": "demo/report.html"}
    assert done.err == ""
    assert (folder / "notes.txt").read_text() == "mine"
    assert (folder / "learned.run").read_bytes() == before
    (folder / "notes.txt").unlink()


@pytest.mark.parametrize("name", ["world", "model", "ranker"])
def test_files_of_the_user_within_stay_and_no_step_begins(
    made: tuple[Path, Done], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = made
    mine = folder / name / "notes.txt"
    mine.write_text("mine")
    monkeypatch.setattr(verb, "run", lambda *_, **__: pytest.fail("a step began"))
    done = epiclick("demo", *SMALL)
    assert done.code == 2
    assert f"demo/{name} " in done.err
    assert "notes.txt" in done.err
    assert mine.read_text() == "mine"
    mine.unlink()


@pytest.fixture
def two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a world and its counts."""

    def few(out: Path, sizes: Sizes, epochs: int | None = None) -> tuple[Step, ...]:
        return steps_of(out, sizes, epochs)[:2]

    monkeypatch.setattr(verb, "steps_of", few)


def test_quiet_prints_the_last_result_and_the_page(two_steps: None, tmp_path: Path) -> None:
    done = epiclick("demo", *SMALL, "--quiet", "--out", tmp_path / "here")
    assert done.err == ""
    assert "Click rate by position" in done.out
    assert "Position bias of this world" not in done.out
    assert "$ epiclick" not in done.out
    assert done.out.endswith(
        f"The report is {tmp_path / 'here' / 'report.html'}: open it in a browser.\n"
    )


def test_ctrl_c_leaves_whole_files_and_says_how_to_go_on(
    two_steps: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("epiclick.cli.options.read_counts", stop)
    out = tmp_path / "stopped"
    done = epiclick("demo", *SMALL, "--out", out)
    assert done.code == 130
    assert "steps 1 to 1 are done" in done.err
    assert f"{out / 'commands.sh'} from step 2 on (count)" in done.err
    assert sorted(file.name for file in out.iterdir()) == ["commands.sh", "world"]
    # and it can be started again in the same folder
    monkeypatch.undo()
    monkeypatch.setattr(verb, "steps_of", lambda *given: steps_of(*given)[:2])
    assert epiclick("demo", *SMALL, "--out", out).code == 0
    assert (out / "train.parquet").is_file()


@pytest.mark.parametrize(
    ("name", "error_code"),
    [("file", "not-a-folder"), ("foreign", "foreign-files"), ("file/below", "cannot-write")],
)
def test_a_folder_of_others_is_left_alone(name: str, error_code: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "foreign" / "world").mkdir(parents=True)
    (tmp_path / "foreign" / "commands.sh").write_text("rm -r /\n")
    before = {file: file.is_file() and file.read_bytes() for file in tmp_path.rglob("*")}
    done = epiclick("demo", *SMALL, "--out", tmp_path / name)
    done.assert_refused(f"--out {tmp_path / name}", error_code)
    assert done.err.count("\n") == 1
    assert before == {file: file.is_file() and file.read_bytes() for file in tmp_path.rglob("*")}


def test_a_folder_with_blanks_is_quoted(tmp_path: Path) -> None:
    steps = steps_of(Path("my demo; it's"), Sizes(60, 800, 3))
    assert calls(script_of(steps)) == [list(step.arguments) for step in steps]
    assert shlex.quote("my demo; it's/world") in steps[0].typed


def test_what_a_killed_demo_left_of_its_script_does_not_refuse_the_next(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    out.mkdir()
    left = temporary(out / verb.SCRIPT)
    left.touch()
    ours, start = f"-{os.getpid()}-", re.compile(r"-\d+\.(?=[0-9a-f]{8}\.part$)")
    # a process of this number started at another time: it has ended
    killed = left.rename(left.with_name(start.sub("-1.", left.name)))
    assert ours in killed.name
    steps = steps_of(out, Sizes(60, 800, 3))
    verb.prepare(out, steps)
    assert [path.name for path in out.iterdir()] == [verb.SCRIPT]
