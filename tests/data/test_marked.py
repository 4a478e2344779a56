"""Rows marked by a column are selected, whatever kind of file they come from."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from epiclick.data.by_column import marked_and_rest
from epiclick.data.readers import count_log
from epiclick.data.schema import LogOptions
from epiclick.errors import InputError


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
    ("marks", "column", "words"),
    [
        ([0, 1], "randomized", r"no column 'randomized' \(did you mean 'randomised'"),
        ([0, 2], "randomised", r"must be 0 or 1, or true or false: 9 rows, first '2'"),
        ([0, None], "randomised", "9 rows, first missing"),
        ([0, 0], "randomised", "marks no row"),
        ([1, 1], "randomised", "marks every row"),
    ],
)
def test_what_marks_nothing_is_refused(
    marks: list, column: str, words: str, small_log: pd.DataFrame
) -> None:
    log = small_log.assign(randomised=[marks[page % 2] for page in small_log["page_id"]])
    with pytest.raises(InputError, match=words):
        marked_and_rest(log, LogOptions(), column)
