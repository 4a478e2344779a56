"""Models that an earlier release wrote: they load, with the same predictions."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import epiclick as ec
from epiclick.fitted.storage import load_model, save_model

from .conftest import assert_same

OLD = Path(__file__).parent / "old_model"  # of model version 2, with what they answered then
ANSWERS = json.loads((OLD / "answers.json").read_text())
HEADS = {
    "with_features": "network_beta",
    "without_features": "id_beta",
    "pointwise": "point",
    "evidential": "network_beta",
}


def items() -> pd.DataFrame:
    rows = np.arange(12.0).reshape(4, 3) / 12 - 0.5
    ids = {"query_id": [0, 0, 1, 1], "doc_id": [0, 1, 0, 1]}
    return pd.DataFrame({**ids, **{f"f{i}": rows[:, i] for i in range(3)}})


def assert_answer(table: pd.DataFrame, recorded: dict[str, Any]) -> None:
    assert list(table) == list(recorded)
    for name, values in recorded.items():
        np.testing.assert_allclose(table[name], np.array(values, float), rtol=1e-9)


@pytest.mark.parametrize("name", list(ANSWERS))
def test_their_answers_stay(name: str) -> None:
    assert json.loads((OLD / name / "model.json").read_text())["schema_version"] == 2
    model = ec.load(OLD / name)
    assert_answer(model.position_bias(), ANSWERS[name]["position_bias"])
    features = None if model.fitted_.features is None else items()
    assert_answer(model.relevance(features).head(4), ANSWERS[name]["relevance"])


@pytest.mark.parametrize("name", list(HEADS))
def test_click_model_and_head_follow_from_the_class(name: str, tmp_path: Path) -> None:
    fitted = load_model(OLD / name)
    assert (fitted.click_model, fitted.head) == ("pbm", HEADS[name])
    save_model(fitted, tmp_path / "model")
    assert_same(load_model(tmp_path / "model"), fitted)
    metadata = json.loads((tmp_path / "model" / "model.json").read_text())
    assert (metadata["schema_version"], metadata["click_model"], metadata["head"]) == (
        3,
        "pbm",
        HEADS[name],
    )
