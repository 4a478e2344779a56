"""Models to store, what makes two of them the same, and folders forged as an enemy would."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from safetensors.numpy import load, save

from epiclick.click_models.pbm import PositionBased
from epiclick.data.features import FeatureScaler
from epiclick.data.schema import LogOptions
from epiclick.errors import InputError
from epiclick.fitted.parameters import (
    BetaLookup,
    ParameterPosterior,
    Parameters,
    PointLookup,
    from_vector,
    to_vector,
)
from epiclick.fitted.state import FeatureSpec, FittedModel, Items, QuerySets, TrainingSummary
from epiclick.fitted.storage import load_model, save_model
from epiclick.relevance.network import init_mlp

from ..raising import raises_code

COPY_AGAIN = "Copy the whole folder again"

WEIGHTS, QUERIES, ITEMS = "weights.safetensors", "queries.safetensors", "items.safetensors"
POSTERIOR, MEMBERS = "posterior.safetensors", "members.safetensors"


def text(*values: str) -> pa.Array:
    return pa.array(values, pa.large_string())


def history(validation: list[float | None]) -> pd.DataFrame:
    rows = [
        {"epoch": i + 1, "log_likelihood": -0.1 / 3**i, "validation": v, "zero_gradients": 0}
        for i, v in enumerate(validation)
    ]
    return pd.DataFrame([{**row, "seconds": 0.1 * (i + 1)} for i, row in enumerate(rows)])


def with_features() -> FittedModel:
    """Features, integer ids, Betas for positions, two context columns."""
    rng = np.random.default_rng(1)
    scaler = FeatureScaler(rng.normal(size=3) / 3, rng.gamma(1.0, size=3))
    lookup = BetaLookup(rng.normal(size=4), rng.normal(size=4))
    return FittedModel(
        kind="EpistemicPBM",
        head="network_beta",
        settings={"hidden": (5, 4), "learning_rate": 0.1 + 0.2, "anchor": None, "baseline": True},
        parameters=Parameters(init_mlp(rng, (3, 5, 4, 2)), lookup),
        anchor=None,
        contexts=pa.table(
            {"device": text("phone", "phone", "tv", "tv"), "position": pa.array([1, 2, 1, 2])}
        ),
        features=FeatureSpec(("bm25", "länge", "f2"), scaler),
        options=LogOptions(
            columns={"position": "slot"}, context=("device", "position"), where="day > '2026'"
        ),
        queries=QuerySets(pa.array([-(2**63), 3, 2**63 - 1]), pa.array([7])),
        items=None,
        training=TrainingSummary(
            pairs=9,
            displays=2**53 + 1,
            clicks=4,
            epochs=3,
            best_epoch=2,
            seconds=1 / 3,
            log_likelihood=-0.2,
            history=history([-0.3, -0.2, -0.25]),
            checks={"chi2_per_df": 1.25, "identifiability": {"groups": [[{"position": 1}]]}},
            warnings=("few items link position 2",),
        ),
    )


def without_features() -> FittedModel:
    """No features, ids as text, points for positions, relevance of the items."""
    rng = np.random.default_rng(2)
    weight = rng.normal(size=(3, 2)).astype(np.float32)  # (contexts, 2)
    return replace(
        with_features(),
        settings={"estimator": "marginal", "anchor": "auto"},
        parameters=Parameters(
            ((weight, np.array([-1.0, 1.0], np.float32)),), PointLookup(rng.normal(size=3))
        ),
        anchor=0,
        contexts=pa.table({"position": pa.array([1, 2, 3])}),
        head="id_beta",
        features=None,
        options=LogOptions(),
        queries=QuerySets(text("", "hats", "héllo", "日本"), text()),
        items=Items(
            query_id=text("", "hats", "hats"),
            doc_id=text("b", "", "z"),
            alpha=rng.gamma(2.0, size=3),
            beta=rng.gamma(2.0, size=3),
            low=np.array([0.0, 0.1, 1 / 3]),
            high=np.array([0.5, 0.1, 1.0]),
        ),
        training=replace(with_features().training, history=history([None, None]), checks={}),
    )


def pointwise() -> FittedModel:
    """One number for each relevance; nothing trained yet."""
    rng = np.random.default_rng(3)
    return replace(
        with_features(),
        kind="PointwisePBM",
        head="point",
        parameters=Parameters(init_mlp(rng, (3, 1)), PointLookup(rng.normal(size=4))),
        anchor=3,
        training=replace(with_features().training, history=history([0.0])[:0]),
    )


def with_posterior() -> FittedModel:
    """An anchor, and a last layer in float64 above a body in float32; samples by chains."""
    rng = np.random.default_rng(4)
    own = Parameters(init_mlp(rng, (3, 5, 4, 2)), PointLookup(rng.normal(size=4)))
    mode = to_vector(own, PositionBased(), 1) + 1e-12 * rng.normal(size=3 + 5 * 2)
    factor = rng.normal(size=(len(mode), len(mode)))
    few = factor[:, :6]  # fewer queries than parameters: no full rank
    return replace(
        with_features(),
        parameters=from_vector(own, PositionBased(), 1, mode),
        anchor=1,
        posterior=ParameterPosterior(
            hyperparameters={"distance": 0.25},
            mean=mode,
            bayes=factor @ factor.T,
            robust=few @ few.T,
            pareto_k=0.1 + 0.2,
            gradient=1e-9 / 3,
            samples=rng.normal(size=(7, len(mode))),
        ),
    )


def with_members() -> FittedModel:
    """Three members, and a posterior without samples on a free scale, of a model by ids."""
    rng = np.random.default_rng(5)
    model = without_features()
    mode = to_vector(model.parameters, PositionBased(), None)

    def member() -> Parameters:
        layer = (rng.normal(size=(3, 2)).astype(np.float32), rng.normal(size=2).astype(np.float32))
        return Parameters((layer,), PointLookup(rng.normal(size=3)))

    return replace(
        model,
        anchor=None,
        posterior=ParameterPosterior(
            mode, np.eye(len(mode)), np.zeros((len(mode), len(mode))), None, float("inf")
        ),
        members=(member(), member(), member()),
    )


MODELS = [with_features, without_features, pointwise, with_posterior, with_members]
each_model = pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)


def assert_same(first: FittedModel, second: FittedModel) -> None:
    """Equal to the last bit, types included."""
    for name in ("kind", "head", "click_model", "settings", "anchor", "options"):
        assert getattr(first, name) == getattr(second, name)
        assert type(getattr(first, name)) is type(getattr(second, name))
    assert first.contexts.schema == second.contexts.schema
    assert first.contexts.equals(second.contexts)
    assert_same_parameters(first.parameters, second.parameters)
    assert (first.features is None) == (second.features is None)
    if first.features is not None and second.features is not None:
        assert first.features.names == second.features.names
        assert_identical(first.features.scaler.mean, second.features.scaler.mean)
        assert_identical(first.features.scaler.scale, second.features.scaler.scale)
    for name in ("train", "held_out"):
        assert_same_ids(getattr(first.queries, name), getattr(second.queries, name))
    assert (first.items is None) == (second.items is None)
    if first.items is not None and second.items is not None:
        assert_same_ids(first.items.query_id, second.items.query_id)
        assert_same_ids(first.items.doc_id, second.items.doc_id)
        for name in ("alpha", "beta", "low", "high"):
            assert_identical(getattr(first.items, name), getattr(second.items, name))
    assert len(first.members) == len(second.members)
    for one, other in zip(first.members, second.members, strict=True):
        assert_same_parameters(one, other)
    assert (first.posterior is None) == (second.posterior is None)
    if first.posterior is not None and second.posterior is not None:
        for field in fields(ParameterPosterior):
            one, other = (getattr(each.posterior, field.name) for each in (first, second))
            if isinstance(one, dict):
                assert one == other
                continue
            assert (one is None) == (other is None)
            assert_identical(one if one is not None else 0, other if other is not None else 0)
    for name in ("pairs", "displays", "clicks", "epochs", "best_epoch", "checks", "warnings"):
        assert getattr(first.training, name) == getattr(second.training, name)
    for name in ("seconds", "log_likelihood"):
        assert_identical(getattr(first.training, name), getattr(second.training, name))
    pd.testing.assert_frame_equal(first.training.history, second.training.history, check_exact=True)


def assert_same_parameters(one: Parameters, other: Parameters) -> None:
    assert type(one.position) is type(other.position)
    assert len(one.layers) == len(other.layers)
    arrays = [[*(a for layer in p.layers for a in layer), *p.position] for p in (one, other)]
    for first, second in zip(*arrays, strict=True):
        assert_identical(first, second)


def assert_same_ids(one: pa.Array, other: pa.Array) -> None:
    assert one.type == other.type
    assert one.equals(other)


def assert_identical(one: Any, other: Any) -> None:
    one, other = np.asarray(one), np.asarray(other)
    assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def assert_damaged(path: Path, name: str, named: str = "") -> None:
    """Loading reports that a file of the model is damaged, and what in it."""
    with pytest.raises(InputError, match=f"{re.escape(name)} is damaged.*{named}") as caught:
        load_model(path)
    assert str(path) in str(caught.value)
    assert COPY_AGAIN in str(caught.value)


def assert_refused(path: Path, code: str, *named: str, remedy: str = COPY_AGAIN) -> None:
    with raises_code(code) as caught:
        load_model(path)
    for part in (str(path), remedy, *named):
        assert part in str(caught.value)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def put(*keys: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    """A change of one value of the metadata."""

    def change(metadata: dict[str, Any]) -> None:
        part: Any = metadata
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = value

    return change


def blake2b(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def sign(folder: Path, metadata: dict[str, Any]) -> None:
    """Write a model.json with the digest that belongs to it."""
    rest = {key: value for key, value in metadata.items() if key != "digest"}
    plain = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    (folder / "model.json").write_text(json.dumps({**rest, "digest": blake2b(plain.encode())}))


def forge(folder: Path, change: Callable[[dict[str, Any]], Any] = lambda metadata: None) -> None:
    """Change the metadata, with valid checksums for all files, as a forger would."""
    metadata = json.loads((folder / "model.json").read_text())
    for name, stated in metadata["files"].items():
        content = (folder / name).read_bytes()
        stated.update(bytes=len(content), blake2b=blake2b(content))
    change(metadata)
    sign(folder, metadata)


def changed(content: bytes, arrays: dict[str, np.ndarray | None]) -> bytes:
    """A safetensors file with arrays replaced, added or removed (None)."""
    both = {**load(content), **arrays}
    return save({name: array for name, array in both.items() if array is not None})


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_model(with_features(), tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def saved_items(tmp_path: Path) -> Path:
    save_model(without_features(), tmp_path / "items")
    return tmp_path / "items"


@pytest.fixture
def saved_posterior(tmp_path: Path) -> Path:
    save_model(with_posterior(), tmp_path / "posterior")
    return tmp_path / "posterior"


@pytest.fixture
def saved_members(tmp_path: Path) -> Path:
    save_model(with_members(), tmp_path / "members")
    return tmp_path / "members"
