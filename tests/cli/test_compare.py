"""`epiclick compare`, as a program or a person would call it."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import epiclick as ec

from .conftest import Done, epiclick, fitted

pytestmark = pytest.mark.slow

SAMPLES = ["--samples", 300]
FEW_PAGES = ["--despite", "unseen,positions"]  # of which the world's two pages a query show little


@pytest.fixture(scope="module")
def shelf(world: Path, cli_folder: Path) -> Path:
    """Rankings: best and worst by the truth, f0 by a feature; three slots each, as in the log."""
    folder = cli_folder / "rankings"
    folder.mkdir()
    features = pd.read_parquet(world / "features.parquet")
    truth = features.merge(pd.read_parquet(world / "relevance.parquet"), validate="1:1")
    scores = {"best": truth["relevance"], "worst": -truth["relevance"], "f0": features["f0"]}
    for name, score in scores.items():
        rows = features[["query_id", "doc_id"]].copy()
        rows["position"] = score.groupby(rows["query_id"]).rank(ascending=False, method="first")
        rows = rows.astype({"position": int}).sort_values(["query_id", "position"])
        rows[rows["position"] <= 3].to_parquet(folder / f"{name}.parquet")
        rows.to_parquet(folder / f"{name}_deep.parquet")
    best = pd.read_parquet(folder / "best.parquet")
    best.to_csv(folder / "best.csv", index=False)
    best.assign(score=-best["position"]).drop(columns="position").to_csv(
        folder / "scored.csv", index=False
    )
    run = best.assign(Q0="Q0", score=10 - best["position"], tag="t")
    run[["query_id", "Q0", "doc_id", "position", "score", "tag"]].to_csv(
        folder / "best.run", sep=" ", header=False, index=False
    )
    return folder


@pytest.fixture(scope="module")
def given(world: Path) -> list[object]:
    """The features, and the log on which the models were trained."""
    return ["--features", world / "features.parquet", "--clicks", world / "early.parquet"]


def rankings(*files: object) -> list[object]:
    return [each for file in files for each in ("--ranking", file)]


@pytest.fixture(scope="module")
def compared(
    world: Path, marginal: tuple[Path, Done], shelf: Path, given: list[object]
) -> dict[str, object]:
    done = epiclick(
        *("compare", marginal[0], *given, *SAMPLES, "--json", "--seed", 5),
        *rankings(f"new={shelf / 'best.parquet'}", shelf / "worst.parquet", shelf / "f0.parquet"),
        *("--backtest", world / "late.parquet"),
    )
    return done.record


def test_json_has_the_documented_keys(compared: dict[str, object]) -> None:
    assert set(compared) == {
        *("schema_version", "rankers", "differences", "verdict", "queries", "pages", "level"),
        *("backtest", "backtest_grade", "checks_failed", "notes", "passed", "true_values"),
        "tipping_point",
        *("warnings", "measure", "differences_by", "support", "estimators"),
    }
    assert [row["name"] for row in compared["support"]] == ["new", "worst", "f0"]
    for row, seen in zip(compared["support"], compared["rankers"], strict=True):
        assert row["slots"] == pytest.approx(seen["seen"])
        assert 0 < row["clicks"] <= 1
        assert 0 < row["effective_displays"] <= row["displays"]
        assert 0 < row["moved"] < 1
    names = [(row["name"], row["estimator"]) for row in compared["estimators"]]
    assert names == [(n, e) for n in ("new", "worst", "f0") for e in ("ips", "snips", "dr")]
    for row in compared["estimators"]:
        assert row["available"] is True
        assert row["low"] < row["value"] < row["high"]
        assert row["diff_low"] < row["difference"] < row["diff_high"]
    assert [row["name"] for row in compared["rankers"]] == ["new", "worst", "f0"]
    for row in compared["rankers"]:
        assert {"name", "value", "low", "high", "prob_best", "expected_loss", "seen"} <= set(row)
        assert row["low"] < row["value"] < row["high"]
    pairs = [(row["name"], row["against"]) for row in compared["differences"]]
    assert pairs == [("new", "worst"), ("new", "f0"), ("worst", "f0")]
    for row in compared["differences"]:
        assert {"difference", "low", "high", "relative", "prob_better"} <= set(row)
        parts = ("seen_share", "unseen_share", "position_bias_share", "network_share")
        assert sum(row[part] for part in parts) == pytest.approx(1)
    assert sum(row["prob_best"] for row in compared["rankers"]) == pytest.approx(1)
    assert (compared["passed"], compared["warnings"]) == (None, [])


def test_the_answer_is_that_of_the_library(
    world: Path, marginal: tuple[Path, Done], shelf: Path, compared: dict[str, object]
) -> None:
    frames = {"new": "best", "worst": "worst", "f0": "f0"}
    found = ec.compare(
        ec.load(marginal[0]),
        {name: pd.read_parquet(shelf / f"{file}.parquet") for name, file in frames.items()},
        world / "features.parquet",
        clicks=ec.read_log(world / "early.parquet"),
        backtest=ec.read_log(world / "late.parquet"),
        samples=300,
        seed=5,
    )
    for name, value in found.to_dict().items():
        tables = ("rankers", "differences", "support", "estimators")
        same = pd.DataFrame if name in tables else lambda each: each
        if same is pd.DataFrame:
            pd.testing.assert_frame_equal(same(compared[name]), same(value), check_dtype=False)
        else:
            assert compared[name] == value, name


def test_weights_are_the_pages_of_the_log_unless_uniform(
    world: Path, marginal: tuple[Path, Done], shelf: Path, given: list[object]
) -> None:
    ask = ["compare", marginal[0], *given, *SAMPLES, *rankings(shelf / "best.parquet"), "--json"]
    by_traffic, uniform = epiclick(*ask).record, epiclick(*ask, "--weights", "uniform").record
    log = pd.read_parquet(world / "early.parquet")
    assert by_traffic["queries"] == log["query_id"].nunique() == 120
    assert by_traffic["pages"] == log["page_id"].nunique()
    assert "30 of 150 queries are not in the log" in by_traffic["notes"][0]
    assert uniform["queries"] == 150
    assert uniform["notes"] == []
    shown = set(zip(log["query_id"], log["doc_id"], strict=True))
    best = pd.read_parquet(shelf / "best.parquet")
    seen = [pair in shown for pair in zip(best["query_id"], best["doc_id"], strict=True)]
    assert uniform["rankers"][0]["seen"] == pytest.approx(np.mean(seen))


def test_all_formats_say_the_same(
    marginal: tuple[Path, Done], shelf: Path, given: list[object]
) -> None:
    files = [shelf / name for name in ("best.parquet", "best.csv", "scored.csv", "best.run")]
    named = [f"{i}={file}" for i, file in enumerate(files)]
    record = epiclick("compare", marginal[0], *given, *SAMPLES, *rankings(*named), "--json").record
    assert len({(row["value"], row["low"], row["high"]) for row in record["rankers"]}) == 1
    assert {row["prob_better"] for row in record["differences"]} == {0.5}
    assert "are worth the same" in record["verdict"]


def test_a_ranking_without_a_name_is_called_by_its_file(
    marginal: tuple[Path, Done], shelf: Path, given: list[object], tmp_path: Path
) -> None:
    hive = tmp_path / "day=1"
    hive.mkdir()
    (hive / "f0.parquet").write_bytes((shelf / "f0.parquet").read_bytes())
    files = [shelf / "best.run", hive / "f0.parquet", f"a=b={shelf / 'best.csv'}"]
    done = epiclick("compare", marginal[0], *given, *SAMPLES, *rankings(*files[:2]), "--json")
    assert [row["name"] for row in done.record["rankers"]] == ["best", "f0"]
    done = epiclick("compare", marginal[0], *given, *SAMPLES, *rankings(*files), "--json")
    done.assert_refused("ranking 'a'", "file-missing")


def test_a_column_of_a_table_can_be_the_ranking(
    world: Path, marginal: tuple[Path, Done], shelf: Path, given: list[object]
) -> None:
    column = f"{world / 'features.parquet'}:f0"
    files = [shelf / "f0.parquet", f"same={column}"]
    ask = ["compare", marginal[0], *given, *SAMPLES, "--depth", 3, "--json"]
    record = epiclick(*ask, *rankings(*files)).record
    assert "are worth the same" in record["verdict"]
    (row,) = epiclick(*ask, *rankings(column)).record["rankers"]
    assert row["name"] == "f0"
    other = epiclick(*ask, *rankings(f"other={world / 'features.parquet'}:f9"))
    other.assert_refused("'f9'", "unknown-column")


def test_true_values_are_those_of_a_plain_sum(
    world: Path, marginal: tuple[Path, Done], shelf: Path, given: list[object]
) -> None:
    files = rankings(shelf / "best.parquet", shelf / "f0.parquet")
    ask = ["compare", marginal[0], *given, *SAMPLES, *files]
    record = epiclick(*ask, "--truth", world, "--json").record
    truth = pd.read_parquet(world / "relevance.parquet")
    log = pd.read_parquet(world / "early.parquet")
    pages = log.groupby("query_id")["page_id"].nunique()
    for name in ("best", "f0"):
        rows = pd.read_parquet(shelf / f"{name}.parquet").merge(truth)
        clicks = (rows["relevance"] / rows["position"]).groupby(rows["query_id"]).sum()
        expected = (clicks * pages).sum() / pages.sum()  # queries not in the log drop out
        np.testing.assert_allclose(record["true_values"][name], expected, rtol=1e-9)
    said = " ".join(epiclick(*ask, "--truth", world).out.split())
    inside = sum(
        row["low"] <= record["true_values"][row["name"]] <= row["high"] for row in record["rankers"]
    )
    assert f"True clicks per page: {record['true_values']['best']:.3f} for best and" in said
    assert said.endswith(f"90% intervals contain {inside} of 2.")
    assert epiclick(*ask, "--json").record["true_values"] is None


def test_a_seed_gives_the_same_answer_again(
    marginal: tuple[Path, Done], shelf: Path, given: list[object]
) -> None:
    ask = ["compare", marginal[0], *given, *SAMPLES, *rankings(shelf / "f0.parquet"), "--json"]
    assert epiclick(*ask).out == epiclick(*ask, "--seed", 0).out != epiclick(*ask, "--seed", 1).out


def test_differences_can_be_told_to_one_ranker(
    marginal: tuple[Path, Done], shelf: Path, given: list[object], compared: dict[str, object]
) -> None:
    files = [f"new={shelf / 'best.parquet'}", shelf / "worst.parquet", shelf / "f0.parquet"]
    ask = ["compare", marginal[0], *given, *SAMPLES, *rankings(*files), "--seed", 5, "--json"]
    record = epiclick(*ask, "--against", "worst").record
    new, f0 = record["differences"]
    assert (new["name"], new["against"], f0["name"], f0["against"]) == (
        *("new", "worst"),
        *("f0", "worst"),
    )
    assert new == compared["differences"][0]
    turned = compared["differences"][2]
    assert f0["difference"] == pytest.approx(-turned["difference"])
    assert f0["prob_better"] == pytest.approx(1 - turned["prob_better"])


@pytest.mark.parametrize(
    ("first", "second", "sure", "code"),
    [
        ("best", "worst", 0.9, 0),
        ("worst", "best", 0.9, 1),
        ("best", "best_again", 0.95, 1),
        ("best", "best_again", 0.5, 0),
        ("worst", "best", 0.2, 1),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_the_exit_code_tells_whether_the_first_is_better(
    first: str,
    second: str,
    sure: float,
    code: int,
    as_json: bool,
    marginal: tuple[Path, Done],
    shelf: Path,
    given: list[object],
) -> None:
    files = {"best": "best.parquet", "worst": "worst.parquet", "best_again": "best.csv"}
    named = [f"{name}={shelf / files[name]}" for name in (first, second)]
    done = epiclick(
        *("compare", marginal[0], *given, *SAMPLES, *rankings(*named)),
        *("--fail-unless-better", sure, *FEW_PAGES, *(["--json"] if as_json else [])),
    )
    assert done.code == code, done.err
    if as_json:
        assert f'"passed": {"false" if code else "true"}' in done.out
    else:
        assert "Verdict: " in done.out
        assert (f"{first} does not beat {second} with probability {sure}" in done.err) == bool(code)


@pytest.mark.parametrize(
    ("first", "second", "level", "code"),
    [("best", "worst", 0.8, 0), ("worst", "best", 0.8, 1), ("best", "best_again", 0.8, 1)],
)
def test_a_gate_on_the_lower_bound(
    first: str,
    second: str,
    level: float,
    code: int,
    marginal: tuple[Path, Done],
    shelf: Path,
    given: list[object],
) -> None:
    files = {"best": "best.parquet", "worst": "worst.parquet", "best_again": "best.csv"}
    named = [f"{name}={shelf / files[name]}" for name in (first, second)]
    ask = ["compare", marginal[0], *given, *SAMPLES, *rankings(*named), "--level", level, "--json"]
    low = epiclick(*ask).record["differences"][0]["low"]
    assert (low > 0) == (code == 0)
    done = epiclick(*ask, "--gate", "lower", *FEW_PAGES)
    assert done.code == code
    assert json.loads(done.out)["passed"] == (code == 0)
    closed = epiclick(*ask[:-1], "--gate", "lower")
    assert closed.code == 1  # checks fail
    assert "(--despite positions ignores that)" in closed.err
    told = f"the 80% interval of the difference of {first} from {second} is not above 0"
    assert (told in closed.err) == bool(code)


def test_the_first_must_beat_every_other(
    marginal: tuple[Path, Done], shelf: Path, given: list[object]
) -> None:
    best, worst = shelf / "best.parquet", shelf / "worst.parquet"
    named = [f"new={best}", worst, f"same={best}"]
    ask = ["compare", marginal[0], *given, *SAMPLES, *rankings(*named)]
    done = epiclick(*ask, "--fail-unless-better", 0.9, *FEW_PAGES)
    assert done.code == 1
    assert done.err == "epiclick: new does not beat same with probability 0.9 or more\n"


@pytest.fixture(scope="module")
def odd_log(world: Path) -> Path:
    """Pages on which everything was clicked: no model of the others predicts that."""
    file = world.parent / "all clicked.parquet"
    pd.read_parquet(world / "late.parquet").assign(click=1).to_parquet(file)
    return file


def test_a_failed_backtest_does_not_pass(
    marginal: tuple[Path, Done], shelf: Path, given: list[object], odd_log: Path
) -> None:
    named = [f"new={shelf / 'best.parquet'}", shelf / "worst.parquet"]
    ask = ["compare", marginal[0], *given, *SAMPLES, *rankings(*named)]
    ask += ["--fail-unless-better", 0.9]
    closed = epiclick(*ask)
    assert closed.code == 1
    assert "(--despite unseen ignores that)" in closed.err
    ask += FEW_PAGES
    passed = epiclick(*ask, "--json").record
    assert (passed["passed"], passed["backtest_grade"]) == (True, None)
    done = epiclick(*ask, "--backtest", odd_log)
    assert done.code == 1
    assert "the backtest failed" in done.err.splitlines()[-1]
    verdict = " ".join(done.out.split("Verdict: ")[1].split())
    assert verdict.startswith("do not choose new yet: it is ahead of worst with probability")
    as_json = epiclick(*ask, "--backtest", odd_log, "--json")
    assert as_json.code == 1
    record = json.loads(as_json.out)
    assert (record["passed"], record["backtest_grade"]) == (False, "far outside")
    assert "backtest" in [check["check"] for check in record["checks_failed"]]
    assert isinstance(record["verdict"], str)
    assert record["differences"][0]["prob_better"] > 0.9  # the first is ahead none the less


def test_the_verdict_is_given_from_the_probability_asked_for(
    marginal: tuple[Path, Done], shelf: Path, given: list[object]
) -> None:
    named = [f"new={shelf / 'best.parquet'}", shelf / "f0.parquet"]
    ask = ["compare", marginal[0], *given, *SAMPLES, *rankings(*named), "--json"]
    better = epiclick(*ask).record["differences"][0]["prob_better"]
    assert 0.6 < better < 1
    below, above = (better - 0.05, better + (1 - better) / 2)
    done = epiclick(*ask, "--fail-unless-better", below, *FEW_PAGES)
    assert "new yet: it is ahead of f0 with probability" in done.record["verdict"]
    done = epiclick(*ask, "--fail-unless-better", above, *FEW_PAGES)
    assert done.code == 1
    assert '"verdict": "cannot tell new from f0' in done.out


def test_the_backtest_is_cited_or_its_absence(
    world: Path,
    marginal: tuple[Path, Done],
    shelf: Path,
    given: list[object],
    compared: dict[str, object],
) -> None:
    evaluated = epiclick(
        *("evaluate", marginal[0], world / "late.parquet", "--json"),
        *("--features", world / "features.parquet"),
    ).record
    assert compared["backtest"] == evaluated["backtest"]["words"]
    assert compared["verdict"].endswith(f"Backtest: {compared['backtest']}.")
    ask = ["compare", marginal[0], *given, *SAMPLES, *rankings(shelf / "f0.parquet")]
    without = epiclick(*ask, "--json").record
    assert without["backtest"] is None
    assert without["verdict"].endswith("Not backtested.")
    same = epiclick(*ask, "--json", "--backtest", world / "early.parquet").record
    assert len(same["warnings"]) == 1
    assert "pages that the model was not trained on" in same["warnings"][0]


def test_people_get_tables_notes_and_the_verdict_last(
    world: Path, marginal: tuple[Path, Done], shelf: Path, given: list[object]
) -> None:
    files = [f"new={shelf / 'best.parquet'}", shelf / "worst.parquet", shelf / "f0.parquet"]
    ask = ["compare", marginal[0], *given, *SAMPLES, *rankings(*files)]
    done = epiclick(*ask, "--level", 0.8)
    assert done.code == 0, done.err
    for words in (
        "Clicks per page, 80% intervals; 120 queries, a log of 240 pages",
        "P(best)",
        "expected loss",
        "slots seen",
        "Differences, 80% intervals",
        "P(better)",
        "Sources of uncertainty",
        "items never shown",
        "new - worst",
        "Support: items that the log has shown, at any position",
        "self-normalised",
        "doubly robust",
        "Notes\n- 30 of 150 queries are not in the log",
    ):
        assert words in done.out, words
    assert max(map(len, done.out.splitlines())) <= 80
    verdict = " ".join(done.out.split("Verdict: ")[1].split())
    assert verdict.startswith(("do not choose new yet: ", "cannot tell new from "))
    assert verdict.endswith("Not backtested.")
    quiet = epiclick(*ask, "--quiet")
    assert "Notes" not in quiet.out
    assert "Verdict: " in quiet.out
    assert quiet.err == ""


def test_one_ranker_has_a_value_but_no_rival(
    marginal: tuple[Path, Done], shelf: Path, given: list[object]
) -> None:
    ask = ["compare", marginal[0], *given, *SAMPLES, *rankings(shelf / "best.parquet")]
    record = epiclick(*ask, "--json").record
    assert record["differences"] == []
    value = record["rankers"][0]["value"]
    assert record["verdict"].startswith(f"best is worth {value:.3f} clicks per page (")
    assert "Differences" not in epiclick(*ask).out


def test_without_a_log_items_are_judged_by_features_alone(
    world: Path, marginal: tuple[Path, Done], shelf: Path
) -> None:
    features = ["--features", world / "features.parquet"]
    files = rankings(shelf / "best.parquet", shelf / "f0.parquet")
    record = epiclick("compare", marginal[0], *features, *SAMPLES, *files, "--json").record
    assert [row["seen"] for row in record["rankers"]] == [0, 0]
    assert (record["pages"], record["queries"]) == (None, 150)
    assert "estimated from their features alone" in record["notes"][0]
    assert record["verdict"].count("No log was given") == 1
    assert "the log never showed" not in record["verdict"]


def test_a_model_without_features_knows_its_own_items(
    world: Path, without_features: tuple[Path, Done], shelf: Path
) -> None:
    text = pd.read_parquet(shelf / "best.parquet").astype({"query_id": str, "doc_id": str})
    text.to_parquet(shelf / "text.parquet")  # ids are read as the model's are
    files = rankings(shelf / "text.parquet", shelf / "f0.parquet")
    ask = ["compare", without_features[0], *SAMPLES, *files]
    record = epiclick(*ask, "--json").record
    assert 0 < record["rankers"][0]["seen"] < 1
    assert record["rankers"][0]["seen"] + record["rankers"][0]["unknown"] == pytest.approx(1)
    assert "clicks in the model's own log" in record["notes"][0]
    assert "never shown in the log" in record["notes"][1]
    done = epiclick(*ask, "--features", world / "features.parquet")
    assert done.code == 0
    assert "--features is not used" in done.err


def test_a_model_without_uncertainty_claims_none(
    pointwise: tuple[Path, Done], shelf: Path, given: list[object]
) -> None:
    files = rankings(shelf / "best.parquet", shelf / "f0.parquet")
    ask = ["compare", pointwise[0], *given, *SAMPLES, *files]
    done = epiclick(*ask)
    assert done.code == 0, done.err
    assert "a point estimate from a model without uncertainty" in " ".join(done.out.split())
    assert "with probability" not in done.out
    assert "│       - │" in done.out  # P(best)
    for gate in (["--fail-unless-better", 0.9], ["--gate", "lower"]):
        done = epiclick(*ask, *gate)
        done.assert_refused("--members", "no-uncertainty")


def test_betas_of_the_papers_estimators_can_be_compared_by(
    exact: tuple[Path, Done], shelf: Path, given: list[object]
) -> None:
    files = rankings(shelf / "best.parquet", shelf / "worst.parquet")
    record = epiclick("compare", exact[0], *given, *SAMPLES, *files, "--json").record
    assert record["level"] == 0.8
    assert record["differences"][0]["prob_better"] > 0.5


def test_lists_of_contexts_are_told_apart(
    world: Path, shelf: Path, given: list[object], tmp_path: Path
) -> None:
    model, _ = fitted(
        *(world, "compared_by_device", "--features", world / "features.parquet"),
        *("--context", "device,position"),
    )
    best, worst = (pd.read_parquet(shelf / f"{name}.parquet") for name in ("best", "worst"))
    for name, desk in {"both": best, "phone_only": worst}.items():
        lists = [best.assign(device="phone"), desk.assign(device="desk")]
        pd.concat(lists).to_parquet(tmp_path / f"{name}.parquet")
    files = rankings(tmp_path / "both.parquet", tmp_path / "phone_only.parquet")
    record = epiclick("compare", model, *given, *SAMPLES, *files, "--json").record
    both, phone_only = record["rankers"]
    assert both["value"] > phone_only["value"]
    assert "queries by device are not in the log" in record["notes"][0]
    run = epiclick("compare", model, *given, *SAMPLES, *rankings(shelf / "best.run"), "--json")
    assert any("no column device" in note for note in run.record["notes"])
    assert run.record["rankers"][0]["value"] == pytest.approx(both["value"], rel=0.02)


def test_the_log_is_read_as_told(
    world: Path, marginal: tuple[Path, Done], shelf: Path, given: list[object], tmp_path: Path
) -> None:
    log = pd.read_parquet(world / "early.parquet").rename(columns={"position": "place"})
    log.to_parquet(tmp_path / "log.parquet")
    ask = ["compare", marginal[0], *SAMPLES, *rankings(shelf / "f0.parquet"), "--json"]
    ask += ["--features", world / "features.parquet", "--clicks", tmp_path / "log.parquet"]
    assert epiclick(*ask).code == 2
    renamed = epiclick(*ask, "--column", "position=place").record
    usual = epiclick(*ask[:-1], world / "early.parquet").record
    assert renamed["rankers"] == usual["rankers"]


@pytest.fixture(scope="module")
def broken(shelf: Path) -> Path:
    """Rankings with mistakes, and some that are only unusual."""
    rows = pd.read_parquet(shelf / "best.parquet")
    first = rows["query_id"].eq(0)
    two = first & rows["position"].isin([1, 2])
    cases = {
        "unknown_queries": rows.assign(query_id=rows["query_id"] + 10_000),
        "some_unknown": rows.assign(query_id=rows["query_id"].where(~first, 10_000)),
        "unknown_docs": rows.assign(doc_id=rows["doc_id"].where(~two, rows["doc_id"] + 10_000)),
        "ties": rows.assign(position=rows["position"].where(~two, 1)),
        "gap": rows[~(first & rows["position"].eq(2))],
        "twice": rows.assign(doc_id=rows["doc_id"].where(~two, rows.loc[two, "doc_id"].iloc[0])),
        "from_0": rows.assign(position=rows["position"] - 1),
        "few_queries": rows[rows["query_id"] < 50],
        "short": rows[rows["position"] < 3],
        "empty": rows[:0],
        "no_position": rows.drop(columns="position"),
    }
    for name, case in cases.items():
        case.to_parquet(shelf / f"{name}.parquet")
    tied = rows.assign(score=rows["position"].where(~two, 1)).drop(columns="position")
    tied.to_parquet(shelf / "tied_scores.parquet")
    return shelf


@pytest.mark.parametrize(
    ("files", "options", "words", "error_code"),
    [
        (["unknown_queries"], [], "no query in common", "no-common-query"),
        (["best", "unknown_queries"], [], "no query in common", "no-common-query"),
        (["ties"], [], ": 1 position, first (query 0", "shared-position"),
        (["gap"], [], ": 1 list, first (query 0)", "position-gap"),
        (["twice"], [], ": 1 document, first (query 0", "repeated-document"),
        (["from_0"], [], ": 150 rows", "position-below-one"),
        (["best_deep"], [], ": 750 slots", "position-too-deep"),
        (
            ["best_deep"],
            ["--depth", 4],
            "150 slots, first position 4. Cut them with --depth 3",
            "position-too-deep",
        ),
        (["empty"], [], "ranking 'empty'", "empty-ranking"),
        (["no_position"], [], "position or score", "missing-column"),
        (["absent"], [], "absent.parquet", "file-missing"),
        (["best", "best"], [], "'best'", "duplicate-ranker-name"),
        (["best"], ["--ranking", "=x.parquet"], "new=new.parquet", "malformed-option"),
        (["best"], ["--ranking", "x="], "new=new.parquet", "malformed-option"),
        (["best"], ["--ranking", ""], "new=new.parquet", "malformed-option"),
        (["best"], ["--against", "bets"], "(did you mean 'best'?)", "unknown-ranker"),
        (["best"], ["--fail-unless-better", 0.9], "--fail-unless-better", "too-few-rankers"),
        (
            ["best", "f0"],
            ["--fail-unless-better", 95],
            "--fail-unless-better must",
            "level-out-of-range",
        ),
        (["best", "f0"], ["--despite", "fit"], "--fail-unless-better", "option-needs-another"),
        (["best"], ["--gate", "lower"], "--gate lower", "too-few-rankers"),
        (
            ["best", "f0"],
            ["--gate", "lower", "--fail-unless-better", 0.9],
            "give one of them",
            "option-does-not-apply",
        ),
        (
            ["best", "f0"],
            ["--fail-unless-better", 0.9, "--despite", "backtst"],
            "(did you mean 'backtest'?)",
            "unknown-check",
        ),
        (["best"], ["--level", 90], "level must", "level-out-of-range"),
        (["best"], ["--samples", 10], "samples must", "samples-out-of-range"),
        (["best"], ["--depth", 0], "depth must", "depth-out-of-range"),
        (["best"], ["--seed", -1], "seed must", "seed-out-of-range"),
        (["best"], ["--clicks", "no.parquet"], "no.parquet", "file-missing"),
        (["best"], ["--backtest", "no.parquet"], "no.parquet", "file-missing"),
        (["best"], ["--weights", "pages"], "traffic", None),
        ([], [], "--ranking", None),
    ],
)
def test_bad_input_gives_code_2_and_one_message(
    files: list[str],
    options: list[object],
    words: str,
    error_code: str | None,
    marginal: tuple[Path, Done],
    broken: Path,
    given: list[object],
) -> None:
    named = rankings(*(broken / f"{file}.parquet" for file in files))
    done = epiclick("compare", marginal[0], *given, *named, *options)
    done.assert_refused(words, error_code)


def test_a_model_with_features_needs_them(marginal: tuple[Path, Done], shelf: Path) -> None:
    done = epiclick("compare", marginal[0], *rankings(shelf / "best.parquet"))
    done.assert_refused("--features", "features-needed")


@pytest.mark.parametrize(
    ("files", "options", "note"),
    [
        (["some_unknown"], [], "31 of 150 queries are not in the log"),  # 30 had no page before
        (["some_unknown"], ["--weights", "uniform"], "items have no features (the first: query"),
        (["unknown_docs"], [], "2 of 360 items have no features (the first: query 0, doc 1"),
        (["few_queries", "best"], [], "compared on the 50 queries that all rankers have; 100 "),
        (["best_deep"], ["--depth", 3], "750 of 1,200 slots are deeper than position 3 and were"),
        (["best_deep"], ["--extrapolate"], "they are assumed to have its position bias"),
        (["short", "best"], [], "different numbers of slots per page ('short' 2.0, 'best' 3.0)"),
        (["tied_scores"], [], "2 of 450 slots show a document whose score ties with"),
    ],
)
def test_what_was_left_out_or_assumed_is_noted(
    files: list[str],
    options: list[object],
    note: str,
    marginal: tuple[Path, Done],
    broken: Path,
    given: list[object],
) -> None:
    named = rankings(*(broken / f"{file}.parquet" for file in files))
    ask = ["compare", marginal[0], *given, *SAMPLES, *named, *options]
    notes = epiclick(*ask, "--json").record["notes"]
    assert any(note in each for each in notes), notes


def test_deeper_slots_add_clicks_when_extrapolated_and_none_when_cut(
    marginal: tuple[Path, Done], broken: Path, given: list[object]
) -> None:
    named = rankings(broken / "best.parquet", broken / "best_deep.parquet")
    ask = ["compare", marginal[0], *given, *SAMPLES, *named, "--json"]
    as_it_is, cut = epiclick(*ask, "--depth", 3).record["rankers"]
    assert as_it_is["value"] == cut["value"]
    as_it_is, deep = epiclick(*ask, "--extrapolate").record["rankers"]
    assert deep["value"] > as_it_is["value"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"rankings": "best"}, "name the rankings, as in compare"),
        ({"rankings": {}}, "no ranking was given"),
        ({"rankings": {" ": "best"}}, "must be a non-empty string"),
        ({"rankings": {1: "best"}}, "must be a non-empty string, not 1"),
        ({"clicks": "early.parquet"}, "read the log first: clicks=read_log(...)"),
        ({"backtest": "late.parquet"}, "read the log first: backtest=read_log(...)"),
        ({"weights": "pages"}, "weights must be 'traffic' or 'uniform'"),
    ],
)
def test_python_is_told_what_to_write(
    asked: dict[str, object], words: str, world: Path, marginal: tuple[Path, Done], shelf: Path
) -> None:
    usual = {"rankings": {"best": shelf / "best.parquet"}, "features": world / "features.parquet"}
    with pytest.raises(ec.InputError, match=re.escape(words)):
        ec.compare(ec.load(marginal[0]), **(usual | asked))


def test_a_result_prints_as_values_and_verdict(
    world: Path, marginal: tuple[Path, Done], shelf: Path
) -> None:
    files = {name: shelf / f"{name}.parquet" for name in ("best", "worst")}
    found = ec.compare(ec.load(marginal[0]), files, world / "features.parquet", samples=300)
    assert str(found).endswith(found.verdict)
    assert f"{found.rankers['value'][1]:.4f}" in str(found)
    assert "array" not in repr(found).split("seen=")[0]
    for ask in (lambda: found.samples("click"), lambda: found.difference("best", "old")):
        with pytest.raises(ec.InputError, match="there are "):
            ask()
