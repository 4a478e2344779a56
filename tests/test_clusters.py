"""Fits of logs with one query, whose uncertainty comes from the differences between users."""

import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.comparison.verdict import model_checks
from epiclick.report.bias import bias
from epiclick.report.caveats import _of_intervals
from epiclick.report.report_sources import Sources

from .posterior.user_logs import user_log
from .raising import raises_code

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::epiclick.InputWarning")]


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    log = pd.DataFrame(user_log(3, users=150, pages=40))
    return log.assign(day=log["page_id"] % 7, same=1, bought=log["click"] * (log.index % 2))


def fitted(rows: pd.DataFrame, model: type[ec.EpistemicPBM] = ec.EpistemicPBM, **settings: str):
    counts = ec.read_log(rows, click_model=model.click_model, **settings)
    return model().fit(counts, progress=False)


@pytest.fixture(scope="module")
def by_user(rows: pd.DataFrame) -> ec.EpistemicPBM:
    return fitted(rows)


@pytest.fixture(scope="module")
def by_query(rows: pd.DataFrame) -> ec.EpistemicPBM:
    return fitted(rows, cluster="query")


def failed(model: ec.EpistemicPBM) -> set[str]:
    return {check.name for check in model_checks(model.fitted_)}


def found_in_report(model: ec.EpistemicPBM) -> str:
    sources = Sources(model, "m")
    (caveat,) = _of_intervals(sources, bias(sources))
    return f"{caveat.reason}: {caveat.state}. {caveat.found}"


def test_a_fit_says_which_clusters_it_used(by_user, by_query) -> None:
    checks = by_user.fitted_.training.checks
    assert checks["posterior"]["clusters"]["by"] == "user"
    assert checks["posterior"]["clusters"]["clusters"] == 150
    groups = checks["posterior"]["clusters"]["groups"]
    expected = f"Robust intervals come from the differences between 150 users in {groups} groups."
    assert expected in checks["words"]
    assert "clear" in found_in_report(by_user)
    assert f"150 users in {groups} groups" in found_in_report(by_user)
    assert bias(Sources(by_user, "m")).clusters == "users"

    checks = by_query.fitted_.training.checks
    assert checks["posterior"]["clusters"] == {"by": "query", "clusters": 1, "groups": 1}
    assert any("--cluster user" in word for word in checks["words"])
    assert "applies" in found_in_report(by_query)


def test_enough_users_pass_the_check_that_one_query_fails(by_user, by_query, rows) -> None:
    assert "queries" in failed(by_query)
    assert "queries" not in failed(by_user)
    by_day = fitted(rows, cluster="day")
    assert "queries" in failed(by_day)
    (check,) = (each for each in model_checks(by_day.fitted_) if each.name == "queries")
    assert check.title == "7 values of day are too few to estimate the uncertainty"


def test_saved_models_remember_their_clusters(by_user, tmp_path) -> None:
    by_user.save(tmp_path / "m")
    again = ec.load(tmp_path / "m")
    assert failed(again) == failed(by_user)
    np.testing.assert_array_equal(again.fitted_.posterior.robust, by_user.fitted_.posterior.robust)
    assert again.fitted_.options.cluster == "auto"


def test_users_widen_intervals_of_bias_and_of_rankers(by_user, by_query, rows) -> None:
    """Of the three kinds only that of users knows that clicks of a user depend on each other."""
    users = by_user.fitted_.posterior
    bayes = users.bayes
    wide = np.sqrt(np.diag(users.robust)[:2] / np.diag(bayes)[:2])
    one = np.sqrt(np.diag(by_query.fitted_.posterior.robust)[:2] / np.diag(bayes)[:2])
    assert np.all(wide > 1.3)
    # gradients of a single query add up to nothing but the prior's, so its variance is too small
    assert np.all(one < 1)
    clicks = ec.read_log(rows, cluster="query")
    order = np.argsort(clicks.doc_id.to_numpy())[:3]
    ranking = {
        name: pd.DataFrame({"query_id": 0, "doc_id": docs, "position": [1, 2, 3]})
        for name, docs in (("up", order), ("down", order[::-1]))
    }
    spreads = [
        ec.compare(model, ranking, clicks=clicks).difference("up", "down").spread.position_bias
        for model in (by_user, by_query)
    ]
    assert spreads[0] > 1.3**2 * spreads[1]


def test_conversions_use_the_same_clusters(rows) -> None:
    model = fitted(rows, conversion="bought")
    record = model.fitted_.conversion.training.checks["posterior"]["clusters"]
    assert (record["by"], record["clusters"]) == ("user", 150)


@pytest.mark.parametrize("model", [ec.EpistemicUBM, ec.EpistemicCascade, ec.EpistemicTrustPBM])
def test_other_click_models_have_clusters(rows, model) -> None:
    made = fitted(rows, model)
    assert made.fitted_.training.checks["posterior"]["clusters"]["by"] == "user"
    assert np.all(np.linalg.eigvalsh(made.fitted_.posterior.robust) > 0)


def test_models_of_latent_users_are_clustered_by_query(rows) -> None:
    some = rows[rows["page_id"] < 400]
    made = fitted(some, ec.EpistemicDCM)
    assert made.fitted_.training.checks["posterior"]["clusters"]["by"] == "query"
    with raises_code("option-does-not-apply"):
        fitted(some, ec.EpistemicDCM, cluster="user")


def test_clusters_that_cannot_be_compared_are_refused(rows) -> None:
    with raises_code("one-cluster"):
        fitted(rows, cluster="same")
    counts = ec.read_log(rows, cluster="user")
    with raises_code("option-does-not-apply"):
        ec.EpistemicPBM(estimator="exact").fit(counts, progress=False)
    with raises_code("no-clusters"):
        ec.EpistemicPBM().fit(counts.of_contexts(np.array([True, True, False])), progress=False)
