r"""What team-draft interleaving would find: the first ranker's lead in credited clicks per page.

A click on an interleaved page counts +1 or -1 by the team of its item. The expected lead is a value
of pages as clicks per page are, and is sampled with the rankers' values on the same draws:

.. math:: \text{lead} = \sum_k \pm\, w\, \text{reach}_k\, P(\text{click at } k).

It is no difference in clicks per page. If two rankers swap items i and j at positions k and l, the
lead is (theta_k + theta_l) (zeta_i - zeta_j) / 2, where clicks per page differ by
(theta_k - theta_l) (zeta_i - zeta_j): the sign is the same, the size is not.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from epiclick.comparison.prepared import Prepared
from epiclick.comparison.slots import MEASURES, Measure, Slots
from epiclick.experiments.paired_lists import PairedLists


@dataclass(frozen=True, eq=False)
class Lead:
    """Samples of the first ranker's lead, and of the difference in clicks per page with it.

    Attributes:
        mean: of the lead; that of its samples varies by chance.
        lead: (samples,) credited clicks per page.
        difference: (samples,) clicks per page of the first ranker minus those of the second.
    """

    mean: float
    lead: np.ndarray
    difference: np.ndarray

    @property
    def agreement(self) -> float:
        """Probability that both have the same sign."""
        return float(np.mean(np.sign(self.lead) == np.sign(self.difference)))


def sample_lead(prepared: Prepared, pairs: PairedLists, samples: int) -> Lead:
    """Samples of the lead of the first of two rankers."""
    rng = np.random.default_rng([prepared.seed, 21])
    slots, item, sign = _with_interleaved(prepared, pairs, rng)
    credit = Measure(lambda s: s.weight * s.reach * sign, True, "credited clicks", "credit")
    factors = prepared.factors(slots, item, [MEASURES["clicks"], credit], prepared.going_on(rng))
    values = prepared.sampled(factors, prepared.moments(rng), (2, 3), samples, rng)
    drawn = values.samples
    return Lead(float(values.expected[1, 2].mean()), drawn[1, 2], drawn[0, 0] - drawn[0, 1])


def _with_interleaved(
    prepared: Prepared, pairs: PairedLists, rng: np.random.Generator
) -> tuple[Slots, np.ndarray, np.ndarray]:
    """Slots of both rankers and of a third whose pages are interleaved, with item and sign."""
    patterns = pairs.coin_patterns(rng)
    every = np.tile(np.arange(len(pairs.weight)), len(patterns))
    drafted = pairs.drafted(every, np.concatenate(patterns))
    page, place = np.nonzero(drafted.item >= 0)
    pair, item = every[page], drafted.item[page, place]
    slots, index = prepared.slots, prepared.items.index
    shown_at = np.zeros(len(prepared.items), int)
    shown_at[index] = np.arange(len(index))  # a slot that shows each item

    def joined(of_rankers: np.ndarray, of_drafted: np.ndarray) -> np.ndarray:
        return np.concatenate([of_rankers, of_drafted])

    at = pa.array(shown_at[item])
    both = Slots(
        ranker=joined(slots.ranker, np.full(len(page), 2)),
        page=joined(slots.page, slots.page.max() + 1 + page),
        query_id=pa.concat_arrays([slots.query_id, slots.query_id.take(at)]),
        doc_id=pa.concat_arrays([slots.doc_id, slots.doc_id.take(at)]),
        given=joined(slots.given, pairs.given[pair, place]),
        position=joined(slots.position, place + 1),
        weight=joined(slots.weight, pairs.weight[pair] / len(patterns)),
        reach=joined(slots.reach, pairs.reach[pair, place]),
        queries=slots.queries,
        notes=slots.notes,
    )
    sign = joined(np.zeros(len(index)), drafted.sign[page, place])
    return both, joined(index, item), sign
