"""Assumptions of click models: rarely doubted where they are right, and doubted where wrong.

Diagnostics use no fitted parameters, so that hundreds of small worlds take seconds.
"""

from collections import defaultdict
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.api import EPISTEMIC
from epiclick.click_models.registry import CLICK_MODELS
from epiclick.diagnostics import assumptions
from epiclick.diagnostics.assumptions import DIAGNOSTICS, Assumptions, check_assumptions
from epiclick.diagnostics.page_displays import CLUSTERS, page_displays
from epiclick.simulate.users import USERS

pytestmark = pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")

THETA = np.array([1.0, 0.7, 0.5, 0.4])


@cache
def drawn(
    users: str, seed: int, pages: int = 1_500, queries: int = 30, docs: int = 6
) -> pd.DataFrame:
    """Pages of four items in random order."""
    rng = np.random.default_rng([seed, 5])
    zeta, satisfaction = rng.beta(1, 2, (queries, docs)), rng.beta(1, 1, (queries, docs))
    query = rng.integers(queries, size=pages)
    shown = np.argsort(rng.random((pages, docs)), axis=1)[:, :4]
    model, further = USERS[users], ()
    if model.can_be_satisfied:
        further = (satisfaction[query[:, None], shown],)
    clicked = model.draw(zeta[query[:, None], shown], THETA, rng, *further)
    return pd.DataFrame(
        {
            "page_id": np.repeat(np.arange(pages), 4),
            "query_id": np.repeat(query, 4),
            "doc_id": shown.ravel(),
            "position": np.tile(np.arange(1, 5), pages),
            "click": clicked.ravel().astype(int),
        }
    )


def checked(users: str, model: str, seed: int, **size: int) -> Assumptions:
    counts = ec.read_log(drawn(users, seed, **size), click_model=model).completed()
    return check_assumptions(counts, CLICK_MODELS[model])


WORLDS = 25


@pytest.mark.slow
@pytest.mark.parametrize("model", CLICK_MODELS)
def test_scores_are_standard_normal_where_the_model_is_right(model: str) -> None:
    scores, findings = defaultdict(list), 0
    for seed in range(WORLDS):
        found = checked(model, model, seed)
        findings += bool(found.findings)
        for check in found.checks:
            if check.tested is not None:
                scores[check.diagnostic.name].append(check.tested.score.z)
    assert set(scores) == {each.name for each in DIAGNOSTICS if each.applies(CLICK_MODELS[model])}
    for name, values in scores.items():
        assert len(values) == WORLDS
        # four standard errors of a mean, and of a standard deviation, of 25 values
        assert abs(np.mean(values)) < 4 / np.sqrt(WORLDS), name
        assert abs(np.std(values) - 1) < 4 / np.sqrt(2 * WORLDS), name
    # at 1 % of all fits, 4 or more of 25 have a probability of 0.0001
    assert findings <= 3


@pytest.mark.slow
def test_blocks_of_pages_of_a_single_query_are_clusters() -> None:
    # few items on short lists, so that the same pages with the same clicks repeat
    scores = [
        check.tested.score.z
        for seed in range(WORLDS)
        for check in checked("dcm", "dcm", seed, queries=1, docs=4).checks
        if check.tested is not None and check.diagnostic.name == "first_clicks"
    ]
    assert len(scores) == WORLDS
    assert abs(np.mean(scores)) < 4 / np.sqrt(WORLDS)
    assert abs(np.std(scores) - 1) < 4 / np.sqrt(2 * WORLDS)


WRONG = [
    ("ubm", "pbm", "clicks_above"),
    ("cascade", "pbm", "clicks_above"),
    ("dcm", "trust", "clicks_above"),
    ("sdbn", "pbm", "clicks_above"),
    ("impatient", "trust", "clicks_above"),
    ("pbm", "cascade", "first_clicks"),
    ("ubm", "dcm", "first_clicks"),
    ("trust", "sdbn", "first_clicks"),
    ("impatient", "dcm", "first_clicks"),
    ("sdbn", "ubm", "skipped_items"),
    ("sdbn", "dcm", "clicked_items"),
    ("dcm", "sdbn", "clicked_positions"),
    ("trust", "pbm", "relevance_slopes"),
    ("trust", "ubm", "relevance_slopes"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("users", "model", "name"), WRONG)
def test_users_of_another_model_are_noticed(users: str, model: str, name: str) -> None:
    found = checked(users, model, 0, pages=12_000, queries=60)
    assert name in {check.diagnostic.name for check in found.findings}
    (warning,) = found.warnings
    assert warning.startswith(f"users do not follow a {CLICK_MODELS[model].title}: ")
    allowed = [check for check in found.findings if check.diagnostic.name == name]
    named = assumptions._in_words(CLICK_MODELS[model], allowed[0])
    # the users' own model is among those that allow it, if they have one
    assert users not in CLICK_MODELS or users in named.split("; ")[-1]


def test_a_click_model_is_named_only_if_it_allows_the_direction() -> None:
    more = checked("ubm", "pbm", 0, pages=4_000).warnings[0]
    assert "more often" in more
    assert "; ubm allows it)" in more
    less = checked("dcm", "pbm", 0, pages=4_000).warnings[0]
    assert "less often" in less
    assert "; ubm, cascade, dcm, sdbn allow it)" in less


@pytest.mark.parametrize("model", CLICK_MODELS)
def test_users_who_never_click_twice_are_a_log_like_any_other(model: str) -> None:
    found = checked("cascade", model, 0)
    doubted = {check.diagnostic.name for check in found.findings}
    assert doubted == ({"clicks_above"} if model in ("pbm", "trust") else set())


@pytest.mark.parametrize("model", CLICK_MODELS)
@pytest.mark.parametrize("pages", [1, 2, 5])
def test_a_few_pages_say_nothing(model: str, pages: int) -> None:
    log = drawn("ubm", 0).head(4 * pages)
    log = log.assign(click=np.arange(4 * pages) % 4 < 2)
    counts = ec.read_log(log, click_model=model).completed()
    found = check_assumptions(counts, CLICK_MODELS[model])
    assert found.displays == 4 * pages
    assert not found.findings


def test_small_effects_are_no_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked("ubm", "pbm", 0, pages=4_000)
    assert found.findings
    effect = abs(found.findings[0].tested.score.effect)
    monkeypatch.setattr(assumptions, "LEAST_EFFECT", effect * 1.01)
    assert not found.findings
    assert found.sentences()[0].startswith("No sign, on 16,000 displays of whole pages, that ")


def test_without_pages_nothing_is_checked() -> None:
    counts = ec.read_log(drawn("ubm", 0).drop(columns="page_id"))
    found = check_assumptions(counts, CLICK_MODELS["pbm"])
    assert (found.checks, found.warnings, found.displays) == ((), (), 0)
    assert found.sentences() == [
        "Not checked, as the pages of the log are unknown (it needs page_id and one row per "
        "display): whether its users follow a position-based model."
    ]


def test_a_log_of_one_query_is_divided_into_blocks_of_pages() -> None:
    log = drawn("ubm", 0, pages=3_000, queries=1)
    counts = ec.read_log(log)
    displays = page_displays(counts, CLICK_MODELS["pbm"])
    assert displays is not None
    assert len(np.unique(displays.cluster)) == CLUSTERS
    assert np.all(np.diff(displays.cluster) >= 0)  # of successive pages
    assert np.all(np.bincount(displays.cluster) == 4 * 3_000 // CLUSTERS)
    assert check_assumptions(counts, CLICK_MODELS["pbm"]).findings
    several = page_displays(ec.read_log(drawn("ubm", 0)), CLICK_MODELS["pbm"])
    assert several is not None
    page_query = drawn("ubm", 0)["query_id"].to_numpy()
    assert len(set(zip(several.cluster, page_query, strict=True))) == several.cluster.max() + 1


def test_displays_know_what_is_above_them() -> None:
    log = drawn("ubm", 1)
    displays = page_displays(ec.read_log(log), CLICK_MODELS["pbm"])
    assert displays is not None
    click = log["click"].to_numpy().reshape(-1, 4)
    above = np.cumsum(click, axis=1) - click
    np.testing.assert_array_equal(displays.above, above.ravel())
    last = np.maximum.accumulate(np.where(click, np.arange(1, 5), 0), axis=1)
    last = np.c_[np.zeros(len(click), int), last[:, :-1]].ravel()
    found = np.where(displays.last >= 0, displays.position[displays.last], 0)
    np.testing.assert_array_equal(found, last)
    np.testing.assert_array_equal(
        displays.below_click, (last > 0) & (last == displays.position - 1)
    )
    assert abs(displays.half.mean() - 0.5) < 4 * 0.5 / np.sqrt(len(click))


@pytest.mark.slow
@pytest.mark.parametrize(("users", "model"), [("ubm", "pbm"), ("pbm", "dcm"), ("pbm", "pbm")])
def test_fits_store_and_warn(users: str, model: str) -> None:
    counts = ec.read_log(drawn(users, 0, pages=4_000), click_model=model)
    training = EPISTEMIC[model]().fit(counts, progress=False).fitted_.training
    record = training.checks["assumptions"]
    expected = check_assumptions(counts.completed(), CLICK_MODELS[model])
    assert record["displays"] == 16_000
    assert record["tests"] == [check.to_dict() for check in expected.checks]
    assert set(record["warnings"]) <= set(training.warnings)
    assert bool(record["warnings"]) == (users != model)
    if users == model:
        assert expected.sentences()[0] in training.checks["words"]


def test_robust_to_a_log_whose_pages_have_lost_items() -> None:
    counts = ec.read_log(drawn("pbm", 2))
    some = counts.subset(np.arange(len(counts)) % 3 > 0)
    found = check_assumptions(some, CLICK_MODELS["pbm"])
    assert found.checks
    assert not found.findings
    none = replace(counts, sample=None)
    assert check_assumptions(none, CLICK_MODELS["pbm"]).displays == 0
