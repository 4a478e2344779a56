r"""The textbook estimates of users who read from the top: shares of clicks (Chuklin et al. 2015).

Read is what is at or above the last click, or the whole page without a click. With one pseudo-click
and one pseudo-skip, as in PyClick,

.. math:: \hat\zeta = \frac{\text{clicks} + 1}{\text{read displays} + 2}, \qquad
          1 - \hat\lambda_k \text{ or } \hat s =
          \frac{\text{last clicks} + 1}{\text{clicks} + 2}.

They are **biased** for the dependent click model and the simplified dynamic Bayesian network: of
what users skipped below their last click none is counted, and a last click counts as a stop though
users may have gone on. For the cascade model, where nobody goes on, they maximise the likelihood.
"""

from collections.abc import Callable

import numpy as np

from epiclick.benchmark.page_data import BenchmarkData, PageLog
from epiclick.benchmark.point_estimates import PointEstimates, ReadingEstimates, share
from epiclick.reading.stops import Evidence


def counted_reading(data: BenchmarkData, *, by_item: bool) -> ReadingEstimates:
    """Counted attraction, and continuation by position or by item."""
    pages = data.train
    evidence = Evidence.of(pages.lists, data.pairs)
    size = data.pairs if by_item else max(pages.depth, data.test.depth)
    kind = pages.pair if by_item else pages.place
    is_last = pages.clicked & (pages.place == _last_click(pages)[:, None])
    clicks = np.bincount(kind[pages.clicked], minlength=size)
    stopped = np.bincount(kind[is_last], minlength=size)
    zeta = share(evidence.clicks, evidence.read)
    return ReadingEstimates(zeta, 1 - share(stopped, clicks), by_item)


def counted_cascade(data: BenchmarkData) -> ReadingEstimates:
    """Counted attraction down to the first click, after which nobody goes on."""
    pages = data.train
    first = np.where(pages.clicked.any(axis=1), pages.clicked.argmax(axis=1), pages.depth)
    read = pages.shown & (pages.place <= first[:, None])
    clicks = np.bincount(pages.pair[read & pages.clicked], minlength=data.pairs)
    zeta = share(clicks, np.bincount(pages.pair[read], minlength=data.pairs))
    depth = max(pages.depth, data.test.depth)
    return ReadingEstimates(zeta, np.zeros(depth), by_item=False)


def _last_click(pages: PageLog) -> np.ndarray:
    """(pages,) position of the last click, from 0; -1 without one."""
    return np.where(pages.clicked, pages.place, -1).max(axis=1)


COUNTING: dict[str, Callable[[BenchmarkData], PointEstimates]] = {
    "cascade": counted_cascade,
    "dcm": lambda data: counted_reading(data, by_item=False),
    "sdbn": lambda data: counted_reading(data, by_item=True),
}
