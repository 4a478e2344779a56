"""Conversions in logs: counted with the clicks, kept by everything, refused where impossible."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import epiclick as ec
from epiclick.data.outcome_counts import conversion_counts, conversions_of
from epiclick.errors import InputWarning

from ..raising import raises_code

READ = {"conversion": "purchase", "value": "revenue"}
PAGES, DEPTH = 300, 4


def log(seed: int = 0) -> pd.DataFrame:
    """Pages of four items; clicks, purchases after some, and what they were worth."""
    rng = np.random.default_rng(seed)
    rows = PAGES * DEPTH
    table = pd.DataFrame(
        {
            "page_id": np.repeat(np.arange(PAGES), DEPTH),
            "query_id": np.repeat(rng.integers(0, 12, PAGES), DEPTH),
            "doc_id": np.concatenate([rng.permutation(6)[:DEPTH] for _ in range(PAGES)]),
            "position": np.tile(np.arange(1, DEPTH + 1), PAGES),
            "click": (rng.random(rows) < 0.4).astype(int),
            "day": np.repeat(np.arange(PAGES) % 5, DEPTH),
        }
    )
    table["purchase"] = table["click"] * (rng.random(rows) < 0.4)
    table["revenue"] = np.round(table["purchase"] * rng.gamma(2.0, 10.0, rows), 2)
    return table


def by_pair(table: pd.DataFrame) -> pd.DataFrame:
    columns = ["click", "purchase", "revenue"]
    return table.groupby(["query_id", "doc_id"])[columns].sum()


def summed(counts: ec.ClickCounts) -> pd.DataFrame:
    rows = counts.to_table().to_pandas()
    found = rows.groupby(["query_id", "doc_id"])[["clicks", "conversions", "value"]].sum()
    return found.set_axis(["click", "purchase", "revenue"], axis=1)


@pytest.mark.parametrize("click_model", ["pbm", "ubm", "cascade", "sdbn"])
def test_counts_have_the_sums_of_the_rows(click_model: str) -> None:
    table = log()
    counts = ec.read_log(table, click_model=click_model, **READ)
    pd.testing.assert_frame_equal(summed(counts), by_pair(table), check_dtype=False)
    pd.testing.assert_frame_equal(summed(counts.by_given()), by_pair(table), check_dtype=False)
    pd.testing.assert_frame_equal(summed(counts.completed()), by_pair(table), check_dtype=False)
    assert f"{table['purchase'].sum():,} conversions" in repr(counts)


def test_without_the_option_counts_are_what_they_were() -> None:
    counts = ec.read_log(log())
    assert counts.conversions is None
    assert counts.to_table().column_names[-2:] == ["displays", "clicks"]
    assert "conversions" not in counts.by_context()


def test_the_order_of_rows_does_not_matter_to_the_last_digit() -> None:
    table = log().assign(revenue=lambda t: t["revenue"] / 3)
    one, other = (ec.read_log(each, **READ).to_table() for each in (table, table.sample(frac=1.0)))
    assert one.equals(other)


def test_every_part_of_counts_keeps_its_conversions(tmp_path: Path) -> None:
    table = log()
    counts = ec.read_log(table, part="day", **READ)
    for parts in (counts.split(0.5, 0.5, by="query"), counts.split(0.6, 0.4, by="time")):
        together = ec.ClickCounts.concat(parts)
        assert together.to_table().equals(counts.to_table())
        assert sum(part.conversions.total for part in parts) == table["purchase"].sum()
    half = counts.subset(np.arange(len(counts)) % 2 == 0)
    expected = by_pair(table).iloc[::2]
    pd.testing.assert_frame_equal(summed(half), expected, check_dtype=False)
    counts.to_parquet(tmp_path / "counts.parquet")
    again = ec.read_log(tmp_path / "counts.parquet")
    assert again.to_table().equals(counts.to_table())
    assert (again.options.conversion, again.options.value) == ("purchase", "revenue")


def test_a_file_of_counts_has_no_conversions_that_were_not_counted(tmp_path: Path) -> None:
    ec.read_log(log()).to_parquet(tmp_path / "counts.parquet")
    with raises_code("options-differ"):
        ec.read_log(tmp_path / "counts.parquet", **READ)


def test_counts_with_and_without_conversions_are_not_added() -> None:
    with raises_code("conversions-differ"):
        ec.ClickCounts.concat([ec.read_log(log(), **READ), ec.read_log(log(1))])


def test_text_and_truth_values_are_read_as_numbers() -> None:
    table = log()
    written = table.assign(
        purchase=table["purchase"].map({0: "false", 1: "true"}),
        revenue=table["revenue"].astype(str),
    )
    assert ec.read_log(written, **READ).to_table().equals(ec.read_log(table, **READ).to_table())


def test_a_conversion_may_be_missing_where_there_is_no_click() -> None:
    table = log()
    gaps = table.assign(purchase=table["purchase"].where(table["click"] == 1))
    assert ec.read_log(gaps, **READ).to_table().equals(ec.read_log(table, **READ).to_table())


def broken(column: str, rows: pd.Series, value: object) -> pd.DataFrame:
    table = log()
    table[column] = table[column].astype(object)
    table.loc[rows, column] = value
    return table.infer_objects()


TABLE = log()
SKIPPED = (TABLE["click"] == 0) & (TABLE["page_id"] < 20)
CLICKED = (TABLE["click"] == 1) & (TABLE["purchase"] == 0)
BOUGHT = TABLE["purchase"] == 1


@pytest.mark.parametrize(
    ("table", "code", "rows"),
    [
        (broken("purchase", SKIPPED, 1), "conversion-without-click", SKIPPED),
        (broken("purchase", CLICKED, None), "missing-value", CLICKED),
        (broken("purchase", BOUGHT, 2), "conversion-not-binary", BOUGHT),
        (broken("revenue", BOUGHT, None), "missing-value", BOUGHT),
        (broken("revenue", BOUGHT, -1.0), "negative-value", BOUGHT),
        (broken("revenue", CLICKED, 3.0), "value-without-conversion", CLICKED),
        (broken("revenue", BOUGHT, "much"), "not-a-number", BOUGHT),
        (broken("revenue", BOUGHT, np.inf), "value-out-of-range", BOUGHT),
        (broken("revenue", BOUGHT, 1e13), "value-out-of-range", BOUGHT),
    ],
)
def test_impossible_rows_are_counted_shown_and_refused(
    table: pd.DataFrame, code: str, rows: pd.Series
) -> None:
    with raises_code(code) as caught:
        ec.read_log(table, **READ)
    assert f"{rows.sum():,} rows, first (page" in str(caught.value)
    with pytest.warns(InputWarning, match="bad rows were left out"):
        kept = ec.read_log(table, on_bad="drop", max_bad=1.0, **READ)
    assert kept.total_displays == len(table) - rows.sum()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"value": "revenue"}, "value-needs-conversion"),
        ({"conversion": "purchases"}, "unknown-column"),
        ({"conversion": "purchase", "value": "price"}, "unknown-column"),
        ({"conversion": 3}, "invalid-conversion"),
        ({"conversion": "purchase", "value": "purchase"}, "reserved-column"),
        ({"conversion": "purchase", "context": ("purchase", "position")}, "reserved-column"),
        ({"conversion": "day", "part": "day"}, "reserved-column"),
    ],
)
def test_options_that_contradict_are_refused(options: dict[str, object], code: str) -> None:
    with raises_code(code):
        ec.read_log(log(), **options)


def counted() -> pd.DataFrame:
    table = log().assign(displays=1).rename(columns={"click": "clicks"})
    keys, sums = ["query_id", "doc_id", "position"], ["displays", "clicks", "purchase", "revenue"]
    return table.groupby(keys)[sums].sum().reset_index()


def test_counted_rows_have_numbers_of_conversions() -> None:
    found = ec.read_log(counted(), **READ).to_table()
    assert found.equals(ec.read_log(log(), **READ).to_table())


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda t: t.assign(purchase=t["clicks"] + 1), "conversions-exceed-clicks"),
        (lambda t: t.assign(purchase=-1), "negative-count"),
        (lambda t: t.assign(purchase=t["purchase"] + 0.5), "not-whole-number"),
        (lambda t: t.assign(revenue=-t["revenue"]), "negative-value"),
        (lambda t: t.drop(columns="purchase"), "unknown-column"),
    ],
)
def test_impossible_counted_rows_are_refused(change, code: str) -> None:
    with raises_code(code):
        ec.read_log(change(counted()), **READ)


def test_counts_by_hand_are_checked_as_well() -> None:
    counts = ec.read_log(log(), **READ)
    table = counts.to_table().to_pandas()
    options = counts.options
    for change, code in (
        (table.assign(conversions=table["clicks"] + 1), "conversions-exceed-clicks"),
        (table.assign(value=-1.0), "negative-value"),
        (table.drop(columns="conversions"), "missing-column"),
    ):
        arrow = pa.Table.from_pandas(change, preserve_index=False)
        with raises_code(code):
            ec.ClickCounts.from_table(arrow, options=options)


@pytest.mark.parametrize("click_model", ["ubm", "cascade", "dcm", "sdbn"])
def test_several_clicks_on_an_item_of_a_page_are_refused(click_model: str) -> None:
    table = log()
    again = table[table["click"] == 1].iloc[:3]
    with raises_code("repeated-document") as caught:
        ec.read_log(pd.concat([table, again]), click_model=click_model, **READ)
    assert "2 times" in str(caught.value)
    assert "keep one of each" in str(caught.value)


def test_outcomes_are_conversions_among_clicks() -> None:
    table = log()
    counts = ec.read_log(table, **READ)
    expected = by_pair(table)
    clicks, converted = conversions_of(counts)
    np.testing.assert_array_equal(clicks, expected["click"])
    np.testing.assert_array_equal(converted, expected["purchase"])
    outcomes = conversion_counts(counts)
    assert len(outcomes) == len(counts)
    np.testing.assert_array_equal(outcomes.displays, expected["click"][expected["click"] > 0])
    assert outcomes.options.click_model == "cascade"
    nothing = conversions_of(ec.read_log(table))
    assert not np.any(nothing)
