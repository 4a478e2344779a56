"""Plain EM against an optimiser that maximises a likelihood written page by page."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import optimize, special

from epiclick.benchmark.page_data import BenchmarkData, PageLog
from epiclick.benchmark.plain_em import PLAIN
from epiclick.benchmark.point_estimates import ExaminationEstimates, ReadingEstimates
from epiclick.benchmark.textbook_counting import COUNTING
from epiclick.click_models.registry import REGISTRY

from .small_data import small_data

Page = Callable[[list[int], list[bool], dict[str, np.ndarray]], float]


def examined(
    pairs: list[int], clicks: list[bool], p: dict[str, np.ndarray], contexts: dict
) -> float:
    chance, last = 1.0, 0
    for k, (pair, click) in enumerate(zip(pairs, clicks, strict=True), 1):
        own = p["theta"][contexts[k, last]] * p["zeta"][pair]
        chance *= own if click else 1 - own
        last = k if click else last
    return chance


def pbm_page(pairs: list[int], clicks: list[bool], p: dict[str, np.ndarray]) -> float:
    return examined(pairs, clicks, p, {(k, j): k - 1 for k in range(1, 4) for j in range(k)})


def ubm_page(pairs: list[int], clicks: list[bool], p: dict[str, np.ndarray]) -> float:
    keys = [(k, j) for k in range(1, 4) for j in range(k)]
    return examined(pairs, clicks, p, {key: c for c, key in enumerate(keys)})


def trust_page(pairs: list[int], clicks: list[bool], p: dict[str, np.ndarray]) -> float:
    chance = 1.0
    for k, (pair, click) in enumerate(zip(pairs, clicks, strict=True)):
        z = p["zeta"][pair]
        own = p["a"][k] * z + p["b"][k] * (1 - z)
        chance *= own if click else 1 - own
    return chance


def reading_page(by_item: bool) -> Page:
    def page(pairs: list[int], clicks: list[bool], p: dict[str, np.ndarray]) -> float:
        last = max((k for k, click in enumerate(clicks) if click), default=len(pairs) - 1)
        chance = 1.0
        for k in range(last + 1):
            z = p["zeta"][pairs[k]]
            chance *= z if clicks[k] else 1 - z
            if clicks[k] and k < last:
                chance *= p["stay"][pairs[k] if by_item else k]
        if clicks[last] and last < len(pairs) - 1:
            stay = p["stay"][pairs[last] if by_item else last]
            skipped = np.prod([1 - p["zeta"][pair] for pair in pairs[last + 1 :]])
            chance *= 1 - stay + stay * skipped
        return chance

    return page


PAGES: dict[str, Page] = {
    "pbm": pbm_page,
    "ubm": ubm_page,
    "trust": trust_page,
    "dcm": reading_page(by_item=False),
    "sdbn": reading_page(by_item=True),
}


def parts_of(found: ExaminationEstimates | ReadingEstimates) -> dict[str, np.ndarray]:
    if isinstance(found, ReadingEstimates):
        return {"zeta": found.relevance, "stay": found.going_on}
    if found.emission.is_affine:
        return {
            "zeta": found.relevance,
            "a": found.emission.attractive,
            "b": found.emission.unattractive,
        }
    return {"zeta": found.relevance, "theta": found.emission.attractive}


def improvement(name: str, data: BenchmarkData, start: dict[str, np.ndarray]) -> float:
    """How much an optimiser gains from a start, in pseudo-counted log-likelihood."""
    sizes = [len(part) for part in start.values()]
    lists = data.train.lists

    def loss(logits: np.ndarray) -> float:
        parts = np.split(special.expit(logits), np.cumsum(sizes)[:-1])
        p = dict(zip(start, parts, strict=True))
        total = sum(
            np.log(part).sum() + np.log1p(-part).sum() for part in parts
        )  # a pseudo-click and a pseudo-skip
        for row, clicks, number in zip(lists.pair, lists.clicked, lists.pages, strict=True):
            shown = int((row >= 0).sum())
            page = PAGES[name](row[:shown].tolist(), clicks[:shown].tolist(), p)
            total += number * np.log(page)
        return -total

    first = special.logit(np.concatenate(list(start.values())))
    return loss(first) - float(optimize.minimize(loss, first, method="L-BFGS-B").fun)


@pytest.mark.parametrize("name", PAGES)
def test_em_maximises_the_likelihood(name: str) -> None:
    satisfaction = 0.5 if name == "sdbn" else None
    data = small_data(name, queries=1, pages=120, seed=1, satisfaction=satisfaction, cut=True)
    found = PLAIN[name](data)
    assert 0 <= improvement(name, data, parts_of(found)) < 0.02
    # a control: other estimates are visibly below the maximum
    moved = {key: special.expit(special.logit(part) + 0.3) for key, part in parts_of(found).items()}
    assert improvement(name, data, moved) > 0.5
    if name in COUNTING:
        assert improvement(name, data, parts_of(COUNTING[name](data))) > 0.5


def test_plain_versions_are_of_click_models() -> None:
    assert {*PAGES, "cascade"} == set(PLAIN) <= set(REGISTRY)


@pytest.mark.parametrize("name", [*PAGES, "cascade"])
def test_probabilities_of_pages_are_those_of_the_literal_formula(name: str) -> None:
    satisfaction = 0.5 if name == "sdbn" else None
    data = small_data(name, queries=1, pages=60, seed=2, satisfaction=satisfaction, cut=True)
    found = PLAIN[name](data)
    own, parts = reading_page(by_item=False) if name == "cascade" else PAGES[name], parts_of(found)
    chances = found.chances(data.test)
    outcome = np.where(data.test.clicked, chances.given, 1 - chances.given)
    got = np.where(data.test.shown, outcome, 1.0).prod(axis=1)
    marginal = np.zeros(data.test.pair.shape)
    for page, (row, clicks) in enumerate(zip(data.test.pair, data.test.clicked, strict=True)):
        shown = int((row >= 0).sum())
        pairs = row[:shown].tolist()
        assert got[page] == pytest.approx(own(pairs, clicks[:shown].tolist(), parts), abs=1e-12)
        for number in range(2**shown):
            pattern = [bool(number >> k & 1) for k in range(shown)]
            marginal[page, :shown] += own(pairs, pattern, parts) * np.array(pattern)
    assert chances.marginal == pytest.approx(marginal, abs=1e-12)
    deeper = PageLog(data.test.pair, np.zeros_like(data.test.clicked))
    assert found.chances(deeper).marginal == pytest.approx(marginal, abs=1e-12)
