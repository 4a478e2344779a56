"""Scores of a fit, and medians over several rounds."""

from typing import Any

import numpy as np


def scores(probability: np.ndarray, click: np.ndarray) -> dict[str, float]:
    """Log-likelihood per display and mean perplexity over ranks; inputs are (pages, positions)."""
    logs = np.log(np.where(click > 0, probability, 1 - probability))
    perplexity = 2 ** -(logs / np.log(2)).mean(axis=0)
    return {"log_likelihood": float(logs.mean()), "perplexity": float(perplexity.mean())}


def bias_errors(record: dict[str, Any], truth: np.ndarray) -> dict[str, Any]:
    """Errors of relative position bias below the first position, and coverage of its intervals."""
    relative = truth / truth[0]
    error = np.abs(np.array(record["relative"]) - relative)[1:]
    found = {"mean_error": float(error.mean()), "largest_error": float(error.max())}
    if "low" not in record:
        return found
    covered = (np.array(record["low"]) <= relative) & (relative <= np.array(record["high"]))
    return {**found, "intervals_covering_truth": f"{covered[1:].sum()} of {len(error)}"}


def median_of(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of numbers, elementwise for lists; strings of all rounds as a list."""
    return {name: _median([record[name] for record in rounds]) for name in rounds[0]}


def _median(each: list[Any]) -> Any:
    known = [value for value in each if value is not None]
    if not known:
        return None
    if isinstance(known[0], dict):
        return median_of(known)
    if isinstance(known[0], str):
        return known
    return np.round(np.median(np.array(known, float), axis=0), 5).tolist()
