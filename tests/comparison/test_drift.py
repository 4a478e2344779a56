"""Differences between two models: their numbers by formula, and what they find in worlds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import epiclick as ec
from epiclick.comparison.drift import NUMBERS, _compared, drift
from epiclick.fitted.parameters import parameter_draws
from epiclick.fitted.tables import relevance_frames

from ..raising import raises_code
from ..report.planted import THETA, draw_log, planted

pytestmark = pytest.mark.slow

SD = 0.05  # of logits in the planted models
QUERIES, DOCS = 80, 5


def draw(rng: np.random.Generator, zeta: np.ndarray, theta: np.ndarray, pages: int = 40):
    """Counts of random pages of three items."""
    shown = np.argsort(rng.random((QUERIES, pages, DOCS)), axis=2)[:, :, :3]
    query, _, place = np.indices(shown.shape)
    clicked = rng.random(shown.shape) < theta[place] * zeta[query, shown]
    rows = {"query_id": query, "doc_id": shown, "position": place + 1, "clicks": clicked}
    table = pa.table({name: each.ravel().astype(np.int64) for name, each in rows.items()})
    return ec.ClickCounts.from_table(
        table.append_column("displays", pa.array(np.ones(shown.size, np.int64)))
    )


@pytest.fixture(scope="module")
def models() -> dict[str, ec.EpistemicPBM]:
    """Two logs of one world, and one of a world that has changed."""
    rng = np.random.default_rng(3)
    zeta = rng.beta(1.2, 2.8, (QUERIES, DOCS))
    theta = np.array([1.0, 0.6, 0.35])
    other = zeta.copy()
    other[:10, 0] = np.where(zeta[:10, 0] < 0.5, 0.95, 0.02)
    logs = {
        "old": draw(rng, zeta, theta),
        "same": draw(rng, zeta, theta),
        "changed": draw(rng, other, np.array([1.0, 0.8, 0.35])),
    }
    return {name: ec.EpistemicPBM().fit(log, progress=False) for name, log in logs.items()}


def test_a_world_that_stays_has_no_drift_and_one_that_changes_has(
    models: dict[str, ec.EpistemicPBM],
) -> None:
    same = drift(models["same"], models["old"])
    assert same.p_value > 0.01
    assert len(same.changed_items) == 0
    found = drift(models["changed"], models["old"])
    assert found.p_value < 1e-3
    bias = found.position_bias.set_index("position")
    assert bias.loc[2, "low"] > 0
    assert abs(bias.loc[3, "difference"]) < 3.5 * bias.loc[3, "standard_error"]
    assert (bias.loc[1, "difference"], bias.loc[1, "standard_error"]) == (0, 0)
    changed = found.changed_items
    truly = {(query, 0) for query in range(10)}
    pairs = set(zip(changed["query_id"], changed["doc_id"], strict=True))
    assert len(pairs & truly) >= 7
    # 5 % of discoveries may be false: of ten, more than three are so with probability 1e-3
    assert len(pairs - truly) <= 3
    assert changed["p_value"].is_monotonic_increasing


def test_numbers_of_position_bias_by_formula() -> None:
    log, _ = draw_log(1)
    new, old = planted(log, sd=SD), planted(log, sd=2 * SD)
    found = drift(new, old, level=0.8).position_bias
    assert list(found.columns) == ["position", *NUMBERS]
    assert np.allclose(found["new"], new.position_bias()["relative"])
    assert np.allclose(found["old"], old.position_bias()["relative"])
    assert np.allclose(found["difference"], found["new"] - found["old"])
    # the derivative of the logistic function times the deviation of the logit
    error = THETA * (1 - THETA) * np.hypot(SD, 2 * SD)
    assert found["standard_error"].to_numpy() == pytest.approx(error, rel=0.04)
    own = found.iloc[1:]
    z = own["difference"] / own["standard_error"]
    assert np.allclose(own["p_value"], 2 * stats.norm.sf(np.abs(z)))
    half = stats.norm.ppf(0.9) * own["standard_error"]
    assert np.allclose(own["low"], own["difference"] - half)
    assert np.allclose(own["high"], own["difference"] + half)
    assert np.allclose(own["q_value"], stats.false_discovery_control(own["p_value"]))
    assert np.isnan(found["p_value"].iloc[0])


def test_the_same_draws_do_not_cancel() -> None:
    """Draws of a model have a fixed seed, so that a model compared with itself is a trap."""
    log, _ = draw_log(1)
    found = drift(planted(log), planted(log)).position_bias
    assert found["standard_error"].iloc[1] == pytest.approx(
        THETA[1] * (1 - THETA[1]) * SD * np.sqrt(2), rel=0.04
    )


def test_items_of_both_logs_are_compared() -> None:
    log, _ = draw_log(1)
    other, _ = draw_log(2, queries=50)
    new, old = planted(log), planted(other)
    found = drift(new, old).items
    keys = ["query_id", "doc_id"]
    both = new.relevance().merge(old.relevance(), on=keys, suffixes=("", "_old")).set_index(keys)
    found = found.set_index(["query_id", "doc_id"]).loc[both.index]
    assert len(found) == len(both) == 50 * 6
    assert np.allclose(found["difference"], both["mean"] - both["mean_old"])
    variance = sum(stats.beta(both[f"alpha{x}"], both[f"beta{x}"]).var() for x in ("", "_old"))
    assert np.allclose(found["standard_error"], np.sqrt(variance))


@pytest.mark.parametrize(("corrected", "expected"), [(True, 1.0), (False, 0.4)])
def test_common_displays_correlate_estimates(corrected: bool, expected: float) -> None:
    """Means of samples that share 600 of 1,000 and 1,000 observations, 4,000 times."""
    rng = np.random.default_rng(0)
    shared, own, other = (rng.normal(size=(4000, n)) for n in (600, 400, 400))
    new, old = (np.concatenate([shared, x], axis=1).mean(axis=1) for x in (own, other))
    error = np.full(4000, 1 / np.sqrt(1000))
    columns = _compared(new, old, error, error, 0.6 if corrected else 0.0, 0.9)
    z = columns["difference"] / columns["standard_error"]
    assert np.mean(z**2) == pytest.approx(expected, abs=5 * expected * np.sqrt(2 / 4000))
    if corrected:
        inside = (columns["low"] < 0) & (columns["high"] > 0)
        assert inside.mean() == pytest.approx(0.9, abs=5 * np.sqrt(0.09 / 4000))


def test_the_overlap_of_logs_enters_by_their_sizes() -> None:
    log, _ = draw_log(1)
    new, old = planted(log, sd=SD), planted(log, sd=SD)
    training = replace(old.fitted_.training, displays=4 * new.fitted_.training.displays)
    old.fitted_ = replace(old.fitted_, training=training)
    apart, common = (
        drift(new, old, overlap=share).position_bias["standard_error"].iloc[1] for share in (0, 1)
    )
    # all of the new log is in the old one, which is four times as long
    assert common == pytest.approx(apart * np.sqrt(1 - 1 / 2), rel=0.02)
    assert "27" not in drift(new, old).assumption
    assert "96.4%" in drift(new, old, overlap=27 / 28).assumption
    for share in (-0.1, 1.2, float("nan"), "half"):
        with raises_code("invalid-overlap"):
            drift(new, old, overlap=share)  # type: ignore[arg-type]
    with raises_code("invalid-overlap"):
        drift(old, new, overlap=0.9)


def test_models_whose_numbers_mean_something_else_are_refused() -> None:
    log, _ = draw_log(1)
    new, other = planted(log), planted(log)
    for change in ({"anchor": 1}, {"click_model": "trust"}):
        other.fitted_ = replace(planted(log).fitted_, **change)
        with raises_code("models-differ"):
            drift(new, other)
    renamed = new.fitted_.contexts.rename_columns(["rank"])
    other.fitted_ = replace(new.fitted_, contexts=renamed)
    with raises_code("models-differ"):
        drift(new, other)
    with raises_code("not-a-model"):
        drift(new, "model")  # type: ignore[arg-type]


def test_predicted_relevance_is_compared_for_given_items() -> None:
    world = ec.simulate(queries=60, docs=6, features=3, pages=400, positions=3, seed=1)
    counts = world.counts()
    early, late = counts.subset(counts.query < 30), counts.subset(counts.query >= 30)
    settings = {"hidden": (4,), "epochs": 2, "weight_decay": 0.1}
    new, old = (ec.EpistemicPBM(**settings).fit(c, progress=False) for c in (late, early))
    found = drift(new, old, world.features)
    assert len(found.items) == len(world.features)
    for name, model in (("new", new), ("old", old)):
        assert np.array_equal(found.items[name], model.relevance(world.features)["mean"])
    # other draws of the parameters: deviations of 100 and 200 draws differ by 9 %
    variance = np.zeros(len(found.items))
    for model in (new, old):
        drawn = parameter_draws(model.fitted_, 100, seed=9)
        fixed = [replace(model.fitted_, parameters=own, posterior=None) for own in drawn]
        means = [next(relevance_frames(own, world.features, 0.9))["mean"] for own in fixed]
        variance += np.var(means, axis=0)
    ratio = found.items["standard_error"] / np.sqrt(variance)
    assert np.median(np.abs(ratio - 1)) < 0.12
    assert np.all(np.abs(ratio - 1) < 0.45)
    without = drift(new, old)
    assert without.items is None
    assert "features" in without.notes[0]
    assert len(without.changed_items) == 0
    assert without.to_table().num_rows == len(without.position_bias)


def test_the_table_is_tidy(tmp_path: Path) -> None:
    (log, _), (other, _) = draw_log(1), draw_log(2, queries=50)
    found = drift(planted(log), planted(other))
    found.to_parquet(tmp_path / "drift.parquet")
    table = pq.read_table(tmp_path / "drift.parquet")
    assert table.column_names == ["quantity", "position", "query_id", "doc_id", *NUMBERS]
    frame = table.to_pandas()
    assert frame["quantity"].value_counts().to_dict() == {"relevance": 300, "position_bias": 4}
    own = frame[frame["quantity"] == "position_bias"]
    assert own["position"].tolist() == [1, 2, 3, 4]
    assert own["query_id"].isna().all()
    pd.testing.assert_series_equal(
        frame[frame["quantity"] == "relevance"]["difference"].reset_index(drop=True),
        found.items["difference"],
    )
