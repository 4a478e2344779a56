"""Rows marked by a column are selected, whatever the kind of file."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from epiclick.data.by_column import marked_and_rest
from epiclick.data.readers import count_log
from epiclick.data.schema import LogOptions

from ..raising import raises_code


@pytest.mark.parametrize("kind", ["csv", "parquet", "json"])
@pytest.mark.parametrize("values", [(0, 1), (False, True), ("false", "TRUE")])
def test_marked_rows_and_the_rest_add_up(
    kind: str, values: tuple, small_log: pd.DataFrame, tmp_path: Path
) -> None:
    log = small_log.assign(Random=[values[page % 2] for page in small_log["page_id"]])
    file = tmp_path / f"log.{kind}"
    if kind == "csv":
        log.to_csv(file, index=False)
    elif kind == "parquet":
        log.to_parquet(file)
    else:
        log.to_json(file, orient="records", lines=True)
    options = LogOptions(where="position <= 2 or click = 1")
    marked, rest = (
        count_log(file, replace(options, where=condition))[0]
        for condition in marked_and_rest(file, options, "Random")
    )
    kept = log[(log["position"] <= 2) | (log["click"] == 1)]
    odd = kept[kept["page_id"] % 2 == 1]
    assert (marked.total_displays, marked.total_clicks) == (len(odd), odd["click"].sum())
    assert marked.total_displays + rest.total_displays == len(kept)
    assert marked.total_clicks + rest.total_clicks == kept["click"].sum()


@pytest.mark.parametrize(
    ("marks", "column", "code", "named"),
    [
        ([0, 1], "randomized", "unknown-column", "'randomized' (did you mean 'randomised'"),
        ([0, 2], "randomised", "mark-not-binary", "9 rows, first '2'"),
        ([0, None], "randomised", "mark-not-binary", "9 rows, first missing"),
        ([0, 0], "randomised", "nothing-to-compare", "no row"),
        ([1, 1], "randomised", "nothing-to-compare", "every row"),
    ],
)
def test_invalid_marks_are_refused(
    marks: list, column: str, code: str, named: str, small_log: pd.DataFrame
) -> None:
    log = small_log.assign(randomised=[marks[page % 2] for page in small_log["page_id"]])
    with raises_code(code) as caught:
        marked_and_rest(log, LogOptions(), column)
    assert named in str(caught.value)
