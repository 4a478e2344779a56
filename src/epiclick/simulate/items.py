"""The items of a world: synthetic, or those of a dataset that has what a simulation needs."""

from pathlib import Path

import numpy as np

from epiclick.data.features import FeatureTable
from epiclick.errors import InputError, Problem
from epiclick.simulate.rankings import synthetic_rankings
from epiclick.simulate.settings import WorldSettings


def make_items(
    settings: WorldSettings, dataset: FeatureTable | str | Path | None, rng: np.random.Generator
) -> FeatureTable:
    """The items of the world: synthetic, or the dataset's."""
    if settings.queries and settings.docs and settings.features:
        return synthetic_rankings(settings.queries, settings.docs, settings.features, rng)
    if isinstance(dataset, FeatureTable):
        table = dataset
    else:
        from epiclick.data.letor import read_letor

        assert dataset is not None, "settings without sizes come from a dataset"
        table = read_letor(dataset)
    problems = []
    if "split" not in table.keys.column_names:
        problems.append(Problem("a dataset needs the key split", 1, "column", ("split",)))
    elif not np.any(splits(table) == "train"):
        problems.append(
            Problem("split must name training rows, on which the policy is trained", len(table))
        )
    if settings.relevance == "label":
        problems += _label_problems(table)
    if problems:
        raise InputError.of("the dataset of simulate", problems)
    return table


def _label_problems(table: FeatureTable) -> list[Problem]:
    """What keeps labels from being turned into relevance."""
    if "label" not in table.keys.column_names:
        remedy = 'Use relevance="beta", which needs no labels.'
        return [Problem("a dataset needs the key label", 1, "column", ("label",), remedy)]
    labels = table.keys["label"].to_numpy()
    bad = np.flatnonzero(~np.isin(labels, range(5)))
    if not bad.size:
        return []
    examples = [f"row {row}: {labels[row]}" for row in bad[:3]]
    return [Problem("labels must be 0, 1, 2, 3 or 4", bad.size, examples=examples)]


def splits(table: FeatureTable) -> np.ndarray:
    """(pairs,) the split of each row."""
    return table.keys["split"].to_numpy()
