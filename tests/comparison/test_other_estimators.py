"""Other estimators than the model's: against loops over a log, and over simulated clicks."""

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.comparison.compare_rankers import read_slots, traffic_of
from epiclick.comparison.estimates import estimates_of
from epiclick.comparison.item_means import ItemMeans
from epiclick.comparison.logged_pairs import LoggedPairs
from epiclick.comparison.other_estimators import (
    CLIPPED,
    DRAWS,
    FOLDS,
    DrawTotals,
    Lines,
    Outcome,
    folds_of,
    some_of,
)
from epiclick.comparison.shown_items import Items, items_of

from .planted import THETA, planted, rows_of

QUERIES, DOCS, SHOWN, DEPTH = 40, 8, 6, len(THETA)
OFFSET = np.array([0.05, 0.1, 0.15, 0.12])  # clicks on irrelevant items, under trust bias
SLOPE = THETA - OFFSET
PAGES = 30  # of each query


@dataclass(frozen=True)
class Case:
    """Two rankers and a log whose displays are fixed.

    Attributes:
        pages: the log, without clicks.
        items: of the rankers.
        pairs: the supported ones.
        relevance: (queries, docs) true.
        rankings: name -> query -> docs.
    """

    pages: pd.DataFrame
    items: Items
    pairs: LoggedPairs
    relevance: np.ndarray
    rankings: dict[str, dict[int, list[int]]]

    def of_pairs(self, values: np.ndarray) -> np.ndarray:
        """(pairs,) of values (queries, docs)."""
        counts = self.items.counts
        return values[counts.query_id.to_numpy(), counts.doc_id.to_numpy()]

    def clicked(self, chance: np.ndarray, rng: np.random.Generator) -> LoggedPairs:
        """The pairs with other clicks, of a probability (pairs, contexts) each."""
        displays = self.pairs.displays.toarray().astype(int)
        clicks = rng.binomial(displays, chance).astype(float)
        return replace(self.pairs, clicks=type(self.pairs.clicks)(clicks))


def made(pages_per_query: int = PAGES) -> Case:
    """Pages of the better docs first, more or less; docs from `SHOWN` on are never shown."""
    rng = np.random.default_rng(3)
    relevance = rng.uniform(0.05, 0.6, (QUERIES, DOCS))
    rows = []
    for query in range(QUERIES):
        for page in range(pages_per_query):
            score = relevance[query, :SHOWN] * 4 + rng.gumbel(size=SHOWN)
            for position, doc in enumerate(np.argsort(-score)[:DEPTH], 1):
                rows.append((query * 1_000 + page, query, int(doc), position))
    pages = pd.DataFrame(rows, columns=["page_id", "query_id", "doc_id", "position"])
    rankings = {
        "worst first": {
            q: list(map(int, np.argsort(relevance[q])[:DEPTH])) for q in range(QUERIES)
        },
        "by number": {q: [q % DOCS, (q + 3) % DOCS, (q + 5) % DOCS] for q in range(QUERIES)},
    }
    log = ec.read_log(pages.assign(click=(rng.random(len(pages)) < 0.2).astype(int)))
    fitted = planted(features=False)
    tables = {name: rows_of(each) for name, each in rankings.items()}
    traffic = traffic_of(fitted, log)
    _, slots = read_slots(fitted, tables, None, log, traffic)
    items = items_of(fitted, slots.query_id, slots.doc_id, None, log)
    pairs = LoggedPairs.of(fitted, slots, items, traffic)
    assert pairs is not None
    return Case(pages, items, pairs, relevance, rankings)


@pytest.fixture(scope="module")
def case() -> Case:
    return made()


def true_values(case: Case, slope: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """(rankers,) clicks per page on docs that the log shows for their query, by a loop."""
    shown = set(zip(case.pages["query_id"], case.pages["doc_id"], strict=True))
    return np.array(
        [
            sum(
                (slope[k] * case.relevance[q, doc] + offset[k]) / QUERIES
                for q, docs in ranking.items()
                for k, doc in enumerate(docs)
                if (q, doc) in shown
            )
            for ranking in case.rankings.values()
        ]
    )


def totals_of(
    case: Case, pairs: LoggedPairs, lines: Lines, prediction: np.ndarray, spread: float = 0.02
) -> tuple[DrawTotals, ItemMeans]:
    """Totals of all items in two chunks; the model's relevance is the true one."""
    draws = len(lines.rise)
    outcome = Outcome(prediction, np.full(len(pairs), spread))
    totals = DrawTotals(pairs, lines, outcome, np.arange(draws))
    mean = np.tile(case.of_pairs(case.relevance), (draws, 1))
    unseen = np.full((draws, len(case.items) - len(pairs)), 0.3)  # not in any total
    whole = np.concatenate([mean, unseen], axis=1)
    chunks = [(part, np.zeros_like(part)) for part in np.split(whole, [70], axis=1)]
    means = ItemMeans(chunks, totals.add)
    assert len(list(means)) == 2
    return totals, means


def lines(slope: np.ndarray, offset: np.ndarray | float = 0.0) -> Lines:
    """Lines of a single draw."""
    return Lines(slope[None], np.zeros((1, DEPTH)) + offset)


def test_formulas_are_those_of_a_loop(case: Case) -> None:
    """Three draws of slopes and offsets; every sum over displays, clicks and slots by hand."""
    rng = np.random.default_rng(5)
    drawn = Lines(rng.uniform(0.2, 0.9, (3, DEPTH)), rng.uniform(0, 0.1, (3, DEPTH)))
    prediction = rng.uniform(0.1, 0.5, len(case.pairs))
    pairs = case.clicked(np.full(case.pairs.displays.shape, 0.3), rng)
    totals, _ = totals_of(case, pairs, drawn, prediction)
    counts = case.items.counts
    number = {
        key: i
        for i, key in enumerate(
            zip(counts.query_id.to_pylist(), counts.doc_id.to_pylist(), strict=True)
        )
    }
    shown: dict[tuple[int, int], np.ndarray] = defaultdict(lambda: np.zeros(DEPTH))
    for _, query, doc, position in case.pages.to_numpy():
        shown[query, doc][position - 1] += 1
    fold = folds_of(pairs.query)
    least = CLIPPED / np.sqrt(QUERIES * PAGES)
    clicks = pairs.clicks.toarray()
    for draw in range(3):
        s, o = drawn.rise[draw], drawn.offset[draw]
        observed, expected = np.zeros(FOLDS), np.zeros(FOLDS)
        for key, i in number.items():
            observed[fold[i]] += sum(clicks[i, k] - shown[key][k] * o[k] for k in range(DEPTH))
            expected[fold[i]] += sum(shown[key][k] * s[k] * prediction[i] for k in range(DEPTH))
        for ranker, ranking in enumerate(case.rankings.values()):
            ips = snips = dr = model = fixed = 0.0
            for query, docs in ranking.items():
                for place, doc in enumerate(docs):
                    if (query, doc) not in number:
                        continue
                    i, there = number[query, doc], shown[query, doc]
                    exposure = sum(there[k] * s[k] for k in range(DEPTH))
                    by_position = sum(
                        (clicks[i, k] - there[k] * o[k]) / s[k] for k in range(DEPTH)
                    ) / sum(there)
                    normalised = sum(clicks[i, k] - there[k] * o[k] for k in range(DEPTH))
                    normalised /= exposure
                    others = [f for f in range(FOLDS) if f != fold[i]]
                    m = prediction[i] * sum(observed[others]) / sum(expected[others])
                    kept = min(1.0, exposure / PAGES / least)
                    here = s[place] / QUERIES
                    ips += here * by_position
                    snips += here * normalised
                    dr += here * (m + kept * (normalised - m))
                    model += here * case.relevance[query, doc]
                    fixed += o[place] / QUERIES
            found = totals.by_estimator()
            got = [found[name][draw, ranker] for name in ("ips", "snips", "dr")]
            np.testing.assert_allclose(got, [ips, snips, dr], rtol=1e-10)
            assert totals.model[draw, ranker] == pytest.approx(model)
            assert totals.fixed()[draw, ranker] == pytest.approx(fixed)


def test_without_clipping_the_doubly_robust_value_is_self_normalised_ips(case: Case) -> None:
    """The identity by which nothing but clipping makes them differ."""
    rng = np.random.default_rng(6)
    pairs = replace(case.clicked(np.full((len(case.pairs), DEPTH), 0.3), rng), log_pages=1e12)
    found = totals_of(case, pairs, lines(THETA), rng.random(len(pairs)))[0].by_estimator()
    np.testing.assert_allclose(found["dr"], found["snips"], rtol=1e-12)
    clipped = totals_of(
        case, replace(pairs, log_pages=100.0), lines(THETA), np.full(len(pairs), 0.9)
    )[0].by_estimator()
    assert np.all(np.abs(clipped["dr"] - clipped["snips"]) > 1e-4)


REPEATS = 100


def errors(
    case: Case,
    chance: np.ndarray,
    used: Lines,
    prediction: np.ndarray,
    truth: np.ndarray,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Mean error of each estimator over repeated clicks, and its standard error, (rankers,) each."""
    rng = np.random.default_rng(8)
    found = defaultdict(list)
    for _ in range(REPEATS):
        totals, _ = totals_of(case, case.clicked(chance, rng), used, prediction)
        for name, values in totals.by_estimator().items():
            found[name].append((values + totals.fixed())[0] - truth)
    return {
        name: (np.mean(each, axis=0), np.std(each, axis=0) / np.sqrt(REPEATS))
        for name, each in found.items()
    }


@pytest.mark.parametrize("offset", [0.0, OFFSET], ids=["pbm", "trust"])
def test_estimates_are_unbiased_on_supported_slots(case: Case, offset: np.ndarray | float) -> None:
    """With a prediction that is wrong: right means over clicks if position bias is right."""
    slope = THETA - offset
    zeta, offsets = case.of_pairs(case.relevance), np.zeros(DEPTH) + offset
    chance = slope * zeta[:, None] + offsets
    truth = true_values(case, slope, offsets)
    wrong = np.random.default_rng(9).permutation(zeta) / 3
    # a log of so many pages clips nothing
    many = replace(case, pairs=replace(case.pairs, log_pages=1e12))
    found = errors(many, chance, lines(slope, offset), wrong, truth)
    for name, (mean, error) in found.items():
        assert np.all(np.abs(mean) < 4 * error), name
        assert np.all(error < 0.02 * truth), name
    # controls: the prediction alone is far off, and so are all with another position bias
    exposure = many.pairs.exposure(slope[None]).target[:, :, 0]
    alone = exposure.T @ wrong + true_values(
        replace(case, relevance=0 * case.relevance), slope, offsets
    )
    assert np.all(np.abs(alone - truth) > 20 * found["dr"][1])
    flat = np.sqrt(slope)
    for name, (mean, error) in errors(many, chance, lines(flat, offset), wrong, truth).items():
        assert np.any(np.abs(mean) > 10 * error), name


def test_ignored_offsets_are_noticed(case: Case) -> None:
    """The control of trust bias: clicks on irrelevant items taken for relevance."""
    zeta = case.of_pairs(case.relevance)
    chance, truth = SLOPE * zeta[:, None] + OFFSET, true_values(case, SLOPE, OFFSET)
    for name, (mean, error) in errors(case, chance, lines(SLOPE), zeta, truth).items():
        assert np.any(np.abs(mean) > 10 * error), name


@pytest.mark.slow
def test_clipping_costs_a_product_of_errors() -> None:
    """Few pages: a prediction of the right level removes most of the error of a wrong one."""
    case = made(pages_per_query=4)
    zeta = case.of_pairs(case.relevance)
    truth = true_values(case, THETA, np.zeros(DEPTH))
    chance = THETA * zeta[:, None]
    scaled = errors(case, chance, lines(THETA), zeta / 5, truth)
    # it is calibrated by a ratio of sums, whose own bias is of a smaller order
    assert np.all(np.abs(scaled["dr"][0]) < 4 * scaled["dr"][1] + 0.002 * truth)
    assert np.all(scaled["dr"][1] < 0.95 * scaled["snips"][1])
    wrong = np.full(len(zeta), 0.9)
    target, logged = case.pairs.exposure(THETA[None])
    kept = np.minimum(1, logged[:, 0] / 4 / (CLIPPED / np.sqrt(4 * QUERIES)))
    assert kept.min() < 0.5
    level = (chance * case.pairs.displays.toarray()).sum() / (logged[:, 0] * wrong).sum()
    product = target[:, :, 0].T @ ((1 - kept) * (level * wrong - zeta))
    mean, error = errors(case, chance, lines(THETA), wrong, truth)["dr"]
    np.testing.assert_allclose(mean, product, atol=4 * error.max() + 0.05 * abs(product).max())
    assert abs(product[0]) < 0.8 * abs(target[:, 0, 0] @ (level * wrong - zeta))


@pytest.mark.slow
def test_intervals_have_their_coverage(case: Case) -> None:
    """Relevance is drawn anew around its prediction, as the doubly robust variance assumes."""
    rng, repeats, levels, nu = np.random.default_rng(10), 150, (0.5, 0.9), 8.0
    spread = case.of_pairs(case.relevance * (1 - case.relevance)) / (nu + 1)
    names = list(case.rankings)
    away, half = defaultdict(list), defaultdict(list)
    for _ in range(repeats):
        own = replace(case, relevance=rng.beta(nu * case.relevance, nu * (1 - case.relevance)))
        pairs = case.clicked(THETA * own.of_pairs(own.relevance)[:, None], rng)
        totals, means = totals_of(own, pairs, lines(THETA), case.of_pairs(case.relevance))
        totals.outcome = totals.outcome._replace(variance=spread)
        truth = true_values(own, THETA, np.zeros(DEPTH))
        for level in levels:
            for each in estimates_of(names, totals, means, level, members=False):
                key = each.estimator, level
                away[key].append(abs(each.value - truth[names.index(each.name)]))
                half[key].append((each.high - each.low) / 2)
    for (name, level), found in away.items():
        # two rankers are nearly independent; phi, at least 1, widens intervals a little
        error = np.sqrt(level * (1 - level) / repeats)
        inside = np.mean(np.array(found) < half[name, level])
        assert level - 3.5 * error < inside < level + 0.03 + 3.5 * error, name
        control = np.mean(np.array(found) < 0.5 * np.array(half[name, level]))
        assert control < level - 3.5 * error, name


def test_correlated_clicks_of_a_query_widen_the_interval(case: Case) -> None:
    """Days on which all items of a query are clicked more: the ratio of variances sees them."""
    rng = np.random.default_rng(11)
    zeta = case.of_pairs(case.relevance)
    widths = []
    for shared in (0.0, 0.5):
        factor = np.exp(shared * rng.standard_normal(QUERIES))
        chance = np.clip(THETA * zeta[:, None] * factor[case.pairs.query, None], 0, 1)
        totals, means = totals_of(case, case.clicked(chance, rng), lines(THETA), zeta, 0.0001)
        found = estimates_of(tuple(case.rankings), totals, means, 0.9, members=False)
        widths.append([each.high - each.low for each in found])
    assert np.all(np.array(widths[1]) > 1.5 * np.array(widths[0]))


def test_uncertain_position_bias_widens_the_interval(case: Case) -> None:
    rng = np.random.default_rng(12)
    zeta = case.of_pairs(case.relevance)
    pairs = case.clicked(THETA * zeta[:, None], rng)
    drawn = THETA ** np.exp(0.8 * np.linspace(-1, 1, 20))[:, None]
    sure, unsure = (
        [
            each.high - each.low
            for each in estimates_of(
                tuple(case.rankings),
                *totals_of(case, pairs, Lines(theta, 0 * theta), zeta),
                0.9,
                members=False,
            )
        ]
        for theta in (THETA[None], drawn)
    )
    # of the second ranker; the first shows items about where the log does, so that bias cancels
    assert np.all(np.array(unsure[3:]) > 1.2 * np.array(sure[3:]))


def test_draws_are_taken_in_mirrored_pairs() -> None:
    np.testing.assert_array_equal(some_of(10), np.arange(10))
    for draws in (DRAWS + 1, 250, 251):
        drawn = some_of(draws)
        assert len(set(drawn)) == DRAWS
        assert drawn.max() < draws
        half = -(-draws // 2)
        np.testing.assert_array_equal(drawn[DRAWS // 2 :], half + drawn[: DRAWS // 2])


def test_folds_divide_queries(case: Case) -> None:
    fold = folds_of(case.pairs.query)
    for query in range(QUERIES):
        assert len(set(fold[case.pairs.query == query])) == 1
    assert set(fold) == set(range(FOLDS))
