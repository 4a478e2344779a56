"""The table: calibrated methods pass, overconfident ones are flagged, rows are complete."""

import json

import numpy as np
import pytest

from epiclick.calibration.answers import QUANTITIES, Answers
from epiclick.calibration.families import Family
from epiclick.calibration.table import CalibrationTable, coverage_rows, uniformity_rows
from epiclick.evaluation.coverage import crps

WORLDS = 240


@pytest.fixture(scope="module")
def answers(right_answers) -> list[dict[str, Answers]]:
    # a stream each, so that a new quantity does not change the others; of seeds 0 to 11, two flag
    # one of 21 results, as 1 in 100 should
    streams = {name: np.random.default_rng([1, i]) for i, name in enumerate(QUANTITIES)}
    return [{name: right_answers(rng) for name, rng in streams.items()} for _ in range(WORLDS)]


def table(answers: list[dict[str, Answers]], family: Family, shrink: float) -> CalibrationTable:
    return CalibrationTable(
        tuple(coverage_rows("right", family, answers, shrink)),
        tuple(uniformity_rows("right", family, answers, shrink)),
        len(answers),
        0,
        shrink,
    )


def test_a_right_method_passes(answers, tiny: Family) -> None:
    found = table(answers, tiny, 1.0)
    assert [(row.quantity, row.nominal) for row in found.rows] == [
        (name, level) for name in QUANTITIES for level in (0.5, 0.9)
    ]
    assert not found.flagged
    assert not any(test.flagged for test in found.uniformity)
    for row in found.rows:
        assert row.low <= row.actual <= row.high
        assert row.high - row.low < 0.1
        # values of a world share an error, so it is larger than that of independent values
        assert row.error > np.sqrt(row.nominal * (1 - row.nominal) / row.values)


def test_widths_of_seven_tenths_are_flagged_by_both_tables(answers, tiny: Family) -> None:
    found = table(answers, tiny, 0.7)
    assert all(row.flagged and row.actual < row.nominal for row in found.rows)
    assert all(test.flagged for test in found.uniformity)
    right = table(answers, tiny, 1.0)
    for row, wide in zip(found.rows, right.rows, strict=True):
        assert row.width == pytest.approx(0.7 * wide.width)
        assert row.crps > wide.crps


def test_worlds_that_break_the_model_are_told_apart(answers, tiny: Family) -> None:
    broken = Family(**{**tiny.to_dict(), "theta": tiny.theta, "well_specified": False})
    found = table(answers, broken, 0.7)
    assert all(row.flagged for row in found.rows)
    assert not found.flagged


def test_the_scores_are_those_of_the_values_with_draws(tiny: Family) -> None:
    rng = np.random.default_rng(1)
    worlds = []
    expected = []
    for kept in (3, 5):
        truth, draws = rng.random(8), rng.random((8, 99))
        whole = Answers.of_draws(truth, draws)
        part = Answers(truth, whole.centre, whole.low, whole.high, draws[:kept])
        worlds.append({"seen_relevance": part})
        expected.append(crps(truth[:kept], draws[:kept]))
    rows = list(coverage_rows("m", tiny, worlds, 1.0))
    assert [row.quantity for row in rows] == ["seen_relevance"] * 2
    assert rows[0].crps == pytest.approx(np.concatenate(expected).mean())
    assert rows[0].values == 16


def test_json_has_the_documented_keys_and_no_nan(right_answers, tiny: Family) -> None:
    one = [{"position_bias": right_answers(np.random.default_rng(2))}]
    found = table(one, tiny, 1.0)
    record = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert list(record) == ["table", "uniformity", "orders", "worlds", "seed", "shrink"]
    assert list(record["table"][0])[:8] == [
        "quantity",
        "family",
        "well_specified",
        "nominal",
        "actual",
        "error",
        "width",
        "crps",
    ]
    assert record["table"][0]["error"] is None


def test_markdown_names_every_row(answers, tiny: Family) -> None:
    text = table(answers, tiny, 0.7).to_markdown()
    lines = [line for line in text.splitlines() if line.startswith("| right | tiny")]
    assert len(lines) == 3 * len(QUANTITIES)
    assert all(line.endswith("| off |") for line in lines)
