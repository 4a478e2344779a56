"""epiclick and its peers on the same logs, in one run, one process at a time; prints JSON.

`features` fits a position-based model with a network on features, `ids` one that identifies items
by their ids alone. Each side runs once per round with the round's seed, and medians are reported.
Peers are installed into environments under --envs first; one that is not available is listed with
the reason. Takes 15 minutes or more, and 6 GB of disk for the environments; every fit is reported
on stderr as soon as it is done.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from peers_environments import PEERS, Missing, last_line, python_of
from peers_scores import bias_errors, median_of, scores
from peers_side import Fit, Pages
from peers_worlds import Sizes

HERE = Path(__file__).parent
LOADED = {"epiclick": "epiclick.plans", "clax": "clax", "lightgbm": "lightgbm"}  # for a fit


@dataclass(frozen=True)
class Side:
    """A participating model: its library, and its name there."""

    owner: str
    model: str

    @property
    def name(self) -> str:
        """Its key in the results."""
        return f"{self.owner} {self.model}"


@dataclass(frozen=True)
class Task:
    """A log and the models fitted to it.

    Attributes:
        sizes: of the log.
        by_query: whether whole queries are held out, or pages.
        sides: models fitted to it.
        absent: peers for this task that do not take part; the reasons are reported.
    """

    sizes: Sizes
    by_query: bool
    sides: tuple[Side, ...]
    absent: tuple[str, ...]


TASKS = {
    "features": Task(
        Sizes(queries=12_500, docs=20, features=136, pages=125_000, positions=5),
        by_query=True,
        sides=(
            Side("clax", "PositionBasedModel"),
            Side("epiclick", "PointwisePBM"),
            Side("epiclick", "EpistemicPBM"),
            Side("lightgbm", "lambdarank"),
        ),
        absent=("obp", "ultra"),
    ),
    "ids": Task(
        Sizes(queries=50, docs=20, features=5, pages=43_750, positions=10),
        by_query=False,
        sides=(Side("clax", "PositionBasedModel"), Side("epiclick", "EpistemicPBM")),
        absent=("pyclick", "clickmodels"),
    ),
}


SIDES = tuple(dict.fromkeys(side.name for task in TASKS.values() for side in task.sides))


def import_seconds(python: Path, owner: str) -> float:
    """Seconds to import all that a fit of a side needs, in a new process."""
    clock = "time.perf_counter()"
    code = f"import time; start = {clock}; import {LOADED[owner]}; print({clock} - start)"
    done = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout)


def run_side(python: Path, side: Side, fit: Fit, given: argparse.Namespace) -> dict[str, Any]:
    """The record of a fit in a new process, with the seconds from its start to the fitted model."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if given.warm or not name.startswith(("JAX_", "XLA_"))
    }
    command = [str(python), str(HERE / f"peers_{side.owner}.py"), *fit.command()]
    seconds = given.timeout
    try:
        loading = import_seconds(python, side.owner)
        started = time.time()
        subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment, timeout=seconds
        )
    except subprocess.CalledProcessError as error:
        raise Missing(f"failed: {last_line(error.stderr)}") from error
    except subprocess.TimeoutExpired as error:
        raise Missing(f"took more than {seconds:.0f} seconds") from error
    record = json.loads(fit.out.with_suffix(".json").read_text())
    return {"seconds": record.pop("fitted_at") - started, "import_seconds": loading, **record}


def with_scores(record: dict[str, Any], fit: Fit) -> dict[str, Any]:
    """The record with scores of its probabilities and errors of its bias."""
    truth = np.array(json.loads((fit.folder / "truth.json").read_text())["position_bias"])
    result = {**record, "position_bias": bias_errors(record, truth)}
    predicted = fit.out.with_suffix(".npy")
    if predicted.exists():
        result |= scores(np.load(predicted), fit.pages("test").click)
    return result


def truth_scores(folder: Path) -> dict[str, float]:
    """Scores of the true click probabilities, which no model can beat except by luck."""
    truth = np.array(json.loads((folder / "truth.json").read_text())["position_bias"])
    test = Pages.load(folder / "test.npz")
    return scores(truth * np.load(folder / "relevance.npy")[test.pair], test.click)


def summary(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the rounds, and the seconds of each."""
    return {
        **median_of(rounds),
        "seconds_by_round": [round(record["seconds"], 2) for record in rounds],
    }


def measure(task: Task, given: argparse.Namespace, folder: Path, *, ids: bool) -> dict[str, Any]:
    """Simulate the task's log, then fit all sides in turn, round by round."""
    sizes = [word for name, n in asdict(task.sizes).items() for word in (f"--{name}", str(n))]
    split = ["--by-query"] if task.by_query else []
    writer = [sys.executable, str(HERE / "peers_worlds.py"), str(folder), *split, *sizes]
    subprocess.run(writer, check=True)
    missing = {name: f"{PEERS[name].what}: {PEERS[name].why_not}" for name in task.absent}
    pythons: dict[str, Path] = {"epiclick": Path(sys.executable)}
    wanted = [side for side in task.sides if given.sides is None or side.name in given.sides]
    missing |= {side.name: "left out by --sides" for side in task.sides if side not in wanted}
    for owner in dict.fromkeys(side.owner for side in wanted if side.owner in PEERS):
        try:
            pythons[owner] = python_of(owner, given.envs, install=not given.no_install)
        except Missing as reason:
            missing[owner] = f"{PEERS[owner].what}: {reason}"
    records: dict[str, list[dict[str, Any]]] = {}
    for number in range(given.rounds):
        for side in wanted:
            if side.owner not in pythons or side.name in missing:
                continue
            print(f"round {number + 1}: {side.name}", file=sys.stderr, flush=True)
            out = folder / f"{side.owner}-{side.model}-{number}"
            fit = Fit(folder, out, side.model, ids, given.epochs, number)
            try:
                record = run_side(pythons[side.owner], side, fit, given)
            except Missing as reason:
                if side.owner == "epiclick":
                    raise
                missing[side.name] = str(reason)
                continue
            records.setdefault(side.name, []).append(with_scores(record, fit))
            print(json.dumps(records[side.name][-1]), file=sys.stderr)  # kept if the run is stopped
    train = Pages.load(folder / "train.npz")
    return {
        "log": {
            **asdict(task.sizes),
            "training_pages": len(train),
            "training_displays": train.pair.size,
            "training_pairs": len(np.unique(train.pair)),
        },
        "sides": {name: summary(rounds) for name, rounds in records.items()},
        "truth": truth_scores(folder),
        "missing": missing,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", help=f"some of {', '.join(TASKS)}; default all")
    parser.add_argument("--envs", type=Path, default=HERE.parent / "build" / "peers")
    parser.add_argument("--no-install", action="store_true", help="use only what is in --envs")
    parser.add_argument("--sides", nargs="+", choices=SIDES, help="only these, if a task has them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="maximum; default: each side's own")
    parser.add_argument("--timeout", type=float, default=1_800, help="seconds per fit")
    parser.add_argument(
        "--warm",
        action="store_true",
        help="keep JAX's cache of compiled programs, if there is one",
    )
    for name in Sizes.__annotations__:
        parser.add_argument(f"--{name}", type=int, help="override the size, for all tasks")
    given = parser.parse_args()
    unknown = set(given.tasks) - set(TASKS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(TASKS)}")
    result: dict[str, Any] = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    for name in given.tasks or TASKS:
        task = TASKS[name]
        overrides = {size: getattr(given, size) for size in Sizes.__annotations__}
        sizes = asdict(task.sizes) | {size: n for size, n in overrides.items() if n is not None}
        task = Task(Sizes(**sizes), task.by_query, task.sides, task.absent)
        with tempfile.TemporaryDirectory() as folder:
            result[name] = measure(task, given, Path(folder), ids=name == "ids")
    result["load_after"] = os.getloadavg()[0]
    result["versions"] = {
        name: peer.requirements for name, peer in PEERS.items() if not peer.why_not
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
