r"""Plain versions of the click models: maximum likelihood by EM, as in Chuklin et al. (2015).

Every probability has one pseudo-click and one pseudo-skip, and relevance is a number for each pair
without a prior in common. These are the estimates of PyClick, and the baselines of the benchmark.
"""

from collections.abc import Callable

import numpy as np

from epiclick.benchmark.page_data import BenchmarkData
from epiclick.benchmark.point_estimates import (
    ExaminationEstimates,
    PointEstimates,
    ReadingEstimates,
    contexts_on,
    page_states,
    share,
)
from epiclick.benchmark.textbook_counting import counted_cascade
from epiclick.click_models.click_model import Emission
from epiclick.click_models.registry import click_model
from epiclick.reading.stops import Evidence, chance_of_going_on, log_skips

ITERATIONS = 200
ATTRACTIVE, UNATTRACTIVE = 0.6, 0.05  # where EM of the trust model starts


def plain_examination(data: BenchmarkData, name: str) -> ExaminationEstimates:
    r"""P(click) = theta_c zeta: of every skip, how likely was the item seen, or attractive?

    .. math:: P(\text{seen} \mid \text{skip}) = \frac{\theta (1 - \zeta)}{1 - \theta \zeta}, \qquad
              P(\text{attractive} \mid \text{skip}) = \frac{\zeta (1 - \theta)}{1 - \theta \zeta}
    """
    depth = max(data.train.depth, data.test.depth)
    states, contexts = page_states(click_model(name), depth)
    shown = data.train.shown
    c, p = contexts_on(data.train, states)[shown], data.train.pair[shown]
    click = data.train.clicked[shown]
    seen_in, shown_of = np.bincount(c, minlength=contexts), np.bincount(p, minlength=data.pairs)
    theta, zeta = np.full(contexts, 0.5), np.full(data.pairs, 0.5)
    for _ in range(ITERATIONS):
        a, b = theta[c], zeta[p]
        missed = 1 - a * b
        seen = np.where(click, 1, a * (1 - b) / missed)
        attracted = np.where(click, 1, b * (1 - a) / missed)
        theta = share(np.bincount(c, seen, contexts), seen_in)
        zeta = share(np.bincount(p, attracted, data.pairs), shown_of)
    return ExaminationEstimates(zeta, Emission(theta, 1 - theta), states)


def plain_trust(data: BenchmarkData) -> ExaminationEstimates:
    """P(click) = A_k zeta + B_k (1 - zeta): of every display, how likely was it attractive?"""
    depth = max(data.train.depth, data.test.depth)
    states, contexts = page_states(click_model("trust"), depth)
    shown = data.train.shown
    c, p = contexts_on(data.train, states)[shown], data.train.pair[shown]
    click = data.train.clicked[shown]
    shown_of = np.bincount(p, minlength=data.pairs)
    a, b = np.full(contexts, ATTRACTIVE), np.full(contexts, UNATTRACTIVE)
    zeta = np.full(data.pairs, 0.5)
    for _ in range(ITERATIONS):
        z = zeta[p]
        one = np.where(click, a[c], 1 - a[c]) * z
        other = np.where(click, b[c], 1 - b[c]) * (1 - z)
        attracted = one / (one + other)
        rest = 1 - attracted
        a = share(np.bincount(c, attracted * click, contexts), np.bincount(c, attracted, contexts))
        b = share(np.bincount(c, rest * click, contexts), np.bincount(c, rest, contexts))
        zeta = share(np.bincount(p, attracted, data.pairs), shown_of)
    return ExaminationEstimates(zeta, Emission(a, 1 - a, b, 1 - b), states)


def plain_reading(data: BenchmarkData, *, by_item: bool) -> ReadingEstimates:
    """Users who read from the top: on every page, how likely did they go on after the last click?

    Args:
        data: its training pages are used.
        by_item: whether going on depends on the clicked item, not on its position.
    """
    evidence = Evidence.of(data.train.lists, data.pairs)
    size = data.pairs if by_item else max(data.train.depth, data.test.depth)
    last = evidence.last_pair if by_item else evidence.last_given
    above = evidence.click_pair if by_item else evidence.click_given
    certain = np.bincount(above, evidence.click_count, size)
    trials = certain + np.bincount(last, evidence.pages, size)
    zeta, stay = np.full(data.pairs, 0.5), np.full(size, 0.5)
    for _ in range(ITERATIONS):
        chance = chance_of_going_on(stay[last], log_skips(evidence, zeta))
        on = evidence.pages * chance
        below = np.broadcast_to(on[:, None], evidence.below.shape)
        read = np.bincount(evidence.below.ravel(), below.ravel(), data.pairs + 1)[:-1]
        zeta = share(evidence.clicks, evidence.read + read)
        stay = share(certain + np.bincount(last, on, size), trials)
    return ReadingEstimates(zeta, stay, by_item)


PLAIN: dict[str, Callable[[BenchmarkData], PointEstimates]] = {
    "pbm": lambda data: plain_examination(data, "pbm"),
    "ubm": lambda data: plain_examination(data, "ubm"),
    "trust": plain_trust,
    "cascade": counted_cascade,  # the maximum of its likelihood
    "dcm": lambda data: plain_reading(data, by_item=False),
    "sdbn": lambda data: plain_reading(data, by_item=True),
}
