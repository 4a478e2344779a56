"""CLAX's side of the peer benchmark; runs in its own environment.

Learning rates, epochs and early stopping are those its authors publish for features and for ids; so
is the batch size for features. For ids theirs is 4,096, for 10 million pages, which would leave too
few steps here. Its own loaders support only two datasets, so pages are sliced from arrays in
memory. Features are scaled before its clock starts; epiclick's time includes scaling.
"""

import contextlib
import sys
import time
from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
import optax
from clax import PositionBasedModel, Trainer
from clax.parameters import Parameter
from flax import nnx

from peers_side import HIDDEN, Fit, Pages, epoch_seconds_of, fitted_now, parse_fit

BATCH = 256
RATES = {"features": 0.003, "ids": 0.01}
EPOCHS = 100


class Network(Parameter):
    """Attraction by layers of HIDDEN units, like CLAX's own, whose layers all have one size."""

    def __init__(self, features: int, *, rngs: nnx.Rngs) -> None:
        """Layers with normalisation of the input and before each activation."""
        super().__init__()
        modules = [nnx.LayerNorm(features, rngs=rngs)]
        for before, units in zip((features, *HIDDEN), HIDDEN, strict=False):
            linear, norm = nnx.Linear(before, units, rngs=rngs), nnx.LayerNorm(units, rngs=rngs)
            modules += [linear, norm, nnx.elu]
        self.model = nnx.Sequential(*modules, nnx.Linear(HIDDEN[-1], 1, rngs=rngs))

    def logit(self, batch: dict) -> jnp.ndarray:
        """(pages, positions)."""
        return self.model(batch["query_doc_features"])[..., 0]

    def prob(self, batch: dict) -> jnp.ndarray:
        """(pages, positions)."""
        return nnx.sigmoid(self.logit(batch))

    def log_prob(self, batch: dict) -> jnp.ndarray:
        """(pages, positions)."""
        return nnx.log_sigmoid(self.logit(batch))


class Loader:
    """Batches of pages in CLAX's format; records when each pass began."""

    def __init__(self, pages: Pages, features: np.ndarray | None, seed: int | None = None) -> None:
        """Keep the pages; a seed shuffles them before each pass."""
        self.pages, self.features = pages, features
        self.rng = None if seed is None else np.random.default_rng(seed)
        self.began: list[float] = []

    def __len__(self) -> int:
        """Number of batches."""
        return -(-len(self.pages) // BATCH)

    def __iter__(self) -> Iterator[dict]:
        """Batches whose sizes differ by at most one: CLAX accepts no batch of a single page."""
        self.began.append(time.perf_counter())
        order = np.arange(len(self.pages))
        if self.rng is not None:
            self.rng.shuffle(order)
        for rows in np.array_split(order, len(self)):
            pair = self.pages.pair[rows]
            batch = {
                "positions": self.pages.positions[rows],
                "clicks": self.pages.click[rows].astype(np.float32),
                "mask": np.ones(pair.shape, bool),
            }
            if self.features is None:
                batch["query_doc_ids"] = pair + 1  # 0 is for padding
            else:
                batch["query_doc_features"] = self.features[pair]
            yield batch


def main(fit: Fit) -> None:
    features = None if fit.ids else fit.features(scaled=True)
    train = Loader(fit.pages("train"), features, fit.seed)
    rngs = nnx.Rngs(fit.seed)
    items = (
        {"query_doc_pairs": len(fit.query())}
        if features is None
        else {"attraction": Network(features.shape[1], rngs=rngs)}
    )
    positions = train.pages.pair.shape[1]
    model = PositionBasedModel(positions=positions, rngs=rngs, **items)
    rate = RATES["ids" if fit.ids else "features"]
    trainer = Trainer(optax.adamw(rate), epochs=fit.epochs or EPOCHS)
    with contextlib.redirect_stdout(sys.stderr):  # CLAX prints a table
        history = trainer.train(model, train, Loader(fit.pages("valid"), features))
    ended = [*train.began[1:], time.perf_counter()]
    done = fitted_now()
    model.eval()
    predict = nnx.jit(lambda model, batch: jnp.exp(model.predict_clicks(batch)))
    test = Loader(fit.pages("test"), features)
    theta = np.asarray(model.examination.prob({"positions": np.arange(1, positions + 1)[None]}))
    fit.write(
        np.concatenate([np.asarray(predict(model, batch)) for batch in test]),
        **done,
        epochs=len(history),
        epoch_seconds=epoch_seconds_of(ended),
        relative=(theta / theta[0]).tolist(),
    )


if __name__ == "__main__":
    main(parse_fit())
