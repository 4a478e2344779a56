"""`epiclick fit` with position bias from elsewhere, and beside randomised pages."""

from pathlib import Path

import pandas as pd
import pytest

from epiclick.api import load
from epiclick.cli.fit import print_fit
from epiclick.data.readers import read_log

from .conftest import TRAINING, Done, epiclick

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def inputs(world: Path) -> Path:
    """A log whose late pages are said to be randomised, and tables of position bias."""
    early, late = (pd.read_parquet(world / f"{name}.parquet") for name in ("early", "late"))
    folder = world.parent / "checks"
    folder.mkdir()
    log = pd.concat([early.assign(random=False), late.assign(random=True)])
    log.to_parquet(folder / "log.parquet")
    (folder / "bias.csv").write_text("position,mean,low,high\n1,1,,\n2,0.5,0.3,0.7\n3,0.25,,\n")
    (folder / "wrong.csv").write_text("position,mean\n2,0.5\n2,0.4\n3,1.5\n")
    return folder


@pytest.fixture(scope="module")
def done(world: Path, inputs: Path) -> tuple[Path, Done]:
    out = inputs / "model"
    given = ["--features", world / "features.parquet", *TRAINING, "--randomised", "random"]
    given += ["--position-bias", inputs / "bias.csv", "--out", out, "--json"]
    return out, epiclick("fit", inputs / "log.parquet", *given)


def test_json_tells_what_was_given_and_compared(
    world: Path, done: tuple[Path, Done], marginal: tuple[Path, Done]
) -> None:
    record = done[1].record
    early, late = (pd.read_parquet(world / f"{name}.parquet") for name in ("early", "late"))
    # the randomised pages were kept out of the fit
    assert (record["displays"], record["clicks"]) == (len(early), early["click"].sum())
    compared = record["identifiability"]["randomised"]
    assert (compared["displays"], compared["clicks"]) == (len(late), late["click"].sum())
    assert [row["position"] for row in compared["by_position"]] == [1, 2, 3]
    rate = late.groupby("position")["click"].mean()
    assert compared["by_position"][1]["randomised"] == pytest.approx(rate[2] / rate[1])
    assert [row["how"] for row in record["given_bias"]] == ["prior", "fixed"]
    assert record["position_bias"][2]["mean"] == pytest.approx(0.25, abs=1e-3)
    assert record["posterior"]["pareto_k"] is not None
    assert [row["position"] for row in record["posterior"]["by_position"]] == [2]
    # neither is reported if not asked for
    plain = marginal[1].record
    assert plain["given_bias"] is None
    assert "randomised" not in plain["identifiability"]
    assert [row["position"] for row in plain["posterior"]["by_position"]] == [2, 3]


def test_later_logs_need_no_marks(world: Path, done: tuple[Path, Done]) -> None:
    assert load(done[0]).fitted_.options.where is None
    given = ["--features", world / "features.parquet", "--json"]
    assert epiclick("evaluate", done[0], world / "late.parquet", *given).code == 0


def test_people_are_told_in_words(
    inputs: Path, done: tuple[Path, Done], capsys: pytest.CaptureFixture
) -> None:
    counts = read_log(inputs / "log.parquet", where="not random")
    print_fit(load(done[0]), counts, valid=False, quiet=True)
    printed = capsys.readouterr().out
    words = " ".join(printed.split())
    assert "Position bias was fixed at the given value at position 3; given a prior at" in words
    assert "displays of randomised pages" in words
    assert "Relevance means the probability of a click if shown at position 1" in words
    assert max(map(len, printed.splitlines())) <= 80


def test_position_bias_shows_that_it_was_given(
    done: tuple[Path, Done], marginal: tuple[Path, Done]
) -> None:
    shown = " ".join(epiclick("position-bias", done[0]).out.split())
    assert "fixed at the given value at position 3; given a prior at position 2." in shown
    assert "given" not in epiclick("position-bias", marginal[0]).out
    record = epiclick("position-bias", done[0], "--json").record
    assert [row["how"] for row in record["given_bias"]] == ["prior", "fixed"]


def test_what_position_bias_prints_can_be_given(
    world: Path, inputs: Path, done: tuple[Path, Done], tmp_path: Path
) -> None:
    (tmp_path / "bias.json").write_text(epiclick("position-bias", done[0], "--json").out)
    given = ["--features", world / "features.parquet", *TRAINING, "--out", tmp_path / "model"]
    given += ["--position-bias", tmp_path / "bias.json", "--json"]
    record = epiclick("fit", world / "early.parquet", *given).record
    prior, held = record["given_bias"]
    assert (prior["how"], held["how"]) == ("prior", "fixed")
    own = done[1].record["position_bias"]
    assert (prior["low"], prior["high"]) == pytest.approx((own[1]["low"], own[1]["high"]))
    assert held["mean"] == pytest.approx(own[2]["mean"])


@pytest.mark.parametrize(
    ("arguments", "words", "error_code"),
    [
        (["--position-bias", "wrong.csv"], ": 1 row, first position 2", "duplicate-context"),
        (["--position-bias", "nowhere.csv"], "nowhere.csv", "file-missing"),
        (
            ["--position-bias", "bias.csv", "--estimator", "exact"],
            "needs EpistemicPBM",
            "known-bias-needs-marginal",
        ),
        (["--position-bias", "bias.csv", "--anchor", "3"], "position 1, 2", "bias-above-one"),
        (["--randomised", "rnd"], "'rnd'", "unknown-column"),
        (["--randomised", "device"], "device", "mark-not-binary"),
        (["--randomised", "random", "--where", "random"], "random", "nothing-to-compare"),
    ],
)
def test_bad_input_gives_code_2_and_no_file(
    arguments: list[str],
    words: str,
    error_code: str | None,
    inputs: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(inputs)
    done = epiclick("fit", "log.parquet", *arguments, "--out", "none")
    done.assert_refused(words, error_code)
    assert not (inputs / "none").exists()
