"""Argument checks for the methods of `ClickCounts`, and the shares of a split."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from epiclick.arguments import check_choice, check_whole, is_number, shown
from epiclick.data.features import FeatureTable
from epiclick.errors import InputError, did_you_mean


def check_table(table: Any, context: Sequence[str], more: Sequence[str] = ()) -> None:
    """Refuse what is not a table of counts, or lacks a column; `more` are those of conversions."""
    if not isinstance(table, pa.Table):
        raise InputError(
            f"from_table takes an Arrow table of counts, not {shown(table)}; read a log of any "
            "kind with read_log(...)",
            code="invalid-type",
        )
    if isinstance(context, str) or not all(isinstance(name, str) for name in context):
        raise InputError(
            f"context must be names, as in ('position',), not {shown(context)}", code="invalid-type"
        )
    names = table.column_names
    for name in ("query_id", "doc_id", *context, "displays", "clicks", *more):
        if name not in names:
            raise InputError(
                f"a table of counts needs the column {name}{did_you_mean(name, names)}; it has "
                f"{', '.join(names)}",
                code="missing-column",
            )


def check_join(features: Any, missing: Any) -> None:
    """Refuse features that are not a FeatureTable, and unknown values of `missing`."""
    if not isinstance(features, FeatureTable):
        raise InputError(
            f"with_features takes a FeatureTable, not {shown(features)}; read it with "
            "read_features(...)",
            code="invalid-type",
        )
    check_choice("missing", missing, ("error", "drop"))


def chosen_pairs(pairs: Any, size: int) -> np.ndarray:
    """(size,) mask of pairs that are given by index or by a mask."""
    try:
        chosen = np.asarray(pairs)
    except ValueError as error:  # lists of different lengths
        raise InputError(
            "pairs must be one list of whole numbers, or one mask", code="invalid-type"
        ) from error
    if chosen.ndim == 1 and not len(chosen):
        return np.zeros(size, bool)
    if chosen.dtype == bool:
        if chosen.shape != (size,):
            raise InputError(
                f"a mask must have one value for each of {size:,} pairs, not {len(chosen):,}",
                code="wrong-length",
            )
        return chosen
    if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
        raise InputError(
            f"pairs must be whole numbers or a mask, not {shown(pairs)}", code="invalid-type"
        )
    if chosen.min() < 0 or chosen.max() >= size:
        raise InputError(
            f"pairs must be numbers from 0 to {size - 1:,}, not {chosen.min()} to {chosen.max()}",
            code="pair-out-of-range",
        )
    return np.isin(np.arange(size), chosen)


SplitBy = Literal["query", "page", "time"]


def check_split(shares: Sequence[float], by: SplitBy, seed: int) -> None:
    """Refuse invalid shares and unknown ways to split."""
    if not all(map(is_number, shares)):
        given = ", ".join(map(shown, shares))
        raise InputError(
            f"shares must be numbers, as in split(0.6, 0.2, 0.2), not {given}", code="not-a-number"
        )
    if not shares or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-9:
        raise InputError(
            f"shares must be positive and add up to 1, not {tuple(shares)}", code="invalid-shares"
        )
    check_choice("by", by, get_args(SplitBy))
    check_whole("seed", seed)


def deal_groups(weight: np.ndarray, shares: Sequence[float], by: SplitBy, seed: int) -> np.ndarray:
    """(groups,) index of the share that each group is assigned to.

    Groups are assigned in order for `time`, in random order otherwise, each to the share that
    contains the midpoint of its weight, so that every share is met to within half a group.
    """
    groups = len(weight)
    order = np.arange(groups) if by == "time" else np.random.default_rng(seed).permutation(groups)
    middle = np.cumsum(weight[order]) - weight[order] / 2
    edges = np.cumsum(shares)[:-1] * weight.sum()
    share = np.empty(groups, np.int64)
    share[order] = np.searchsorted(edges, middle, side="right")
    if len(np.unique(share)) < len(shares):
        unit = {"query": "queries", "page": "folds of pages", "time": "parts"}[by]
        raise InputError(
            f"too few {unit} ({groups}) for the shares {tuple(shares)}; ask for fewer shares, or "
            "give more data",
            code="too-few-groups",
        )
    return share
