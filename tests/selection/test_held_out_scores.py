"""Scores on held-out pages, by hand; pages that a model gives probability 0."""

from dataclasses import replace

import numpy as np
import pytest

import epiclick as ec
from epiclick.data.shown_pages import read_pages
from epiclick.evaluation.page_chances import page_chances
from epiclick.selection.held_out_scores import held_out_scores, log_probability

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")]


class Case:
    def __init__(self, name: str) -> None:
        world = ec.simulate(
            queries=20, docs=6, features=2, pages=1_000, positions=3, users="ubm", seed=3
        )
        self.log = world.log.to_pandas()
        options = ec.LogOptions(click_model=name, page_parts=10)
        train, self.test = ec.read_log(self.log, options=options).split(0.7, 0.3, by="page")
        self.model = ec.api.EPISTEMIC[name]().fit(train, progress=False)
        self.pages = read_pages(self.log, options, self.test)


@pytest.fixture(scope="module")
def ubm() -> Case:
    return Case("ubm")


@pytest.fixture(scope="module")
def pbm() -> Case:
    return Case("pbm")


def test_sums_by_query_and_perplexity_by_position(ubm: Case) -> None:
    found = held_out_scores(ubm.model, ubm.test, ubm.pages)
    chances = page_chances(ubm.model.fitted_, ubm.test, ubm.pages)
    given, marginal = {}, {}
    number = {}
    for (page, slot), entry in np.ndenumerate(ubm.pages.entry):
        query = int(ubm.test.query[ubm.test.pair[entry]])
        place = int(ubm.test.contexts["position"][ubm.test.context[entry]].as_py())
        clicked = ubm.pages.clicked[page, slot]
        for into, key, p in (
            (given, query, chances.given[page, slot]),
            (marginal, query, chances.marginal[page, slot]),
            (marginal, ("at", place), chances.marginal[page, slot]),
        ):
            into[key] = into.get(key, 0.0) + np.log(p if clicked else 1 - p)
        for key in (query, ("at", place)):
            number[key] = number.get(key, 0) + 1
    queries = range(ubm.test.num_queries)
    assert found.displays.tolist() == [number[q] for q in queries]
    assert found.given == pytest.approx([given[q] for q in queries])
    assert found.marginal == pytest.approx([marginal[q] for q in queries])
    perplexity = [np.exp(-marginal["at", k] / number["at", k]) for k in (1, 2, 3)]
    assert found.by_position["perplexity"].to_numpy() == pytest.approx(perplexity)
    assert found.perplexity == pytest.approx(np.mean(perplexity))
    assert found.log_likelihood == pytest.approx(ubm.model.score(ubm.test))
    assert found.impossible == 0


def test_counts_and_pages_give_the_same_without_a_history(pbm: Case) -> None:
    by_counts, by_pages = (held_out_scores(pbm.model, pbm.test, p) for p in (None, pbm.pages))
    for name in ("displays", "given", "marginal"):
        assert getattr(by_counts, name) == pytest.approx(getattr(by_pages, name))
    assert np.array_equal(by_counts.given, by_counts.marginal)
    assert by_counts.by_position.drop(columns="perplexity").equals(
        by_pages.by_position.drop(columns="perplexity")
    )
    assert by_counts.perplexity == pytest.approx(by_pages.perplexity)
    assert by_counts.perplexity == pytest.approx(pbm.model.score_clicks(pbm.test).perplexity)
    assert (by_counts.unit, by_pages.unit) == ("display", "page")


def test_pages_of_probability_0_are_counted(ubm: Case) -> None:
    """Users who never look past a click: pages with two clicks are impossible."""
    fitted = ubm.model.fitted_
    after_click = fitted.contexts["last_click"].to_numpy() > 0
    lookup = fitted.parameters.position
    logit = np.where(after_click, -1e4, lookup.logit)
    position = type(lookup)(logit)
    model = ec.EpistemicUBM()
    model.fitted_ = replace(
        fitted, parameters=fitted.parameters._replace(position=position), posterior=None
    )
    found = held_out_scores(model, ubm.test, ubm.pages)
    twice = int((ubm.pages.clicked.sum(axis=1) > 1).sum())
    assert found.impossible == twice > 0
    assert found.log_likelihood == -np.inf
    assert found.pair_log_likelihood is None
    assert np.isfinite(found.marginal_log_likelihood)


def test_impossible_clicks_and_skips_have_a_log_probability_of_minus_infinity() -> None:
    found = log_probability(np.array([0, 1, 0, 1]), np.ones(4), np.array([0.0, 0.0, 1.0, 1.0]))
    assert found.tolist() == [0, -np.inf, -np.inf, 0]
    assert log_probability(np.array([1]), np.ones(1), np.array([1 + 1e-15])).tolist() == [0]
