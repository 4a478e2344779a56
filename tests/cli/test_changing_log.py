"""Verbs that open a log several times refuse one that changes between two of them."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epiclick.cli import fit
from epiclick.data import by_column

from .conftest import TRAINING, Done, epiclick

pytestmark = pytest.mark.slow


def test_evaluate_refuses_a_log_that_changes_before_it_is_told_apart(
    world: Path,
    without_features: tuple[Path, Done],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = tmp_path / "log.parquet"
    shutil.copy(world / "late.parquet", log)
    asked = ("evaluate", without_features[0], log, "--by", "device", "--json")
    assert epiclick(*asked).code == 0
    count_by = by_column.count_by

    def changed_first(*args: Any) -> Any:
        rows = pd.read_parquet(log)
        rows["device"] = np.where(rows["device"] == "phone", "desk", "phone")
        rows.to_parquet(log)
        return count_by(*args)

    monkeypatch.setattr(by_column, "count_by", changed_first)
    done = epiclick(*asked)
    done.assert_refused("log.parquet (", "changed-while-reading")
    assert "changed while being read" in done.err


def test_fit_refuses_a_log_that_changes_before_its_randomised_pages_are_counted(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log.parquet"
    rows = pd.read_parquet(world / "early.parquet")
    rows["random"] = rows["page_id"] % 2
    rows.to_parquet(log)
    count_marked = fit.count_marked

    def changed_first(*args: Any) -> Any:
        rows[rows["page_id"] % 4 != 1].to_parquet(log)
        return count_marked(*args)

    monkeypatch.setattr(fit, "count_marked", changed_first)
    done = epiclick("fit", log, "--out", tmp_path / "m", "--randomised", "random", *TRAINING)
    assert done.code == 2
    assert "changed while being read" in done.err
    assert not (tmp_path / "m").exists()
