"""Tables of known position bias: read from any format, converted to logits, refused if invalid."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import special, stats

from epiclick.click_models.priors import FIXED_SD
from epiclick.data.checksums import with_digest
from epiclick.errors import InputError, InputWarning
from epiclick.posterior.known_bias import (
    describe_known,
    fixed_contexts,
    read_known_bias,
)
from epiclick.posterior.mode import inverse

from ..damaging import assert_damage_is_found
from ..raising import raises_code

THREE = pa.table({"position": [1, 2, 3]})
BOTH = pa.table({"device": ["desk", "desk", "phone"], "position": [1, 2, 1]})


def table(**columns: list) -> pd.DataFrame:
    """Positions 1 to 3 with these columns."""
    return pd.DataFrame({"position": [1, 2, 3], **columns})


def test_points_are_fixed_and_intervals_are_priors() -> None:
    given = table(mean=[1, 0.5, 0.3], low=[None, None, 0.2], high=[None, None, 0.4])
    known = read_known_bias(given, THREE, 0, 0.9)
    assert np.isnan(known.mean[0])
    assert np.isnan(known.sd[0])
    assert (known.mean[1], known.sd[1]) == (pytest.approx(special.logit(0.5)), FIXED_SD)
    # the interval of the prior is the one that was given
    prior = stats.norm(known.mean[2], known.sd[2])
    np.testing.assert_allclose(special.expit(prior.interval(0.9)), [0.2, 0.4])
    assert fixed_contexts(known) == (1,)
    assert describe_known(known, THREE, 0.9) == [
        {"position": 2, "how": "fixed", "mean": pytest.approx(0.5)},
        {
            "position": 3,
            "how": "prior",
            "mean": pytest.approx(special.expit(known.mean[2])),
            "low": pytest.approx(0.2),
            "high": pytest.approx(0.4),
        },
    ]


def test_a_level_of_its_own_widens_the_prior() -> None:
    ends = {"low": [1, 0.4, 0.2], "high": [1, 0.6, 0.4]}
    known = read_known_bias(table(mean=[1, 0.5, 0.3], **ends, level=[0.5] * 3), THREE, 0, 0.9)
    prior = stats.norm(known.mean[1:], known.sd[1:])
    np.testing.assert_allclose(special.expit(prior.interval(0.5)), [[0.4, 0.2], [0.6, 0.4]])


def test_an_upper_end_beyond_1_leaves_the_lower_one() -> None:
    given = table(mean=[1, 0.9, 1], low=[1, 0.7, 1], high=[1, 1.1, 1])
    known = read_known_bias(given, THREE, 0, 0.9)
    low, _ = special.expit(stats.norm(known.mean[1], known.sd[1]).interval(0.9))
    assert (special.expit(known.mean[1]), low) == (pytest.approx(0.9), pytest.approx(0.7))
    assert np.isfinite(known.mean[2])  # a bias of 1 that is not the anchor's
    assert special.expit(known.mean[2]) == pytest.approx(1, abs=1e-5)


def test_values_are_divided_by_the_anchors() -> None:
    given = table(mean=[0.8, 0.4, 0.2], low=[0.7, 0.3, 0.1], high=[0.9, 0.5, 0.3])
    with pytest.warns(InputWarning, match=r"0.8 at position 1.*divided by it"):
        known = read_known_bias(given, THREE, 0, 0.9)
    ends = special.expit(stats.norm(known.mean[1:], known.sd[1:]).interval(0.9))
    np.testing.assert_allclose(ends, [[0.3 / 0.8, 0.1 / 0.8], [0.5 / 0.8, 0.3 / 0.8]])
    # without an anchor they are used as they are
    free = read_known_bias(given, THREE, None, 0.9)
    assert np.isfinite(free.mean).all()
    np.testing.assert_allclose(special.expit(stats.norm(*free).interval(0.9))[0], given["low"])


def test_every_file_format_gives_the_same(tmp_path: Path) -> None:
    given = table(mean=[1, 0.5, 0.3], low=[None, 0.4, None], high=[None, 0.6, None])
    expected = read_known_bias(given, THREE, 0, 0.9)
    records = json.loads(given.to_json(orient="records"))
    given.to_csv(tmp_path / "bias.csv", index=False)
    given.to_parquet(tmp_path / "bias.parquet")
    printed = {"schema_version": 1, "position_bias": records}
    (tmp_path / "printed.json").write_text(json.dumps(printed))
    (tmp_path / "rows.json").write_text(json.dumps(records))
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, records)))
    for name in ("bias.csv", "bias.parquet", "printed.json", "rows.json", "lines.jsonl"):
        known = read_known_bias(tmp_path / name, THREE, 0, 0.9)
        np.testing.assert_array_equal(known, expected, err_msg=name)


def test_unmatched_rows_and_contexts_give_warnings() -> None:
    given = pd.DataFrame({"position": [2, 9], "mean": [0.5, 0.1]})
    with pytest.warns(InputWarning) as caught:
        known = read_known_bias(given, THREE, 0, 0.9)
    words = [str(warning.message) for warning in caught]
    assert "ignored: position 9" in words[0]
    assert "no row for position 3, whose bias is learned" in words[1]
    assert np.isfinite(known.mean).tolist() == [False, True, False]


def test_contexts_of_several_columns() -> None:
    given = pd.DataFrame({"position": [1, 2], "device": ["phone", "desk"], "mean": [0.9, 0.5]})
    known = read_known_bias(given, BOTH, 0, 0.9)
    np.testing.assert_allclose(special.expit(known.mean[1:]), [0.5, 0.9])


def interval(mean: list, low: list, high: list) -> pd.DataFrame:
    """A table with intervals for positions 2 and 3."""
    return table(mean=[1, *mean], low=[1, *low], high=[1, *high])


@pytest.mark.parametrize(
    ("given", "code", "named"),
    [
        (table(bias=[1, 0.5, 0.3]), "missing-column", "'mean'"),
        (pd.DataFrame({"positon": [1], "mean": [1]}), "missing-column", "did you mean 'positon'"),
        (table(mean=[1, 0.5, 0.3])[:0], "no-rows", ""),
        (table(mean=[1, None, 0.3]), "mean-not-positive", "1 row, first position 2 (mean nan"),
        (table(mean=[1, 0.0, -1]), "mean-not-positive", "2 rows, first position 2"),
        (table(mean=[1, np.inf, 0.3]), "mean-not-positive", "1 row"),
        (table(mean=["1", "half", "0.3"]), "wrong-column-type", "mean"),
        (interval([0.5, 0.3], low=[0.6, 0.2], high=[0.4, 0.4]), "mean-outside-interval", "1 row"),
        (interval([0.7, 0.3], low=[0.4, 0.2], high=[0.6, 0.4]), "mean-outside-interval", "1 row"),
        (interval([0.5, 0.3], low=[0, 0.2], high=[0.6, 0.4]), "mean-outside-interval", "1 row"),
        (interval([0.5, 0.3], low=[0.4, None], high=[None, None]), "incomplete-interval", "1 row"),
        (table(mean=[1, 0.5, 0.3], level=[0.9, 90, 0.9]), "level-out-of-range", "1 row"),
        (
            table(mean=[1, 0.5, 0.3]).assign(position=[1, 2, 2]),
            "duplicate-context",
            "1 row, first position 2",
        ),
        (
            table(mean=[1, 0.5, 0.3]).assign(position=[7, 8, 9]),
            "no-common-context",
            "Positions count from 1",
        ),
        (
            table(mean=[1, 0.5, 0.3]).assign(position=["a", "b", "c"]),
            "wrong-column-type",
            "position must be int64",
        ),
        (table(mean=[1, 0.5, 1.2]), "bias-above-one", "position 3 (1.2)"),
    ],
)
def test_invalid_tables_are_refused(given: pd.DataFrame, code: str, named: str) -> None:
    with raises_code(code) as caught:
        read_known_bias(given, THREE, 0, 0.9)
    assert named in str(caught.value)


def test_a_free_scale_needs_all_contexts() -> None:
    with raises_code("context-without-bias") as caught:
        read_known_bias(pd.DataFrame({"position": [1, 2], "mean": [0.9, 0.5]}), THREE, None, 0.9)
    assert "no row for position 3" in str(caught.value)


def test_files_without_rows_of_bias_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bias.json").write_text('{"position_bias": []}')
    with raises_code("no-rows"):
        read_known_bias(tmp_path / "bias.json", THREE, 0, 0.9)
    with pytest.raises(InputError, match=r"nowhere\.json"):
        read_known_bias(tmp_path / "nowhere.json", THREE, 0, 0.9)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bias.csv", "position,mean\n1,1\n,0.5\n"),
        ("bias.json", '[{"position": 1, "mean": 1}, {"position": null, "mean": 0.5}]'),
        ("bias.jsonl", '{"position": 1, "mean": 1}\n{"place": 2, "mean": 0.5}\n'),
    ],
)
def test_rows_without_a_context_are_refused(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with raises_code("missing-context") as caught:
        read_known_bias(tmp_path / name, THREE, 0, 0.9)
    assert "(row 2)" in str(caught.value)


@pytest.mark.parametrize("at_bound", [3, [3], [{"context": 3}], {"context": {}}])
def test_contexts_at_the_bound_must_be_contexts(at_bound: Any, tmp_path: Path) -> None:
    record = {"position_bias": [{"position": 1, "mean": 0.4}], "at_bound": at_bound}
    (tmp_path / "bias.json").write_text(json.dumps(record))
    with raises_code("no-rows"):
        read_known_bias(tmp_path / "bias.json", THREE, 0, 0.9)


def test_damage_to_what_was_printed_is_found(tmp_path: Path) -> None:
    path = tmp_path / "bias.json"
    rows = [
        {"position": 1, "mean": 1.0, "low": None, "high": None},
        {"position": 2, "mean": 0.5, "low": 0.4125, "high": 0.5875},
        {"position": 3, "mean": 0.3125, "low": 0.25, "high": 0.4},
    ]
    path.write_text(json.dumps(with_digest({"schema_version": 1, "position_bias": rows})))
    whole = read_known_bias(path, THREE, 0, 0.9)

    def check() -> None:
        np.testing.assert_array_equal(read_known_bias(path, THREE, 0, 0.9), whole)

    refused, same = assert_damage_is_found(path, check, flips=len(path.read_bytes()))
    assert refused > 10 * same


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bias.csv", "position,mean\n1,1\n2,0.5,9\n3,0.3\n"),
        ("bias.jsonl", '{"position": 1, "mean": 1}\n{"position": 2\n{"position": 3, "mean": 0.3}'),
    ],
)
def test_files_with_malformed_lines_are_refused(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    with raises_code("malformed-line"):
        read_known_bias(tmp_path / name, THREE, 0, 0.9)


def test_a_fixed_bias_does_not_make_others_look_flat() -> None:
    """Next to a curvature of 1e8 a direction of 1e-3 would look like rounding."""
    curvature = np.diag([1e8, 4.0, 1e-3])
    curvature[1, 2] = curvature[2, 1] = 0.01
    curvature[0, 1] = curvature[1, 0] = 30.0
    fixed = np.array([True, False, False])
    np.testing.assert_allclose(
        inverse(curvature, fixed)[1:, 1:], np.linalg.inv(curvature)[1:, 1:], rtol=1e-4
    )
    assert inverse(curvature, fixed)[0, 0] == pytest.approx(1e-8)
    assert inverse(curvature)[2, 2] < 2  # the negative control: its true variance is 1,025
