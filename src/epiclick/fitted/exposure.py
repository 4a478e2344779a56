r"""Exposure: how much higher a ranker places an item than its features say.

A ranker that uses signals which the features lack shows items that are better than their features
say, and leaves out worse ones. A prior of relevance from features alone would be wrong for both,
and other rankers, which show other items, would be valued too high. So the last layer of the
network also takes the exposure of an item (Mundlak's device: where items are shown is not part of
the likelihood, so relevance may depend on it).

The ranker is modelled by a latent score of every candidate of a query, standardised within the
query, with noise of its own on each page:

.. math:: u_{qd} = \hat u_{qd} + \tau \eta_{qd}, \qquad s_{qdp} = u_{qd} + \sigma \epsilon_{qdp},
          \qquad \operatorname{var} \hat u + \tau^2 + \sigma^2 = 1,

with :math:`\hat u` what the features suggest. An item is among the first k of a query's C
candidates where s exceeds :math:`\Phi^{-1}(1 - k / C)`. Given where it was shown on the pages of
its query, and where not, the item's exposure is the shift :math:`E[u] - \hat u`. If signal and
score are Gaussian, what the ranker knows beyond the features is linear in it: the slope is learned
from the items that were shown and continued to those that were not. Never shown on 2 pages is not
never shown on 2,000, and the variance of u that is left widens the distribution of relevance.
Competition between the candidates of a query is left out at first, and corrected for by simulated
pages (`score_correction.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from epiclick.data.arrays import locate_rows
from epiclick.data.checksums import get
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureScaler, FeatureTable
from epiclick.data.placement import BANDS, Placement, placement_in
from epiclick.fitted.score_correction import Correction, simulated_placement
from epiclick.relevance.network import Layers, given_to_last

COLUMNS = 1
"""Number of columns of exposure."""

MOST_PAGES = 30.0
"""Pages that count as independent; of more, each counts less, as rankers change between few states.
"""

LAPSE = 0.01
"""Share of placements that follow no score."""

LEAST_NOISE = 0.002
"""Least variance of the noise on a page, and of what features leave open."""

DETERMINISTIC = 0.02
"""Variance of the noise up to which a ranker counts as one without."""

NODES = np.linspace(-4, 4, 33)
"""Values of eta at which its posterior is computed."""

SCORES = np.linspace(-6, 6, 241)
"""Scores at which the probabilities of placements are tabulated."""

ROUNDS = 12
"""Steps of the search for weights and variances."""

SMALL_CHANGE = 1e-3
"""In variances, at which the search ends."""

MOST_CANDIDATES = 20_000
"""Candidates that expected scores are learned from, at most."""

SEED = 0
"""Of the simulated pages by which scores are corrected."""

CHUNK = 65_536  # pairs at once


NUMBERS = ("left", "noise", "usual", "centre")
"""Attributes of `ExposureModel` that are numbers."""


class Exposure(NamedTuple):
    """Exposure of pairs; (pairs,) each.

    Attributes:
        shift: of the ranker's score, from what the features suggest to what placement shows.
        spread: variance of the score given placement beyond that of items that were shown.
    """

    shift: np.ndarray
    spread: np.ndarray

    def columns(self) -> np.ndarray:
        """(pairs, columns) float32, which follow the features."""
        return self.shift[:, None].astype(np.float32)


class Peers(NamedTuple):
    """The candidates of queries; (pairs,) each.

    Attributes:
        number: of candidates of the pair's query.
        centre: mean over them of what their features suggest.
    """

    number: np.ndarray
    centre: np.ndarray


@dataclass(frozen=True, eq=False)
class ExposureModel:
    """A ranker's scores as far as features suggest them.

    Attributes:
        weights: (units,) of the expected score, up to a constant for each query.
        left: tau squared, the variance of scores that features leave open.
        noise: sigma squared, the variance of scores between the pages of an item.
        usual: variance of the score of an item that was shown, given its placement.
        centre: mean exposure of the items that were shown.
        corrections: of scores of items never shown, and of items shown.
    """

    weights: np.ndarray
    left: float
    noise: float
    usual: float = 0.0
    centre: float = 0.0
    corrections: tuple[Correction, Correction] = (Correction.none(), Correction.none())

    @property
    def is_deterministic(self) -> bool:
        """Whether the ranker shows the same on all pages of a query, or nearly so."""
        return self.noise <= DETERMINISTIC

    @classmethod
    def fit(cls, units: np.ndarray, query: np.ndarray, placement: Placement) -> Self:
        """Learn from candidates, shown or not, by a generalised EM algorithm.

        Args:
            units: (candidates, units) inputs of the last layer but for exposure.
            query: (candidates,) number of the query; all candidates of a query are given.
            placement: of the candidates, with the pages of their queries known.
        """
        count = np.bincount(query)[query].astype(float)
        own = units.astype(np.float64)
        sums = [np.bincount(query, column) for column in own.T]
        for column, total in zip(own.T, sums, strict=True):
            column -= total[query] / count
        square, scale = own.T @ own, max(np.square(own).mean(axis=0).sum(), 1e-12)
        weights, left, noise = np.zeros(own.shape[1]), 0.4, 0.6
        peers = Peers(count, np.zeros(len(count)))
        for _ in range(ROUNDS):
            model = cls(weights, left, noise)
            expected = own @ weights
            mean, variance = model.scores(expected, placement, peers)
            # a Gaussian prior lets expected scores have a variance of about 1
            penalty = np.eye(len(weights)) * (left * scale)
            weights = np.linalg.solve(square + penalty, own.T @ mean)
            expected = own @ weights
            open_ = max(1 - float(np.mean(expected**2)), 2 * LEAST_NOISE)
            found = float(np.mean(variance + (mean - expected) ** 2))
            found = min(found, open_ - LEAST_NOISE)
            rest = open_ - found
            change = max(abs(found - left), abs(rest - noise))
            left, noise = found, rest
            if change < SMALL_CHANGE:
                break
        expected = np.clip(own @ weights, -3, 3)
        return cls(weights, left, noise)._corrected(expected, query, placement, peers)

    def _corrected(
        self, expected: np.ndarray, query: np.ndarray, placement: Placement, peers: Peers
    ) -> Self:
        """The model with scores corrected by simulated pages, and what follows from these."""
        rng = np.random.default_rng(SEED)
        actual = expected + np.sqrt(self.left) * rng.standard_normal(len(expected))
        simulated = simulated_placement(actual, self.noise, query, placement, MOST_PAGES, rng)
        mean, variance = self.scores(expected, simulated, peers)
        known = simulated.pages > 0
        never, shown = (
            Correction.fit(actual[own], expected[own], mean[own], variance[own])
            for own in (known & ~simulated.shown, known & simulated.shown)
        )
        corrected = replace(self, corrections=(never, shown))
        seen = placement.shown
        if not seen.any():
            return replace(corrected, usual=self.left)
        mean, variance = corrected.scores(expected, placement, peers)
        centre = float((mean - expected)[seen].mean())
        return replace(corrected, usual=float(variance[seen].mean()), centre=centre)

    def scores(
        self, expected: np.ndarray, placement: Placement, peers: Peers
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of u given placement, (pairs,) each.

        Args:
            expected: (pairs,) what the features suggest, around 0 within a query.
            placement: of the pairs; where nothing is known of a query's pages, it says nothing.
            peers: their candidates.
        """
        tables, number = self._tables(peers.number, placement.slots)  # (sizes, bands + 1, scores)
        expected = np.clip(expected, -3, 3)
        tau = np.sqrt(max(self.left, 1e-6))
        u = expected[:, None] + tau * NODES  # (pairs, nodes)
        place = np.clip((u - SCORES[0]) / (SCORES[1] - SCORES[0]), 0, len(SCORES) - 1.001)
        lower = place.astype(int)
        part = place - lower
        pages = np.where(np.isfinite(placement.pages), placement.pages, 0.0)
        weight = np.minimum(1, MOST_PAGES / np.maximum(pages, 1))
        missed = np.maximum(pages - placement.displays.sum(axis=1), 0)
        times = np.column_stack([placement.displays, missed]) * weight[:, None]
        log_density = np.broadcast_to(-(NODES**2) / 2, u.shape).copy()
        for band in np.flatnonzero(times.any(axis=0)):
            table = tables[:, band]  # (sizes, scores)
            here = table[number[:, None], lower]
            here += part * (table[number[:, None], lower + 1] - here)
            log_density += times[:, [band]] * here
        density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
        density /= density.sum(axis=1, keepdims=True)
        eta = density @ NODES
        mean, variance = expected + tau * eta, tau**2 * (density @ NODES**2 - eta**2)
        for shown, correction in zip((False, True), self.corrections, strict=True):
            (own,) = np.nonzero((pages > 0) & (placement.shown == shown))
            mean[own], variance[own] = correction.apply(expected[own], mean[own], variance[own])
        return mean, np.minimum(variance, self.left)

    def _tables(self, count: np.ndarray, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log-probability of each band, and of no display, by score; and each pair's table."""
        from scipy.special import ndtr, ndtri  # loading a model must not need scipy

        size = np.column_stack([count, np.round(np.nan_to_num(slots, nan=1.0))])
        sizes, number = np.unique(size, axis=0, return_inverse=True)
        last = np.minimum(BANDS, sizes[:, 1:])  # (sizes, bands)
        above = ndtri(np.clip(1 - last / sizes[:, :1], 0, 1))  # thresholds; falling
        among = ndtr((SCORES - above[:, :, None]) / np.sqrt(self.noise))  # (sizes, bands, scores)
        first = np.zeros_like(among[:, :1])
        bands = np.diff(np.concatenate([first, among, first + 1], axis=1), axis=1)
        chance = (1 - LAPSE) * bands + LAPSE / bands.shape[1]
        return np.log(chance), number.ravel()

    def exposure(self, expected: np.ndarray, placement: Placement, peers: Peers) -> Exposure:
        """Exposure of pairs; arguments as for `scores`, but `expected` not centred."""
        own = expected - peers.centre
        mean, variance = self.scores(own, placement, peers)
        known = np.isfinite(placement.pages)
        shift = np.where(known, mean - np.clip(own, -3, 3), 0.0)
        spread = np.where(known, variance, self.left) - self.usual
        return Exposure(shift, np.where(placement.shown, 0.0, np.maximum(spread, 0.0)))

    def unknown(self, size: int) -> Exposure:
        """Exposure of pairs of which nothing is known but their features."""
        spread = max(self.left - self.usual, 0.0)
        return Exposure(np.zeros(size), np.full(size, spread))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        numbers = {name: float(getattr(self, name)) for name in NUMBERS}
        corrections = [[*each.weights.tolist(), each.ratio] for each in self.corrections]
        return {"weights": self.weights.tolist(), **numbers, "corrections": corrections}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        weights = np.array(get(stored, "weights", list), float)
        numbers = {name: float(get(stored, name, float)) for name in NUMBERS}
        rows = np.array(get(stored, "corrections", list), float)
        never, shown = (Correction(row[:-1], float(row[-1])) for row in rows)
        return cls(weights, **numbers, corrections=(never, shown))


def learn_exposure(
    counts: ClickCounts, scaler: FeatureScaler, layers: Layers[np.ndarray]
) -> ExposureModel:
    """From all items with features of the log's queries, shown or not, or of some queries.

    Args:
        counts: of the log, with features joined.
        scaler: of the features.
        layers: of the trained network, without exposure.
    """
    features = counts.features
    assert features is not None
    rows, query = _candidates(features, counts.query_id)
    if len(rows) > MOST_CANDIDATES:
        every = -(-len(rows) // MOST_CANDIDATES)
        kept = query % every == 0
        rows, query = rows[kept], np.unique(query[kept], return_inverse=True)[1]
    keys = (features.keys[name].combine_chunks().take(rows) for name in ("query_id", "doc_id"))
    units = units_of(layers, scaler.transform(features.rows(rows)))
    return ExposureModel.fit(units, query, placement_in(counts, *keys))


def exposure_of(
    model: ExposureModel,
    scaler: FeatureScaler,
    layers: Layers[np.ndarray],
    features: FeatureTable,
    rows: np.ndarray,
    placement: Placement,
    columns: np.ndarray | None = None,
) -> Exposure:
    """Exposure of rows of a table, all of whose rows of a query are its candidates.

    Args:
        model: of the ranker's scores.
        scaler: of the features.
        layers: of the network without exposure.
        features: table of features.
        rows: (pairs,) of the table.
        placement: of these.
        columns: of the table that are the model's features, in its order; None for all.
    """
    found = model.unknown(len(rows))  # of new items, which were no candidates, that is all
    (old,) = np.nonzero(~features.is_new[rows])
    rows, placement = rows[old], placement.at(old)
    if not len(rows):
        return found
    every, query = _candidates(features, features.keys["query_id"].combine_chunks().take(rows))
    expected = _expected(model, scaler, layers, features, every, columns)
    count = np.bincount(query)
    centre = np.bincount(query, expected) / count
    place = np.searchsorted(every, rows)
    own = query[place]
    for start in range(0, len(rows), CHUNK):
        part = slice(start, start + CHUNK)
        peers = Peers(count[own[part]].astype(float), centre[own[part]])
        some = model.exposure(expected[place[part]], placement.at(part), peers)
        found.shift[old[part]], found.spread[old[part]] = some
    return found


def _expected(
    model: ExposureModel,
    scaler: FeatureScaler,
    layers: Layers[np.ndarray],
    features: FeatureTable,
    rows: np.ndarray,
    columns: np.ndarray | None,
) -> np.ndarray:
    """(rows,) what the features suggest about the ranker's scores; arguments as `exposure_of`."""
    expected = np.empty(len(rows))
    for start in range(0, len(rows), CHUNK):
        part = slice(start, start + CHUNK)
        raw = features.rows(rows[part])
        x = scaler.transform(raw if columns is None else raw[:, columns])
        expected[part] = units_of(layers, x) @ model.weights
    return expected


def _candidates(features: FeatureTable, query_id: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Rows of all items of some queries but new ones, ascending, and the number of their query."""
    own = features.keys["query_id"].combine_chunks()
    query = locate_rows({"query_id": own}, {"query_id": query_id.unique()})
    (rows,) = np.nonzero((query >= 0) & ~features.is_new)
    return rows, query[rows]


def units_of(layers: Layers[np.ndarray], x: np.ndarray) -> np.ndarray:
    """(pairs, units) inputs of a wide last layer that takes no exposure, of scaled features."""
    weight = layers[-1][0]
    return np.concatenate(given_to_last(layers[:-1], x, len(weight)), axis=1)


def with_exposure(layers: Layers[np.ndarray]) -> Layers[np.ndarray]:
    """The network with columns of exposure after its features, which only the last layer takes.

    Their weights are 0, so that nothing is predicted differently yet.
    """
    *hidden, (weight, bias) = layers
    features = len(hidden[0][0]) if hidden else len(weight)
    more = np.zeros((COLUMNS, weight.shape[1]), weight.dtype)
    last = np.concatenate([weight[:features], more, weight[features:]])
    if hidden:
        first, own = hidden[0]
        ignored = np.zeros((COLUMNS, first.shape[1]), first.dtype)
        hidden[0] = (np.concatenate([first, ignored]), own)
    return (*hidden, (last, bias))


def without_exposure(layers: Layers[np.ndarray]) -> Layers[np.ndarray]:
    """The network before `with_exposure`; what the columns have added to relevance is lost."""
    *hidden, (weight, bias) = layers
    features = (len(hidden[0][0]) if hidden else len(weight)) - COLUMNS
    last = np.concatenate([weight[:features], weight[features + COLUMNS :]])
    if hidden:
        hidden[0] = (hidden[0][0][:features], hidden[0][1])
    return (*hidden, (last, bias))
