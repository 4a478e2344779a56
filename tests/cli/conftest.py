"""Shared by tests of the verbs: a small world, models fitted to it, the command line."""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from epiclick.cli import exit_codes
from epiclick.cli.main import run

WORLD = ["--queries", 150, "--docs", 8, "--features", 4, "--pages", 2000, "--positions", 3]
TRAINING = ["--epochs", 3, "--hidden", "8,4", "--seed", 3]


@dataclass(frozen=True)
class Done:
    """The result of a call: its exit code, what it printed, the code of the error that ended it."""

    code: int
    out: str
    err: str
    error_code: str | None = None

    @property
    def record(self) -> dict[str, Any]:
        """The JSON object that was printed, in strict JSON."""
        assert self.code == 0, self.err
        assert self.out.count("\n") == 1
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))

    def assert_refused(self, words: str, error_code: str | None = None) -> None:
        """Check for exit code 2, no output, and one message with these words, of this error.

        Errors raised by the library have their codes checked where they are raised.
        """
        assert (self.code, self.out) == (2, ""), self.err
        assert words in self.err
        assert "Traceback" not in self.err
        if error_code is not None:
            assert self.error_code == error_code


def epiclick(*arguments: object) -> Done:
    """Call the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    argv = mock.patch.object(sys, "argv", ["epiclick", *map(str, arguments)])
    refused = mock.patch.object(exit_codes, "_refused", wraps=exit_codes._refused)
    code = 0
    with argv, redirect_stdout(out), redirect_stderr(err), refused as seen:
        try:
            run()
        except SystemExit as end:
            code = int(end.code or 0)
    error_code = seen.call_args.args[0].code if seen.call_args else None
    return Done(code, out.getvalue(), err.getvalue(), error_code)


@pytest.fixture(scope="session")
def cli_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the session, with a cache of its own."""
    folder = tmp_path_factory.mktemp("cli")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EPICLICK_CACHE", str(folder / "cache"))
        yield folder


@pytest.fixture(scope="session")
def world(cli_folder: Path) -> Path:
    """features.parquet; early.parquet and late.parquet, the pages to train on and to score.

    Early are the first two pages of 120 queries, late the next two of all 150: the fewer displays a
    pair has, the sooner its likelihood is compiled.
    """
    folder = cli_folder / "world"
    assert epiclick("simulate", "--out", folder, *WORLD).code == 0
    clicks = pd.read_parquet(folder / "clicks.parquet")
    clicks["device"] = np.where(clicks["page_id"] % 3 == 0, "phone", "desk")
    turn = clicks.groupby("query_id")["page_id"].rank("dense")
    clicks[(turn <= 2) & (clicks["query_id"] < 120)].to_parquet(folder / "early.parquet")
    clicks[turn.isin([3, 4])].to_parquet(folder / "late.parquet")
    return folder


def fitted(world: Path, name: str, *arguments: object) -> tuple[Path, Done]:
    """A model of the early pages, and the result of fitting it."""
    out = world.parent / name
    done = epiclick("fit", world / "early.parquet", "--out", out, *TRAINING, *arguments, "--json")
    assert done.code == 0, done.err
    return out, done


@pytest.fixture(scope="session")
def marginal(world: Path) -> tuple[Path, Done]:
    return fitted(world, "marginal", "--features", world / "features.parquet")


@pytest.fixture(scope="session")
def exact(world: Path) -> tuple[Path, Done]:
    arguments = ["--estimator", "exact", "--baseline", "--samples", 4, "--level", 0.8]
    return fitted(world, "exact", "--features", world / "features.parquet", *arguments)


@pytest.fixture(scope="session")
def pointwise(world: Path) -> tuple[Path, Done]:
    return fitted(
        world, "pointwise", "--features", world / "features.parquet", "--estimator", "pointwise"
    )


@pytest.fixture(scope="session")
def without_features(world: Path) -> tuple[Path, Done]:
    return fitted(world, "without_features")
