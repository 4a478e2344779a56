"""Pages behind counts, compared with the rows of the log."""

import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.data.counts import ClickCounts
from epiclick.data.shown_pages import ShownPages, read_pages


def log(pages: int = 60, seed: int = 0) -> pd.DataFrame:
    """Pages of 1 to 4 items, some positions missing, rows in any order."""
    rng, rows = np.random.default_rng(seed), []
    for page in range(pages):
        size = rng.integers(1, 5)
        docs, positions = rng.permutation(6)[:size], np.sort(rng.permutation(5)[:size]) + 1
        for doc, position in zip(docs, positions, strict=True):
            rows.append((f"p{page}", page % 5, int(doc), int(position), int(rng.random() < 0.4)))
    columns = ["page_id", "query_id", "doc_id", "position", "click"]
    return pd.DataFrame(rows, columns=columns).sample(frac=1, random_state=seed)


def as_sets(counts: ClickCounts, pages: ShownPages) -> list[tuple[tuple[object, ...], ...]]:
    """Pages as sorted tuples of (query, doc, position, last click, click)."""
    table = counts.to_table().to_pandas()
    columns = ["query_id", "doc_id", "position", "last_click"]
    found = []
    for entries, clicked in zip(pages.entry, pages.clicked, strict=True):
        shown = entries >= 0
        assert not clicked[~shown].any()
        assert np.all(np.diff(np.flatnonzero(~shown)) == 1), "gaps before the end of a page"
        rows = table[columns].to_numpy()[entries[shown]]
        found.append(
            tuple((*map(int, r), int(c)) for r, c in zip(rows, clicked[shown], strict=True))
        )
    return sorted(found)


def expected(frame: pd.DataFrame) -> list[tuple[tuple[object, ...], ...]]:
    pages = []
    for _, page in frame.sort_values("position").groupby("page_id"):
        last, rows = 0, []
        for row in page.itertuples():
            rows.append((row.query_id, row.doc_id, row.position, last, row.click))
            last = row.position if row.click else last
        pages.append(tuple(rows))
    return sorted(pages)


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("as_text", [False, True])
def test_pages_are_those_of_the_log(base: int, as_text: bool, tmp_path) -> None:
    frame = log()
    source = frame.assign(position=frame["position"] - (1 - base))
    if as_text:
        source.to_csv(tmp_path / "log.csv", index=False)
        source = tmp_path / "log.csv"
    options = ec.LogOptions(click_model="ubm", page_parts=5, position_base=base)
    counts = ec.read_log(source, options=options)
    assert as_sets(counts, read_pages(source, options, counts)) == expected(frame)
    train, test = counts.split(0.6, 0.4, by="page")
    both = [as_sets(part, read_pages(source, options, part)) for part in (train, test)]
    assert sorted(both[0] + both[1]) == expected(frame)
    assert min(map(len, both)) > 0


@pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")
def test_displays_of_pairs_that_counts_lack_are_left_out() -> None:
    frame = log()
    options = ec.LogOptions(click_model="ubm", page_parts=5)
    keys = frame[["query_id", "doc_id"]].drop_duplicates()
    features = keys[keys["doc_id"] != 3].assign(f0=1.0)
    counts = ec.read_log(frame, options=options, features=features, missing_features="drop")
    pages = read_pages(frame, options, counts)
    # the clicks on what is left out are still history
    kept = [tuple(row for row in page if row[1] != 3) for page in expected(frame)]
    assert as_sets(counts, pages) == sorted(page for page in kept if page)
