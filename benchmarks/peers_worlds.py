"""The simulated logs of the peer benchmark."""

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import epiclick as ec
from epiclick.data.features import FeatureScaler
from peers_side import PARTS, Pages

SHARES = (0.8, 0.1, 0.1)  # of PARTS


@dataclass(frozen=True)
class Sizes:
    """Size of a simulated log; 80 % of the pages are for training."""

    queries: int
    docs: int
    features: int
    pages: int
    positions: int


def write(sizes: Sizes, folder: Path, *, by_query: bool) -> None:
    """Simulate a log and split its queries, or its pages, into PARTS."""
    world = ec.simulate(**asdict(sizes), seed=0)
    keys = world.features.keys
    query, doc = (keys[name].to_numpy() for name in ("query_id", "doc_id"))
    row = np.zeros((sizes.queries, sizes.docs), np.int64)
    row[query, doc] = np.arange(len(query))
    log = {name: world.log[name].to_numpy() for name in ("query_id", "doc_id", "click")}
    shape = (sizes.pages, sizes.positions)
    pair = row[log["query_id"], log["doc_id"]].reshape(shape)
    click = log["click"].reshape(shape)
    group = query[pair[:, 0]] if by_query else np.arange(sizes.pages)
    part = random_parts(sizes.queries if by_query else sizes.pages)[group]
    for number, name in enumerate(PARTS):
        Pages(pair[part == number], click[part == number]).save(folder / f"{name}.npz")
    matrix = world.features.rows(np.arange(len(query)))
    shown = np.unique(pair[part == 0])
    np.save(folder / "features.npy", matrix)
    np.save(folder / "scaled.npy", FeatureScaler.fit(matrix[shown]).transform(matrix))
    np.save(folder / "query.npy", query)
    np.save(folder / "relevance.npy", world.relevance)
    truth = {"position_bias": world.position_bias.tolist()}
    (folder / "truth.json").write_text(json.dumps(truth))


def random_parts(groups: int) -> np.ndarray:
    """(groups,) index of the part of each, at random with shares SHARES."""
    ends = np.round(np.cumsum(SHARES) * groups)
    part = np.searchsorted(ends, np.arange(groups), side="right")
    return np.random.default_rng(1).permutation(part)


def main() -> None:
    """Write a log in this process, so that its memory does not count in the measuring one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--by-query", action="store_true")
    for name in Sizes.__annotations__:
        parser.add_argument(f"--{name}", type=int, required=True)
    given = vars(parser.parse_args())
    folder, by_query = given.pop("folder"), given.pop("by_query")
    write(Sizes(**given), folder, by_query=by_query)


if __name__ == "__main__":
    main()
