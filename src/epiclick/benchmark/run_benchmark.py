"""Running a benchmark cell by cell, each fit in a process of its own, and resuming it."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from epiclick.arguments import check_choice, check_level, check_whole
from epiclick.benchmark.benchmark_cells import (
    CELLS,
    CellKey,
    CellResult,
    load_cell,
    measure_cell,
    save_cell,
)
from epiclick.benchmark.benchmark_results import BenchmarkResults, DatasetResults
from epiclick.benchmark.benchmark_worlds import FULL, LETOR_USERS, WORLDS, WorldPlan, WorldSize
from epiclick.benchmark.clax_fits import CLAX, Clax, PeerError
from epiclick.benchmark.clax_fits import MODELS as CLAX_MODELS
from epiclick.benchmark.fresh_process import call_in_process
from epiclick.benchmark.page_data import BenchmarkData
from epiclick.benchmark.page_files import read_page_files
from epiclick.benchmark.versions import VERSIONS
from epiclick.click_models.registry import REGISTRY
from epiclick.errors import InputError, InputWarning
from epiclick.simulate.users import USERS
from epiclick.training.progress import working

DATA, PROGRAMS = "data", "programs"
MODELS = tuple(dict.fromkeys([*REGISTRY, *CLAX_MODELS]))


@dataclass(frozen=True)
class BenchmarkSettings:
    """What a benchmark runs.

    Attributes:
        worlds: users of simulated worlds of synthetic items.
        data: folders of page files; those that do not exist are skipped with a warning.
        letor: LETOR data whose items are shown in further worlds; None for none.
        models: click models.
        size: of the worlds.
        clax: Python of an environment of CLAX; None to leave it out.
        level: probability of the intervals.
        seed: of the worlds.
    """

    worlds: tuple[str, ...] = WORLDS
    data: tuple[Path, ...] = ()
    letor: Path | None = None
    models: tuple[str, ...] = MODELS
    size: WorldSize = FULL
    clax: Path | None = None
    level: float = 0.9
    seed: int = 0

    def check(self) -> None:
        """Refuse unknown names and repeated data sets, before anything slow."""
        for users in self.worlds:
            check_choice("--worlds", users, USERS)
        for name in self.models:
            check_choice("--models", name, MODELS)
        check_level("level", self.level)
        check_whole("seed", self.seed)
        names = [*self.worlds, *(path.name for path in self.data)]
        if len(set(names)) < len(names) or len(set(self.models)) < len(self.models):
            raise InputError(
                "--worlds, --data and --models: name each one once", code="repeated-name"
            )
        if self.letor is not None and not self.letor.exists():
            raise InputError(
                f"no file or folder at {self.letor}. Give a LETOR file, or a folder of its splits.",
                code="file-missing",
            )

    @property
    def plans(self) -> tuple[WorldPlan, ...]:
        """The worlds to simulate."""
        own = tuple(WorldPlan(users, self.size, self.seed) for users in self.worlds)
        if self.letor is None:
            return own
        shown = tuple(WorldPlan(users, self.size, self.seed, self.letor) for users in LETOR_USERS)
        return own + shown


class Job(NamedTuple):
    """A cell to measure, and how."""

    key: CellKey
    measure: Callable[[], CellResult]


def run_benchmark(
    settings: BenchmarkSettings, folder: str | Path, *, progress: bool = True
) -> BenchmarkResults:
    """Measure all cells that are not done yet, one after the other.

    Args:
        settings: what to run.
        folder: for data and cells; finished cells of the same settings are reused.
        progress: show which cell is under way, on a terminal.
    """
    settings.check()
    folder = Path(folder)
    peer = _clax(settings.clax)
    found = []
    for data in _datasets(settings, folder, progress=progress):
        results: dict[tuple[str, str], CellResult] = {}
        for job in _jobs(data, settings.models, peer, folder):
            result = load_cell(job.key, folder)
            if result is None:
                with working(f"{data.name}: {job.key.model}, {job.key.version}", shown=progress):
                    result = _measured(job)
                if result is None:
                    continue
                save_cell(job.key, result, folder)
            results[job.key.model, job.key.version] = result
        found.append(DatasetResults.of(data, results, settings.level))
    if not found:
        raise InputError(
            "there is no data set to run on: name worlds (--worlds) or folders that exist (--data)",
            code="no-data",
        )
    return BenchmarkResults(tuple(found), settings.level, peer.release if peer else None)


def _datasets(
    settings: BenchmarkSettings, folder: Path, *, progress: bool
) -> Iterator[BenchmarkData]:
    """The data sets, each also written to the folder, where the processes of fits find it."""
    for place in settings.data:
        if not place.is_dir():
            _warn(f"{place.name} is skipped: there is no folder {place}")
            continue
        data = read_page_files(place)
        _begin(folder)
        data.save(_file(folder, data.name))
        yield data
    for plan in settings.plans:
        name = plan.settings["name"]
        path = _file(folder, name)
        stored = BenchmarkData.load(path) if path.is_file() else None
        if stored is None or stored.settings != plan.settings:
            with working(f"{name}: simulating", shown=progress):
                stored = plan.make()
            _begin(folder)
            stored.save(path)
        yield stored


def _begin(folder: Path) -> None:
    """Make both folders before the first file, as the two together show that a run has begun."""
    for name in (CELLS, DATA):
        (folder / name).mkdir(parents=True, exist_ok=True)


def _file(folder: Path, name: str) -> Path:
    return folder / DATA / f"{name}.npz"


def _jobs(
    data: BenchmarkData, models: Sequence[str], peer: Clax | None, folder: Path
) -> Iterator[Job]:
    """All cells of a data set."""
    path = _file(folder, data.name)
    for model in models:
        for name, version in VERSIONS.items():
            if model in version.models and not (version.needs_features and data.features is None):
                key = CellKey(data.name, model, name, data.digest)
                yield Job(key, _in_process(path, model, name, folder))
        if peer is not None and model in CLAX_MODELS:
            key = CellKey(data.name, model, CLAX, data.digest, peer.release)
            yield Job(key, _by_peer(peer, path, model))


def _in_process(path: Path, model: str, version: str, folder: Path) -> Callable[[], CellResult]:
    programs = folder / PROGRAMS
    return lambda: call_in_process(measure_cell, path, model, version, programs=programs)


def _by_peer(peer: Clax, path: Path, model: str) -> Callable[[], CellResult]:
    return lambda: peer.measure(path, model)


def _measured(job: Job) -> CellResult | None:
    """The result of a job; None, with a warning, where a peer fails."""
    place = f"{job.key.dataset}, {job.key.model} ({job.key.version})"
    try:
        return job.measure()
    except InputError as error:
        raise error.with_message(f"{place}: {error}") from error
    except PeerError as error:
        _warn(f"{place} is left out: {error}")
        return None


def _clax(python: Path | None) -> Clax | None:
    if python is None:
        return None
    try:
        return Clax.at(python)
    except PeerError as error:
        _warn(f"CLAX is skipped: it cannot be imported by {python} ({error})")
        return None


def _warn(message: str) -> None:
    warnings.warn(message, InputWarning, stacklevel=3)
