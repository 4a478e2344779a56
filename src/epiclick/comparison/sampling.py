r"""Samples of rankers' values that share what the rankers share.

A value is a sum over items, V = sum_i c_i zeta_i, whose factors c_i depend on position bias. Draw
parameters first; given them relevance is independent from item to item. The items of the largest
factors are drawn one by one. The many others together are a Gaussian of exactly their mean and
covariance (between rankers, which show the same items): so neither time nor memory grows with
samples times items.

Independent draws of relevance alone, with the parameters at one value, would leave out what all
items have in common, and average out to a value far too sure of itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from epiclick.comparison.measures import Measure
from epiclick.comparison.slots import Slots
from epiclick.relevance.average import matched_beta

DRAWN = 512
"""Items that are drawn one by one."""


@dataclass(frozen=True, eq=False)
class ValueSamples:
    """Values of rankers under some measures.

    Attributes:
        samples: (measures, rankers, samples).
        expected: (measures, rankers, draws) expectation of the value by each draw of parameters.
        by_bias: the same, had only position bias been drawn and relevance were at its mean.
        seen: (measures, rankers, rankers) covariance given the parameters, from items with clicks.
        unseen: the same, from all other items.
        members: whether draws of parameters are members of an ensemble.
    """

    samples: np.ndarray
    expected: np.ndarray
    by_bias: np.ndarray
    seen: np.ndarray
    unseen: np.ndarray
    members: bool = False


def sample_values(
    slots: Slots,
    item: np.ndarray,
    was_seen: np.ndarray,
    moments: Iterable[tuple[np.ndarray, np.ndarray]],
    bias: np.ndarray,
    measures: Sequence[Measure],
    samples: int,
    rng: np.random.Generator,
    *,
    members: bool = False,
) -> ValueSamples:
    """Draw the values of all rankers.

    Args:
        slots: of all rankers.
        item: (slots,) the item in each.
        was_seen: (items,) whether it is judged by its own clicks.
        moments: mean and variance of relevance, (draws, items) each, some items at a time.
        bias: (draws, contexts).
        measures: what values are.
        samples: how many; draws of the parameters take turns.
        rng: where they come from.
        members: whether the draws are members of an ensemble. These few are not all that might have
            come out: what they have in common is drawn from the Gaussian that they span.
    """
    coefficients = _Coefficients.of(slots, item, measures, len(was_seen), bias)
    rankers, draws = int(slots.ranker.max()) + 1, len(bias)
    outputs = len(measures) * rankers
    largest = coefficients.largest(DRAWN)
    expected, by_bias = np.zeros((draws, outputs)), np.zeros((draws, outputs))
    spread = np.zeros((draws, outputs, outputs))  # of items that are not drawn one by one
    by_kind = np.zeros((2, outputs, outputs))  # unseen, seen
    apart: list[tuple[np.ndarray, ...]] = []
    start = 0
    for mean, variance in moments:
        part = slice(start, start + mean.shape[1])
        start = part.stop
        c = coefficients.of_items(part)  # (draws, outputs, items)
        expected += (c @ mean[:, :, None])[:, :, 0]
        by_bias += c @ mean.mean(axis=0)
        one = largest[part]
        for kind in (0, 1):
            for alone in (False, True):
                own = np.flatnonzero((was_seen[part] == kind) & (one == alone))
                if not len(own):
                    continue
                more = (c[:, :, own] * variance[:, None, own]) @ c[:, :, own].swapaxes(1, 2)
                by_kind[kind] += more.mean(axis=0)
                if not alone:
                    spread += more
        if one.any():
            apart.append((c[:, :, one], mean[:, one], variance[:, one]))
    assert start == len(was_seen)
    within = -(-samples // draws)
    common = _spanned(expected, within, rng) if members and draws > 1 else expected
    values = common + _gaussian(spread, within, rng)  # (within, draws, outputs)
    for c, mean, variance in apart:
        if np.any(variance > 0):
            drawn = matched_beta(mean, variance).sample(rng, within)  # (within, draws, items)
            values += (c @ (drawn - mean)[..., None])[..., 0]
    # what shows the same items is worth the same, where rounding would make one of them better
    same = coefficients.same()
    values, expected, by_bias = (each[..., same] for each in (values, expected, by_bias))
    by_kind = by_kind[:, same][:, :, same]
    shape = (len(measures), rankers)
    return ValueSamples(
        samples=values.reshape(-1, outputs)[:samples].T.reshape(*shape, samples),
        expected=expected.T.reshape(*shape, draws),
        by_bias=by_bias.T.reshape(*shape, draws),
        seen=_blocks(by_kind[1], *shape),
        unseen=_blocks(by_kind[0], *shape),
        members=members and draws > 1,
    )


@dataclass(frozen=True, eq=False)
class _Coefficients:
    """Factors of items in values: a sparse row for each (item, output), a column for each bias.

    Attributes:
        matrix: (items x outputs, contexts + 1); the last column is of what needs no bias.
        bias: (draws, contexts + 1).
        outputs: measures x rankers.
    """

    matrix: sparse.csr_array
    bias: np.ndarray
    outputs: int

    @classmethod
    def of(
        cls,
        slots: Slots,
        item: np.ndarray,
        measures: Sequence[Measure],
        items: int,
        bias: np.ndarray,
    ) -> "_Coefficients":
        rankers, contexts = int(slots.ranker.max()) + 1, bias.shape[1]
        outputs = len(measures) * rankers
        rows, columns, weights = [], [], []
        for number, measure in enumerate(measures):
            rows.append(item * outputs + number * rankers + slots.ranker)
            columns.append(slots.context if measure.biased else np.full(len(item), contexts))
            weights.append(measure.weight(slots))
        where = (np.concatenate(rows), np.concatenate(columns))
        shape = (items * outputs, contexts + 1)
        matrix = sparse.csr_array((np.concatenate(weights), where), shape=shape)
        return cls(matrix, np.column_stack([bias, np.ones(len(bias))]), outputs)

    def of_items(self, part: slice) -> np.ndarray:
        """(draws, outputs, items) of some items."""
        rows = slice(part.start * self.outputs, part.stop * self.outputs)
        found = self.matrix[rows] @ self.bias.T  # (items x outputs, draws)
        return np.ascontiguousarray(
            found.reshape(-1, self.outputs, len(self.bias)).transpose(2, 1, 0)
        )

    def same(self) -> np.ndarray:
        """(outputs,) the first output of the very same factors; of most it is their own number."""
        first: dict[tuple[bytes, ...], int] = {}
        found = []
        for output in range(self.outputs):
            own = self.matrix[output :: self.outputs]
            key = tuple(part.tobytes() for part in (own.indptr, own.indices, own.data))
            found.append(first.setdefault(key, output))
        return np.array(found)

    def largest(self, count: int) -> np.ndarray:
        """(items,) whether an item is among those of the largest factors, relative to the rest."""
        found = (self.matrix @ self.bias.mean(axis=0)).reshape(-1, self.outputs)
        total = np.sqrt((found**2).sum(axis=0))
        share = (found / np.where(total > 0, total, 1)).max(axis=1)
        chosen = np.zeros(len(share), bool)
        chosen[np.argsort(-share, kind="stable")[:count]] = True
        return chosen


def _spanned(expected: np.ndarray, within: int, rng: np.random.Generator) -> np.ndarray:
    """(within, members, outputs) of the Gaussian with the members' mean and covariance."""
    members, mean = len(expected), expected.mean(axis=0)
    noise = rng.standard_normal((within, members, members))
    return mean + noise @ (expected - mean) / np.sqrt(members - 1)


def _gaussian(covariance: np.ndarray, within: int, rng: np.random.Generator) -> np.ndarray:
    """(within, draws, outputs) of Gaussians of mean 0 and (draws, outputs, outputs) covariance."""
    # rankers that show the same items have a singular covariance, so no Cholesky factor
    variance, axes = np.linalg.eigh(covariance)
    factor = axes * np.sqrt(np.maximum(variance, 0))[:, None, :]
    noise = rng.standard_normal((within, *covariance.shape[:2]))
    return (factor @ noise[..., None])[..., 0]


def _blocks(covariance: np.ndarray, measures: int, rankers: int) -> np.ndarray:
    """(measures, rankers, rankers): the covariance between rankers under each measure."""
    apart = covariance.reshape(measures, rankers, measures, rankers)
    return np.stack([apart[m, :, m] for m in range(measures)])
