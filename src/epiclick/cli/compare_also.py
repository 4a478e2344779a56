"""`epiclick compare --also`: the same rankers valued by other models."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from epiclick.cli import console, options
from epiclick.errors import InputError, InputWarning

if TYPE_CHECKING:
    from epiclick.api import BaseModel
    from epiclick.comparison.result import Comparison
    from epiclick.comparison.several_models import SeveralModels
    from epiclick.data.features import FeatureTable


def load_others(
    first: Path, also: Sequence[Path], features: options.GivenFeatures
) -> "dict[str, BaseModel]":
    """The other models by their names, each of which must differ from the first's."""
    from epiclick.api import load

    names = [str(path) for path in (first, *also)]
    if len(set(names)) < len(names):
        raise InputError("--also: each model must be given once", code="duplicate-model")
    others = {str(path): load(path) for path in also}
    for name, other in others.items():
        options.check_features(other, features, f"--also {name}")
    return others


@dataclass(frozen=True)
class Logs:
    """What other models read again, each with its own options.

    Attributes:
        clicks: the log.
        backtest: the held-out log.
        features: of the items of the held-out log.
        missing_features: what to do with its pairs without features.
        given: options for reading logs.
    """

    clicks: Sequence[str]
    backtest: Sequence[str]
    features: options.GivenFeatures
    missing_features: Literal["error", "drop"]
    given: options.GivenOptions


def compared_by(
    other: "BaseModel",
    rankings: Mapping[str, Any],
    features: "FeatureTable | None",
    logs: Logs,
    settings: Mapping[str, Any],
) -> "Comparison":
    """The comparison by another model, with further arguments of `compare`."""
    from epiclick.comparison.compare_rankers import compare

    own = logs.given.over_saved(other.fitted_.options, [], quiet=True)
    has_features = other.fitted_.features is not None
    joined = logs.features if has_features else options.NO_FEATURES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InputWarning)  # of logs read before
        counts = options.read_counts(logs.clicks, own, quiet=True) if logs.clicks else None
        tested = None
        if logs.backtest:
            tested = options.read_counts(
                logs.backtest, own, joined, logs.missing_features, quiet=True
            )
    used = features if has_features else None
    return compare(other, rankings, used, clicks=counts, backtest=tested, **settings)


def print_several(found: "SeveralModels", digits: int) -> None:
    """Print the values by each model, and whether the models agree."""
    first = next(iter(found.comparisons.values()))
    console.print_table(
        f"By click model: {first.unit} per page, {first.level:.0%} intervals",
        ["model", "ranker", f"{first.unit} per page", f"{first.names[0]} - ranker", "P(better)"],
        (
            [
                row["model"],
                row["ranker"],
                f"{row['value']:.{digits}f} ({row['low']:.{digits}f} to {row['high']:.{digits}f})",
                *(
                    ["-", "-"]
                    if row["ranker"] == first.names[0]
                    else [f"{row['difference']:+.{digits}f}", f"{row['prob_better']:.2f}"]
                ),
            ]
            for row in found.table.to_dict("records")
        ),
    )
    console.print_text(f"Models: {found.verdict}")
