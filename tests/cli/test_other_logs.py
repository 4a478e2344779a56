"""Logs beside the model's own: columns and contexts are the model's, the rows are all of them."""

from pathlib import Path
from unittest import mock

import pandas as pd
import pytest

from epiclick.api import EpistemicPBM, load
from epiclick.cli.options import NOTHING_GIVEN
from epiclick.data.readers import read_log
from epiclick.data.schema import LogOptions

from .conftest import TRAINING, Done, epiclick

pytestmark = pytest.mark.slow

WEEK = "week <= 1"
READING = ["--column", "position=place", "--position-base", 0, "--context", "device,position"]


@pytest.fixture(scope="module")
def weeks(world: Path) -> Path:
    """A folder with two weeks of pages, whose positions are called places and begin with 0."""
    folder = world.parent / "weeks"
    folder.mkdir()
    for week, name in enumerate(("early", "late"), start=1):
        log = pd.read_parquet(world / f"{name}.parquet").assign(week=week)
        log["place"] = log.pop("position") - 1
        log.to_parquet(folder / f"week{week}.parquet")
    return folder


@pytest.fixture(scope="module")
def sizes(weeks: Path) -> dict[int, int]:
    """Rows of each week."""
    return {week: len(pd.read_parquet(weeks / f"week{week}.parquet")) for week in (1, 2)}


@pytest.fixture(scope="module")
def model(weeks: Path, sizes: dict[int, int]) -> Path:
    """A model of the first week, which a condition chose out of the folder."""
    out = weeks.parent / "model of a week"
    done = epiclick("fit", weeks, "--out", out, *TRAINING, *READING, "--where", WEEK, "--json")
    assert done.record["displays"] == sizes[1]
    return out


@pytest.fixture(scope="module")
def ranking(weeks: Path) -> Path:
    """A ranking in the contexts of the model."""
    log = pd.read_parquet(weeks / "week2.parquet")
    file = weeks.parent / "ranking of week 2.parquet"
    shown = log.drop_duplicates(["query_id", "device", "place"])
    shown = shown.drop_duplicates(["query_id", "device", "doc_id"])
    shown = shown.assign(position=shown["place"] + 1)
    shown[["query_id", "doc_id", "device", "position"]].to_parquet(file)
    return file


def displays(done: Done) -> int:
    """Displays that were scored."""
    return sum(row["displays"] for row in done.record["by_position"])


def test_all_rows_of_another_week_are_scored(
    model: Path, weeks: Path, sizes: dict[int, int]
) -> None:
    assert displays(epiclick("evaluate", model, weeks / "week2.parquet", "--json")) == sizes[2]


def test_a_folder_of_both_weeks_is_not_narrowed_to_the_model_s_own(
    model: Path, weeks: Path, sizes: dict[int, int]
) -> None:
    assert displays(epiclick("evaluate", model, weeks, "--json")) == sizes[1] + sizes[2]
    chosen = epiclick("evaluate", model, weeks, "--where", "week = 2", "--json")
    assert displays(chosen) == sizes[2]


def test_a_note_says_what_is_the_model_s_and_what_is_not(model: Path, weeks: Path) -> None:
    log = weeks / "week2.parquet"
    said = " ".join(epiclick("evaluate", model, log).err.split())
    assert "read with the model's options: columns position=place, context device,position" in said
    assert said.count("where") == 2  # what the model was fitted to, and the option
    assert (
        f"the model was fitted to rows where {WEEK}; all rows of {log} are read. Use --where "
        "to select rows"
    ) in said
    for silent in (["--where", "week = 2"], ["--where", ""], ["--quiet"], ["--json"]):
        assert "fitted to rows" not in epiclick("evaluate", model, log, *silent).err
    # a verb that reads no log has nothing to say about rows
    done = epiclick("relevance", model, "--out", weeks.parent / "items.parquet")
    assert (done.code, "fitted to rows" in done.err) == (0, False)


def test_what_is_given_comes_before_what_the_model_keeps(
    model: Path, world: Path, sizes: dict[int, int]
) -> None:
    given = ["--column", "position=position", "--position-base", 1, "--json"]
    assert displays(epiclick("evaluate", model, world / "early.parquet", *given)) == sizes[1]


def test_the_model_s_own_log_is_read_as_it_was(model: Path, weeks: Path) -> None:
    ask = ["evaluate", model, weeks / "week2.parquet", "--json"]
    own, all_weeks, chosen = (
        epiclick(*ask, "--train", train, *more).record["baselines"]
        for train, more in (
            (weeks / "week1.parquet", ()),
            (weeks, ()),
            (weeks, ("--where", "week = 2")),
        )
    )
    assert own == all_weeks == chosen
    # the control: both weeks are another training log
    copy = weeks.parent / "both.parquet"
    log = pd.concat(pd.read_parquet(weeks / f"week{week}.parquet") for week in (1, 2))
    log.assign(week=1).to_parquet(copy)
    assert epiclick(*ask, "--train", copy).record["baselines"] != own
    # a copy without the column of the condition, all rows of which are the model's own
    bare = weeks.parent / "bare.parquet"
    pd.read_parquet(weeks / "week1.parquet").drop(columns="week").to_parquet(bare)
    assert epiclick(*ask, "--train", bare).code == 2
    assert epiclick(*ask, "--train", bare, "--where", "").record["baselines"] == own
    said = " ".join(epiclick(*ask[:-1], "--train", weeks).err.split())
    assert f"--train: rows where {WEEK}" in said


def test_every_verb_reads_all_rows(
    model: Path, weeks: Path, ranking: Path, sizes: dict[int, int], tmp_path: Path
) -> None:
    log = weeks / "week2.parquet"
    frame = pd.read_parquet(log)
    pages = frame["page_id"].nunique()
    pairs = len(frame.drop_duplicates(["query_id", "doc_id"]))
    ask = ["compare", model, "--ranking", f"live={ranking}", "--samples", 100]
    compared = epiclick(*ask, "--clicks", log, "--backtest", log, "--json").record
    assert compared["pages"] == pages
    assert f"observed {frame['click'].sum() / pages:.2f}" in compared["backtest"]
    page = tmp_path / "report.html"
    done = epiclick("report", model, log, "--backtest", log, "--out", page)
    assert done.code == 0, done.err
    assert f"<b>{sizes[2]:,}</b><span>displays</span>" in page.read_text(encoding="utf-8")
    found = epiclick("relevance", model, "--clicks", log, "--out", tmp_path / "r.parquet", "--json")
    assert found.record["rows"] == pairs
    qrels = tmp_path / "qrels.txt"
    done = epiclick("export", model, "--to", "qrels", "--clicks", log, "--out", qrels)
    assert done.code == 0, done.err
    assert len(qrels.read_text().splitlines()) == pairs


def test_a_model_that_starts_from_another_learns_from_all_rows(
    model: Path, weeks: Path, sizes: dict[int, int], tmp_path: Path
) -> None:
    given = ["--init", model, "--out", tmp_path / "next", "--epochs", 1, "--hidden", "8,4"]
    done = epiclick("fit", weeks / "week2.parquet", *given, "--json")
    assert done.record["displays"] == sizes[2]
    options = load(tmp_path / "next").fitted_.options
    assert options.where is None
    assert (options.columns, options.context) == ({"position": "place"}, ("device", "position"))


def test_counts_chosen_by_a_condition_can_be_read_by_every_model(
    model: Path, weeks: Path, sizes: dict[int, int], tmp_path: Path
) -> None:
    """Which rows are counted is settled in a file of counts, whatever the model was fitted to."""
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    for file, condition in ((first, "week < 2"), (second, "week = 2")):
        assert epiclick(
            "count", weeks, *READING, "--where", condition, "--out", file
        ).code == 0  # fmt: skip
    done = epiclick("evaluate", model, second, "--train", first, "--json")
    assert displays(done) == sizes[2]
    ask = ["evaluate", model, weeks / "week2.parquet", "--json", "--train"]
    own = epiclick(*ask, weeks / "week1.parquet").record["baselines"]
    assert epiclick(*ask, first).record["baselines"] == own


def test_the_page_names_the_rows_of_the_model_and_of_its_logs(
    model: Path, weeks: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    given = ["--where", "week = 2 AND device <> 'tv'", "--out", page]
    assert epiclick("report", model, weeks, *given).code == 0
    text = page.read_text(encoding="utf-8")
    # typed again, the command reads the same rows
    quoted = "&#x27;week = 2 AND device &lt;&gt; &#x27;&quot;&#x27;&quot;&#x27;tv"
    assert f"--where {quoted}" in text
    assert "<tr><td>where</td><td>week &lt;= 1</td></tr>" in text
    assert f"{weeks}: rows where week = 2 AND device &lt;&gt; &#x27;tv&#x27;" in text


def test_a_note_names_few_of_many_logs(capsys: pytest.CaptureFixture[str]) -> None:
    saved, logs = LogOptions(where=WEEK), [f"day{i}.csv" for i in range(30)]
    with mock.patch("epiclick.cli.options._are_counts", return_value=False):
        NOTHING_GIVEN.over_saved(saved, logs, quiet=False)
    said = " ".join(capsys.readouterr().err.split())
    assert "all rows of day0.csv, day1.csv, day2.csv and 27 more are read" in said


def test_later_logs_are_counted_for_the_model_s_own_click_model(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    NOTHING_GIVEN.over_saved(LogOptions(click_model="ubm"), ["log.csv"], quiet=False)
    said = " ".join(capsys.readouterr().err.split())
    assert "the log is read with the model's options: click_model ubm" in said
    counts = read_log(world / "early.parquet", click_model="ubm")
    EpistemicPBM(epochs=2).fit(counts).save(tmp_path / "model")
    done = epiclick("evaluate", tmp_path / "model", world / "late.parquet", "--json")
    late = pd.read_parquet(world / "late.parquet")
    assert displays(done) == len(late)
    # scores are by position, whatever was clicked above
    assert len(done.record["by_position"]) == late["position"].nunique()


def test_help_says_which_rows_are_read() -> None:
    for verb in ("evaluate", "compare", "report", "relevance", "export"):
        said = " ".join(epiclick(verb, "--help").out.split())
        assert "SQL condition. [default: all rows]" in said
        assert "[default: the model's]" in said
