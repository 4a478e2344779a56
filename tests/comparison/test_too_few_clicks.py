"""A real log of 46 clicks: rankers cannot be told apart, and the verdict says so."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import epiclick as ec

from ..docs.pages import Ran, differences

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::epiclick.InputWarning")]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "natural-changes" / "README.md"
QUERY = "user_feature_0"
SLOTS = 3


def ranking(queries: Sequence[str], items: Sequence[int]) -> pd.DataFrame:
    """The same items for every query."""
    return pd.DataFrame(
        [(query, item, place) for query in queries for place, item in enumerate(items, 1)],
        columns=["query_id", "doc_id", "position"],
    )


def test_46_clicks_cannot_tell_rankers_apart(shared_data: Callable[[str], Path]) -> None:
    random, bandit = (shared_data(f"obd/{policy}/men.csv") for policy in ("random", "bts"))
    counts = ec.read_log(random, columns={"query_id": QUERY})
    assert counts.total_clicks == 46
    model = ec.EpistemicPBM().fit(counts, progress=False)
    queries = sorted(set(counts.query_id.to_pylist()))
    # what the other policy, a bandit, had learned to display
    frequency = pd.read_csv(bandit)["item_id"].value_counts()
    rankings = {
        "often": ranking(queries, frequency.index[:SLOTS]),
        "rarely": ranking(queries, frequency.index[-SLOTS:]),
    }
    found = ec.compare(model, rankings, clicks=counts)
    assert found.verdict.startswith("cannot tell often from rarely")
    difference = found.difference("often", "rarely")
    assert difference.low < 0 < difference.high
    # wide: either may be worth half as much again as the other, or more
    assert difference.relative_low < -1 / 3
    assert difference.relative_high > 1 / 2
    assert 0.2 < difference.prob_better < 0.8
    printed = ". ".join(found.verdict.split(". ")[:2]) + "."
    (shown,) = re.findall(r"^    (cannot tell often.*\n)^    (.*)$", PAGE.read_text(), re.M)
    assert not differences(Ran("", printed, "".join(shown).replace("\n", " "), 0))
    # a control: the same rates with 100 times the displays and clicks do tell these rankers apart
    more = ec.read_log(repeated(random, 100), columns={"query_id": QUERY})
    certain = ec.compare(ec.EpistemicPBM().fit(more, progress=False), rankings, clicks=more)
    assert np.sign(certain.difference("often", "rarely").low) == np.sign(
        certain.difference("often", "rarely").high
    )


def repeated(log: Path, times: int) -> pd.DataFrame:
    """Every row of a log several times."""
    rows = pd.read_csv(log, usecols=[QUERY, "item_id", "position", "click"])
    return rows.loc[rows.index.repeat(times)].rename(columns={"item_id": "doc_id"})
