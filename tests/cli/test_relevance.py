"""`epiclick relevance`, as a program or a person would call it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy.integrate import trapezoid
from scipy.stats import beta as beta_distribution

from .conftest import Done, epiclick

COLUMNS = ["query_id", "doc_id", "mean", "low", "high", "alpha", "beta"]


@pytest.fixture(scope="session")
def prior(world: Path, marginal: tuple[Path, Done]) -> pd.DataFrame:
    out = world.parent / "prior.parquet"
    done = epiclick(
        "relevance", marginal[0], "--features", world / "features.parquet", "--out", out, "--json"
    )
    assert done.record == {"schema_version": 1, "rows": 150 * 8, "warnings": []}
    return pd.read_parquet(out)


def test_features_give_a_beta_for_every_item(world: Path, prior: pd.DataFrame) -> None:
    items = pd.read_parquet(world / "features.parquet")[["query_id", "doc_id"]]
    assert list(prior.columns) == COLUMNS
    pd.testing.assert_frame_equal(prior[["query_id", "doc_id"]], items)
    alpha, beta = prior["alpha"], prior["beta"]
    assert np.allclose(prior["mean"], alpha / (alpha + beta), rtol=1e-9)
    assert np.allclose(prior["low"], beta_distribution.ppf(0.05, alpha, beta), rtol=1e-6)
    assert np.allclose(prior["high"], beta_distribution.ppf(0.95, alpha, beta), rtol=1e-6)


def test_clicks_give_the_posterior(
    world: Path, marginal: tuple[Path, Done], prior: pd.DataFrame, tmp_path: Path
) -> None:
    out = tmp_path / "posterior.parquet"
    log = pd.read_parquet(world / "late.parquet")
    done = epiclick(
        *("relevance", marginal[0], "--features", world / "features.parquet"),
        *("--clicks", world / "late.parquet", "--out", out, "--json"),
    )
    shown = log.groupby(["query_id", "doc_id"], as_index=False).size()
    assert done.record["rows"] == len(shown)
    posterior = pd.read_parquet(out)
    assert list(posterior.columns) == COLUMNS
    bias = {row["position"]: row["mean"] for row in marginal[1].record["position_bias"]}
    # a fine grid in the logit, which has no poles at the ends
    logit = np.linspace(-40, 40, 8001)
    zeta, other = 1 / (1 + np.exp(-logit)), 1 / (1 + np.exp(logit))
    merged = posterior.merge(prior, on=["query_id", "doc_id"], suffixes=("", "_before"))
    rows = log.set_index(["query_id", "doc_id"])
    for row in merged.sample(20, random_state=0).itertuples():
        density = row.alpha_before * np.log(zeta) + row.beta_before * np.log(other)
        for display in rows.loc[[(row.query_id, row.doc_id)]].itertuples():
            theta = bias[display.position]
            density += np.log(theta * zeta) if display.click else np.log(other + (1 - theta) * zeta)
        density = np.exp(density - density.max())
        expected = trapezoid(density * zeta, logit) / trapezoid(density, logit)
        assert row.mean == pytest.approx(expected, rel=1e-6)
        assert row.low < row.mean < row.high


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
    assert refused.code == 2
    assert "a pointwise model has one number for an item" in refused.err


def test_many_chunks_make_the_same_file(
    world: Path, marginal: tuple[Path, Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["--features", world / "features.parquet", "--clicks", world / "late.parquet"]
    whole, parts = tmp_path / "whole.parquet", tmp_path / "parts.parquet"
    assert epiclick("relevance", marginal[0], *given, "--out", whole).code == 0
    monkeypatch.setattr("epiclick.cli.relevance.CHUNK", 50)
    assert epiclick("relevance", marginal[0], *given, "--out", parts).code == 0
    assert pq.ParquetFile(parts).num_row_groups > 1
    assert pq.read_table(parts).equals(pq.read_table(whole))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "p.parquet"], "the model was trained on 4 features"),
        (["--features", "FEATURES", "--out", "p.csv"], "name a .parquet file"),
        (["--features", "FEATURES", "--out", "."], "is a folder"),
        (["--features", "renamed.parquet", "--out", "p.parquet"], "first 'f3'"),
        (["--features", "FEATURES", "--clicks", "no.csv", "--out", "p.parquet"], "no file at"),
        (
            ["--features", "renamed.parquet", "--out", "renamed.parquet"],
            "another file that is read; name another",
        ),
    ],
)
def test_bad_input_gives_code_2_one_message_and_no_file(
    arguments: list[str],
    words: str,
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
    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err
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
