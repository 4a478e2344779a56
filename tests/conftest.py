"""Shared fixtures: separate caches, the public sample data, small logs to break."""

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import settings

import epiclick as ec

# the same examples everywhere, however busy the machine is
settings.register_profile("epiclick", deadline=None, derandomize=True)
settings.load_profile("epiclick")

COMPILED = "JAX_COMPILATION_CACHE_DIR"
OWN_COMPILED: list[str] = []

if COMPILED not in os.environ:
    # many fits share programs: what one test or process compiled, others of this run reuse
    OWN_COMPILED.append(tempfile.mkdtemp(prefix="epiclick-tests-"))
    os.environ[COMPILED] = OWN_COMPILED[0]
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"

if "XLA_FLAGS" not in os.environ and "jax" not in sys.modules:
    # most of the time of a small fit is compiling, which these halve; results agree to rounding.
    # `XLA_FLAGS= make test` compiles as users do, and so do the examples in any case
    os.environ["XLA_FLAGS"] = (
        "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    )

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # so it is for whatever a shell starts in the background: tests of Ctrl-C would wait for ever
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what stays to the end, and run less often.

    It took 2.3 of 34 seconds of the tests of `epiclick compare`, and takes 0.7 so.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_unconfigure() -> None:
    """Remove the programs that this run compiled; its worker processes leave it to their parent."""
    for folder in OWN_COMPILED:
        shutil.rmtree(folder, ignore_errors=True)


MOST_MAPPED = 20_000
"""Regions of memory from which on compiled programs are let go; a process may have 65,530."""


@pytest.fixture(autouse=True, scope="module")
def let_programs_go() -> Iterator[None]:
    """Every program that jax compiles maps memory anew, and with too many of them it crashes."""
    yield
    maps = Path("/proc/self/maps")
    if "jax" in sys.modules and maps.exists():
        with maps.open("rb") as regions:
            mapped = sum(1 for _ in regions)
        if mapped > MOST_MAPPED:
            sys.modules["jax"].clear_caches()


SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's cache out of the tests."""
    monkeypatch.setenv("EPICLICK_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """Path of a public sample; the test is skipped, by name, where the sample is absent."""

    def path_of(name: str) -> Path:
        path = SHARED_DATA / name
        if not path.exists():
            pytest.skip(f"sample data {name} is not here")
        return path

    return path_of


@pytest.fixture
def small_log() -> pd.DataFrame:
    """Six pages of two queries, three positions each, with a click on most."""
    pages = {
        1: ("shoes", ["a", "b", "c"], [1, 0, 0]),
        2: ("shoes", ["b", "a", "c"], [0, 1, 0]),
        3: ("shoes", ["a", "c", "b"], [0, 0, 0]),
        4: ("hats", ["x", "y", "z"], [1, 1, 0]),
        5: ("hats", ["y", "x", "z"], [1, 0, 0]),
        6: ("hats", ["z", "y", "x"], [0, 0, 1]),
    }
    rows = [
        (page, query, doc, position, click)
        for page, (query, docs, clicks) in pages.items()
        for position, (doc, click) in enumerate(zip(docs, clicks, strict=True), start=1)
    ]
    return pd.DataFrame(rows, columns=["page_id", "query_id", "doc_id", "position", "click"])


@pytest.fixture(scope="session")
def small_counts() -> ec.ClickCounts:
    """A small world to train on, once for all tests."""
    world = ec.simulate(
        queries=60, docs=8, features=4, pages=500, positions=3, relevance="beta", seed=3
    )
    return world.counts()
