"""`epiclick position-bias`, as a program or a person would call it."""

from pathlib import Path

import pytest
from scipy.stats import beta as beta_distribution

from epiclick.models.prediction import bias_betas
from epiclick.pbm import load

from .conftest import Done, epiclick


def test_json_has_a_row_for_each_position(marginal: tuple[Path, Done]) -> None:
    model, fit = marginal
    record = epiclick("position-bias", model, "--json").record
    assert list(record) == ["schema_version", "position_bias"]
    rows = record["position_bias"]
    names = ["position", "mean", "low", "high", "relative", "relative_low", "relative_high"]
    assert [list(row) for row in rows] == [names] * 3
    assert [row["position"] for row in rows] == [1, 2, 3]
    assert rows[0]["mean"] == 1
    assert rows == fit.record["position_bias"]


def test_intervals_of_betas_are_their_quantiles(exact: tuple[Path, Done]) -> None:
    betas = bias_betas(load(exact[0]).fitted_)
    assert betas is not None
    rows = epiclick("position-bias", exact[0], "--json").record["position_bias"]
    low, high = beta_distribution.ppf([[0.1], [0.9]], betas.alpha, betas.beta)  # --level 0.8
    assert [row["low"] for row in rows] == pytest.approx(low, rel=1e-6)
    assert [row["high"] for row in rows] == pytest.approx(high, rel=1e-6)


def test_people_get_a_table(marginal: tuple[Path, Done], exact: tuple[Path, Done]) -> None:
    done = epiclick("position-bias", marginal[0])
    assert "Position bias; relative to position 1" in " ".join(done.out.split())
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
