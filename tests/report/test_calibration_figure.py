"""Figures of calibration: reproducible, and different for different tables."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from epiclick.calibration.answers import LEVELS, QUANTITIES
from epiclick.calibration.own_prior import OWN_METHODS, OWN_QUANTITIES
from epiclick.calibration.table import CalibrationTable, CoverageRow, UniformityRow
from epiclick.report.calibration_figure import draw_calibration, draw_own_prior

pytestmark = pytest.mark.slow


@pytest.fixture
def table() -> CalibrationTable:
    rows = [
        CoverageRow(
            quantity, family, well, level, level - 0.02, 0.01, 0.1, 0.05, "m", level - 0.05,
            level + 0.02, 60, 900, False,
        )
        for quantity in QUANTITIES
        for family, well in (("dense", True), ("sparse", True), ("trust", False))
        for level in LEVELS
    ]  # fmt: skip
    tests = [
        UniformityRow(quantity, "dense", True, "m", 0.5, tuple(range(0, 100, 2)), 99, False)
        for quantity in QUANTITIES
    ]
    return CalibrationTable(tuple(rows), tuple(tests), 60, 0, 1.0)


def test_the_same_table_gives_the_same_picture(table: CalibrationTable, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        draw_calibration(table, "m", tmp_path / name)
    first, again = ((tmp_path / name).read_bytes() for name in ("a.png", "b.png"))
    assert first.startswith(b"\x89PNG")
    assert first == again
    off = tuple(replace(row, flagged=True) for row in table.rows)
    draw_calibration(replace(table, rows=off), "m", tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes() != first


def test_a_method_without_some_quantities_has_a_figure_too(
    table: CalibrationTable, tmp_path: Path
) -> None:
    few = tuple(row for row in table.rows if row.quantity == "position_bias")
    draw_calibration(replace(table, rows=few, uniformity=()), "m", tmp_path / "few.png")
    assert [path.name for path in tmp_path.iterdir()] == ["few.png"]


def test_ranks_in_worlds_of_the_models_prior_have_a_figure(
    table: CalibrationTable, tmp_path: Path
) -> None:
    for name, ranks in (("even", range(0, 100, 2)), ("low", [3] * 50)):
        tests = [
            UniformityRow(quantity, "own-prior", True, method, 0.5, tuple(ranks), 99, False)
            for method in OWN_METHODS
            for quantity in OWN_QUANTITIES
            if (method, quantity) != ("prior", "log_likelihood")
        ]
        draw_own_prior(
            replace(table, uniformity=(*table.uniformity, *tests)), tmp_path / f"{name}.png"
        )
    even, low = ((tmp_path / f"{name}.png").read_bytes() for name in ("even", "low"))
    assert even.startswith(b"\x89PNG")
    assert even != low


def test_matplotlib_is_loaded_only_when_a_figure_is_drawn() -> None:
    code = (
        "import sys, epiclick.report.calibration_figure, epiclick.calibration.runner; "
        "print([m for m in ('matplotlib', 'jax', 'scoringrules') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
