"""The study of natural changes of ranking: its scores are right where the truth is known."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from epiclick.benchmark.page_data import BenchmarkData, PageLog
from epiclick.evaluation.coverage import Share, clustered_share

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
LISTS, PAGES, POSITIONS, SAMPLES = 900, 40, 5, 400
SPREAD, COMMON = 0.2, 0.5
"""Standard deviation of the prediction of a list, and of what all lists of a query share."""


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import natural_changes
    import natural_lists
    import natural_scores
    import natural_values

    return SimpleNamespace(
        changes=natural_changes,
        lists=natural_lists,
        scores=natural_scores,
        values=natural_values,
    )


def clumped_pages(expected: np.ndarray, rng: np.random.Generator) -> PageLog:
    """Pages of each list with its expected clicks; half of the users click three times as often."""
    chance = np.repeat(expected, PAGES) / POSITIONS
    chance *= rng.choice([0.5, 1.5], len(chance))
    clicked = rng.random((len(chance), POSITIONS)) < chance[:, None]
    return PageLog(np.zeros(clicked.shape, np.int32), clicked)


def known_truth(study: SimpleNamespace, seed: int, **changed: float) -> SimpleNamespace:
    """Predictions that the truth is a draw of, and clicks of pages with that truth."""
    rng = np.random.default_rng(seed)
    query = np.arange(LISTS) // 3
    centre = rng.uniform(1, 1.6, LISTS)

    def drawn(size: int) -> np.ndarray:
        shared = rng.uniform(-COMMON, COMMON, (query[-1] + 1, size))[query]
        return centre[:, None] + shared + SPREAD * rng.standard_normal((LISTS, size))

    pages = clumped_pages(np.clip(drawn(1)[:, 0], 0, 3), rng)
    index = np.repeat(np.arange(LISTS), PAGES)
    return study.scores.Predictions(
        query=query,
        lists=np.arange(LISTS),
        items=np.arange(LISTS)[:, None],
        samples=drawn(SAMPLES),
        observed=study.lists.MeanClicks.of(pages, index, LISTS, POSITIONS),
        known=np.ones(LISTS, bool),
        **changed,
    )


def pairs_of(predictions: SimpleNamespace) -> tuple[np.ndarray, np.ndarray]:
    """One pair of lists of each query, so that all are independent."""
    first = np.arange(0, len(predictions.lists), 3)
    return first, first + 1


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_coverage_is_nominal_where_the_truth_is_known(study: SimpleNamespace, level: float) -> None:
    def shares(predictions: SimpleNamespace) -> list[Share]:
        values = predictions.values(np.arange(0, LISTS, 3))
        differences = predictions.differences(*pairs_of(predictions))
        return [
            clustered_share(study.scores.covered(judged, level), judged.query)
            for judged in (values, differences)
        ]

    right = known_truth(study, seed=1)
    assert not any(share.excludes(level) for share in shares(right))
    # controls: widths halved; and, of differences, which it matters for most, the sampling error of
    # the pages left out
    assert all(share.excludes(level) for share in shares(replace(right, shrink=0.5)))
    exact = replace(right, observed=replace(right.observed, error=right.observed.error * 1e-6))
    assert shares(exact)[1].excludes(level)


def test_errors_and_signs_are_as_expected_where_the_truth_is_known(study: SimpleNamespace) -> None:
    right = known_truth(study, seed=2)
    number = LISTS // 3
    for judged in (right.values(np.arange(0, LISTS, 3)), right.differences(*pairs_of(right))):
        # squares of standardised errors have mean 1 and, nearly Gaussian, a variance near 2
        squares = study.scores.calibration(judged)["dispersion"] ** 2
        assert squares == pytest.approx(1, abs=3 * np.sqrt(2.5 / number))

    def shortfall(predictions: SimpleNamespace) -> tuple[float, float]:
        """How much rarer than expected observed signs are the predicted ones, and its error."""
        judged = predictions.differences(*pairs_of(predictions))
        orders = study.scores.difference_scores(judged)["orders"]
        size = np.array([each["pairs"] for each in orders])
        assert size.sum() == number
        lack = [each["expected"] - each["agree"] for each in orders]
        variance = [each["expected"] * (1 - each["expected"]) for each in orders]
        return float(size @ lack / number), float(np.sqrt(size @ variance) / number)

    lack, error = shortfall(right)
    assert abs(lack) < 3 * error
    lack, error = shortfall(replace(right, shrink=0.5))
    assert lack > 3 * error


def test_ranks_are_those_of_simulated_means(study: SimpleNamespace) -> None:
    predictions, draws = known_truth(study, seed=3), 20_000
    judged = predictions.differences(*pairs_of(predictions))
    rng = np.random.default_rng(0)
    for number in range(5):
        one, other = 3 * number, 3 * number + 1
        difference = predictions.samples[one] - predictions.samples[other]
        # the oracle of standard error and degrees of freedom: Welch's test, of clicks with the
        # same mean and variance as the pages
        seen = predictions.observed
        found = stats.ttest_ind_from_stats(
            *(seen.mean[one], seen.error[one] * np.sqrt(PAGES), PAGES),
            *(seen.mean[other], seen.error[other] * np.sqrt(PAGES), PAGES),
            equal_var=False,
        )
        error = (seen.mean[one] - seen.mean[other]) / found.statistic
        assert judged.error[number] == pytest.approx(error)
        degrees = seen.at(np.array([one])).minus(seen.at(np.array([other]))).degrees
        noise = rng.standard_t(degrees, draws)
        simulated = rng.choice(difference, draws) + error * noise
        for share, expected in (
            ((simulated < judged.observed[number]).mean(), judged.rank[number]),
            ((simulated > 0).mean(), judged.positive[number]),
        ):
            assert share == pytest.approx(
                expected, abs=4 * np.sqrt(expected * (1 - expected) / draws) + 1e-4
            )


def test_means_and_errors_of_pages(study: SimpleNamespace) -> None:
    rng = np.random.default_rng(0)
    clicked = rng.random((60, 4)) < 0.3
    index = rng.integers(0, 3, 60)
    seen = study.lists.MeanClicks.of(PageLog(np.zeros((60, 4), np.int32), clicked), index, 4, 2)
    for number in range(3):
        clicks = clicked[index == number, :2].sum(axis=1)
        assert seen.mean[number] == pytest.approx(clicks.mean())
        assert seen.error[number] == pytest.approx(stats.sem(clicks))
    assert seen.judged(2).tolist() == [True, True, True, False]  # the last was never shown
    one, other = (clicked[index == number, :2].sum(axis=1) for number in (0, 1))
    difference = seen.at(np.array([0])).minus(seen.at(np.array([1])))
    found = stats.ttest_ind(one, other, equal_var=False)
    assert difference.degrees[0] == pytest.approx(found.df)
    assert difference.mean[0] / difference.error[0] == pytest.approx(found.statistic)


def test_overlap_with_training_pages(study: SimpleNamespace) -> None:
    pages = np.array([[1, 2, 3], [1, 2, 3], [2, 1, 4]])
    found = study.lists.Overlap.of(np.array([[1, 2, 4], [3, 5, 6]]), pages)
    assert found.nearest.tolist() == [1, 3]
    assert found.average.tolist() == pytest.approx([(1 + 1 + 2) / 3, 3])
    assert found.unseen.tolist() == [0, 2]
    assert found.moved.tolist() == [0, 1]  # item 3 was never first


def pbm_pages(seed: int, *, queries: int, lists: int, pages: int) -> BenchmarkData:
    """Users of a position-based model, on a few random lists of each query."""
    rng = np.random.default_rng(seed)
    docs, bias = 8, np.array([1, 0.7, 0.5, 0.35])
    query_of = np.repeat(np.arange(queries), docs)
    relevance = rng.beta(1.5, 2.5, len(query_of))
    orders = rng.permuted(np.tile(np.arange(docs), (queries * lists, 1)), axis=1)[:, : len(bias)]
    items = orders + docs * np.repeat(np.arange(queries), lists)[:, None]

    def part() -> PageLog:
        pair = np.repeat(items, pages, axis=0).astype(np.int32)
        return PageLog(pair, rng.random(pair.shape) < bias * relevance[pair])

    return BenchmarkData({"name": "pbm", "title": "pbm"}, query_of, part(), part())


def test_held_out_lists_are_on_no_training_page(study: SimpleNamespace) -> None:
    data = pbm_pages(0, queries=5, lists=9, pages=3)
    made = study.changes.Study(data, study.changes.Settings(folds=4, partitions=2, depths=(4,)))
    assert len(made.splits) == 8
    for first in (0, 4):
        held_out = np.array([split.held_out for split in made.splits[first : first + 4]])
        assert (held_out.sum(axis=0) == 1).all()
        by_query = [[part[made.lists.query == q].sum() for q in range(5)] for part in held_out]
        assert {int(number) for row in by_query for number in row} == {2, 3}
    for split in made.splits:
        held_out = {tuple(items) for items in made.lists.items[split.held_out]}
        shown = {tuple(items) for items in split.pages.pair}
        assert held_out.isdisjoint(shown)
        assert len(held_out) + len(shown) == len(made.lists)


def test_click_rates_without_a_model(study: SimpleNamespace) -> None:
    data = pbm_pages(1, queries=2, lists=6, pages=200)
    pages, items = data.train, data.train.pair[:1]
    of_query = data.query_of[pages.pair[:, 0]] == data.query_of[items[0, 0]]
    clicked, pair = pages.clicked[of_query], pages.pair[of_query]
    expected = {
        "position": clicked.sum(axis=1).mean(),
        "item": sum(clicked[pair == item].mean() for item in items[0]),
        "item-position": sum(
            clicked[pair[:, k] == item, k].mean() for k, item in enumerate(items[0])
        ),
    }
    for name, value in expected.items():
        samples = study.values.LEARNERS[name](pages, data.query_of).values(items)[0]
        # the prior is worth two displays, of at least 200
        error = samples.std() / np.sqrt(len(samples))
        assert samples.mean() == pytest.approx(value, abs=4 * error + 4 * 2 / 200), name
    assert expected["item"] != pytest.approx(expected["position"], abs=0.02)


@dataclass(frozen=True)
class Remembering:
    """A learner that fits once to the same pages, and values the same lists once."""

    learner: Callable[..., Any]
    fits: dict[bytes, Any] = field(default_factory=dict)
    valued: dict[tuple[bytes, bytes], np.ndarray] = field(default_factory=dict)

    def __call__(self, pages: PageLog, query_of: np.ndarray) -> Any:
        key = pages.pair.tobytes()
        if key not in self.fits:
            self.fits[key] = self.learner(pages, query_of)

        def values(lists: np.ndarray) -> np.ndarray:
            both = (key, lists.tobytes())
            if both not in self.valued:
                self.valued[both] = self.fits[key].values(lists)
            return self.valued[both]

        return self.fits[key]._replace(values=values)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")
def test_lists_held_out_of_a_right_model_are_covered(study: SimpleNamespace) -> None:
    data = pbm_pages(5, queries=16, lists=8, pages=60)
    settings = study.changes.Settings(folds=2, partitions=1, depths=(4,))
    learner = Remembering(study.values.LEARNERS["pbm"])

    def shares(shrink: float) -> list[Share]:
        made = study.changes.Study(data, replace(settings, shrink=shrink))
        found, _ = made.judged(learner)
        assert len(found[4, "later"]) == len(made.lists)
        return [
            clustered_share(study.scores.covered(found[4, kind], 0.9), found[4, kind].query)
            for kind in ("later", "same", "later_both_new", "same_both_new", "later_one_new")
        ]

    assert not any(share.excludes(0.9) for share in shares(1.0))
    assert all(share.excludes(0.9) for share in shares(0.5))
