"""Probabilities of clicks on pages, against an enumeration of all clicks of a page."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import epiclick as ec
from epiclick.data.shown_pages import ShownPages, read_pages
from epiclick.evaluation import page_chances as module
from epiclick.evaluation.page_chances import page_chances
from epiclick.fitted.parameters import parameter_draws
from epiclick.fitted.prediction import relevance_of_pairs
from epiclick.fitted.state import FittedModel

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")]

DEPTH = 4


class Case:
    """A small world of ubm users whose pages have 2 to 4 items, with and without features."""

    def __init__(self, name: str, *, features: bool) -> None:
        world = ec.simulate(
            queries=30, docs=6, features=2, pages=1_500, positions=DEPTH, users="ubm", seed=2
        )
        log = world.log.to_pandas()
        # positions that a page lacks, in the middle and at the end
        log = log[(log["page_id"] % 3 != log["position"] - 2) | (log["page_id"] % 2 == 0)]
        options = ec.LogOptions(click_model=name, page_parts=10)
        table = world.features if features else None
        counts = ec.read_log(log, options=options, features=table)
        train, self.test = counts.split(0.8, 0.2, by="page")
        own = {"epochs": 2, "hidden": (4,)} if features else {}
        self.model = ec.api.EPISTEMIC[name](**own).fit(train, progress=False)
        self.pages: ShownPages = read_pages(log, options, self.test)

    @property
    def fitted(self) -> FittedModel:
        return self.model.fitted_


@pytest.fixture(scope="module", params=[False, True], ids=["ids", "features"])
def ubm(request: pytest.FixtureRequest) -> Case:
    return Case("ubm", features=request.param)


def relevance_by_draw(fitted: FittedModel, counts: ec.ClickCounts) -> np.ndarray:
    """(draws, pairs), each draw by itself."""
    known = {}
    if fitted.items is not None:
        items = fitted.items
        mean = items.alpha / (items.alpha + items.beta)
        keys = zip(items.query_id.to_pylist(), items.doc_id.to_pylist(), strict=True)
        known = dict(zip(keys, mean, strict=True))
    rows = []
    for draw in parameter_draws(fitted):
        alpha, beta = relevance_of_pairs(fitted, [draw.layers], counts)
        pairs = zip(counts.query_id.to_pylist(), counts.doc_id.to_pylist(), strict=True)
        own = zip(pairs, (alpha / (alpha + beta))[0], strict=True)
        rows.append([known.get(key, mean) for key, mean in own])
    return np.array(rows)


def test_marginals_are_sums_over_all_clicks_above(ubm: Case) -> None:
    fitted, test, pages = ubm.fitted, ubm.test, ubm.pages
    found = page_chances(fitted, test, pages)
    relevance = relevance_by_draw(fitted, test)
    contexts = fitted.contexts.to_pandas()
    number = {(k, last): i for i, (k, last) in enumerate(contexts.itertuples(index=False))}
    position = test.contexts["position"].to_numpy()
    draws = parameter_draws(fitted)
    theta = [draw.position.emission(fitted.clicks, fitted.anchor, np).attractive for draw in draws]
    for page in range(0, len(pages.entry), 29):
        entries = pages.entry[page][pages.shown[page]]
        places = position[test.context[entries]]
        expected = np.zeros(len(entries))
        for own, zeta in zip(theta, relevance, strict=True):
            for clicks in product([0, 1], repeat=len(entries)):
                chance, last = 1.0, 0
                for entry, place, click in zip(entries, places, clicks, strict=True):
                    p = own[number[place, last]] * zeta[test.pair[entry]]
                    chance *= p if click else 1 - p
                    last = place if click else last
                expected += chance * np.array(clicks) / len(theta)
        assert found.marginal[page][pages.shown[page]] == pytest.approx(expected, abs=1e-12)
    assert np.all(found.marginal[~pages.shown] == 0)


def test_given_are_the_probabilities_that_evaluate_scores(ubm: Case) -> None:
    found, shown = page_chances(ubm.fitted, ubm.test, ubm.pages), ubm.pages.shown
    clicked = ubm.pages.clicked[shown]
    logs = np.where(clicked, np.log(found.given[shown]), np.log1p(-found.given[shown]))
    assert logs.mean() == pytest.approx(ubm.model.score(ubm.test), abs=1e-12)
    # the control: the marginal ones differ, below the first display of a page
    assert found.marginal[:, 0] == pytest.approx(found.given[:, 0], abs=1e-12)
    assert np.abs(found.marginal - found.given).max() > 0.01


def test_without_a_history_marginals_are_those_given_the_clicks() -> None:
    case = Case("pbm", features=False)
    found = page_chances(case.fitted, case.test, case.pages)
    assert found.given is found.marginal
    # and so by the recursion, which is not needed then
    _, marginal = module._recursion(case.fitted, case.test, case.pages)
    assert marginal == pytest.approx(found.given, abs=1e-12)


def test_chunks_give_the_same(ubm: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = page_chances(ubm.fitted, ubm.test, ubm.pages).marginal
    monkeypatch.setattr(module, "MOST_AT_ONCE", 2_000)
    assert page_chances(ubm.fitted, ubm.test, ubm.pages).marginal == pytest.approx(whole, abs=1e-12)


def test_positions_that_the_model_lacks_have_their_mean_bias(ubm: Case) -> None:
    place = ubm.test.contexts["position"].to_numpy()
    deeper = ubm.test.contexts.set_column(0, "position", [np.where(place == DEPTH, 9, place)])
    found = page_chances(ubm.fitted, replace(ubm.test, contexts=deeper), ubm.pages)
    last = ubm.pages.shown & (place[ubm.test.context[ubm.pages.entry]] == DEPTH)
    assert last.any()
    assert np.array_equal(found.marginal[last], found.given[last])
    assert np.all(found.marginal[last] > 0)
