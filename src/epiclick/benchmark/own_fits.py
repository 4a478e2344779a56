"""Our models in a benchmark."""

import time
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.api import EPISTEMIC, EpistemicModel
from epiclick.benchmark.page_data import BenchmarkData
from epiclick.click_models.registry import click_model
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from epiclick.data.readers import read_log
from epiclick.data.schema import LogOptions
from epiclick.data.shown_pages import read_pages
from epiclick.fitting import fit_model  # noqa: F401  loaded before the clock starts
from epiclick.selection.held_out_scores import Displays, held_out_displays

WARM_UP = 20  # pages that are read before the clock starts, so that libraries are loaded


class Fitted(NamedTuple):
    """A fit as the benchmark sees it.

    Attributes:
        displays: held-out displays with their probabilities.
        relevance: (pairs,) estimates; NaN for pairs without training displays.
        processor_seconds: from training pages in memory to the fitted model.
    """

    displays: Displays
    relevance: np.ndarray
    processor_seconds: float


def fit_own(data: BenchmarkData, name: str, *, with_features: bool = False) -> Fitted:
    """Fit one of our models with default parameters, and predict the held-out pages.

    With features, clicks of held-out pages are predicted from features alone; items are ranked by
    features and their training clicks.
    """
    features = _features(data) if with_features else None
    log = data.train.to_table(data.query_of)
    first = log.filter(pc.less(log["page_id"], WARM_UP))
    read_log(first, click_model=name, features=features)
    begun = time.process_time()
    counts = read_log(log, click_model=name, features=features)
    model = EPISTEMIC[name]().fit(counts, progress=False)
    seconds = time.process_time() - begun
    return Fitted(_held_out(data, model, features), _relevance(data, model, counts), seconds)


def _features(data: BenchmarkData) -> FeatureTable:
    assert data.features is not None
    keys = pa.table({"query_id": data.query_of, "doc_id": np.arange(data.pairs)})
    names = tuple(f"f{i}" for i in range(data.features.shape[1]))
    return FeatureTable(keys, names, data.features)


def _held_out(
    data: BenchmarkData, model: EpistemicModel, features: FeatureTable | None
) -> Displays:
    options = LogOptions(click_model=model.click_model, page_parts=2)
    log = data.test.to_table(data.query_of)
    counts = read_log(log, options=options, features=features)
    pages = None
    if click_model(model.click_model).history:
        pages = read_pages(log, options, counts)
    found = held_out_displays(model.fitted_, counts, pages)
    position = counts.given[0]["position"].to_numpy()
    query = np.empty(counts.num_queries, np.int64)
    query[counts.query] = counts.query_id.to_numpy()
    return found._replace(query=query[found.query], place=position[found.place] - 1)


def _relevance(data: BenchmarkData, model: EpistemicModel, counts: ClickCounts) -> np.ndarray:
    table = model.relevance() if counts.features is None else model.posterior(counts)
    found = np.full(data.pairs, np.nan)
    found[table["doc_id"].to_numpy()] = table["mean"].to_numpy()
    return found
