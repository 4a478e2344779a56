"""What all verbs share: help, colours, completion, JSON, and answers to calls with mistakes."""

import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import typer

import epiclick as package
from epiclick.cli.main import app
from epiclick.cli.options import GivenOptions

from .conftest import Done, epiclick

pytestmark = pytest.mark.slow

VERBS = typer.main.get_command(app).commands
READERS = (
    *(
        "inspect",
        "count",
        "fit",
        "select",
        "relevance",
        "evaluate",
        "compare",
        "plan",
        "interleave",
    ),
    *("export", "report"),
)
COLOURS = re.compile(r"\x1b\[[0-9;]*(3|4|9|10)[0-9]")
AS_A_PROGRAM = [sys.executable, "-m", "epiclick"]


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_and_has_an_example_that_can_be_typed(
    verb: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    done = epiclick(verb, "--help")
    assert (done.code, done.err) == (0, "")
    assert max(map(len, done.out.splitlines())) <= width
    options = [name for param in VERBS[verb].params for name in param.opts if name[:2] == "--"]
    shown = [name for param in VERBS[verb].params if not param.hidden for name in param.opts]
    assert [name for name in shown if name[:2] == "--" and name not in done.out] == []
    _, example = done.out.split(f"Example: epiclick {verb} ")
    typed = shlex.split(" ".join(example.split("\n\n")[0].split()))
    assert [word for word in typed if word.startswith("--") and word not in options] == []
    assert {"--json", "--quiet"} <= set(options)


def test_the_bare_command_shows_all_verbs() -> None:
    done = epiclick()
    assert done.code == 2
    assert all(f"\n  {verb} " in done.out for verb in VERBS)
    assert "Example: epiclick fit" in done.out
    assert done.out == epiclick("--help").out
    assert epiclick("--version").out == f"epiclick {package.__version__}\n"
    assert epiclick("--version", "fit").code == 0


@pytest.mark.parametrize("verb", READERS)
def test_verbs_that_read_logs_have_all_options_of_reading(verb: str) -> None:
    names = {param.name for param in VERBS[verb].params}
    assert set(GivenOptions.__dataclass_fields__) <= names
    assert "given" not in names


def on_a_terminal(*command: str, **variables: str) -> str:
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment = {**kept, "TERM": "xterm-256color", "COLUMNS": "80", **variables}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    written = b""
    try:
        while block := os.read(ours, 4096):
            written += block
    except OSError:  # the other end was closed
        pass
    os.close(ours)
    assert process.wait(timeout=30) == 0
    return written.decode()


TABLE = "from epiclick.cli.console import print_table as p; p('T', ['a'], [['1']])"
BAR = "from epiclick.cli.console import progress\nwith progress('counting', quiet=QUIET): pass"


def test_styles_are_for_terminals() -> None:
    helped = [*AS_A_PROGRAM, "--help"]
    assert "\x1b[1m" in on_a_terminal(*helped)
    assert "\x1b[" not in on_a_terminal(*helped, TERM="dumb")
    assert "\x1b[" not in subprocess.run(helped, capture_output=True, text=True).stdout
    table = [sys.executable, "-c", TABLE]
    assert "\x1b[" in on_a_terminal(*table)
    assert not COLOURS.search(on_a_terminal(*table, NO_COLOR="1"))
    assert not COLOURS.search(on_a_terminal(*helped, NO_COLOR="1"))
    assert COLOURS.search("\x1b[1;32m")
    plain = {**os.environ, "TERM": "xterm-256color"}
    assert "\x1b[" not in subprocess.run(table, capture_output=True, text=True, env=plain).stdout


def test_progress_is_for_terminals() -> None:
    shown, hushed = (
        [sys.executable, "-c", BAR.replace("QUIET", quiet)] for quiet in ("False", "True")
    )
    assert "counting" in on_a_terminal(*shown)
    assert on_a_terminal(*hushed) == ""
    piped = subprocess.run(shown, capture_output=True, text=True)
    assert (piped.stdout, piped.stderr) == ("", "")


def test_output_that_nobody_reads_is_no_error() -> None:
    with subprocess.Popen(
        [*AS_A_PROGRAM, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()  # as head does, sooner or later
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (["p"], {"plan", "position-bias"}),
        (["fit", "--ep"], {"--epochs"}),
        (["fit", "log.parquet", "--estimator", "m"], {"marginal"}),
        (["export", "model", "--to", "q"], {"qrels", "quepid"}),
        (["reproduce", "--preset", ""], {"quick", "tenth", "paper"}),
    ],
)
def test_words_are_completed_without_loading_jax(typed: list[str], found: set[str]) -> None:
    program = (
        "import atexit, sys\n"
        "slow = ['jax', 'pandas', 'pyarrow', 'scipy', 'duckdb']\n"
        "atexit.register(lambda: print(*(m for m in slow if m in sys.modules), file=sys.stderr))\n"
        "sys.argv = ['epiclick']\n"
        "from epiclick.cli.main import run; run()"
    )
    line = {"COMP_WORDS": " ".join(["epiclick", *typed]), "COMP_CWORD": str(len(typed))}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, **line, "_EPICLICK_COMPLETE": "complete_bash"},
    )
    assert set(done.stdout.split()) == found
    assert done.stderr.strip() == ""


def test_completion_can_be_installed() -> None:
    assert {"--install-completion", "--show-completion"} <= set(epiclick("--help").out.split())


def test_json_is_one_object_with_its_warnings(
    world: Path, marginal: tuple[Path, Done], tmp_path: Path
) -> None:
    model, log, features = marginal[0], world / "late.parquet", world / "features.parquet"
    calls = [
        ["simulate", "--out", tmp_path / "w", "--queries", 20, "--pages", 50],
        ["count", log],
        ["inspect", log],
        ["select", log, "--models", "pbm,ubm"],
        ["position-bias", model],
        ["drift", model, model, "--features", features],
        ["relevance", model, "--features", features, "--out", tmp_path / "r.parquet"],
        ["evaluate", model, log, "--features", features],
        ["compare", model, "--ranking", f"late={log}", "--features", features],
        ["plan", model, *two_rankings(world, tmp_path), "--features", features],
        ["interleave", *two_rankings(world, tmp_path), "--out", tmp_path / "p.parquet"],
        ["export", model, "--to", "qrels", "--features", features, "--out", tmp_path / "q.txt"],
        ["report", model, log, "--features", features, "--out", tmp_path / "r.html"],
    ]
    for call in calls:
        done = epiclick(*call, "--json")
        assert done.err == "", call[0]
        assert (done.record["schema_version"], type(done.record["warnings"])) == (1, list)
        assert epiclick(*call, "--quiet").err == "", call[0]
    assert type(marginal[1].record["warnings"]) is list


def two_rankings(world: Path, folder: Path) -> list[str]:
    """Rankings by a feature each, as options."""
    features = pd.read_parquet(world / "features.parquet")
    for name in ("f0", "f1"):
        by = features.groupby("query_id")[name].rank(method="first", ascending=False)
        table = features[["query_id", "doc_id"]].assign(position=by.astype(int))
        table[by <= 3].to_parquet(folder / f"{name}.parquet")
    return [
        word for name in ("f0", "f1") for word in ("--ranking", str(folder / f"{name}.parquet"))
    ]


def clicked_pages(rankings: list[str], folder: Path) -> Path:
    """Interleaved pages with some clicks."""
    assert epiclick("interleave", *rankings, "--out", folder / "p.parquet").code == 0
    pages = pd.read_parquet(folder / "p.parquet")
    pages.assign(click=pages["page_id"] % 2).to_parquet(folder / "clicked.parquet")
    return folder / "clicked.parquet"


@pytest.mark.parametrize("width", [60, 80])
def test_results_fit_the_terminal(
    width: int,
    world: Path,
    marginal: tuple[Path, Done],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.chdir(marginal[0].parent)
    log, features = world / "late.parquet", world / "features.parquet"
    given = ["--features", features]
    for call in (
        ["simulate", "--out", tmp_path / "w", "--queries", 20, "--pages", 50],
        ["count", log, "--context", "device,position"],
        ["select", log, "--models", "pbm,ubm"],
        ["position-bias", "marginal"],
        ["drift", "marginal", "marginal", *given],
        ["evaluate", "marginal", log, *given, "--train", world / "early.parquet", "--by", "device"],
        ["compare", "marginal", "--ranking", f"late={log}", "--ranking", f"other={log}", *given],
        ["plan", "marginal", *two_rankings(world, tmp_path), *given, "--clicks", log],
        ["interleave", *two_rankings(world, tmp_path), "--out", tmp_path / "p.parquet"],
        ["interleave", "--clicks", clicked_pages(two_rankings(world, tmp_path), tmp_path)],
    ):
        done = epiclick(*call)
        assert done.code == 0, done.err
        assert max(map(len, done.out.splitlines())) <= width, done.out
        assert "…" not in done.out


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a log whose columns are easily mistyped."""
    rows = {"query_id": [1, 1], "doc_id": [1, 2], "slot": [1, 2], "click": [1, 0]}
    pd.DataFrame({**rows, "device": ["phone", "desk"]}).to_csv(tmp_path / "clicks.csv", index=False)
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


FIT = "fit clicks.csv --out m"
SLOT = "count clicks.csv --column position=slot"


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("fitt", "there is no verb 'fitt' (did you mean 'fit'?)"),
        ("--versoin", "epiclick has no option --versoin (did you mean '--version'?)"),
        (f"{FIT} --epoch 3", "fit has no option --epoch (did you mean '--epochs'?)"),
        (f"{FIT} --estimator marginl", "not 'marginl' (did you mean 'marginal'?)"),
        (f"{FIT} --epochs three", "--epochs three: write a whole number"),
        (f"{FIT} --level much", "--level much: write a number"),
        (
            f"{FIT} --level 90 --batch-size 0",
            "--batch-size must be at least 1, not 0; --level must",
        ),
        (f"{FIT} --hidden 64,x", "--hidden 64,x: write whole numbers such as 64,64,32"),
        ("fit clicks.csv", "fit needs --out, as in: epiclick fit clicks.parquet"),
        ("fit --out m", "fit needs LOG, as in: epiclick fit clicks.parquet"),
        ("count click.csv", "no file at click.csv (did you mean 'clicks.csv'?)"),
        ("count clicks.csv --column positon=slot", "'positon' (did you mean 'position'?)"),
        ("count clicks.csv --column position=slto", "(did you mean 'slot'?)"),
        (f"{SLOT} --context devise", "'devise' is not in the log (did you mean 'device'?)"),
        (f"{SLOT} --where devise='phone'", "devise (did you mean 'device'?)"),
        (f"{SLOT} --part devise", "(did you mean 'device'?)"),
        (f"{SLOT} --ids strng", "not 'strng' (did you mean 'string'?)"),
        (f"{SLOT} --max-bad few", "--max-bad few: write a share such as 0.1% or 0.001"),
        (f"{SLOT} --out counts", "name a .parquet file, such as counts.parquet"),
        ("select clicks.csv --column position=slot --models pmb", "(did you mean 'pbm'?)"),
        ("position-bias modl", "there is no model modl (did you mean 'model'?)"),
        ("position-bias model --kind bays", "not 'bays' (did you mean 'bayes'?)"),
        ("position-bias model more", "position-bias: got unexpected extra argument"),
        ("export model --to lightgmb --out x", "(did you mean 'lightgbm'?)"),
        ("export model --to run --rank-by thomson --out x", "(did you mean 'thompson'?)"),
        (
            "evaluate model clicks.csv --truth modl",
            "--truth modl does not exist (did you mean 'model'?)",
        ),
        ("compare model --ranking a=b --weights trafic", "(did you mean 'traffic'?)"),
        ("calibrate --families dens", "(did you mean 'dense'?)"),
        ("calibrate --methods margnal", "(did you mean 'marginal'?)"),
        ("benchmark --out B --models pmb", "(did you mean 'pbm'?)"),
        ("benchmark --out B --worlds sdnb", "(did you mean 'sdbn'?)"),
        ("reproduce --out R --preset quik", "(did you mean 'quick'?)"),
        ("reproduce --out R --dataset mlsr", "(did you mean 'mslr'?)"),
        ("simulate --out w --users pmb", "(did you mean 'pbm'?)"),
        ("simulate --out w --dataset modl", "at modl (did you mean 'model'?)"),
    ],
)
def test_mistakes_are_answered_with_the_nearest(typed: str, words: str, shop: Path) -> None:
    before = sorted(shop.rglob("*"))
    done = epiclick(*shlex.split(typed))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("epiclick: ")
    assert words in done.err
    assert "Traceback" not in done.err
    assert sorted(shop.rglob("*")) == before
