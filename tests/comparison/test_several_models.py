"""The same rankers valued by several models: agreement, and verdicts that depend on the model."""

import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.comparison.several_models import SeveralModels

from ..raising import raises_code
from .planted import THETA, model_of, planted, rows_of, table_of

pytestmark = pytest.mark.slow

QUERIES = 20


@pytest.fixture(scope="module")
def table() -> ec.FeatureTable:
    """Items 0 to 3 of every query are good; 4 to 7 are bad."""
    query, doc = (each.ravel() for each in np.indices((QUERIES, 8)))
    return table_of(query, doc, np.where(doc < 4, 0.5, 0.2), np.full(len(doc), 50.0))


def ranking(*docs: int) -> pd.DataFrame:
    return rows_of(dict.fromkeys(range(QUERIES), docs))


CLEAR = {"one": (0, 1, 2, 3), "two": (4, 5, 6, 7)}
SAME = {"one": (0, 1, 2, 3), "two": (3, 2, 1, 0)}
# one is better where only the first position is looked at, two where all are
MIXED = {"one": (0, 4, 5, 6), "two": (4, 0, 1, 2)}
STEEP = np.array([1.0, 0.02, 0.02, 0.02])


def both(docs: dict[str, tuple[int, ...]], table: ec.FeatureTable, sd: float) -> SeveralModels:
    models = {
        name: model_of(planted(theta=theta, theta_sd=0.01, mean_sd=sd))
        for name, theta in (("flat", THETA), ("steep", STEEP))
    }
    rankings = {name: ranking(*each) for name, each in docs.items()}
    return ec.compare_models(models, rankings, table, samples=500)


def test_the_table_has_the_values_of_each_model(table) -> None:
    found = both(CLEAR, table, 0.01)
    assert found.table[["model", "ranker"]].to_numpy().tolist() == [
        *(["flat", "one"], ["flat", "two"]),
        *(["steep", "one"], ["steep", "two"]),
    ]
    for model, own in found.comparisons.items():
        rows = found.table[found.table["model"] == model]
        np.testing.assert_array_equal(rows["value"], own.rankers["value"])
        lead = own.difference("one", "two")
        assert np.isnan(rows["difference"].iloc[0])
        assert rows["difference"].iloc[1] == lead.difference
        assert rows["prob_better"].iloc[1] == lead.prob_better
    assert set(found.to_dict()) == {"table", "agree", "verdict", "verdicts"}
    assert found.verdict in str(found)


def test_models_agree_on_a_clear_difference(table) -> None:
    found = both(CLEAR, table, 0.01)
    assert found.agree
    assert found.verdict.startswith("both click models agree: one beats two with probability flat ")


def test_models_agree_that_they_cannot_tell(table) -> None:
    found = both(SAME, table, 0.01)
    assert found.agree
    assert found.verdict.startswith("both click models agree: cannot tell ")


def test_a_verdict_that_depends_on_the_model_says_so(table) -> None:
    found = both(MIXED, table, 0.01)
    assert not found.agree
    assert found.verdict.startswith("the verdict depends on the click model: flat: ")
    assert "`epiclick select`" in found.verdict
    assert {own.name for own in found._leads().values()} == {"one", "two"}


def test_a_single_ranker_has_a_value_by_each_model(table) -> None:
    found = both({"one": (0, 1, 2, 3)}, table, 0.1)
    assert found.agree
    assert "by flat" in found.verdict
    assert "by steep" in found.verdict


def test_what_is_not_several_models_is_refused(table) -> None:
    one = model_of(planted())
    with raises_code("too-few-models"):
        ec.compare_models({"one": one}, {"one": ranking(0, 1)}, table)
    with raises_code("not-a-model"):
        ec.compare_models({"one": one, "two": None}, {"one": ranking(0, 1)}, table)
