"""Dealing whole groups (queries, folds of pages, days) out to the shares of a split."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from epiclick.arguments import check_whole, is_number, shown
from epiclick.errors import InputError

SplitBy = Literal["query", "page", "time"]


def check_split(shares: Sequence[float], by: SplitBy, seed: int) -> None:
    """Refuse shares that are none, and ways to split that are unknown."""
    if not all(map(is_number, shares)):
        given = ", ".join(map(shown, shares))
        raise InputError(f"shares must be numbers, as in split(0.6, 0.2, 0.2), not {given}")
    if not shares or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-9:
        raise InputError(f"shares must be positive and add up to 1, not {tuple(shares)}")
    if not (isinstance(by, str) and by in get_args(SplitBy)):
        raise InputError(f"by must be query, page or time, not {shown(by)}")
    check_whole("seed", seed)


def deal_groups(weight: np.ndarray, shares: Sequence[float], by: SplitBy, seed: int) -> np.ndarray:
    """(groups,) index of the share that each group goes to.

    Groups are dealt in their own order for `time`, at random otherwise. A group goes where the
    middle of its weight falls, so that each share is met to within half a group.
    """
    groups = len(weight)
    order = np.arange(groups) if by == "time" else np.random.default_rng(seed).permutation(groups)
    middle = np.cumsum(weight[order]) - weight[order] / 2
    edges = np.cumsum(shares)[:-1] * weight.sum()
    share = np.empty(groups, np.int64)
    share[order] = np.searchsorted(edges, middle, side="right")
    if len(np.unique(share)) < len(shares):
        raise InputError(f"too few {by} groups ({groups}) for the shares {tuple(shares)}")
    return share
