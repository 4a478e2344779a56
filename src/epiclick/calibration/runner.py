"""Worlds -> fits -> table of coverage, on several processes.

The name of a result's file depends on everything that the result depends on, so that a stopped run
resumes where it was and never uses results of other settings. The table depends neither on the
number of processes nor on interruptions.
"""

import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from epiclick.calibration.answers import DRAWS, KEPT, LEVELS, QUANTITIES, VALUES, Answers
from epiclick.calibration.families import (
    DAILY_CONFIDENCE,
    DAYS,
    ONE_BETA,
    OWN_PRIOR_NAME,
    UNSEEN,
    WELL_SPECIFIED,
    Family,
    find_families,
    make_case,
    world_seed,
)
from epiclick.calibration.methods import Method, find_methods
from epiclick.calibration.own_prior import OWN_METHODS, OWN_PRIOR, make_own_world
from epiclick.calibration.table import (
    CalibrationTable,
    CoverageRow,
    OrderRow,
    UniformityRow,
    coverage_rows,
    order_rows,
    uniformity_rows,
)
from epiclick.data.checksums import from_archive, reading, to_archive
from epiclick.data.writing import written_aside
from epiclick.errors import InputError, InputWarning, Problem
from epiclick.processes import cores_of, start_worker, threads_of_started

PARTS = tuple(field.name for field in fields(Answers))


@dataclass(frozen=True)
class Task:
    """One method in one world.

    Attributes:
        family: of the world.
        method: the method.
        seed: of the run.
        index: number of the world.
    """

    family: Family
    method: Method
    seed: int
    index: int

    def path(self, folder: Path) -> Path:
        """File of its result."""
        depends = {
            "family": self.family.to_dict(),
            "method": [self.method.name, self.method.description, _settings(self.method)],
            "world": world_seed(self.family, self.seed, self.index),
            "quantities": list(QUANTITIES),
            "sizes": [LEVELS, DRAWS, VALUES, KEPT, UNSEEN, ONE_BETA, DAYS, DAILY_CONFIDENCE],
            "version": version("epiclick"),
        }
        digest = sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()[:12]
        return folder / self.family.name / self.method.name / f"{self.index:05d}-{digest}.npz"


def _settings(method: Method) -> str:
    """Arguments of the method's function, where they are known."""
    return json.dumps(getattr(method.answer, "keywords", {}), sort_keys=True, default=str)


def save_answers(answers: Mapping[str, Answers], path: Path) -> None:
    """Write answers; draws of the first values only, in single precision."""
    arrays = {
        f"{name}/{part}": getattr(kept, part).astype(np.float32 if part == "draws" else np.float64)
        for name, given in answers.items()
        for kept in [replace(given, draws=given.draws[:KEPT])]
        for part in PARTS
    }
    with written_aside(path) as aside:
        aside.write_bytes(to_archive(arrays))


def load_answers(path: Path) -> dict[str, Answers]:
    """Read what `save_answers` wrote; InputError if the file is damaged."""
    with reading(path, "Delete it and run the same command again to redo this world."):
        arrays = from_archive(path.read_bytes())
        names = dict.fromkeys(key.split("/")[0] for key in arrays)
        return {
            name: Answers(**{part: arrays[f"{name}/{part}"].astype(np.float64) for part in PARTS})
            for name in names
        }


WORLDS = "worlds"
PROGRAMS = "programs"


def calibrate(
    worlds: int = 60,
    families: Sequence[str | Family] | None = None,
    methods: Sequence[str | Method] = ("marginal",),
    seed: int = 0,
    *,
    shrink: float = 1.0,
    jobs: int = 1,
    folder: str | Path | None = None,
    progress: bool = True,
) -> CalibrationTable:
    """Measure how often the intervals of methods contain the truth in many worlds.

    Args:
        worlds: worlds per family.
        families: families, or names of families or groups of them; all by default, including worlds
            of the model's own prior ("own-prior"), which have their own methods.
        methods: names of methods, or methods.
        seed: of everything random.
        shrink: factor on all widths; 0.7, for example, is a negative control that must be flagged.
        jobs: processes; with more than one, families and methods must be importable.
        folder: where the results of each world are kept, so that a stopped run can resume; a
            temporary one by default.
        progress: show a progress bar, on a terminal.
    """
    _check(worlds, seed, shrink, jobs)
    chosen, asked = _families(families), find_methods(methods)
    if not asked:
        raise InputError("no method was named; marginal is the default", code="no-methods")
    with _kept(folder) as kept:
        tasks = [
            Task(family, method, seed, index)
            for index in range(worlds)
            for family in chosen
            for method in _methods(family, asked)
        ]
        run_tasks(tasks, kept, jobs, progress=progress)
        return gather(chosen, asked, kept, worlds, seed, shrink)


def gather(
    families: Sequence[Family],
    methods: Sequence[Method],
    folder: Path,
    worlds: int,
    seed: int,
    shrink: float = 1.0,
) -> CalibrationTable:
    """The table of the results in a folder."""
    rows: list[CoverageRow] = []
    tests: list[UniformityRow] = []
    orders: list[OrderRow] = []
    together: dict[str, list[dict[str, Answers]]] = {}
    asked = [(m, f) for m in methods for f in families if f != OWN_PRIOR]
    asked += [(m, f) for f in families if f == OWN_PRIOR for m in _methods(f, methods)]
    for method, family in asked:
        paths = (Task(family, method, seed, i).path(folder / WORLDS) for i in range(worlds))
        answers = [load_answers(path) for path in paths]
        if family != OWN_PRIOR:
            rows += coverage_rows(method.name, family, answers, shrink)
            kind = {"well_specified": family.well_specified}
            orders += order_rows(method.name, family.name, answers, shrink, **kind)
            if family.well_specified:
                together.setdefault(method.name, []).extend(answers)
        tests += uniformity_rows(method.name, family, answers, shrink)
    for name, answers in together.items():
        orders += order_rows(name, WELL_SPECIFIED, answers, shrink, well_specified=True)
    return CalibrationTable(tuple(rows), tuple(tests), worlds, seed, shrink, tuple(orders))


def run_tasks(tasks: Sequence[Task], folder: Path, jobs: int, *, progress: bool) -> None:
    """Run all tasks without a result in the folder; tasks of one world together."""
    by_world: dict[tuple[int, str], list[Task]] = {}
    for task in tasks:
        if not task.path(folder / WORLDS).is_file():
            by_world.setdefault((task.index, task.family.name), []).append(task)
    groups = list(by_world.values())
    with _bar(len(groups), shown=progress) as advance:
        if jobs == 1:
            for group in groups:
                run_world(group, folder)
                advance()
        elif groups:
            _run_apart(groups, folder, jobs, advance)


def run_world(tasks: Sequence[Task], folder: Path) -> None:
    """Make one world, and save each method's answers in it."""
    first = tasks[0]
    with warnings.catch_warnings():
        # some worlds violate the model on purpose
        warnings.simplefilter("ignore", InputWarning)
        make: Callable[..., Any] = make_own_world if first.family == OWN_PRIOR else make_case
        case = make(first.family, first.seed, first.index)
        for task in tasks:
            save_answers(task.method.answer(case), task.path(folder / WORLDS))


def _run_apart(
    groups: Sequence[Sequence[Task]], folder: Path, jobs: int, advance: Callable[[], None]
) -> None:
    """The same on several processes."""
    context = get_context("spawn")
    cores = context.SimpleQueue()
    for own in cores_of(jobs):
        cores.put(own)
    programs = str(folder / PROGRAMS)
    pool = ProcessPoolExecutor(
        jobs, mp_context=context, initializer=start_worker, initargs=(programs, cores)
    )
    try:
        with threads_of_started(jobs):
            submitted = [pool.submit(run_world, group, folder) for group in groups]
        for done in as_completed(submitted):
            done.result()
            advance()
    except BrokenProcessPool as error:
        raise MemoryError(
            "a process of the calibration was killed, often for lack of memory; run the same "
            "command with fewer jobs to resume"
        ) from error
    finally:
        # worlds that have started are finished and saved, the others left for the next run
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _bar(worlds: int, *, shown: bool) -> Iterator[Callable[[], None]]:
    """A function that advances a progress bar by one world; the bar needs a terminal."""
    if not (shown and worlds and sys.stderr.isatty()):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("calibrating"), BarColumn(bar_width=20), MofNCompleteColumn())
    left = (TextColumn("worlds, left"), TimeRemainingColumn())
    with Progress(*columns, *left, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=worlds)
        yield lambda: bar.advance(task)


@contextmanager
def _kept(folder: str | Path | None) -> Iterator[Path]:
    """The folder of results, or a temporary one."""
    if folder is not None:
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="epiclick-calibrate-") as temporary:
        yield Path(temporary)


def _families(families: Sequence[str | Family] | None) -> tuple[Family, ...]:
    if families is None:
        return (*find_families(None), OWN_PRIOR)
    names = [each for each in families if isinstance(each, str)]
    named = find_families([name for name in names if name != OWN_PRIOR_NAME])
    own = (OWN_PRIOR,) if OWN_PRIOR_NAME in names else ()
    chosen = (*named, *own, *(each for each in families if isinstance(each, Family)))
    if not chosen:
        message = "no family of worlds was named; leave out families to use them all"
        raise InputError(message, code="no-families")
    return chosen


def _methods(family: Family, methods: Sequence[Method]) -> Sequence[Method]:
    """Methods that apply to a family: worlds of the model's own prior have their own."""
    return tuple(OWN_METHODS.values()) if family == OWN_PRIOR else methods


def _check(worlds: int, seed: int, shrink: float, jobs: int) -> None:
    """Report all invalid numbers together."""
    problems = [
        Problem(f"{name} must be {rule}", 1, "argument", (f"{name}={value!r}",), code=code)
        for name, value, rule, valid, code in (
            ("worlds", worlds, "a whole number above 0", worlds >= 1, "not-whole-number"),
            ("seed", seed, "a whole number, 0 or above", seed >= 0, "not-whole-number"),
            ("shrink", shrink, "a number above 0", 0 < shrink < float("inf"), "invalid-number"),
            ("jobs", jobs, "a whole number above 0", jobs >= 1, "not-whole-number"),
        )
        if not valid
    ]
    if problems:
        raise InputError.of("these arguments of calibrate", problems)
