"""A whole reproduction: uninterrupted, in shares, and killed midway."""

import io
import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from epiclick.paper import measuring, runs
from epiclick.paper.cells import Cell, Share
from epiclick.paper.results import KEYS, Results
from epiclick.paper.runs import RESULTS, reproduce, tune
from epiclick.paper.settings import Settings
from epiclick.paper.statement import bias_mean
from epiclick.paper.variants import VARIANTS

from ..raising import raises_code

pytestmark = pytest.mark.slow

KILLED = ("naive+baseline", 0, 2)  # method, run, epoch

SCRIPT = """
import os, signal, sys
from dataclasses import replace
sys.path.insert(0, sys.argv[2])
from conftest import TINY
from epiclick.paper import measuring, runs

measuring.CHECKPOINT_SECONDS = 0.0

def epoch(self, cell, number, likelihood):
    if (cell.variant.key, cell.run, number) == {killed!r}:
        os.kill(os.getpid(), signal.SIGKILL)

runs.NoProgress.epoch = epoch
runs.reproduce(TINY, sys.argv[1], jobs=1)
"""


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Method, run and number of every epoch that is trained."""
    epochs: list[tuple[str, int, int]] = []

    def epoch(self: object, cell: Cell, number: int, likelihood: float) -> None:
        epochs.append((cell.variant.key, cell.run, number))

    monkeypatch.setattr(runs.NoProgress, "epoch", epoch)
    return epochs


def test_every_cell_has_every_quantity_at_every_measured_epoch(
    done: tuple[Path, Results], tiny: Settings
) -> None:
    _, results = done
    assert results.methods == ("pointwise", "naive+baseline", "pointwise~start=0.5")
    assert results.runs == (0, 1)
    likelihoods = {"per_display", "per_pair", "whole_set", "train"}
    common = {*likelihoods, "zero_gradients", "mu_mean", "mu_sd"}
    for method in results.methods:
        point = method.startswith("pointwise")
        own = {"theta"} if point else {"theta_alpha", "theta_beta", "nu_mean", "nu_sd"}
        for quantity in common | own:
            for index in (1, 2, 3) if quantity.startswith("theta") else (0,):
                epochs, values = results.of(method, quantity, index)
                assert epochs.tolist() == [1, 2, 3]
                assert values.shape == (2, 3)
                assert np.isfinite(values).all()
                if quantity in likelihoods:
                    assert (values < 0).all()
        assert results.has(method, "nu_mean") is not point
    # each run has its own clicks and weights
    assert np.all(np.diff(results.last("pointwise", "per_display"), axis=0) != 0)
    assert not results.has("naive+baseline", "ranker_value")
    truth, value = (results.last("pointwise", f"ranker_{each}") for each in ("truth", "value"))
    assert truth.shape == value.shape == (2, 3)
    np.testing.assert_array_equal(truth[0], truth[1])
    assert len(results.rankers) == 3
    assert {(cost.method, cost.run) for cost in results.costs} == {
        (method, run) for method in results.methods for run in (0, 1)
    }
    assert all(cost.seconds > cost.training_seconds > 0 for cost in results.costs)
    assert all(cost.memory > 10 * 2**20 for cost in results.costs)


def test_an_alias_has_the_same_rows_and_no_cell(done: tuple[Path, Results]) -> None:
    folder, results = done
    assert not (folder / "cells" / "pointwise~start=0.5").exists()
    tables = [
        results.table.filter(pa.array(results.table["method"].to_numpy(False) == method))
        for method in ("pointwise", "pointwise~start=0.5")
    ]
    assert tables[0].drop(["method"]).equals(tables[1].drop(["method"]))


def test_the_table_is_sorted_and_saved_completely(done: tuple[Path, Results]) -> None:
    folder, results = done
    table = pq.read_table(folder / RESULTS)
    assert table.equals(results.table)
    rows = list(zip(*(table[name].to_pylist() for name in KEYS), strict=True))
    assert rows == sorted(rows)
    assert not [path for path in folder.rglob("*") if path.suffix in (".checkpoint", ".rows")]


def test_killed_and_restarted_it_gives_the_same_results(
    done: tuple[Path, Results], tmp_path: Path, trained: list[tuple[str, int, int]]
) -> None:
    script = SCRIPT.format(killed=KILLED)
    call = [sys.executable, "-c", script, str(tmp_path), str(Path(__file__).parent)]
    ended = subprocess.run(call, capture_output=True, text=True, timeout=300)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    under_way = "cells/naive+baseline/00"
    assert {"cells/pointwise/00.parquet", f"{under_way}.checkpoint", f"{under_way}.rows"} <= names
    assert f"{under_way}.parquet" not in names
    again = reproduce(done[1].settings, tmp_path, jobs=1, progress=False)
    assert again is not None
    # the cell under way resumed after its first epoch, the finished one was not rerun
    assert trained[0] == KILLED
    assert ("pointwise", 0, 1) not in trained
    assert (tmp_path / RESULTS).read_bytes() == (done[0] / RESULTS).read_bytes()


def test_damaged_checkpoints_are_discarded(
    done: tuple[Path, Results], tmp_path: Path, tiny: Settings, trained: list[tuple[str, int, int]]
) -> None:
    damaged = tmp_path / "cells" / "pointwise" / "00.checkpoint"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"not a checkpoint")
    one = replace(tiny, methods=("pointwise",), runs=1)
    assert reproduce(one, tmp_path, jobs=1, progress=False) is not None
    assert trained == [("pointwise", 0, epoch) for epoch in (1, 2, 3)]
    cell = "cells/pointwise/00.parquet"
    assert (tmp_path / cell).read_bytes() == (done[0] / cell).read_bytes()
    assert not damaged.exists()


def test_shares_merge_to_the_same_results_in_any_order(
    done: tuple[Path, Results], tmp_path: Path, tiny: Settings
) -> None:
    for number in (3, 1):
        share = Share(number, 3)
        assert reproduce(tiny, tmp_path, share=share, jobs=1, progress=False) is None
        assert not (tmp_path / RESULTS).exists()
    assert reproduce(tiny, tmp_path, share=Share(2, 3), jobs=1, progress=False) is not None
    assert (tmp_path / RESULTS).read_bytes() == (done[0] / RESULTS).read_bytes()


def test_processes_give_the_same_results_up_to_rounding(
    done: tuple[Path, Results], tmp_path: Path, tiny: Settings
) -> None:
    one = replace(tiny, methods=("pointwise",))
    results = reproduce(one, tmp_path, jobs=2, progress=False)
    assert results is not None
    for quantity in ("per_display", "mu_sd", "theta"):
        expected = done[1].last("pointwise", quantity)
        np.testing.assert_allclose(results.last("pointwise", quantity), expected, rtol=1e-5)


def test_other_settings_are_rejected_but_more_runs_are_not(
    done: tuple[Path, Results], tiny: Settings, trained: list[tuple[str, int, int]]
) -> None:
    folder, _ = done
    with raises_code("settings-differ") as error:
        reproduce(replace(tiny, epochs=4), folder, jobs=1)
    assert "epochs is 3 there and 4 here" in str(error.value)
    with raises_code("settings-differ") as error:
        reproduce(replace(tiny, rates={**tiny.rates, "naive": 0.5}), folder, jobs=1)
    assert "rates is" in str(error.value)
    before = (folder / RESULTS).read_bytes()
    fewer = reproduce(replace(tiny, methods=("pointwise",), runs=1), folder, jobs=1, progress=False)
    assert fewer is not None
    assert fewer.runs == (0,)
    assert not trained
    assert reproduce(tiny, folder, jobs=1, progress=False) is not None
    assert (folder / RESULTS).read_bytes() == before


@pytest.mark.parametrize("method", ["self_normalized", "exact", "conditioned"])
def test_samples_of_parameters_that_diverged_do_not_stop_the_others(
    tmp_path: Path, tiny: Settings, method: str
) -> None:
    # several steps per epoch: samples are drawn before the epoch is checked
    wild = replace(tiny, methods=(method,), runs=1, rates={**tiny.rates, method: 1e30})
    results = reproduce(wild, tmp_path, jobs=1, progress=False)
    assert results is not None
    assert np.isnan(results.last(method, "per_display")).all()
    assert json.loads((tmp_path / f"cells/{method}/00.json").read_text())["diverged"] in (1, 2, 3)


def test_training_that_diverges_leaves_nan(tmp_path: Path, tiny: Settings) -> None:
    wild = replace(tiny, methods=("pointwise",), runs=1, rates={**tiny.rates, "pointwise": 1e30})
    results = reproduce(wild, tmp_path, jobs=1, progress=False)
    assert results is not None
    epochs, values = results.of("pointwise", "per_display")
    assert epochs.tolist() == [1, 2, 3]
    assert np.isnan(values[0, -1])
    assert np.isnan(results.last("pointwise", "ranker_value")).all()
    assert np.isfinite(results.last("pointwise", "ranker_truth")).all()
    metadata = json.loads((tmp_path / "cells/pointwise/00.json").read_text())
    assert metadata["diverged"] in (1, 2, 3)


def test_position_bias_of_marginal_is_that_of_its_posterior(tmp_path: Path, tiny: Settings) -> None:
    ours = replace(tiny, methods=("marginal",), runs=1)
    results = reproduce(ours, tmp_path / "ours", jobs=1, progress=False)
    assert results is not None
    trained, found = (results.last("marginal", f"{each}theta") for each in ("", "posterior_"))
    assert trained[0, 0] == found[0, 0] == 1  # the anchor
    assert np.all(trained[0, 1:] != found[0, 1:])
    np.testing.assert_array_equal(bias_mean(results, "marginal"), found)
    # the posterior does not depend on where training left position bias and the last layer, which
    # its prior and the clicks determine, given the hidden units
    far = replace(ours, lookup_rate=1e-6)
    other = reproduce(far, tmp_path / "far", jobs=1, progress=False)
    assert other is not None
    np.testing.assert_allclose(other.last("marginal", "posterior_theta"), found, atol=0.02)
    assert np.abs(other.last("marginal", "theta") - trained).max() > 0.02
    likelihoods = [results.last("marginal", f"{p}per_display")[0, 0] for p in ("", "posterior_")]
    assert np.isfinite(likelihoods).all()
    assert likelihoods[0] != likelihoods[1]


def test_marginal_that_diverges_has_no_posterior(tmp_path: Path, tiny: Settings) -> None:
    wild = replace(tiny, methods=("marginal",), runs=1, rates={**tiny.rates, "marginal": 1e30})
    results = reproduce(wild, tmp_path, jobs=1, progress=False)
    assert results is not None
    assert np.isnan(results.last("marginal", "posterior_theta")).all()
    assert np.isnan(results.last("marginal", "posterior_per_display")).all()


def test_rates_are_chosen_on_validation_queries(tmp_path: Path, tiny: Settings) -> None:
    one = replace(tiny, methods=("pointwise",))
    (tuned,) = tune(one, tmp_path, grid=(1e-3, 1e-2, 1e30), jobs=1, progress=False)
    assert tuned.method == "pointwise"
    assert tuned.tried[1e30] == -np.inf
    assert tuned.rate == max((1e-3, 1e-2), key=lambda rate: tuned.tried[rate])
    assert json.loads((tmp_path / "rates.json").read_text()) == {"pointwise": tuned.rate}
    tried = json.loads((tmp_path / "tried.json").read_text())["pointwise"]
    assert tried == {"0.001": tuned.tried[1e-3], "0.01": tuned.tried[1e-2], "1e+30": None}
    settings = json.loads((tmp_path / "tuning/0.001/settings.json").read_text())
    assert (settings["scored"], settings["first_run"]) == ("vali", 99)


def test_a_table_shows_the_cells_under_way(tiny: Settings) -> None:
    cells = [Cell(VARIANTS["pointwise"], 0), Cell(VARIANTS["conditioned"], 0)]
    table = runs.ProgressTable(cells, epochs=4)
    assert table.seconds_left is None
    table.epoch(cells[1], 1, -0.5)
    assert table.seconds_left is not None
    table.done(cells[0])
    table.epoch(cells[0], 4, -0.1)  # a late report
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table.table())
    text = console.export_text()
    assert "1 of 2 cells done" in text
    assert "conditioned" in text
    assert "pointwise" not in text
    assert "1 of 4" in text
    table.done(cells[1])
    assert table.seconds_left == 0


def test_checkpoints_come_within_two_minutes() -> None:
    assert measuring.CHECKPOINT_SECONDS <= 120
