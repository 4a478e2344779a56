"""`epiclick report`, as a program or a person would call it."""

import html
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from .conftest import Done, epiclick

pytestmark = pytest.mark.slow


def words_of(page: Path) -> str:
    """What a reader sees, but for charts."""
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", page.read_text(encoding="utf-8"), flags=re.S)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text)))


def rankings(world: Path, folder: Path) -> list[object]:
    """The three best items of every query by the truth, and the three worst."""
    truth = pd.read_parquet(world / "relevance.parquet")
    given: list[object] = []
    for name, sign in (("best", 1), ("worst", -1)):
        score = sign * truth["relevance"]
        place = score.groupby(truth["query_id"]).rank(ascending=False, method="first").astype(int)
        rows = truth[["query_id", "doc_id"]].assign(position=place)
        rows[place <= 3].to_parquet(folder / f"{name}.parquet")
        given += ["--ranking", f"{name}={folder / f'{name}.parquet'}"]
    return given


@pytest.fixture(scope="module")
def made(
    world: Path,
    marginal: tuple[Path, Done],
    pointwise: tuple[Path, Done],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, Done]:
    """A report with all that can be given."""
    folder = tmp_path_factory.mktemp("report")
    out = folder / "deep" / "report.html"
    done = epiclick(
        *("report", marginal[0], world / "early.parquet", "--out", out),
        *("--features", world / "features.parquet", "--backtest", world / "late.parquet"),
        *rankings(world, folder),
        *("--against", pointwise[0], "--truth", world, "--title", "Shop <search>"),
    )
    assert done.code == 0, done.err
    return out, done


def test_the_report_says_on_the_terminal_how_it_begins(made: tuple[Path, Done]) -> None:
    out, done = made
    assert f"written to {out}" in done.err
    said = re.sub(r"\s+", " ", done.out)
    assert said.startswith("For every 100 times that a result at position 1 is looked at")
    assert said.count("looked at") == 2
    page = words_of(out)
    for sentence in re.split(r"(?<=\.) (?=Each|Ship|Do not)", said.strip()):
        assert sentence in page
    assert all(len(line) <= 80 for line in done.out.splitlines())


def test_the_page_has_all_that_was_given(
    made: tuple[Path, Done], marginal: tuple[Path, Done]
) -> None:
    page = words_of(made[0])
    assert "Shop <search>" in page
    assert "Checked on a log that was held back" in page
    for rule in ("one click rate for all", "click rate by position", "click rate by item"):
        assert rule in page
    assert "pointwise" in page
    # few pages: most items of worst were never shown, few link the positions
    assert "Verdict: do not choose best yet: it is ahead of worst" in page
    assert "expected loss seen truth" in page
    assert "have their true value in the 90% interval" in page
    assert "whose true relevance is known" in page
    assert "epiclick report" in page
    # all but a selection of click models was given
    assert made[0].read_text(encoding="utf-8").count('class="missing"') == 1
    assert "--selection" in page


def test_numbers_are_those_of_other_verbs(
    world: Path, made: tuple[Path, Done], marginal: tuple[Path, Done]
) -> None:
    page = words_of(made[0])
    bias = epiclick("position-bias", marginal[0], "--json").record["position_bias"]
    for row in bias[1:]:
        assert f"{row['relative_low']:.1%} to {row['relative_high']:.1%}" in page
    log, features = world / "late.parquet", world / "features.parquet"
    scored = epiclick("evaluate", marginal[0], log, "--features", features, "--json").record
    assert f"{scored['log_likelihood']['display']:.4f}" in page
    assert scored["backtest"]["words"][1:] in page


def test_a_program_is_told_where_the_page_is(marginal: tuple[Path, Done], tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    done = epiclick("report", marginal[0], "--out", out, "--json")
    record = done.record
    assert record == {
        "schema_version": 1,
        "report": str(out),
        "bytes": out.stat().st_size,
        "warnings": [],
    }
    assert done.err == ""


def test_a_model_alone_says_what_is_missing(marginal: tuple[Path, Done], tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert epiclick("report", marginal[0], "--out", out, "--quiet").err == ""
    page = words_of(out)
    for option in ("--backtest", "--features", "--ranking", "--truth", "LOG"):
        assert f"Add {option}" in page
    assert "Which ranker to ship is not known yet" in page


def test_a_log_without_the_features_of_the_model_is_still_counted(
    world: Path, marginal: tuple[Path, Done], tmp_path: Path
) -> None:
    out = tmp_path / "report.html"
    log = world / "early.parquet"
    assert epiclick("report", marginal[0], log, "--out", out).code == 0
    rows = len(pd.read_parquet(log))
    page = words_of(out)
    assert f"{rows:,} displays" in page
    assert "The model needs features of items, which were not given." in page


def test_models_without_features_need_none(
    world: Path, without_features: tuple[Path, Done], tmp_path: Path
) -> None:
    out = tmp_path / "report.html"
    done = epiclick("report", without_features[0], world / "early.parquet", "--out", out)
    assert done.code == 0, done.err
    page = words_of(out)
    assert "estimated from its own clicks." in page
    assert "Checked on queries of the log that were held out during training" in page


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("pointwise", "There are no intervals: this model has point estimates of position bias"),
        ("exact", "80% intervals that the paper's estimator learns"),
    ],
)
def test_other_models_say_that_they_are_less_sure(
    kind: str, said: str, world: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    model, _ = request.getfixturevalue(kind)
    out = tmp_path / "report.html"
    given = [world / "early.parquet", "--features", world / "features.parquet"]
    done = epiclick("report", model, *given, *rankings(world, tmp_path), "--out", out)
    assert done.code == 0, done.err
    page = words_of(out)
    assert said in page
    assert {"pointwise": "Unknown uncertainty", "exact": "Intervals that are not calibrated"}[
        kind
    ] in page
    if kind == "pointwise":
        assert "this model reports no uncertainty, so test it before you ship it" in page


@pytest.mark.parametrize(
    ("arguments", "words", "error_code"),
    [
        (["--out", "report.parquet"], "name a .html file", "wrong-suffix"),
        (["--out", "."], "name a file", "not-a-file"),
        (["--truth", "."], ". is ", "not-a-world"),
        (["--ranking", "a=b.parquet"], "--ranking: the model", "features-needed"),
        (["--ranking", "="], "new=new.parquet", "malformed-option"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_remedy(
    arguments: list[str],
    words: str,
    error_code: str | None,
    marginal: tuple[Path, Done],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = epiclick("report", marginal[0], *arguments)
    done.assert_refused(words, error_code)
    assert list(tmp_path.iterdir()) == []


def test_ids_that_hold_html_stay_text(world: Path, tmp_path: Path) -> None:
    log = pd.read_parquet(world / "early.parquet")
    log["doc_id"] = np.where(
        log["doc_id"] == 0, "<script>alert(1)</script>", log["doc_id"].astype(str)
    )
    log.to_parquet(tmp_path / "log.parquet")
    assert (
        epiclick("fit", tmp_path / "log.parquet", "--out", tmp_path / "m", "--epochs", 3).code == 0
    )
    done = epiclick("report", tmp_path / "m", "--out", tmp_path / "report.html")
    assert done.code == 0, done.err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "alert(1)" in page
    assert "<script>alert" not in page
