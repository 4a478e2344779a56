"""How often `select` names the right click model, in simulated worlds of users of every kind.

Each world has 20,000 pages of 5 positions, and all click models are candidates. A world counts as
`right` if the users' own model is chosen, as `tie` if a simpler one is, whose difference from the
best may be chance or is negligible, and as `wrong` otherwise. `gain` is what the users' own model
gains over the best other one, in log-likelihood per held-out display.

Worlds are independent: every one is a JSON file in the folder `--out`, and a world whose file is
there is not run again. So a study can be stopped and run on, and divided between processes by
`--users`, `--queries` and `--worlds`. Prints JSON: a summary of all worlds in the folder.
"""

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import epiclick as ec
from epiclick.click_models.registry import REGISTRY
from epiclick.data.writing import written_aside
from epiclick.selection.selected import Selection

PAGES, POSITIONS, DOCS = 20_000, 5, 10
QUERIES = (50, 200, 1_000)
OUTCOMES = ("right", "tie", "wrong")
KEPT = ("click_model", "parameters", "log_likelihood", "difference", "low", "high", "impossible")


@dataclass(frozen=True)
class World:
    """A simulated world: the users' click model, its size and seed."""

    users: str
    queries: int
    pages: int
    seed: int

    @property
    def file(self) -> str:
        """Name of its file."""
        return f"{self.users}-{self.queries}-{self.pages}-{self.seed}.json"

    def selected(self) -> Selection:
        """What `select` finds, with all click models."""
        made = ec.simulate(
            queries=self.queries,
            docs=DOCS,
            features=2,
            pages=self.pages,
            positions=POSITIONS,
            users=self.users,
            seed=self.seed,
        )
        return ec.select(made.log, seed=self.seed, progress=False)


def outcome(users: str, chosen: str | None, parameters: Mapping[str, int]) -> str:
    if chosen == users:
        return "right"
    return "tie" if chosen and parameters[chosen] < parameters[users] else "wrong"


def record_of(world: World, found: Selection, seconds: float) -> dict[str, Any]:
    scores = {each.click_model: each for each in found.scores}
    own = scores[world.users].log_likelihood
    others = [
        each.log_likelihood
        for name, each in scores.items()
        if name != world.users and each.log_likelihood is not None
    ]
    parameters = {name: each.parameters for name, each in scores.items()}
    return {
        "users": world.users,
        "queries": world.queries,
        "pages": world.pages,
        "seed": world.seed,
        "chosen": found.chosen,
        "best": found.best,
        "outcome": outcome(world.users, found.chosen, parameters),
        "gain": None if own is None or not others else own - max(others),
        "seconds": round(seconds, 1),
        "models": [{name: getattr(each, name) for name in KEPT} for each in found.scores],
        # what a fit of each model to the same training pages warns about
        "assumptions": {
            name: [
                test["name"]
                for test in model.fitted_.training.checks["assumptions"]["tests"]
                if test["found"]
            ]
            for name, model in found.models.items()
        },
    }


def run(worlds: Sequence[World], folder: Path) -> None:
    """Run the worlds that have no file yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for world in worlds:
        path = folder / world.file
        if path.exists():
            continue
        began = time.perf_counter()
        found = world.selected()
        record = record_of(world, found, time.perf_counter() - began)
        with written_aside(path) as aside:
            aside.write_text(json.dumps(record, indent=1) + "\n")
        short = {name: record[name] for name in ("users", "queries", "seed", "chosen", "gain")}
        print(json.dumps(short), file=sys.stderr)


def summary(folder: Path) -> list[dict[str, Any]]:
    """A row for each kind of users and size of worlds."""
    groups: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text())
        key = (record["users"], record["queries"], record["pages"])
        groups.setdefault(key, []).append(record)
    order = {name: i for i, name in enumerate(REGISTRY)}
    rows = []
    for users, queries, pages in sorted(groups, key=lambda key: (order[key[0]], *key[1:])):
        found = groups[users, queries, pages]
        counted = Counter(each["outcome"] for each in found)
        gains = [each["gain"] for each in found if each["gain"] is not None]
        rows.append(
            {
                "users": users,
                "queries": queries,
                "pages": pages,
                "worlds": len(found),
                **{name: counted[name] for name in OUTCOMES},
                "chosen": dict(Counter(each["chosen"] for each in found)),
                "gain": float(np.mean(gains)) if gains else None,
                "least_gain": min(gains, default=None),
            }
        )
    return rows


def numbers(text: str) -> range:
    """A range such as 0:10."""
    first, last = map(int, text.split(":"))
    return range(first, last)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("selection-worlds"), help="folder")
    parser.add_argument("--users", default=",".join(REGISTRY), help="click models of users")
    parser.add_argument("--queries", default=",".join(map(str, QUERIES)), help="numbers of queries")
    parser.add_argument("--worlds", type=numbers, default=range(10), help="seeds, such as 0:10")
    parser.add_argument("--pages", type=int, default=PAGES, help="of each world")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    worlds = [
        World(users, int(queries), given.pages, seed)
        for seed in given.worlds
        for users in given.users.split(",")
        for queries in given.queries.split(",")
    ]
    run(worlds, given.out)
    print(json.dumps(summary(given.out), indent=1))


if __name__ == "__main__":
    main()
