"""A ranker given as a Python function: it scores all rows of the features."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from epiclick.comparison.ranking_rows import RankingRows
from epiclick.data.features import FeatureTable
from epiclick.data.ids import settle_types
from epiclick.data.log import LogColumns, LogOptions
from epiclick.errors import InputError, Problem


def scored_rows(
    function: Callable[[pd.DataFrame], Any], features: FeatureTable | None, options: LogOptions
) -> RankingRows:
    """Rows of the features with the function's score of each.

    The function gets a DataFrame with query_id, doc_id and a column for each feature.
    """
    name = f"the function {getattr(function, '__name__', type(function).__name__)}"
    problems = []
    if features is None:
        remedy = "Give features, or a table of query_id, doc_id and position."
        problems.append(Problem("a function scores features, but none are given", remedy=remedy))
    if others := [column for column in options.context if column != "position"]:
        what = f"a function gives one list a query, which has no {' and no '.join(others)}"
        remedy = f"Give a table of query_id, doc_id, {', '.join(options.context)}."
        problems.append(Problem(what, remedy=remedy))
    if problems or features is None:
        raise InputError.of(name, problems)
    keys = features.keys.select(["query_id", "doc_id"])
    # the user's own copy: a function that writes to its frame must not change the features
    values = features.rows(np.arange(len(features)))
    frame = pd.DataFrame(values, columns=list(features.names), copy=False)
    for at, column in enumerate(keys.column_names):
        frame.insert(at, column, keys[column].to_pandas())
    index = frame.index.copy()
    score = _scores(function(frame), index, name)
    return RankingRows(
        source=name,
        # the ids stay those of the features, where they will be looked up
        keys=settle_types(keys, LogColumns({}, {}, counted=False), LogOptions(), text=False),
        by="score",
        value=score,
        written=pa.array(score),
    )


def _scores(answer: Any, index: pd.Index, name: str) -> np.ndarray:
    """What a function returned as (rows,) float64."""
    remedy = "Return one number for each row of the frame, in its order."
    if isinstance(answer, pd.Series) and not answer.index.equals(index):
        what = "the Series returned has another index than the frame, so its order is not the rows'"
        raise InputError.of(name, [Problem(what, remedy=remedy)])
    try:
        score = np.asarray(answer, np.float64)
    except (TypeError, ValueError) as error:
        what = f"what the function returned are not numbers ({error})"
        raise InputError.of(name, [Problem(what, remedy=remedy)]) from error
    if score.shape != index.shape:
        what = f"the function returned shape {score.shape} for {len(index):,} rows"
        raise InputError.of(name, [Problem(what, remedy=remedy)])
    return score
