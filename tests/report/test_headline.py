"""What to ship, by the checks that passed and those that did not."""

from dataclasses import replace

import numpy as np
import pytest

import epiclick as ec
from epiclick.evaluation.backtest import backtest
from epiclick.report.markup import Absent
from epiclick.report.opening import opening
from epiclick.report.page import Report, gather
from epiclick.report.quality import BASELINE_NAMES, Quality
from epiclick.report.rankers import rankers

from .planted import draw_log, planted, sources_of, two_rankings

pytestmark = pytest.mark.slow


def fewer_clicks(log: ec.ClickCounts, share: float) -> ec.ClickCounts:
    """The log with about a share of the clicks of every entry."""
    clicks = np.random.default_rng(3).binomial(log.clicks, share)
    return replace(log, clicks=clicks)


def with_later(later: ec.ClickCounts) -> Report:
    """The report with this log held back."""
    sources = sources_of()
    _, truth = draw_log(1)
    compared = ec.compare(
        sources.model, two_rankings(truth), clicks=sources.log, backtest=later, samples=200
    )
    return gather(replace(sources, later=later, comparison=compared))


def graded(target: str) -> ec.ClickCounts:
    """A log whose backtest has this grade, with as few clicks missing as that needs."""
    model, later = planted(draw_log(1)[0]), draw_log(2)[0]
    for share in np.arange(0.99, 0.8, -0.005):
        log = fewer_clicks(later, share)
        if backtest(model.fitted_, log).grade == target:
            return log
    raise AssertionError(target)


def test_a_failed_backtest_changes_the_headline(report: Report) -> None:
    assert report.opening.ship.startswith("Ship best <b>:")
    assert report.opening.ship_state == "yes"
    failed = with_later(graded("far outside"))
    said = failed.opening
    assert said.ship_state == "no"
    assert said.ship.startswith(
        "Do not ship best <b> yet: it is ahead of worst with probability above 0.99 (+"
    )
    assert "but the backtest failed: predicted " in said.ship
    assert "neither chance nor the model's own uncertainty explains that" in said.ship
    assert "`epiclick evaluate --by day,device`" in said.ship
    assert "differed from its prediction" in said.uncertainty
    assert not isinstance(failed.rankers, Absent)
    assert failed.rankers.verdict.startswith("do not choose best <b> yet")
    states = {caveat.reason: caveat.state for caveat in failed.caveats}
    assert states["Wrong predictions of clicks the model has not seen"] == "applies"


def test_a_backtest_just_outside_makes_the_headline_careful() -> None:
    just = with_later(graded("just outside"))
    assert just.opening.ship_state == "open"
    assert just.opening.ship.startswith("Check again before you ship best <b>: it is ahead of")
    assert "one log in 10 lies outside by chance" in just.opening.ship
    assert "were just outside the interval of its prediction" in just.opening.uncertainty
    states = {caveat.reason: caveat.state for caveat in just.caveats}
    assert states["Wrong predictions of clicks the model has not seen"] == "open"


def test_other_checks_that_failed_change_it_too(report: Report) -> None:
    sources = sources_of()
    checks = {**sources.fitted.training.checks, "chi2_per_df": 2.5}
    training = replace(sources.fitted.training, checks=checks)
    sources.model.fitted_ = replace(sources.fitted, training=training)
    _, truth = draw_log(1)
    compared = ec.compare(sources.model, two_rankings(truth), clicks=sources.log, samples=200)
    found = rankers(replace(sources, comparison=compared))
    said = opening(report.bias, report.quality, found, report.caveats)
    assert said.ship.startswith("Do not ship best <b> yet: ")
    assert "but clicks are overdispersed, with 2.5 times the variance that " in said.ship
    assert "the model allows. Look for " in said.ship
    assert said.ship_state == "no"


def test_checks_of_the_page_count_beside_those_of_the_comparison(report: Report) -> None:
    """A backtest on held-out queries, baselines that know no items."""
    assert isinstance(report.quality, Quality)
    sources = sources_of()
    _, truth = draw_log(1)
    compared = ec.compare(sources.model, two_rankings(truth), clicks=sources.log, samples=200)
    # rankers by the truth know more than the model, which other estimators notice
    sources = replace(sources, comparison=replace(compared, overlap=None))
    wrong = replace(report.quality.backtest, clicks=report.quality.backtest.clicks // 2)
    behind = [
        replace(row, lead=-0.01, lead_error=0.002)
        if row.name == BASELINE_NAMES["by_context"]
        else row
        for row in report.quality.scores
    ]
    by_item = [
        replace(row, lead=-0.01, lead_error=0.002)
        if row.name == BASELINE_NAMES["by_document"]
        else row
        for row in report.quality.scores
    ]
    for quality, names in (
        (report.quality, []),
        (replace(report.quality, backtest=wrong), ["backtest"]),
        (replace(report.quality, scores=tuple(behind)), ["rules"]),
        (replace(report.quality, scores=tuple(by_item)), []),
    ):
        found = rankers(sources, quality)
        assert not isinstance(found, Absent)
        assert [check.name for check in found.checks] == names
        assert found.state == ("no" if names else "yes")
        assert found.verdict.startswith("do not choose" if names else "best <b> beats")
    # a comparison that was backtested has its own check
    tested = rankers(sources_of(), replace(report.quality, backtest=wrong))
    assert not isinstance(tested, Absent)
    assert tested.checks == ()
