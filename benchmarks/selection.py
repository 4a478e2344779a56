"""How often `select` names the right click model, in simulated worlds of pbm and of ubm users.

Each world has 20,000 pages of 5 positions. A world counts as `right` if the users' own model is
chosen, as `tie` if a simpler one is, whose difference may be chance or is negligible, and as
`wrong` otherwise. `true_difference` is the mean gain per display of the users' model over the other
one on held-out pages of the same worlds with ten times the pages, where estimates are nearly exact.
Prints JSON.
"""

import argparse
import json
import sys
import warnings

import numpy as np

import epiclick as ec
from epiclick.selection.selected import Selection

PAGES = 20_000
QUERIES = (50, 200, 1_000)


def selected(users: str, queries: int, pages: int, seed: int) -> Selection:
    world = ec.simulate(
        queries=queries, docs=10, features=2, pages=pages, positions=5, users=users, seed=seed
    )
    return ec.select(world.log, ("pbm", "ubm"), seed=seed, progress=False)


def outcome(users: str, found: Selection) -> str:
    if found.chosen == users:
        return "right"
    parameters = {each.click_model: each.parameters for each in found.scores}
    return "tie" if parameters[found.chosen] < parameters[users] else "wrong"


def gain(users: str, found: Selection) -> float:
    """Log-likelihood per display of the users' model minus that of the other one."""
    own = {each.click_model: each.log_likelihood for each in found.scores}
    return own.pop(users) - next(iter(own.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=10, help="of each kind")
    parser.add_argument("--large", type=int, default=2, help="of each kind, with more pages")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    results = []
    for users in ("pbm", "ubm"):
        for queries in QUERIES:
            found = [selected(users, queries, PAGES, seed) for seed in range(given.worlds)]
            large = [selected(users, queries, 10 * PAGES, seed) for seed in range(given.large)]
            outcomes = [outcome(users, each) for each in found]
            gains = [gain(users, each) for each in found]
            record = {"users": users, "queries": queries, "worlds": given.worlds}
            record |= {name: outcomes.count(name) for name in ("right", "tie", "wrong")}
            record |= {"difference": float(np.mean(gains)), "least_difference": min(gains)}
            if large:
                record["true_difference"] = float(np.mean([gain(users, each) for each in large]))
            print(json.dumps(record), file=sys.stderr)
            results.append(record)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
