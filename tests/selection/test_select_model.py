"""Which model is chosen in simulated worlds, and what select refuses."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.click_models.registry import REGISTRY, click_model
from epiclick.data.shown_pages import read_pages
from epiclick.selection import select_model
from epiclick.selection.held_out_scores import held_out_scores
from epiclick.selection.parsimony import chosen_of
from epiclick.selection.select_model import compared
from epiclick.selection.selected import COLUMNS, Selection

from ..raising import raises_code

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")]

TWO = ("pbm", "ubm")
SEED = 4


def world(users: str, pages: int = 8_000) -> ec.World:
    return ec.simulate(
        queries=80, docs=8, features=2, pages=pages, positions=5, users=users, seed=6
    )


@pytest.fixture(scope="module")
def of_ubm_users() -> tuple[pd.DataFrame, Selection]:
    log = world("ubm").log.to_pandas()
    return log, ec.select(log, TWO, seed=SEED, progress=False)


def test_ubm_users_are_recognised(of_ubm_users: tuple[pd.DataFrame, Selection]) -> None:
    _, found = of_ubm_users
    assert (found.best, found.chosen) == ("ubm", "ubm")
    assert found.verdict.startswith("Choose ubm: ")
    pbm, ubm = found.scores
    assert pbm.high < 0 == ubm.difference
    assert (pbm.parameters, ubm.parameters) == (4, 14)
    assert found.models["ubm"].click_model == "ubm"
    assert pbm.relative_bias == found.models["pbm"].position_bias()["relative"].iloc[-1]
    assert f"{pbm.relative_bias:.3f} under pbm" in found.verdict
    assert found.last_position == "position 5"


def test_pbm_users_are_recognised() -> None:
    found = ec.select(world("pbm").log, TWO, seed=SEED, progress=False)
    # a ubm contains every pbm, so it can only lose by overfitting
    assert found.chosen == "pbm"
    ubm = found.scores[1]
    assert abs(ubm.difference) < 0.002


def test_clicks_shuffled_between_held_out_pages_prefer_no_richer_model(
    of_ubm_users: tuple[pd.DataFrame, Selection],
) -> None:
    log, found = of_ubm_users
    # marginals stay as they were, and dependence within a page is gone
    rng = np.random.default_rng(0)
    shuffled = log.copy()
    shuffled["click"] = log.groupby(["query_id", "doc_id", "position"])["click"].transform(
        lambda clicks: rng.permutation(clicks.to_numpy())
    )
    chosen = {}
    for name, source in (("shuffled", shuffled), ("as logged", log)):
        candidates = {}
        for model in TWO:
            # the same folds: they depend on page_id alone
            options = ec.LogOptions(click_model=model, page_parts=20)
            counts = ec.read_log(source, options=options)
            test = counts.split(0.8, 0.2, by="page", seed=SEED)[1]
            pages = read_pages(source, options, test) if model == "ubm" else None
            fitted = found.models[model]
            scores = held_out_scores(fitted, test, pages)
            candidates[model] = select_model.Candidate(fitted, scores, 0.0, None)
        chosen[name] = compared(candidates, 0.9)
    assert chosen_of(chosen["shuffled"]).click_model == "pbm"
    assert chosen_of(chosen["as logged"]).click_model == "ubm"
    # which are the pages and the scores of the selection itself
    for one, other in zip(chosen["as logged"], found.scores, strict=True):
        assert one == replace(other, seconds=0.0)


def test_the_result_is_a_table_words_and_a_record(
    of_ubm_users: tuple[pd.DataFrame, Selection],
) -> None:
    log, found = of_ubm_users
    assert tuple(found.table.columns) == COLUMNS
    assert found.table["click_model"].tolist() == list(TWO)
    assert found.verdict in str(found)
    record = found.to_dict()
    assert {"models", "best", "chosen", "verdict", "rule"} <= set(record)
    assert record["models"][0]["click_model"] == "pbm"
    held_out = found.held_out["ubm"]
    assert found.displays == held_out.displays.sum()
    assert found.pages == round(found.displays / 5)
    assert 0.15 < found.pages / log["page_id"].nunique() < 0.25
    by_position = found.by_position
    means = by_position.groupby("click_model")["perplexity"].mean()
    assert means["pbm"] == pytest.approx(found.scores[0].perplexity)
    assert len(by_position) == 10


def test_scores_are_those_of_fits_to_the_same_training_pages(
    of_ubm_users: tuple[pd.DataFrame, Selection],
) -> None:
    log, found = of_ubm_users
    for name, scores in zip(TWO, found.scores, strict=True):
        counts = ec.read_log(log, click_model=name, page_parts=20)
        train, test = counts.split(0.8, 0.2, by="page", seed=SEED)
        model = ec.api.EPISTEMIC[name](seed=SEED).fit(train, progress=False)
        assert scores.log_likelihood == pytest.approx(model.score(test), abs=1e-12)


def test_the_order_of_models_and_of_rows_does_not_matter(
    of_ubm_users: tuple[pd.DataFrame, Selection],
) -> None:
    log, found = of_ubm_users
    again = ec.select(log.sample(frac=1, random_state=0), TWO[::-1], seed=SEED, progress=False)
    assert again.verdict == found.verdict
    for one, other in zip(again.scores[::-1], found.scores, strict=True):
        assert one.log_likelihood == pytest.approx(other.log_likelihood, abs=1e-9)


def test_features_are_used() -> None:
    made = world("pbm", pages=2_000)
    own = {"epochs": 2, "hidden": (4,)}
    found = ec.select(made.log, TWO, made.features, parameters=own, progress=False)
    for model in found.models.values():
        assert model.feature_names_in_.tolist() == list(made.features.names)
        assert model.hidden == (4,)
    some = made.features.keys.to_pandas().query("doc_id > 0").assign(f0=1.0)
    with raises_code("missing-features"):
        ec.select(made.log, TWO, some, parameters=own, progress=False)
    dropping = {"missing_features": "drop", "parameters": own, "progress": False}
    with pytest.warns(ec.InputWarning, match="pairs have no features and were left out") as told:
        ec.select(made.log, TWO, some, **dropping)
    assert sum("left out" in str(each.message) for each in told) == 1


def needing_pages() -> list[str]:
    return [name for name in REGISTRY if click_model(name).history]


def test_without_pages_models_with_a_history_are_left_out_by_default() -> None:
    log = world("pbm", pages=2_000).log.to_pandas().drop(columns="page_id")
    with pytest.warns(ec.InputWarning, match="ubm is left out: .* no column for page_id"):
        found = ec.select(log, progress=False)
    assert not set(found.models) & set(needing_pages())
    assert "pbm" in found.models
    assert found.pages is None
    assert any("single displays were held out" in note for note in found.notes)
    with raises_code("missing-column") as refused:
        ec.select(log, TWO, progress=False)
    assert "--click-model" not in str(refused.value)


def test_counted_logs_are_compared_by_displays() -> None:
    log = world("pbm", pages=2_000).log.to_pandas()
    keys = ["query_id", "doc_id", "position"]
    counted = log.groupby(keys).agg(displays=("click", "size"), clicks=("click", "sum"))
    counted = counted.reset_index()
    found = ec.select(counted, ("pbm",), progress=False)
    of_counts = ec.select(ec.read_log(counted), ("pbm",), progress=False)
    assert found.scores[0].log_likelihood == of_counts.scores[0].log_likelihood
    assert found.displays == pytest.approx(0.2 * len(log), rel=0.1)
    with raises_code("needs-single-displays"):
        ec.select(counted, ("ubm",), progress=False)
    with raises_code("needs-single-displays"):
        ec.select(ec.read_log(counted), ("ubm",), progress=False)


def tiny(queries: int = 3, pages: int = 60, clicks: bool = True) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        (page, page % queries, (page + k) % 4, k + 1, int(clicks and rng.random() < 0.4))
        for page in range(pages)
        for k in range(3)
    ]
    return pd.DataFrame(rows, columns=["page_id", "query_id", "doc_id", "position", "click"])


@pytest.mark.parametrize(
    ("source", "given", "code"),
    [
        (tiny(), {"models": ("pbm", "umb")}, "unknown-click-model"),
        (tiny(), {"models": "pbm"}, "invalid-type"),
        (tiny(), {"models": ()}, "invalid-type"),
        (tiny(), {"models": ("pbm", "pbm")}, "repeated-model"),
        (tiny(), {"holdout": 0.0}, "holdout-out-of-range"),
        (tiny(), {"holdout": 1}, "holdout-out-of-range"),
        (tiny(), {"holdout": "much"}, "holdout-out-of-range"),
        (tiny(), {"level": 90}, "level-out-of-range"),
        (tiny(), {"seed": -1}, "not-whole-number"),
        (tiny(), {"missing_features": "ignore"}, "unknown-choice"),
        (tiny(queries=1), {}, "too-few-queries"),
        (tiny(clicks=False), {}, "no-clicks"),
        (tiny(pages=1), {}, "too-few-groups"),
        (tiny(), {"models": ("ubm",), "context": ("doc_id",)}, "reserved-column"),
        (3, {}, "invalid-type"),
    ],
)
def test_bad_input_is_refused(source: object, given: dict[str, object], code: str) -> None:
    with raises_code(code):
        ec.select(source, progress=False, **given)


@pytest.mark.parametrize("users", ["pbm", "trust"])
def test_clicks_on_unattractive_items_compete_where_pages_show_them(users: str) -> None:
    made = ec.simulate(
        queries=100, docs=8, features=2, pages=30_000, positions=4, users=users, seed=0
    )
    found = ec.select(made.log, ("pbm", "trust"), progress=False)
    by_name = {each.click_model: each for each in found.scores}
    # items have five values of relevance, the least of which is 0.1: only an affine map has a least
    assert by_name["trust"].log_likelihood > by_name["pbm"].log_likelihood
    assert by_name["trust"].is_redundant == (users == "pbm")
    assert by_name["pbm"].is_contradicted == (users == "trust")
    assert not by_name["trust"].is_contradicted
    assert found.chosen == users
