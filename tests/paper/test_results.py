"""The table of results: values are found by method, run, epoch, quantity and index."""

import itertools

import numpy as np
import pytest

from epiclick.paper.results import Cost, Results
from epiclick.paper.settings import Settings

from ..raising import raises_code
from .planted import results_of

RUNS, EPOCHS = (0, 1, 2), (1, 10, 20)


def value(run: int, epoch: int, index: int) -> float:
    return 100.0 * run + epoch + index / 10


@pytest.fixture(scope="module")
def results() -> Results:
    rows = [
        ("exact", run, epoch, quantity, index, value(run, epoch, index))
        for run, epoch in itertools.product(RUNS, EPOCHS)
        for quantity, indices in (("per_pair", (0,)), ("theta_alpha", (1, 2)))
        for index in indices
    ]
    np.random.default_rng(0).shuffle(rows)  # type: ignore[arg-type]
    rows = [(m, int(r), int(e), q, int(i), float(v)) for m, r, e, q, i, v in rows]
    # samples keep their order, which is decreasing
    rows += [
        ("exact", run, 20, "ranker_sample", ranker, -float(sample))
        for sample in range(12)
        for ranker in (0, 1)
        for run in RUNS
    ]
    return results_of(rows, Settings(), [Cost("exact", 0, 1.0, 2.0, 3)], ["f1", "f2"])


def test_values_are_found_by_run_and_epoch(results: Results) -> None:
    epochs, values = results.of("exact", "per_pair")
    assert epochs.tolist() == list(EPOCHS)
    np.testing.assert_array_equal(values, [[value(r, e, 0) for e in EPOCHS] for r in RUNS])
    _, second = results.of("exact", "theta_alpha", 2)
    np.testing.assert_array_equal(second, [[value(r, e, 2) for e in EPOCHS] for r in RUNS])


def test_the_last_epoch_has_all_indices(results: Results) -> None:
    expected = [[value(r, 20, 1), value(r, 20, 2)] for r in RUNS]
    np.testing.assert_array_equal(results.last("exact", "theta_alpha"), expected)


def test_samples_keep_their_order(results: Results) -> None:
    samples = results.samples("exact", "ranker_sample")
    assert samples.shape == (3, 2, 12)
    np.testing.assert_array_equal(samples[1, 1], -np.arange(12.0))


def test_missing_quantities_are_reported(results: Results) -> None:
    assert results.methods == ("exact",)
    assert results.runs == RUNS
    assert not results.has("exact", "nu_sd")
    with raises_code("quantity-not-measured") as error:
        results.of("exact", "nu_sd")
    assert "nu_sd of exact" in str(error.value)
    with raises_code("incomplete-results") as error:
        results.of("exact", "per_pair", 5)
    assert "3 runs" in str(error.value)
    np.testing.assert_array_equal(results.truth, [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5])


def test_a_missing_value_is_an_error(results: Results) -> None:
    columns = (results.table[name].to_pylist() for name in results.table.column_names)
    rows = zip(*columns, strict=True)
    kept = [row for row in rows if row[:4] != ("exact", 1, 10, "per_pair")]
    incomplete = results_of(kept, results.settings)
    with raises_code("incomplete-results") as error:
        incomplete.of("exact", "per_pair")
    assert "8 values of per_pair" in str(error.value)
