"""A damaged or foreign world is refused, or read unchanged."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epiclick.data.checksums import to_json
from epiclick.evaluation.truth import read_truth
from epiclick.simulate.world import World, simulate

from ..damaging import assert_damage_is_found
from ..raising import raises_code
from .test_world_files import FILES, assert_same


@pytest.fixture(scope="module")
def tiny() -> World:
    return simulate(
        queries=4, docs=3, features=2, pages=10, positions=2, relevance="beta", policy_strength=0.0
    )


@pytest.fixture
def folder(tiny: World, tmp_path: Path) -> Path:
    tiny.save(tmp_path / "w")
    return tmp_path / "w"


@pytest.mark.parametrize("name", sorted(FILES))
def test_damage_is_refused_or_harmless(name: str, tiny: World, folder: Path) -> None:
    refused, same = assert_damage_is_found(
        folder / name, lambda: assert_same(World.load(folder), tiny)
    )
    # blanks in truth.json do not matter
    assert refused > 150
    assert same == 0 or name == "truth.json"


@pytest.mark.parametrize("name", ["truth.json", "relevance.parquet"])
def test_damage_to_the_truth_that_models_are_compared_with(name: str, folder: Path) -> None:
    before = read_truth(folder)

    def check() -> None:
        found = read_truth(folder)
        np.testing.assert_array_equal(found.position_bias, before.position_bias)
        np.testing.assert_array_equal(found.relevance, before.relevance)
        assert found.keys.equals(before.keys)

    refused, _ = assert_damage_is_found(folder / name, check, seed=1)
    assert refused > 150


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"{}", b"[" * 200_000])
def test_a_foreign_truth_is_refused(content: bytes, folder: Path) -> None:
    (folder / "truth.json").write_bytes(content)
    for read in (World.load, read_truth):
        with raises_code("damaged-file") as caught:
            read(folder)
        assert "truth.json" in str(caught.value)


@pytest.mark.parametrize("name", sorted(FILES - {"truth.json"}))
def test_a_missing_file_is_named(name: str, folder: Path) -> None:
    (folder / name).unlink()
    with raises_code("file-missing") as caught:
        World.load(folder)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("position_bias", "x"),
        ("position_bias", []),
        ("position_bias", [None, 1]),
        ("position_bias", [[1.0], [0.5]]),
        ("settings", None),
        ("settings", {"theta": 3}),
        ("settings", {}),
        ("files", []),
        ("files", {}),
        ("format", "other"),
        ("schema_version", "2"),
    ],
)
def test_wrong_types_are_refused(key: str, value: Any, folder: Path) -> None:
    truth = json.loads((folder / "truth.json").read_text())
    del truth["digest"]
    truth[key] = value
    (folder / "truth.json").write_bytes(to_json(truth))
    with raises_code("damaged-file"):
        World.load(folder)
    if key != "settings":
        with raises_code("damaged-file"):
            read_truth(folder)
