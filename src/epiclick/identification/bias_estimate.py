r"""An estimate of position bias, and how much each group of queries contributed to it.

For an estimate that solves :math:`\sum_q U_q(\log\theta) = 0`, with J minus the derivative of the
sum, the influence of group q is what the estimate owes to it, to first order:

.. math:: \mathrm{IF}_q = J^{-1} U_q, \qquad
          \operatorname{Var}(\log\hat\theta) \approx \sum_q \mathrm{IF}_q \mathrm{IF}_q^\top .

Influences of two estimates from the same log subtract, whatever the estimates have in common: the
variance of their difference needs no covariance between them.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array


class BiasEstimate(NamedTuple):
    """Logarithms of position bias relative to that of one context.

    Attributes:
        log_bias: (contexts,) 0 at the reference; NaN where there is no finite estimate.
        influence: (groups, contexts) of each group of queries.
        information: (groups,) of each group of queries, up to a factor: the expected squared
            influence, which shows how many groups the estimate really rests on.
    """

    log_bias: np.ndarray
    influence: np.ndarray
    information: np.ndarray


def in_groups(query: np.ndarray, groups: int) -> csr_array:
    """(groups, rows) sums over the rows of each group of queries, by the rows' queries (rows,).

    Queries share groups if there are more of them, which is as valid.
    """
    rows = len(query)
    return csr_array((np.ones(rows), (query % groups, np.arange(rows))), (groups, rows))
