"""Position bias of randomised pages: against brute force, and against models of other pages."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import epiclick as ec
from epiclick.click_models.pbm import PositionBased
from epiclick.data.counts import ClickCounts
from epiclick.data.schema import LogOptions
from epiclick.diagnostics.randomised import FEWEST_CLICKS, compare_randomised, mantel_haenszel
from epiclick.fitted.parameters import ParameterPosterior, Parameters, PointLookup
from epiclick.fitted.state import FittedModel, QuerySets, TrainingSummary

pytestmark = pytest.mark.slow

THETA = np.array([1.0, 0.6, 0.3])


def pages(queries: int, length: Callable[[int], int], *, seed: int = 0) -> ClickCounts:
    """Randomised pages, 20 per query, of the length of each query."""
    rng = np.random.default_rng(seed)
    rows = []
    for query in range(queries):
        # where pages are longer, items are more relevant
        size = length(query)
        zeta = rng.beta(2, 4, size) * (1.0 if size == len(THETA) else 0.3)
        for _ in range(20):
            shown = rng.permutation(size)
            clicks = rng.random(size) < THETA[:size] * zeta[shown]
            rows += [(query, int(d), k + 1, 1, int(clicks[k])) for k, d in enumerate(shown)]
    names = ["query_id", "doc_id", "position", "displays", "clicks"]
    table = pd.DataFrame(rows, columns=names).groupby(names[:3], as_index=False).sum()
    return ClickCounts.from_table(pa.Table.from_pandas(table, preserve_index=False))


def fitted(
    theta: np.ndarray, sd: float = 0.05, anchor: int | None = 0, contexts: pa.Table | None = None
) -> FittedModel:
    """A model that has learned this bias, each logit with this standard deviation."""
    with np.errstate(divide="ignore"):
        logit = np.minimum(np.log(theta) - np.log1p(-theta), 30)
    free = PositionBased().free(len(theta), anchor)
    layer = (np.zeros((1, 2)), np.zeros(2))
    vector = np.concatenate([logit[free], np.zeros(4)])
    spread = np.diag([sd**2] * len(free) + [1.0] * 4)
    nobody = pa.array([], pa.int64())
    return FittedModel(
        kind="EpistemicPBM",
        head="id_beta",
        settings={},
        parameters=Parameters((layer,), PointLookup(logit)),
        anchor=anchor,
        contexts=pa.table({"position": [1, 2, 3]}) if contexts is None else contexts,
        features=None,
        options=LogOptions(),
        queries=QuerySets(nobody, nobody),
        items=None,
        training=TrainingSummary(0, 0, 0, 0, 0, 0.0, 0.0, pd.DataFrame()),
        posterior=ParameterPosterior(vector, spread, spread, None, 0.0),
    )


@pytest.fixture(scope="module")
def even() -> ClickCounts:
    return pages(400, lambda _: 3)


def test_on_pages_of_one_length_it_is_the_ratio_of_click_rates(even: ClickCounts) -> None:
    rate = even.by_context()["click_rate"].to_numpy()
    for k in (1, 2):
        ratio, _ = mantel_haenszel(even, even.context, k, 0)
        assert ratio == pytest.approx(rate[k] / rate[0], rel=1e-12)


def test_its_error_is_that_of_a_bootstrap_of_queries(even: ClickCounts) -> None:
    _, sd = mantel_haenszel(even, even.context, 2, 0)
    query = even.query[even.pair]
    clicks = np.zeros((even.num_queries, 3))
    np.add.at(clicks, (query, even.context), even.clicks)
    rng = np.random.default_rng(0)
    drawn = clicks[rng.integers(len(clicks), size=(2_000, len(clicks)))].sum(axis=1)
    # the standard deviation of 2,000 draws is known to 1.6 %
    assert sd == pytest.approx(np.log(drawn[:, 2] / drawn[:, 0]).std(), rel=0.06)


def test_short_pages_do_not_mislead() -> None:
    """Where short pages have worse items, click rates confound length and position."""
    counts = pages(600, lambda query: 3 if query % 3 == 0 else 2)
    ratio, sd = mantel_haenszel(counts, counts.context, 2, 0)
    assert abs(np.log(ratio / THETA[2])) < 3 * sd
    rate = counts.by_context()["click_rate"].to_numpy()
    assert np.log(rate[2] / rate[0] / THETA[2]) > 6 * sd  # the negative control


def test_intervals_have_nominal_coverage() -> None:
    scaled = []
    for seed in range(60):
        counts = pages(60, lambda _: 3, seed=seed)
        ratio, sd = mantel_haenszel(counts, counts.context, 1, 0)
        scaled.append(np.log(ratio / THETA[1]) / sd)
    # the variance of 60 standard normals has a standard deviation of 0.18
    assert np.mean(np.square(scaled)) == pytest.approx(1, abs=3 * 0.18)


def test_a_true_model_agrees_and_a_false_one_does_not(even: ClickCounts) -> None:
    good = compare_randomised(fitted(THETA), even)
    assert good.warnings == ()
    assert good.to_dict()["agrees"] is True
    assert "agree at position 2, 3" in " ".join(good.sentences())
    bad = compare_randomised(fitted(np.array([1.0, 0.6, 0.15])), even)
    assert bad.to_dict()["agrees"] is False
    assert bad.table["agrees"].tolist() == [None, True, False]
    (warning,) = bad.warnings
    assert "personalised ranking or a poor fit: position 3: model 0.15 (0.1" in warning
    row = bad.to_dict()["by_position"][2]
    assert row["against"] == {"position": 1}
    assert row["difference"] == pytest.approx(row["randomised"] - 0.15)
    assert 0 < row["difference_low"] < row["difference"] < row["difference_high"]


def test_an_uncertain_model_cannot_be_rejected(even: ClickCounts) -> None:
    unsure = compare_randomised(fitted(np.array([1.0, 0.6, 0.15]), sd=1.0), even)
    assert unsure.to_dict()["agrees"] is True
    ends = unsure.table[["model_low", "model_high"]].iloc[2].tolist()
    assert ends[0] < 0.05
    assert ends[1] > 0.4


def test_a_free_scale_is_compared_by_ratios(even: ClickCounts) -> None:
    check = compare_randomised(fitted(0.5 * THETA, anchor=None), even)
    np.testing.assert_allclose(check.table["model"], THETA, rtol=1e-6)
    assert check.to_dict()["agrees"] is True


def test_few_clicks_say_nothing() -> None:
    few = np.array([FEWEST_CLICKS, FEWEST_CLICKS - 1, FEWEST_CLICKS])
    rows = [(q, 0, k + 1, 50, int(few[k] > q)) for q in range(10) for k in range(3)]
    names = ["query_id", "doc_id", "position", "displays", "clicks"]
    counts = ClickCounts.from_table(
        pa.Table.from_pandas(pd.DataFrame(rows, columns=names), preserve_index=False)
    )
    check = compare_randomised(fitted(THETA), counts)
    assert check.table["agrees"].tolist()[:2] == [None, None]
    assert np.isfinite(check.table["randomised"].iloc[2])
    assert "position 2: too few clicks on randomised pages" in " ".join(check.sentences())


def test_devices_are_compared_each_with_itself(even: ClickCounts) -> None:
    """The model says that phones are examined less, which random rankings cannot show."""
    table = even.to_table().to_pandas()
    both = pd.concat([table.assign(device="desk"), table.assign(device="phone")])
    names = ("device", "position")
    counts = ClickCounts.from_table(pa.Table.from_pandas(both, preserve_index=False), context=names)
    theta = np.concatenate([THETA, 0.3 * THETA])
    check = compare_randomised(fitted(theta, contexts=counts.contexts), counts)
    assert check.table["against"].tolist() == [0, 0, 0, 3, 3, 3]
    assert check.to_dict()["agrees"] is True
    np.testing.assert_allclose(check.table["model"], np.tile(THETA, 2), rtol=1e-6)


def simulated(users: str) -> ec.EpistemicPBM:
    """A model of a ranker's pages, compared with random pages of the same items."""
    same = {"queries": 900, "docs": 6, "features": 3, "positions": 3, "users": users}
    ranked = ec.simulate(**same, pages=4_500, relevance="beta", taste_sd=2.0)
    random = ec.simulate(**same, pages=6_000, relevance="beta", taste_sd=2.0, policy_strength=0.0)
    np.testing.assert_array_equal(ranked.relevance, random.relevance)
    model = ec.EpistemicPBM(hidden=(8,), epochs=15)
    return model.fit(ranked.counts(), randomised=random.counts(), progress=False)


def test_an_honest_world_agrees() -> None:
    training = simulated("pbm").fitted_.training
    assert training.checks["identifiability"]["randomised"]["agrees"] is True
    assert "Model and randomised pages agree at position 2, 3" in " ".join(training.checks["words"])
    assert not any("randomised" in warning for warning in training.warnings)


def test_personalised_rankings_are_detected() -> None:
    """The ranked pages alone cannot show it: chi2/df stays near 1."""
    training = simulated("personal").fitted_.training
    assert training.checks["identifiability"]["randomised"]["agrees"] is False
    (warning,) = [words for words in training.warnings if "randomised pages" in words]
    assert "personalised ranking or a poor fit" in warning
    ratio = training.checks["chi2_per_df"]
    assert ratio is None or ratio < 1.5
