"""Checks that argue against a verdict: which fail, and what the verdict says about them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import logit

from epiclick.comparison.result import Comparison
from epiclick.comparison.verdict import Check, backtest_check, model_checks, unseen_check
from epiclick.fitted.parameters import BetaLookup, PointLookup
from epiclick.fitted.state import FittedModel, QuerySets

from .planted import planted
from .test_result import comparison

TESTED = "predicted 1.92 clicks per page (1.85 to 1.99), observed 1.70. Warning: 11.5% fewer clicks"


def clear_lead(**others: Any) -> Comparison:
    """new is clearly ahead of odd, and odd of old."""
    return comparison((1.0, 3.0, 2.0), **others)


def named(found: Comparison) -> list[str]:
    return [check.name for check in found.checks_failed]


def test_a_passed_backtest_leaves_the_verdict_as_it_is() -> None:
    without = clear_lead()
    passed = replace(without, backtest="predicted 1.92, observed 1.89", backtest_grade="inside")
    assert passed.verdict.startswith("new beats odd with probability above 0.99; expect +50.0%")
    assert (named(without), named(passed)) == ([], [])
    assert passed.to_dict()["checks_failed"] == []


def test_a_failed_backtest_changes_the_verdict() -> None:
    found = clear_lead(backtest=TESTED, backtest_grade="far outside")
    assert found.verdict.startswith(
        "do not choose new yet: it is ahead of odd with probability above 0.99; expect +50.0%"
    )
    assert "but the backtest failed." in found.verdict
    assert "beats" not in found.verdict
    assert found.verdict.endswith(
        f"Backtest: {TESTED}. {found.checks_failed[0].remedy}".replace("`", "")
    )
    record = found.to_dict()
    assert record["backtest_grade"] == "far outside"
    (failed,) = record["checks_failed"]
    assert failed["check"] == "backtest"
    assert "observed 1.70" in failed["found"]
    assert failed["remedy"]
    # an uncertain lead has no verdict to change
    close = comparison(backtest=TESTED, backtest_grade="far outside")
    assert close.verdict.startswith("cannot tell new from odd")
    assert named(close) == ["backtest"]


def test_a_backtest_just_outside_asks_for_a_second_one() -> None:
    found = clear_lead(backtest="a little off", backtest_grade="just outside")
    assert found.verdict.startswith("check before choosing new: it is ahead of odd with")
    assert "observed clicks lie just outside the interval of the backtest" in found.verdict
    assert found.verdict.endswith("Backtest: a little off.")
    assert (named(found), [check.state for check in found.checks()]) == ([], ["warning"])


def test_robots_change_the_verdict() -> None:
    """Their clicks make all rankers look alike, so a lead of the wrong size is not the worst."""
    fitted = planted()
    robots = "6.7% of pages have 6 or more clicks, where 0.27% are expected"
    for record, names in (
        ({"checked": True, "found": {"words": robots}}, ["robots"]),
        ({"checked": True, "found": None}, []),
        ({"checked": False, "found": None}, []),
        (None, []),
    ):
        checks = {**fitted.training.checks, **({"robots": record} if record else {})}
        own = replace(fitted, training=replace(fitted.training, checks=checks))
        found = [check for check in model_checks(own) if check.name == "robots"]
        assert [check.name for check in found] == names
        assert [check.found for check in found] == [f"{robots}."] * len(names)


def test_items_never_shown_count_for_the_rankers_that_a_verdict_compares() -> None:
    third = clear_lead(seen=0.02)
    third = replace(third, seen=np.array([0.1, 0.9, 0.9]))
    assert third.verdict.startswith("new beats odd")
    assert "90% of the slots of old contain items that the log never showed" in third.verdict
    assert [check.name for check in third.checks(third.names)] == ["unseen"]
    best = replace(third, seen=np.array([0.9, 0.25, 0.9]))
    assert best.verdict.startswith("do not choose new yet")
    assert "most of what new shows was never shown in the log" in best.verdict
    assert best.verdict.count("75% of the slots of new contain items") == 1
    # without a log nothing can be said about what it showed
    no_log = replace(best, seen=np.zeros(3), pages=None)
    assert no_log.verdict.startswith("new beats odd")
    assert "No log was given" in no_log.verdict


def test_several_checks_are_all_named() -> None:
    fit = Check("fit", "failed", "clicks are overdispersed", "", "Look for robots.")
    found = clear_lead(backtest=TESTED, backtest_grade="far outside", model_checks=(fit,))
    assert "but the backtest failed and clicks are overdispersed. " in found.verdict
    assert "Look for robots." in found.verdict
    assert found.verdict.count("overdispersed") == 1
    close = comparison(model_checks=(fit,))
    assert "Clicks are overdispersed. Look for robots." in close.verdict
    more = clear_lead().verdict_at(0.95, [fit])
    assert more.startswith("do not choose new yet")


def checked(fitted: FittedModel, **checks: Any) -> list[str]:
    """Names of the checks that fail if the checks of a fit found these."""
    training = replace(fitted.training, checks=checks)
    return [check.name for check in model_checks(replace(fitted, training=training))]


@pytest.mark.parametrize(
    ("checks", "failed"),
    [
        ({}, []),
        ({"chi2_per_df": 1.4, "chi2_df": 900}, []),
        ({"chi2_per_df": 2.3, "chi2_df": 900}, ["fit"]),
        ({"chi2_per_df": 2.3, "chi2_df": 4}, []),  # by chance
        ({"chi2_per_df": None, "chi2_df": 0}, []),
        ({"identifiability": {"warnings": []}}, []),
        ({"identifiability": {"warnings": ["position 3: not comparable"]}}, ["positions"]),
        ({"identifiability": {"warnings": [], "randomised": {"agrees": True}}}, []),
        ({"identifiability": {"warnings": [], "randomised": {"agrees": None}}}, []),
        ({"identifiability": {"warnings": [], "randomised": {"agrees": False}}}, ["randomised"]),
        ({"confounding": {"warnings": [], "large": False}}, []),
        ({"confounding": {"warnings": ["it knew more"], "large": False}}, ["confounding"]),
        ({"posterior": {"how": "laplace", "pareto_k": 0.9}}, []),
        ({"posterior": {"how": "laplace", "pareto_k": 1.1}}, ["posterior"]),
        ({"posterior": {"how": "nuts", "pareto_k": 1.1}}, []),
    ],
)
def test_checks_of_a_fit_that_matter_for_rankers(checks: dict[str, Any], failed: list[str]) -> None:
    many = pa.array(np.arange(60))
    fitted = replace(planted(), queries=QuerySets(many, many.slice(0, 0)))
    assert checked(fitted, **checks) == failed


@pytest.mark.parametrize(("large", "state"), [(True, "failed"), (False, "warning")])
def test_small_confounding_is_a_warning_only(large: bool, state: str) -> None:
    fitted = planted()
    record = {"warnings": ["the ranker knew more"], "large": large}
    training = replace(fitted.training, checks={"confounding": record})
    found = [
        check
        for check in model_checks(replace(fitted, training=training))
        if check.name == "confounding"
    ]
    assert [(check.state, check.found) for check in found] == [(state, "The ranker knew more.")]


def test_few_queries_and_the_papers_intervals_matter_for_rankers_and_a_free_scale_does_not() -> (
    None
):
    fitted = planted()
    few = replace(fitted, queries=QuerySets(pa.array(np.arange(20)), pa.array(np.arange(9))))
    assert checked(few, posterior={"how": "laplace", "pareto_k": None}) == ["queries"]
    close = np.array([0.99, 0.96, *[0.4] * (len(fitted.contexts) - 2)])
    near = replace(
        fitted, parameters=fitted.parameters._replace(position=PointLookup(logit(close)))
    )
    assert checked(near) == checked(replace(fitted, anchor=None)) == []
    betas = BetaLookup(np.zeros(len(close)), np.zeros(len(close)))
    learned = replace(fitted, parameters=fitted.parameters._replace(position=betas))
    assert checked(learned) == ["uncertainty"]


def test_what_passes_is_not_named() -> None:
    assert backtest_check("inside", "summary") == backtest_check(None, None) == ()
    assert unseen_check(["new", "old"], [0.5, 1.0]) == ()
    (both,) = unseen_check(["new", "old"], [0.4, 0.1])
    assert both.title == "most of what new and old show was never shown in the log"
