"""Text files without a header line, whose columns are named by an option."""

import gzip
from pathlib import Path

import pandas as pd
import pytest

from epiclick.data.readers import count_log, read_log
from epiclick.data.schema import LogOptions

from ..raising import raises_code

NAMES = ("page_id", "query_id", "doc_id", "position", "click")


@pytest.mark.parametrize(
    ("name", "delimiter"), [("l.tsv", "\t"), ("l.csv", ","), ("l.csv", ";"), ("l.tsv.gz", "\t")]
)
def test_a_headerless_file_has_the_counts_of_its_rows(
    name: str, delimiter: str, small_log: pd.DataFrame, tmp_path: Path
) -> None:
    small_log.to_csv(tmp_path / name, sep=delimiter, header=False, index=False)
    counts = read_log(tmp_path / name, header=NAMES)
    assert counts.to_table().equals(read_log(small_log).to_table())


def test_names_may_be_aliases_and_further_columns(small_log: pd.DataFrame, tmp_path: Path) -> None:
    small_log.assign(more="a").to_csv(tmp_path / "l.tsv", sep="\t", header=False, index=False)
    counts, report = count_log(
        tmp_path / "l.tsv",
        LogOptions(
            header=("serp_id", "q", "url", "rank", "click", "more"), columns={"query_id": "q"}
        ),
    )
    assert counts.total_displays == len(small_log)
    assert report.aliases["doc_id"] == "url"


def test_commas_in_the_text_of_a_tsv_do_not_delimit(tmp_path: Path) -> None:
    query = "tents, red, for two, with a porch"
    rows = [(query, "a", 1, 1), (query, "b", 2, 0), (query, "b", 1, 0), (query, "a", 2, 0)]
    lines = ["\t".join(map(str, row)) for row in rows]
    (tmp_path / "l.tsv").write_text("\n".join(lines))
    counts = read_log(tmp_path / "l.tsv", header=("query_id", "doc_id", "position", "click"))
    assert counts.query_id.to_pylist() == [query] * 2


def test_a_line_with_too_few_values_is_counted(small_log: pd.DataFrame, tmp_path: Path) -> None:
    small_log.to_csv(tmp_path / "l.csv", header=False, index=False)
    with (tmp_path / "l.csv").open("a") as file:
        file.write("7,hats\n")
    with raises_code("malformed-line"):
        read_log(tmp_path / "l.csv", header=NAMES)


def test_other_numbers_of_columns_are_refused(small_log: pd.DataFrame, tmp_path: Path) -> None:
    small_log.to_csv(tmp_path / "l.csv", header=False, index=False)
    with raises_code("columns-differ") as caught:
        read_log(tmp_path / "l.csv", header=NAMES[:3])
    assert "5 values, and 3 columns" in str(caught.value)


def test_a_header_with_the_same_names_is_not_a_row(small_log: pd.DataFrame, tmp_path: Path) -> None:
    small_log.to_csv(tmp_path / "l.csv", index=False)
    with raises_code("has-header"):
        read_log(tmp_path / "l.csv", header=NAMES)


def test_names_are_reported_as_unused_where_a_file_has_its_own(
    small_log: pd.DataFrame, tmp_path: Path
) -> None:
    small_log.to_parquet(tmp_path / "l.parquet")
    _, report = count_log(tmp_path / "l.parquet", LogOptions(header=NAMES))
    assert any("--columns is not used" in warning for warning in report.warnings)
    _, report = count_log(tmp_path / "l.parquet", LogOptions())
    assert not any("--columns" in warning for warning in report.warnings)


def test_a_file_without_a_header_line_gets_a_hint(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "l.csv.gz", "wt") as file:
        file.write("11,shoes,a,1,0\n12,shoes,b,1,1\n")
    with raises_code("missing-column") as caught:
        read_log(tmp_path / "l.csv.gz", columns={})
    assert "header" in str(caught.value)


def test_options_with_names_are_recorded() -> None:
    options = LogOptions(header=NAMES)
    assert LogOptions.from_dict(options.to_dict()) == options
    older = {name: value for name, value in options.to_dict().items() if name != "header"}
    assert LogOptions.from_dict(older) == LogOptions()
    with raises_code("invalid-header"):
        LogOptions(header=("query_id", " "))
