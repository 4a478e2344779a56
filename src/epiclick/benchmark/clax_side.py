"""CLAX's side of a benchmark: runs in an environment of CLAX, and imports nothing of epiclick.

Learning rate, epochs and early stopping are those that its authors publish for ids. Their batch
size, 4,096, is for 10 million pages, and would leave too few steps here. A tenth of the training
pages is for early stopping, which CLAX needs.
"""

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
from clax import (
    CascadeModel,
    ClickChainModel,
    DependentClickModel,
    DynamicBayesianNetwork,
    PositionBasedModel,
    Trainer,
    UserBrowsingModel,
)
from flax import nnx

BATCH = 256
RATE = 0.01
EPOCHS = 100
VALIDATION = 0.1  # share of the training pages

Make = Callable[[int, int, nnx.Rngs], Any]
MODELS: dict[str, Make] = {
    "pbm": lambda depth, pairs, rngs: PositionBasedModel(
        positions=depth, query_doc_pairs=pairs, rngs=rngs
    ),
    "ubm": lambda depth, pairs, rngs: UserBrowsingModel(
        positions=depth, query_doc_pairs=pairs, rngs=rngs
    ),
    "cascade": lambda depth, pairs, rngs: CascadeModel(query_doc_pairs=pairs, rngs=rngs),
    "dcm": lambda depth, pairs, rngs: DependentClickModel(
        positions=depth, query_doc_pairs=pairs, rngs=rngs
    ),
    "sdbn": lambda depth, pairs, rngs: DynamicBayesianNetwork(
        query_doc_pairs=pairs, fix_continuation=True, rngs=rngs
    ),
    "dbn": lambda depth, pairs, rngs: DynamicBayesianNetwork(query_doc_pairs=pairs, rngs=rngs),
    "ccm": lambda depth, pairs, rngs: ClickChainModel(query_doc_pairs=pairs, rngs=rngs),
}


class Loader:
    """Batches of pages in CLAX's format."""

    def __init__(self, pair: np.ndarray, clicked: np.ndarray, seed: int | None = None) -> None:
        """Keep the pages; a seed shuffles them before each pass."""
        self.pair, self.clicked = pair, clicked
        self.rng = None if seed is None else np.random.default_rng(seed)

    def __len__(self) -> int:
        """Number of batches."""
        return -(-len(self.pair) // BATCH)

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        """Batches whose sizes differ by at most one: CLAX accepts no batch of a single page."""
        order = np.arange(len(self.pair))
        if self.rng is not None:
            self.rng.shuffle(order)
        for rows in np.array_split(order, len(self)):
            pair = self.pair[rows]
            yield {
                "positions": np.tile(np.arange(1, pair.shape[1] + 1), (len(rows), 1)),
                "clicks": self.clicked[rows].astype(np.float32),
                "mask": pair >= 0,
                "query_doc_ids": pair.astype(np.int64) + 1,  # 0 is for padding
            }


def peak_bytes() -> int:
    """Largest resident memory of this process."""
    status = Path("/proc/self/status").read_text()
    return int(next(row.split()[1] for row in status.splitlines() if "VmHWM" in row)) * 1024


def main() -> None:
    """Fit a model to the pages in a file; write probabilities of clicks on the held-out ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("out", type=Path)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    given = parser.parse_args()
    with np.load(given.data, allow_pickle=False) as stored:
        pages = {
            part: (stored[f"{part}_pair"], stored[f"{part}_clicked"]) for part in ("train", "test")
        }
        pairs = len(stored["query_of"])
    is_valid = np.random.default_rng(0).random(len(pages["train"][0])) < VALIDATION
    pair, clicked = pages["train"]
    train = Loader(pair[~is_valid], clicked[~is_valid], seed=0)
    valid = Loader(pair[is_valid], clicked[is_valid])
    depth = pair.shape[1]
    begun = time.process_time()
    model = MODELS[given.model](depth, pairs, nnx.Rngs(0))
    trainer = Trainer(optax.adamw(RATE), epochs=given.epochs)
    with contextlib.redirect_stdout(sys.stderr):  # CLAX prints a table
        history = trainer.train(model, train, valid)
    ended = time.process_time()
    record = {
        "processor_seconds": ended - begun,
        "process_seconds": ended,
        "peak_memory": peak_bytes(),
        "epochs": len(history),
        "release": version("clax-models"),
    }
    model.eval()

    @nnx.jit
    def predict(model: Any, batch: dict[str, Any]) -> Any:
        return (
            jnp.exp(model.predict_conditional_clicks(batch)),
            jnp.exp(model.predict_clicks(batch)),
        )

    found = [
        [np.asarray(each) for each in predict(model, batch)] for batch in Loader(*pages["test"])
    ]
    ids = np.arange(1, pairs + 1)[:, None]
    items = {"query_doc_ids": ids, "mask": np.ones_like(ids, bool), "positions": np.ones_like(ids)}
    relevance = np.asarray(jnp.exp(model.attraction.log_prob(items))).reshape(-1)
    conditional, marginal = (np.concatenate(parts) for parts in zip(*found, strict=True))
    np.savez(given.out, given=conditional, marginal=marginal, relevance=relevance)
    print(json.dumps(record))


if __name__ == "__main__":
    main()
