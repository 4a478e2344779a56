"""Logs of one query whose users differ in how far they look, with the position bias of all."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
from scipy import special

from epiclick.data.clusters import ClusterCounts
from epiclick.data.counts import ClickCounts

BASE = np.array([1.0, -0.5])  # logits of looking at positions 2 and 3, of the average user
PATIENCE = 2.0  # standard deviation of these logits between users
POSITIONS = len(BASE) + 1


def true_bias() -> np.ndarray:
    """(positions,) share of users who look, by quadrature over their patience."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    looks = special.expit(BASE + PATIENCE * nodes[:, None])
    return np.r_[1.0, weights @ looks / weights.sum()]


def user_log(
    seed: int, users: int = 100, pages: int = 20, items: int = 30, patience: float = PATIENCE
) -> dict[str, np.ndarray]:
    """Columns of a log, a row for each display; users also differ in how often they click."""
    rng = np.random.default_rng([seed, 91])
    logit = special.logit(rng.beta(1.5, 4, items))
    user = np.repeat(np.arange(users), pages)
    moved = rng.normal(0, patience, users)[user]
    eager = rng.normal(0, 0.5, users)[user]
    looks = np.c_[np.ones(len(user)), special.expit(BASE + moved[:, None])]
    shown = rng.permuted(np.tile(np.arange(items), (len(user), 1)), axis=1)[:, :POSITIONS]
    clicked = rng.random(shown.shape) < looks * special.expit(logit[shown] + eager[:, None])
    return {
        "query_id": np.zeros(shown.size, np.int64),
        "doc_id": shown.ravel(),
        "position": np.tile(np.arange(1, POSITIONS + 1), len(user)),
        "click": clicked.ravel().astype(np.int64),
        "user_id": np.repeat(user, POSITIONS),
        "page_id": np.repeat(np.arange(len(user)), POSITIONS),
    }


def counted(log: dict[str, np.ndarray], group: np.ndarray) -> ClickCounts:
    """Counts of a log of one query by groups, (rows,), without reading it as a log."""
    items, groups = log["doc_id"].max() + 1, group.max() + 1
    shape = (items, POSITIONS, groups)
    at = (log["doc_id"], log["position"] - 1, group)
    displays, clicks = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    np.add.at(displays, at, 1)
    np.add.at(clicks, at, log["click"])
    pair, context = np.nonzero(displays.sum(axis=2))
    counts = ClickCounts(
        query_id=pa.array(np.zeros(items, np.int64)),
        doc_id=pa.array(np.arange(items)),
        contexts=pa.table({"position": np.arange(1, POSITIONS + 1)}),
        pair=pair,
        context=context,
        displays=displays.sum(axis=2)[pair, context],
        clicks=clicks.sum(axis=2)[pair, context],
    )
    own = np.nonzero(displays)
    labels = tuple(map(str, range(groups)))
    clusters = ClusterCounts("user", groups, labels, *own, displays[own], clicks[own])
    return replace(counts, clusters=clusters)
