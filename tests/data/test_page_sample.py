"""Displays of sampled pages: the same as reading the rows one by one, in any order and any part."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.data import page_sample
from epiclick.data.page_sample import PageSample

from .test_page_lists import some_log

pytestmark = pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")

Display = tuple[object, ...]


def as_pages(counts: ec.ClickCounts, sample: PageSample | None = None) -> list[tuple[Display, ...]]:
    """The pages of the sample in words, in the order of their content."""
    sample = sample or counts.sample
    assert sample is not None
    rows = counts.contexts.to_pylist()
    found: dict[int, list[Display]] = {}
    for page, pair, context, clicked in zip(
        sample.page, sample.pair, sample.context, sample.clicked, strict=True
    ):
        item = None if pair < 0 else (counts.query_id[pair].as_py(), counts.doc_id[pair].as_py())
        found.setdefault(int(page), []).append((item, *rows[context].values(), bool(clicked)))
    assert list(found) == list(range(len(found)))
    return sorted((tuple(page) for page in found.values()), key=repr)


def by_hand(log: pd.DataFrame, last_click: bool = False) -> list[tuple[Display, ...]]:
    pages = []
    for _, rows in log.sort_values("position").groupby("page_id"):
        page, last = [], 0
        for row in rows.itertuples():
            history = (last,) if last_click else ()
            page.append(((row.query_id, row.doc_id), row.position, *history, bool(row.click)))
            last = row.position if row.click else last
        pages.append(tuple(page))
    return sorted(pages, key=repr)


@pytest.mark.parametrize("model", ["pbm", "trust", "ubm"])
def test_it_is_what_the_rows_say(model: str) -> None:
    log = some_log()
    counts = ec.read_log(log, click_model=model)
    assert as_pages(counts) == by_hand(log, last_click=model == "ubm")
    # contexts of the model's own table, and those of its given columns
    assert as_pages(counts.completed()) == by_hand(log, last_click=model == "ubm")
    assert as_pages(counts.by_given()) == by_hand(log)


def test_the_order_of_rows_does_not_matter() -> None:
    log = some_log()
    one, other = (ec.read_log(each).sample for each in (log, log.sample(frac=1, random_state=1)))
    for name in ("page", "pair", "context", "clicked"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_lists_give_the_same_pages() -> None:
    log = some_log()
    counts = ec.read_log(log, click_model="dcm")
    assert counts.sample is None
    assert counts.lists is not None
    assert as_pages(counts, PageSample.of_lists(counts.lists)) == by_hand(log)


def test_files_of_text_with_ids_of_both_kinds(tmp_path: Path) -> None:
    # of a sample, all ids may look like integers, though those of the log do not
    log = some_log(pages=200)
    log["doc_id"] = log["doc_id"].str[1:]
    log.loc[log.index[-1], "doc_id"] = "x"
    log.to_csv(tmp_path / "log.csv", index=False)
    assert as_pages(ec.read_log(tmp_path / "log.csv")) == by_hand(log)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["pbm", "dcm"])
def test_of_many_pages_whole_ones_are_sampled(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log = some_log(pages=2_000)
    monkeypatch.setattr(page_sample, "SAMPLED_DISPLAYS", 500)
    counts = ec.read_log(log, click_model=model)
    sample = PageSample.of_lists(counts.lists) if counts.lists else counts.sample
    assert sample is not None
    assert 300 < len(sample) < 1_100
    assert set(as_pages(counts, sample)) <= set(by_hand(log))


def test_items_that_are_left_out_remain_history() -> None:
    log = some_log()
    counts = ec.read_log(log)
    kept = counts.subset(counts.query == 1)
    assert as_pages(kept) == by_hand(log[log["query_id"] == 1])
    without = counts.subset(np.arange(len(counts)) % 2 == 0)
    assert without.sample is not None
    shown = without.sample.pair >= 0
    assert 0 < shown.sum() < len(without.sample)
    # every page that has an item left, with all its clicks
    assert np.bincount(without.sample.page, shown).min() >= 1
    assert without.sample.clicked.sum() > without.sample.clicked[shown].sum()


def test_parts_have_their_own_pages() -> None:
    log = some_log()
    log["day"] = log["page_id"].str[1:].astype(int) % 3
    counts = ec.read_log(log, part="day")
    first, rest = counts.split(0.33, 0.67, by="time")
    assert as_pages(first) == by_hand(log[log["day"] == 0])
    assert as_pages(rest) == by_hand(log[log["day"] > 0])
    assert as_pages(ec.ClickCounts.concat([rest, first])) == by_hand(log)


def test_there_is_none_where_pages_are_unknown(tmp_path: Path) -> None:
    log = some_log()
    assert ec.read_log(log.drop(columns="page_id")).sample is None
    counts = ec.read_log(log)
    counts.to_parquet(tmp_path / "counts.parquet")
    assert ec.read_log(tmp_path / "counts.parquet").sample is None
    log["device"] = "phone"
    assert ec.read_log(log, context=("device",)).sample is None
