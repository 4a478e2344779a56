"""Textbook counting: the literal definition, and its bias where our models have none."""

import numpy as np
import pytest

import epiclick as ec
from epiclick.benchmark.own_fits import fit_own
from epiclick.benchmark.page_data import BenchmarkData
from epiclick.benchmark.plain_em import PLAIN
from epiclick.benchmark.textbook_counting import COUNTING

from .small_data import small_data


def literal(name: str, data: BenchmarkData) -> tuple[list[float], list[float]]:
    """Attraction, and continuation by position (dcm) or by item (sdbn), page by page."""
    size = data.pairs if name == "sdbn" else data.train.depth
    clicks, read = [1.0] * data.pairs, [2.0] * data.pairs
    last_clicks, all_clicks = [1.0] * size, [2.0] * size
    for row, marks in zip(data.train.pair.tolist(), data.train.clicked.tolist(), strict=True):
        places = [k for k, pair in enumerate(row) if pair >= 0]
        clicked = [k for k in places if marks[k]]
        end = clicked[0 if name == "cascade" else -1] if clicked else places[-1]
        for k in places:
            if k <= end:
                read[row[k]] += 1
                clicks[row[k]] += marks[k]
            if marks[k]:
                kind = row[k] if name == "sdbn" else k
                all_clicks[kind] += 1
                last_clicks[kind] += k == clicked[-1]
    attraction = [c / r for c, r in zip(clicks, read, strict=True)]
    stops = [
        0.0 if name == "cascade" else 1 - s / a
        for s, a in zip(last_clicks, all_clicks, strict=True)
    ]
    return attraction, stops


@pytest.mark.parametrize("name", COUNTING)
def test_counting_is_the_textbook_definition(name: str) -> None:
    satisfaction = 0.6 if name == "sdbn" else None
    data = small_data(name, pages=400, seed=4, satisfaction=satisfaction, cut=True)
    found = COUNTING[name](data)
    attraction, going_on = literal(name, data)
    assert np.abs(found.relevance - attraction).max() < 1e-9
    assert np.abs(found.going_on - going_on).max() < 1e-9
    other = small_data(name, pages=400, seed=5, satisfaction=satisfaction, cut=True)
    assert np.abs(COUNTING[name](other).relevance - attraction).max() > 1e-3  # the control


def errors(data: BenchmarkData, estimate: np.ndarray) -> tuple[float, float]:
    """Mean error of relevance over queries, and its standard error."""
    assert data.gain is not None
    by_query = np.bincount(data.query_of, estimate - data.gain) / np.bincount(data.query_of)
    return float(by_query.mean()), float(by_query.std(ddof=1) / np.sqrt(len(by_query)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")
@pytest.mark.parametrize(("name", "satisfaction"), [("dcm", None), ("sdbn", 0.7)])
def test_counting_is_biased_where_our_model_is_not(name: str, satisfaction: float | None) -> None:
    data = small_data(
        name, queries=30, docs=6, depth=5, pages=15_000, seed=7, satisfaction=satisfaction
    )
    counted, spread = errors(data, COUNTING[name](data).relevance)
    assert counted > 6 * spread  # above the truth by far
    ours, spread = errors(data, fit_own(data, name).relevance)
    assert abs(ours) < 4 * spread
    plain, spread = errors(data, PLAIN[name](data).relevance)
    assert abs(plain) < 4 * spread


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")
def test_our_intervals_of_going_on_contain_the_truth_and_counting_does_not() -> None:
    data = small_data("dcm", queries=30, docs=6, depth=5, pages=15_000, seed=8)
    theta = 1 / np.arange(1, 6) ** 0.5
    truth = 0.2 + 0.6 * theta
    model = ec.EpistemicDCM(level=0.999).fit(
        ec.read_log(data.train.to_table(data.query_of), click_model="dcm"), progress=False
    )
    table = model.click_table()
    known = slice(0, 4)  # at the end of a page nobody can be seen to go on
    low, high = (table[end].to_numpy()[known] for end in ("low", "high"))
    assert np.all((low < truth[known]) & (truth[known] < high))
    counted = COUNTING["dcm"](data).going_on[known]
    assert np.all(counted < low - (high - low))
