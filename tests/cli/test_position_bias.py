"""`epiclick position-bias`, as a program or a person would call it."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import beta as beta_distribution

from epiclick.api import load
from epiclick.data.checksums import check_record
from epiclick.fitted.prediction import bias_betas
from epiclick.posterior.known_bias import read_known_bias

from .conftest import TRAINING, Done, epiclick

pytestmark = pytest.mark.slow


def test_json_has_a_row_for_each_position(marginal: tuple[Path, Done]) -> None:
    model, fit = marginal
    record = epiclick("position-bias", model, "--json").record
    assert list(record) == ["schema_version", "position_bias", "warnings", "digest"]
    check_record(record)
    rows = record["position_bias"]
    names = ["position", "mean", "low", "high", "relative", "relative_low", "relative_high"]
    assert [list(row) for row in rows] == [names] * 3
    assert [row["position"] for row in rows] == [1, 2, 3]
    assert rows[0]["mean"] == 1
    assert rows == fit.record["position_bias"]


@pytest.mark.parametrize("name", ["bias.csv", "bias.parquet", "bias.json"])
def test_the_table_is_written_so_that_a_fit_can_take_it(
    marginal: tuple[Path, Done], tmp_path: Path, name: str
) -> None:
    model, out = marginal[0], tmp_path / name
    done = epiclick("position-bias", model, "--out", out)
    assert f"written to {out}" in done.err
    fitted = load(model).fitted_
    where = (fitted.contexts, fitted.anchor, 0.9)
    found, expected = (read_known_bias(each, *where) for each in (out, load(model).position_bias()))
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(found.sd, expected.sd, rtol=1e-9)
    refused = epiclick("position-bias", model, "--out", tmp_path / "bias.xlsx")
    refused.assert_refused("the format is CSV, Parquet or JSON", "wrong-suffix")


def test_intervals_of_betas_are_their_quantiles(exact: tuple[Path, Done]) -> None:
    betas = bias_betas(load(exact[0]).fitted_)
    assert betas is not None
    rows = epiclick("position-bias", exact[0], "--json").record["position_bias"]
    low, high = beta_distribution.ppf([[0.1], [0.9]], betas.alpha, betas.beta)  # --level 0.8
    assert [row["low"] for row in rows] == pytest.approx(low, rel=1e-6)
    assert [row["high"] for row in rows] == pytest.approx(high, rel=1e-6)


def test_kind_and_level_are_those_asked_for(marginal: tuple[Path, Done]) -> None:
    model = load(marginal[0])
    for kind in ("robust", "bayes"):
        given = ["position-bias", marginal[0], "--kind", kind, "--level", 0.5]
        rows = epiclick(*given, "--json").record["position_bias"]
        assert rows == model.position_bias(kind, level=0.5).to_dict("records")  # type: ignore[arg-type]
        words = " ".join(epiclick(*given).out.split())
        assert f"Position bias, 50% {kind} intervals; relative to position 1" in words
    plain = epiclick("position-bias", marginal[0], "--json").record["position_bias"]
    assert plain == model.position_bias("robust", level=0.9).to_dict("records")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--kind", "evidential"], "no evidential intervals"),
        (["--kind", "certain"], "--kind must be one of robust, bayes, evidential, not 'certain'"),
        (["--level", "90"], "--level must lie strictly between 0 and 1, not 90.0"),
    ],
)
def test_what_cannot_be_shown_is_refused(
    marginal: tuple[Path, Done], options: list[str], words: str
) -> None:
    done = epiclick("position-bias", marginal[0], *options)
    done.assert_refused(words)


def test_the_papers_estimators_have_evidential_intervals(exact: tuple[Path, Done]) -> None:
    rows, same = (
        epiclick("position-bias", exact[0], *kind, "--json").record["position_bias"]
        for kind in ([], ["--kind", "evidential"])
    )
    assert rows == same
    refused = epiclick("position-bias", exact[0], "--kind", "robust")
    assert refused.code == 2
    assert "it has evidential" in refused.err


def test_chains_are_run_when_asked_for(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chains themselves are tested elsewhere; here they find a point."""

    found = []

    def point(density: object, mode: np.ndarray, *_: object, **__: object) -> np.ndarray:
        found.append(mode + 0.5)
        return np.tile(found[-1], (10, 1))

    monkeypatch.setattr("epiclick.posterior.nuts.sample", point)
    given = ["fit", world / "early.parquet", "--features", world / "features.parquet", *TRAINING]
    done = epiclick(*given, "--out", tmp_path / "model", "--theta-posterior", "nuts", "--json")
    assert done.code == 0, done.err
    assert load(tmp_path / "model").get_params()["theta_posterior"] == "nuts"
    rows = epiclick("position-bias", tmp_path / "model", "--kind", "bayes", "--json").record
    assert len(found) == 1
    for k, row in enumerate(rows["position_bias"][1:]):
        assert row["low"] == row["high"] == pytest.approx(expit(found[0][k]))
    refused = epiclick(*given, "--out", tmp_path / "other", "--theta-posterior", "guess")
    refused.assert_refused("--theta-posterior must be one of laplace, nuts, not 'guess'")


def test_people_get_a_table(marginal: tuple[Path, Done], exact: tuple[Path, Done]) -> None:
    done = epiclick("position-bias", marginal[0])
    assert "Position bias, 90% intervals; relative to position 1" in " ".join(done.out.split())
    assert "1.0000" in done.out
    assert "free" not in done.out
    free = epiclick("position-bias", exact[0])
    assert "The scale is free" in free.out
    for line in (done.out + free.out).splitlines():
        assert len(line) <= 80


def test_a_point_has_no_interval_to_show(pointwise: tuple[Path, Done]) -> None:
    out = epiclick("position-bias", pointwise[0]).out
    assert "low" not in out
    assert "No intervals" in out
