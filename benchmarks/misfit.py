"""How often fits are warned about users who follow another click model, in simulated worlds.

Worlds have 200 queries of 10 items, 8,000 pages and 5 positions; every other one has features.
Prints JSON: for every kind of users and every fitted click model the number of worlds, those with a
finding, and those with each finding and the mean of its score in standard errors. Where the users'
own model is fitted, findings are false alarms. `--check-only` leaves the fits out: diagnostics do
not depend on them. `time` is what reading the sample and the diagnostics take, compared with a
whole fit to 350,000 displays.
"""

import argparse
import json
import sys
import time
import warnings
from collections import defaultdict
from typing import Any

import numpy as np

import epiclick as ec
from epiclick.api import EPISTEMIC
from epiclick.click_models.registry import CLICK_MODELS
from epiclick.diagnostics.assumptions import check_assumptions
from epiclick.simulate.users import USERS

SIZE = {"queries": 200, "docs": 10, "pages": 8_000, "positions": 5}
LARGE = {"queries": 2_000, "docs": 20, "features": 20, "pages": 70_000, "positions": 5}


def checked(world: Any, model: str, *, with_features: bool, check_only: bool) -> dict[str, Any]:
    """The record of the assumptions in a fit, or without one."""
    features = world.features if with_features else None
    counts = ec.read_log(world.log, click_model=model, features=features)
    if check_only:
        return check_assumptions(counts.completed(), CLICK_MODELS[model]).to_dict()
    fitted = EPISTEMIC[model]().fit(counts, progress=False).fitted_
    return dict(fitted.training.checks["assumptions"])


def measured(
    users: str, model: str, worlds: range, pages: int, *, check_only: bool
) -> dict[str, Any]:
    """Findings over some worlds."""
    scores, found, any_found = defaultdict(list), defaultdict(int), 0
    for seed in worlds:
        size = {**SIZE, "pages": pages}
        world = ec.simulate(features=2, users=users, seed=seed, **size)
        record = checked(world, model, with_features=seed % 2 == 1, check_only=check_only)
        any_found += any(test["found"] for test in record["tests"])
        for test in record["tests"]:
            found[test["name"]] += test["found"]
            if "change" in test:
                scores[test["name"]].append(test["change"] / test["error"])
    return {
        "users": users,
        "model": model,
        "worlds": len(worlds),
        "found": any_found,
        "tests": {
            name: {
                "found": found[name],
                "mean_z": round(float(np.mean(scores[name])), 2) if scores[name] else None,
                "sd_z": round(float(np.std(scores[name])), 2) if scores[name] else None,
            }
            for name in found
        },
    }


def timed() -> dict[str, float]:
    """Processor seconds of a fit to 350,000 displays, and of the diagnostics in it."""
    from epiclick.data import page_sample

    world = ec.simulate(users="pbm", seed=0, **LARGE)
    spent = {"sample": 0.0}
    read_sample = page_sample.read_sample

    def clocked(*given: Any, **named: Any) -> Any:
        began = time.process_time()
        found = read_sample(*given, **named)
        spent["sample"] += time.process_time() - began
        return found

    page_sample.read_sample = clocked
    ec.read_log(world.log)  # loads what is loaded once
    spent["sample"], began = 0.0, time.process_time()
    counts = ec.read_log(world.log)
    spent["read"] = time.process_time() - began
    began = time.process_time()
    ec.EpistemicPBM().fit(counts, progress=False)
    spent["fit"] = time.process_time() - began
    began = time.process_time()
    check_assumptions(counts, CLICK_MODELS["pbm"])
    spent["diagnostics"] = time.process_time() - began
    own = spent["sample"] + spent["diagnostics"]
    return {
        **{k: round(v, 3) for k, v in spent.items()},
        "share": own / (spent["read"] + spent["fit"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=20, help="of each kind")
    parser.add_argument("--power", type=int, default=5, help="worlds of other users")
    parser.add_argument("--pages", type=int, default=SIZE["pages"], help="of a world")
    kinds = [name for name, users in USERS.items() if not users.has_taste]
    parser.add_argument("--users", default=",".join(kinds), help="kinds of users")
    parser.add_argument("--models", default=",".join(CLICK_MODELS), help="models to fit")
    parser.add_argument("--check-only", action="store_true", help="without fits")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    results = []
    for users in given.users.split(","):
        for model in given.models.split(","):
            worlds = range(given.worlds if users == model else given.power)
            if not worlds:
                continue
            record = measured(users, model, worlds, given.pages, check_only=given.check_only)
            print(json.dumps(record), file=sys.stderr)
            results.append(record)
    own = [each for each in results if each["users"] == each["model"]]
    false_alarms = {
        "worlds": sum(each["worlds"] for each in own),
        "found": sum(each["found"] for each in own),
    }
    print(json.dumps({"time": timed(), "false_alarms": false_alarms, "all": results}, indent=1))


if __name__ == "__main__":
    main()
