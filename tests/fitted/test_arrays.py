"""Arrays come back from their files as they were, and files of other arrays are refused."""

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import load

from epiclick.data.checksums import MALFORMED
from epiclick.fitted.parameters import Parameters, PointLookup
from epiclick.fitted.state import QuerySets
from epiclick.fitted.storage import (
    pack,
    unpack_items,
    unpack_members,
    unpack_parameters,
    unpack_posterior,
    unpack_queries,
)

from .conftest import (
    ITEMS,
    MEMBERS,
    POSTERIOR,
    QUERIES,
    WEIGHTS,
    assert_identical,
    assert_same_ids,
    assert_same_parameters,
    changed,
    text,
    with_features,
    with_members,
    with_posterior,
    without_features,
)

UNPACK: dict[str, Callable[[bytes], Any]] = {
    WEIGHTS: unpack_parameters,
    QUERIES: unpack_queries,
    ITEMS: unpack_items,
    POSTERIOR: unpack_posterior,
    MEMBERS: unpack_members,
}


def test_files_hold_what_they_are_named_for() -> None:
    weights = load(pack(with_features())[WEIGHTS])
    assert_identical(weights["relevance.1.weight"], with_features().parameters.layers[1][0])
    assert_identical(load(pack(with_features())[QUERIES])["held_out"], np.array([7]))
    queries = load(pack(without_features())[QUERIES])
    assert queries["train.bytes"].tobytes().decode() == "hatshéllo日本"
    assert queries["train.offsets"].tolist() == [0, 0, 4, 10, 16]
    assert queries["held_out.offsets"].tolist() == [0]


def test_slices_and_transposes_are_stored_as_they_read() -> None:
    weight = np.arange(6, dtype=np.float32).reshape(2, 3).T  # (3, 2) in Fortran order
    parameters = Parameters(((weight, np.zeros(4)[:2]),), PointLookup(np.arange(6.0)[::2]))
    queries = QuerySets(text("skipped", "hats", "héllo", "after")[1:3], text("some", "none")[1:1])
    files = pack(replace(with_features(), parameters=parameters, queries=queries))
    assert_same_parameters(unpack_parameters(files[WEIGHTS]), parameters)
    assert_same_ids(unpack_queries(files[QUERIES]).train, text("hats", "héllo"))
    assert_same_ids(unpack_queries(files[QUERIES]).held_out, text())


def test_short_ids_come_back_long() -> None:
    queries = QuerySets(pa.array(["a", "b"], pa.string()), pa.array([3, 4], pa.int8()))
    loaded = unpack_queries(pack(replace(with_features(), queries=queries))[QUERIES])
    assert_same_ids(loaded.train, text("a", "b"))
    assert_same_ids(loaded.held_out, pa.array([3, 4], pa.int64()))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"relevance.1.weight": None}, "'relevance.1.weight'"),
        ({"relevance.1.weight": None, "relevance.1.bias": None}, "'relevance.1.weight'"),
        ({"position.confidence": None}, "'position.confidence'"),
        ({"position.logit": np.zeros(4)}, "it has the arrays"),
        ({"extra": np.zeros(4)}, "it has the arrays extra, position"),
    ],
)
def test_files_of_other_weights_are_reported(arrays: dict[str, Any], said: str) -> None:
    with pytest.raises(MALFORMED, match=said):
        unpack_parameters(changed(pack(with_features())[WEIGHTS], arrays))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"train.bytes": None}, "'train.bytes'"),
        ({"held_out.offsets": None}, "'held_out.offsets'"),
        ({"train": np.arange(3)}, "unknown arrays train.bytes, train.offsets"),
        ({"train": np.arange(3.0)}, "train is float64"),
        ({"train": np.zeros((2, 2), int)}, r"train is int64 of shape \(2, 2\)"),
        ({"train.bytes": np.zeros(16, np.int8)}, "train.bytes is int8"),
        ({"train.bytes": np.full(16, 255, np.uint8)}, "(?i)utf"),
        ({"train.offsets": np.zeros(0, int)}, "offsets do not divide"),
        ({"train.offsets": np.array([0, 4, 99])}, "offsets do not divide"),
        ({"train.offsets": np.array([0, 2**62, 16])}, "offsets do not divide"),
        ({"train.offsets": np.array([-4, 8, 16])}, "offsets do not divide"),
        ({"train.offsets": np.array([0, 16], np.int32)}, "train.offsets is int32"),
        ({"train.offsets": np.array([0, 5, 16])[None]}, "train.offsets is int64 of shape"),
        ({"train.offsets": np.array([0, 6, 16])}, "(?i)utf"),  # through the middle of an é
    ],
)
def test_invalid_ids_are_reported(arrays: dict[str, Any], said: str) -> None:
    with pytest.raises(MALFORMED, match=said):
        unpack_queries(changed(pack(without_features())[QUERIES], arrays))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"high": None}, "'high'"),
        ({"mean": np.ones(3)}, "unknown arrays mean"),
        ({"doc_id.bytes": None, "doc_id.offsets": None}, "'doc_id.bytes'"),
    ],
)
def test_files_of_other_items_are_reported(arrays: dict[str, Any], said: str) -> None:
    with pytest.raises(MALFORMED, match=said):
        unpack_items(changed(pack(without_features())[ITEMS], arrays))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"bayes": None}, "'bayes'"),
        ({"median": np.ones(3)}, "unknown arrays median"),
    ],
)
def test_files_of_another_posterior_are_reported(arrays: dict[str, Any], said: str) -> None:
    with pytest.raises(MALFORMED, match=said):
        unpack_posterior(changed(pack(with_posterior())[POSTERIOR], arrays))


def test_members_are_stacked() -> None:
    model = with_members()
    stacked = load(pack(model)[MEMBERS])
    assert stacked["relevance.0.weight"].shape == (3, 3, 2)
    assert_identical(stacked["position.logit"][1], model.members[1].position[0])


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"relevance.0.bias": None}, "it has the arrays position.logit, relevance.0.weight"),
        ({"position.logit": np.zeros((2, 3))}, "same number of members"),
        ({"position.logit": np.array(1.0)}, "same number of members"),
        ({"extra": np.zeros(3)}, "it has the arrays extra"),
    ],
)
def test_files_of_other_members_are_reported(arrays: dict[str, Any], said: str) -> None:
    with pytest.raises(MALFORMED, match=said):
        unpack_members(changed(pack(with_members())[MEMBERS], arrays))


def test_a_file_of_no_members_is_reported() -> None:
    none = {name: array[:0] for name, array in load(pack(with_members())[MEMBERS]).items()}
    with pytest.raises(MALFORMED, match="at least one"):
        unpack_members(changed(pack(with_members())[MEMBERS], none))


def header(record: Any, data: bytes = b"") -> bytes:
    packed = record if isinstance(record, bytes) else json.dumps(record).encode()
    return struct.pack("<Q", len(packed)) + packed + data


def tensor(dtype: str, shape: list[int], end: int) -> dict[str, Any]:
    return {"position.logit": {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 7,
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 99_999_999) + b"{}",
        header(b"[" * 100_000),
        header(b"\xff\xfe"),
        header({}),
        header({}, b"rest"),
        header(tensor("BF16", [1], 2), b"ab"),
        header(tensor("F64", [2], 8), b"12345678"),
        header(tensor("F32", [0, 2**62], 0)),
        header(tensor("F32", [2**63, 2**63], 0)),
        header(tensor("F32", [-1], 4), b"1234"),
        header(tensor("F32", [1], 2**40), b"1234"),
        header(tensor("F4", [1], 1), b"a"),
        header({"__metadata__": 3}),
    ],
    ids=lambda content: f"{content[:40]!r}",
)
def test_hostile_files_do_no_harm(content: bytes) -> None:
    for unpack in UNPACK.values():
        with pytest.raises(MALFORMED):
            unpack(content)
