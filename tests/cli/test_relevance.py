"""`epiclick relevance`, as a program or a person would call it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy.integrate import trapezoid
from scipy.stats import beta as beta_distribution

from epiclick import load, read_log
from epiclick.fitted.parameters import parameter_draws, without_uncertainty

from ..before_clicks import before_clicks
from .conftest import Done, epiclick

pytestmark = pytest.mark.slow

COLUMNS = ["query_id", "doc_id", "mean", "low", "high", "alpha", "beta"]


@pytest.fixture(scope="session")
def prior(world: Path, marginal: tuple[Path, Done]) -> pd.DataFrame:
    out = world.parent / "prior.parquet"
    done = epiclick(
        "relevance", marginal[0], "--features", world / "features.parquet", "--out", out, "--json"
    )
    assert done.record == {"schema_version": 1, "rows": 150 * 8, "warnings": []}
    return pd.read_parquet(out)


def test_features_give_a_beta_for_every_item(
    world: Path, marginal: tuple[Path, Done], prior: pd.DataFrame
) -> None:
    items = pd.read_parquet(world / "features.parquet")[["query_id", "doc_id"]]
    assert list(prior.columns) == COLUMNS
    pd.testing.assert_frame_equal(prior[["query_id", "doc_id"]], items)
    alpha, beta = prior["alpha"], prior["beta"]
    assert np.allclose(prior["mean"], alpha / (alpha + beta), rtol=1e-9)
    draws = by_draw(marginal[0], pd.read_parquet(world / "features.parquet"))
    for end, probability in (("low", 0.05), ("high", 0.95)):
        below = [beta_distribution.cdf(prior[end], d["alpha"], d["beta"]) for d in draws]
        assert np.allclose(np.mean(below, axis=0), probability, atol=1e-4)


def by_draw(path: Path, features: pd.DataFrame) -> list[pd.DataFrame]:
    """What each draw of a model's parameters says of the items."""
    model = load(path)
    uncertain, frames = model.fitted_, []
    for draw in parameter_draws(uncertain):
        model.fitted_ = without_uncertainty(replace(uncertain, parameters=draw))
        frames.append(model.relevance(features))
    return frames


def test_clicks_give_the_posterior(
    world: Path, marginal: tuple[Path, Done], tmp_path: Path
) -> None:
    out = tmp_path / "posterior.parquet"
    log = pd.read_parquet(world / "late.parquet")
    done = epiclick(
        *("relevance", marginal[0], "--features", world / "features.parquet"),
        *("--clicks", world / "late.parquet", "--above", 0.3, "--out", out, "--json"),
    )
    shown = log.groupby(["query_id", "doc_id"], as_index=False).size()
    assert done.record["rows"] == len(shown)
    posterior = pd.read_parquet(out)
    assert list(posterior.columns) == [*COLUMNS, "prob_above"]
    some = posterior.sample(20, random_state=0)
    keys = some[["query_id", "doc_id"]]
    counts = read_log(world / "late.parquet", features=world / "features.parquet")
    model = load(marginal[0])
    uncertain = model.fitted_
    expected = pd.Series(0.0, index=keys.set_index(["query_id", "doc_id"]).index)
    above = expected.copy()
    # a grid in the logit, fine in the middle, as long as the tails of a small alpha
    logit = np.sinh(np.linspace(-9, 9, 16_001))
    log_zeta, log_other = -np.logaddexp(0, -logit), -np.logaddexp(0, logit)
    zeta = np.exp(log_zeta)
    rows = log.set_index(["query_id", "doc_id"])
    draws = parameter_draws(uncertain)
    for draw in draws:
        model.fitted_ = without_uncertainty(replace(uncertain, parameters=draw))
        bias = model.position_bias().set_index("position")["mean"]
        for before in before_clicks(model.fitted_, counts).merge(keys).itertuples():
            density = before.alpha * log_zeta + before.beta * log_other
            for display in rows.loc[[(before.query_id, before.doc_id)]].itertuples():
                theta = bias[display.position]
                unseen = (
                    np.logaddexp(log_other, np.log1p(-theta) + log_zeta) if theta < 1 else log_other
                )
                density += log_zeta if display.click else unseen
            density = np.exp(density - density.max())
            density /= trapezoid(density, logit) * len(draws)
            expected[(before.query_id, before.doc_id)] += trapezoid(density * zeta, logit)
            above[(before.query_id, before.doc_id)] += trapezoid(density * (zeta > 0.3), logit)
    off = []
    for row in some.itertuples():
        assert row.mean == pytest.approx(expected[(row.query_id, row.doc_id)], rel=1e-5)
        assert row.low < row.mean < row.high
        off.append(abs(row.prob_above - above[(row.query_id, row.doc_id)]))
    # the worst of all items measured was off by 0.028
    assert np.median(off) < 0.005
    assert max(off) < 0.03


def test_a_model_without_features_tells_of_its_own_items(
    world: Path, without_features: tuple[Path, Done], tmp_path: Path
) -> None:
    out = tmp_path / "items.parquet"
    done = epiclick("relevance", without_features[0], "--out", out)
    log = pd.read_parquet(world / "early.parquet")
    pairs = log[["query_id", "doc_id"]].drop_duplicates().sort_values(["query_id", "doc_id"])
    items = pd.read_parquet(out)
    assert items[["query_id", "doc_id"]].to_numpy().tolist() == pairs.to_numpy().tolist()
    assert f"{len(pairs):,} items. Relevance is the probability of a click" in done.out
    assert f"written to {out}" in done.err


def test_a_pointwise_model_has_no_intervals(
    world: Path, pointwise: tuple[Path, Done], tmp_path: Path
) -> None:
    out = tmp_path / "points.parquet"
    given = ["--features", world / "features.parquet", "--out", out]
    assert epiclick("relevance", pointwise[0], *given).code == 0
    table = pq.read_table(out)
    assert table["mean"].null_count == 0
    assert table["low"].null_count == table["alpha"].null_count == len(table)
    refused = epiclick("relevance", pointwise[0], *given, "--clicks", world / "late.parquet")
    refused.assert_refused("--clicks", "pointwise-model")


def test_many_chunks_make_the_same_file(
    world: Path, marginal: tuple[Path, Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["--features", world / "features.parquet", "--clicks", world / "late.parquet"]
    whole, parts = tmp_path / "whole.parquet", tmp_path / "parts.parquet"
    assert epiclick("relevance", marginal[0], *given, "--out", whole).code == 0
    monkeypatch.setattr("epiclick.posterior.items.CHUNK", 50)
    assert epiclick("relevance", marginal[0], *given, "--out", parts).code == 0
    assert pq.ParquetFile(parts).num_row_groups > 1
    pd.testing.assert_frame_equal(pd.read_parquet(parts), pd.read_parquet(whole), rtol=1e-6)


@pytest.mark.parametrize("clicks", [False, True])
def test_the_probability_of_a_relevance_above(
    clicks: bool, world: Path, marginal: tuple[Path, Done], tmp_path: Path
) -> None:
    given = ["--features", world / "features.parquet", "--above", 0.3]
    given += ["--clicks", world / "late.parquet"] if clicks else []
    out = tmp_path / "above.parquet"
    assert epiclick("relevance", marginal[0], *given, "--out", out).code == 0
    found = pd.read_parquet(out)
    assert list(found.columns) == [*COLUMNS, "prob_above"]
    if not clicks:
        draws = by_draw(marginal[0], pd.read_parquet(world / "features.parquet"))
        expected = [beta_distribution.sf(0.3, draw["alpha"], draw["beta"]) for draw in draws]
        assert np.allclose(found["prob_above"], np.mean(expected, axis=0), atol=1e-4)
    assert np.ptp(found["prob_above"]) > 0.1
    assert np.all(found["prob_above"][found["low"] > 0.3] > 0.949)
    assert np.all(found["prob_above"][found["high"] < 0.3] < 0.051)


@pytest.mark.parametrize(
    ("arguments", "words", "error_code"),
    [
        (["--out", "p.parquet"], "4 features", "features-needed"),
        (["--features", "FEATURES", "--out", "p.csv"], "name a .parquet file", "wrong-suffix"),
        (["--features", "FEATURES", "--out", "."], "name a file", "not-a-file"),
        (
            ["--features", "FEATURES", "--out", "p.parquet", "--above", "30"],
            "above must",
            "threshold-out-of-range",
        ),
        (
            ["--features", "renamed.parquet", "--out", "p.parquet"],
            "first 'f3'",
            "missing-feature-columns",
        ),
        (
            ["--features", "FEATURES", "--clicks", "no.csv", "--out", "p.parquet"],
            "no.csv",
            "file-missing",
        ),
        (
            ["--features", "renamed.parquet", "--out", "renamed.parquet"],
            "renamed.parquet",
            "output-is-input",
        ),
    ],
)
def test_bad_input_gives_code_2_one_message_and_no_file(
    arguments: list[str],
    words: str,
    error_code: str | None,
    world: Path,
    marginal: tuple[Path, Done],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features = pd.read_parquet(world / "features.parquet")
    features.rename(columns={"f3": "other"}).to_parquet(tmp_path / "renamed.parquet")
    before = (tmp_path / "renamed.parquet").read_bytes()
    monkeypatch.chdir(tmp_path)
    own = {"FEATURES": str(world / "features.parquet")}
    done = epiclick("relevance", marginal[0], *(own.get(each, each) for each in arguments))
    done.assert_refused(words, error_code)
    assert [p.name for p in tmp_path.iterdir()] == ["renamed.parquet"]
    assert (tmp_path / "renamed.parquet").read_bytes() == before


def test_features_of_a_model_without_any_are_refused(
    world: Path, without_features: tuple[Path, Done], tmp_path: Path
) -> None:
    given = ["--features", world / "features.parquet", "--out", tmp_path / "p.parquet"]
    done = epiclick("relevance", without_features[0], *given)
    assert done.code == 2
    assert "trained without features" in done.err
    assert not list(tmp_path.iterdir())


def test_an_interrupt_leaves_nothing_behind(
    world: Path, marginal: tuple[Path, Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pq.ParquetWriter, "write_table", interrupted)
    given = ["--features", world / "features.parquet", "--out", tmp_path / "p.parquet"]
    done = epiclick("relevance", marginal[0], *given)
    assert done.code == 130
    assert "stopped; nothing was written" in done.err
    assert not list(tmp_path.iterdir())
