"""`ec.report`: the report page of a fitted model, from Python."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from epiclick.api import BaseModel, check_model
from epiclick.arguments import check_path, named_arguments
from epiclick.comparison.compare_rankers import compare
from epiclick.data.counts import ClickCounts, check_counts
from epiclick.data.features import read_features
from epiclick.report.page import gather, write_report
from epiclick.report.report_sources import Sources
from epiclick.selection.selection_file import read_selection


@named_arguments
def report(
    model: BaseModel,
    log: ClickCounts | None = None,
    out: str | Path = "report.html",
    *,
    features: Any = None,
    rankings: Mapping[str, Any] | None = None,
    depth: int | None = None,
    backtest: ClickCounts | None = None,
    against: Mapping[str, BaseModel] | None = None,
    previous: BaseModel | None = None,
    selection: str | Path | None = None,
    title: str = "",
) -> Path:
    """Write the report page of a fitted model: one HTML file that needs no other and no network.

    Args:
        model: the model.
        log: counts of the log it was fitted to, with features if the model has some.
        out: the file to write.
        features: of items, as `read_features` takes them; those of `log` by default.
        rankings: rankers to compare, as in `compare`.
        depth: last position that counts in rankings.
        backtest: counts of a log that was held back, on which predictions are checked.
        against: models to score beside this one, by name.
        previous: the model before this one: the page shows what has changed.
        selection: the file that `epiclick select --out` wrote.
        title: of the page.

    Returns:
        The path of the file.
    """
    path = check_path("out", out)
    check_model("model", model)
    for name, other in {**(against or {}), "previous": previous}.items():
        if other is not None:
            check_model(name, other)
    for name, counts in {"log": log, "backtest": backtest}.items():
        if counts is not None:
            check_counts(name, counts)
    table = None
    if model.fitted_.features is not None:
        given = next((each.features for each in (log, backtest) if each is not None), None)
        table = given if features is None else read_features(features, like=model.fitted_)
    compared = None
    if rankings:
        compared = compare(model, rankings, table, clicks=log, depth=depth, backtest=backtest)
    sources = Sources(
        model=model,
        name=type(model).__name__,
        log=log,
        later=backtest,
        features=table,
        others=against or {},
        comparison=compared,
        selection=None if selection is None else read_selection(selection),
        created=date.today().isoformat(),
        previous=previous,
        previous_name="" if previous is None else type(previous).__name__,
    )
    write_report(gather(sources, title), path)
    return path
