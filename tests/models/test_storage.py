"""A model survives its folder, and a damaged or foreign folder is told from one."""

import datetime
import errno
import hashlib
import json
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from safetensors.numpy import load, save

from epiclick.data.log import LogOptions
from epiclick.data.scaler import FeatureScaler
from epiclick.errors import InputError
from epiclick.models.fitted import FeatureSpec, FittedPBM, Items, QuerySets, TrainingSummary
from epiclick.models.parameters import Parameters
from epiclick.models.position import BetaLookup, PointLookup
from epiclick.models.storage import check_replaceable, load_model, save_model
from epiclick.network import init_mlp

WEIGHTS, QUERIES, ITEMS = "weights.safetensors", "queries.safetensors", "items.safetensors"


def text(*values: str) -> pa.Array:
    return pa.array(values, pa.large_string())


def history(validation: list[float | None]) -> pd.DataFrame:
    rows = [
        {"epoch": i + 1, "log_likelihood": -0.1 / 3**i, "validation": v, "zero_gradients": 0}
        for i, v in enumerate(validation)
    ]
    return pd.DataFrame([{**row, "seconds": 0.1 * (i + 1)} for i, row in enumerate(rows)])


def with_features() -> FittedPBM:
    """Features, integer ids, Betas for positions, two context columns."""
    rng = np.random.default_rng(1)
    scaler = FeatureScaler(rng.normal(size=3) / 3, rng.gamma(1.0, size=3))
    lookup = BetaLookup(rng.normal(size=4), rng.normal(size=4))
    return FittedPBM(
        kind="EpistemicPBM",
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


def without_features() -> FittedPBM:
    """No features, ids as text, points for positions, relevance of the items."""
    rng = np.random.default_rng(2)
    return replace(
        with_features(),
        settings={"estimator": "marginal", "anchor": "auto"},
        parameters=Parameters(
            ((np.zeros((3, 2), np.float32), np.array([-1.0, 1.0], np.float32)),),
            PointLookup(rng.normal(size=3)),
        ),
        anchor=0,
        contexts=pa.table({"position": pa.array([1, 2, 3])}),
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


def pointwise() -> FittedPBM:
    """One number for each relevance; nothing trained yet."""
    rng = np.random.default_rng(3)
    return replace(
        with_features(),
        kind="PointwisePBM",
        parameters=Parameters(init_mlp(rng, (3, 1)), PointLookup(rng.normal(size=4))),
        anchor=3,
        training=replace(with_features().training, history=history([0.0])[:0]),
    )


MODELS = [with_features, without_features, pointwise]
each_model = pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)


def assert_same(first: FittedPBM, second: FittedPBM) -> None:
    """Equal to the last bit, types included."""
    for name in ("kind", "settings", "anchor", "options"):
        assert getattr(first, name) == getattr(second, name)
        assert type(getattr(first, name)) is type(getattr(second, name))
    assert first.contexts.schema == second.contexts.schema
    assert first.contexts.equals(second.contexts)
    assert type(first.parameters.position) is type(second.parameters.position)
    assert len(first.parameters.layers) == len(second.parameters.layers)
    arrays = [
        [*(array for layer in model.parameters.layers for array in layer), *model.parameters[1]]
        for model in (first, second)
    ]
    for one, other in zip(*arrays, strict=True):
        assert_identical(one, other)
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
    for name in ("pairs", "displays", "clicks", "epochs", "best_epoch", "checks", "warnings"):
        assert getattr(first.training, name) == getattr(second.training, name)
    for name in ("seconds", "log_likelihood"):
        assert_identical(getattr(first.training, name), getattr(second.training, name))
    pd.testing.assert_frame_equal(first.training.history, second.training.history, check_exact=True)


def assert_same_ids(one: pa.Array, other: pa.Array) -> None:
    assert one.type == other.type
    assert one.equals(other)


def assert_identical(one: Any, other: Any) -> None:
    one, other = np.asarray(one), np.asarray(other)
    assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def blake2b(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def sign(folder: Path, note: dict[str, Any]) -> None:
    """Write a model.json with the digest that belongs to it."""
    rest = {key: value for key, value in note.items() if key != "digest"}
    plain = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    (folder / "model.json").write_text(json.dumps({**rest, "digest": blake2b(plain.encode())}))


def forge(folder: Path, change: Callable[[dict[str, Any]], Any] = lambda note: None) -> None:
    """Change the note and vouch for whatever stands beside it, as a forger would."""
    note = json.loads((folder / "model.json").read_text())
    for name, stated in note["files"].items():
        content = (folder / name).read_bytes()
        stated.update(bytes=len(content), blake2b=blake2b(content))
    change(note)
    sign(folder, note)


def forge_arrays(folder: Path, name: str, **arrays: np.ndarray | None) -> None:
    """Replace arrays, or take them out (None); dots in names are written as double underscores."""
    new = {key.replace("__", "."): array for key, array in arrays.items()}
    both = {**load((folder / name).read_bytes()), **new}
    (folder / name).write_bytes(save({k: v for k, v in both.items() if v is not None}))
    forge(folder)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_model(with_features(), tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def saved_items(tmp_path: Path) -> Path:
    save_model(without_features(), tmp_path / "items")
    return tmp_path / "items"


# There and back


@each_model
def test_a_model_survives_saving(make: Callable[[], FittedPBM], tmp_path: Path) -> None:
    save_model(make(), tmp_path / "deep" / "model")
    assert_same(load_model(tmp_path / "deep" / "model"), make())


@each_model
def test_saving_what_was_loaded_gives_the_same_bytes(
    make: Callable[[], FittedPBM], tmp_path: Path
) -> None:
    save_model(make(), tmp_path / "first")
    save_model(load_model(str(tmp_path / "first")), tmp_path / "second")
    assert contents(tmp_path / "first") == contents(tmp_path / "second")


def test_the_comparison_of_models_can_fail() -> None:
    model = with_features()
    lookup = BetaLookup(np.nextafter(model.parameters.position[0], 9), model.parameters.position[1])
    for other in (
        replace(model, parameters=Parameters(model.parameters.layers, lookup)),
        replace(model, settings={**model.settings, "hidden": [5, 4]}),
        replace(model, queries=QuerySets(model.queries.train, model.queries.train)),
        replace(model, training=replace(model.training, history=history([-0.3, -0.2, -0.26]))),
    ):
        with pytest.raises(AssertionError):
            assert_same(model, other)


def test_files_hold_what_they_are_named_for(saved: Path, saved_items: Path) -> None:
    assert set(contents(saved)) == {"model.json", WEIGHTS, QUERIES}
    assert set(contents(saved_items)) == {"model.json", WEIGHTS, QUERIES, ITEMS}
    note = json.loads((saved / "model.json").read_text())
    assert (note["format"], note["schema_version"]) == ("epiclick model", 1)
    assert note["contexts"][1] == {"name": "position", "type": "int64", "values": [1, 2, 1, 2]}
    for name, stated in note["files"].items():
        content = (saved / name).read_bytes()
        assert stated == {"bytes": len(content), "blake2b": blake2b(content)}
    weights = load((saved / WEIGHTS).read_bytes())
    assert_identical(weights["relevance.1.weight"], with_features().parameters.layers[1][0])
    packed = load((saved_items / QUERIES).read_bytes())
    assert packed["train.bytes"].tobytes().decode() == "hatshéllo日本"
    assert packed["train.offsets"].tolist() == [0, 0, 4, 10, 16]
    assert packed["held_out.offsets"].tolist() == [0]


def test_slices_and_transposes_are_stored_as_they_read(tmp_path: Path) -> None:
    model = without_features()
    every_second = np.arange(6.0)[::2]
    (weight, bias) = init_mlp(np.random.default_rng(0), (2, 3))[0]
    layers = ((weight.T, bias[:2]),)  # (3, 2) in Fortran order
    model = replace(
        model,
        parameters=Parameters(layers, PointLookup(every_second)),
        features=with_features().features,
        queries=QuerySets(
            text("skipped", "hats", "héllo", "after")[1:3], text("some", "none")[1:1]
        ),
    )
    save_model(model, tmp_path / "m")
    assert_same(load_model(tmp_path / "m"), model)


def test_short_text_ids_come_back_with_long_offsets(tmp_path: Path) -> None:
    model = replace(with_features(), queries=QuerySets(pa.array(["a", "b"]), pa.array([], "str")))
    save_model(model, tmp_path / "m")
    queries = load_model(tmp_path / "m").queries
    assert queries.train.equals(text("a", "b"))
    assert queries.held_out.equals(text())


@pytest.mark.parametrize(
    "values",
    [
        pa.array([0.1, 1 / 3, 5e-324, -0.0]),
        pa.array([float("inf"), float("-inf"), 1e308, None]),
        pa.array([True, False, None, True]),
        pa.array(["a", "", "é", "\x00"]),
        pa.array([datetime.date(2026, 1, d) for d in (1, 2, 3, 4)]),
        pa.array([1, 2, 3, 4], pa.timestamp("ns")),
        pa.array([1, 2, 3, 4], pa.timestamp("us", tz="Europe/Berlin")),
        pa.array([Decimal("1.20"), None, Decimal("-3.00"), Decimal("0.01")], pa.decimal128(9, 2)),
    ],
    ids=lambda values: str(values.type),
)
def test_contexts_of_any_plain_type_survive(values: pa.Array, tmp_path: Path) -> None:
    model = replace(with_features(), contexts=pa.table({"context": values}))
    save_model(model, tmp_path / "m")
    assert_same(load_model(tmp_path / "m"), model)


def test_a_context_that_is_not_a_number_survives(tmp_path: Path) -> None:
    values = pa.array([float("nan"), 1.0, 2.0, 3.0])
    save_model(replace(with_features(), contexts=pa.table({"c": values})), tmp_path / "m")
    loaded = load_model(tmp_path / "m").contexts["c"].to_numpy()
    np.testing.assert_array_equal(loaded, [np.nan, 1, 2, 3])


def test_numbers_that_json_does_not_have(tmp_path: Path) -> None:
    rows = history([float("nan"), float("inf"), -0.0, float("-inf")])
    training = replace(
        with_features().training, history=rows, log_likelihood=float("-inf"), seconds=float("nan")
    )
    checks = {"ratio": np.float64("nan"), "sizes": np.arange(2), "day": datetime.date(2026, 1, 2)}
    save_model(replace(with_features(), training=replace(training, checks=checks)), tmp_path / "m")
    refuse = lambda constant: pytest.fail(f"{constant} is not JSON")  # noqa: E731
    json.loads((tmp_path / "m" / "model.json").read_text(), parse_constant=refuse)
    loaded = load_model(tmp_path / "m").training
    assert loaded.log_likelihood == float("-inf")
    assert np.isnan(loaded.seconds)
    pd.testing.assert_frame_equal(loaded.history, rows, check_exact=True)
    assert loaded.checks == {"ratio": None, "sizes": [0, 1], "day": "2026-01-02"}


def test_loading_needs_nothing_heavy(saved_items: Path) -> None:
    code = (
        "import sys, time; began = time.perf_counter()\n"
        "from epiclick.models.storage import load_model\n"
        "load_model(sys.argv[1])\n"
        "print(time.perf_counter() - began)\n"
        "print([m for m in ('jax', 'sklearn', 'duckdb', 'ibis', 'scipy') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(saved_items)], check=True, capture_output=True, text=True
    )
    seconds, heavy = done.stdout.splitlines()
    print(f"import and load: {float(seconds):.2f} s")
    assert heavy == "[]"
    assert float(seconds) < 3  # measured: 0.5 to 1 s


# Where it is written


def test_a_model_or_an_empty_folder_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    save_model(without_features(), folder)
    save_model(with_features(), folder)
    assert set(contents(folder)) == {"model.json", WEIGHTS, QUERIES}
    assert_same(load_model(folder), with_features())
    forge(folder, lambda note: note.update(schema_version=2))
    save_model(pointwise(), folder)
    assert_same(load_model(folder), pointwise())
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize(
    "content", ["precious", "[]", '{"format": "keras"}', '{"format": "epiclick model"', "[" * 9999]
)
def test_nothing_else_is_replaced(content: str, tmp_path: Path) -> None:
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "model.json").write_text(content)
    for place in (folder, folder / "model.json"):
        for write in (check_replaceable, lambda place: save_model(with_features(), place)):
            with pytest.raises(InputError, match=r"is not replaced\. Name a new folder"):
                write(place)
    assert contents(folder) == {"model.json": content.encode()}
    assert os.listdir(tmp_path) == ["thesis"]


def test_the_folder_behind_a_link_is_replaced(tmp_path: Path) -> None:
    save_model(with_features(), tmp_path / "v1")
    (tmp_path / "latest").symlink_to("v1")
    save_model(pointwise(), tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink()
    assert_same(load_model(tmp_path / "v1"), pointwise())
    assert sorted(os.listdir(tmp_path)) == ["latest", "v1"]


@pytest.mark.parametrize("name", ["model.json", WEIGHTS])
@pytest.mark.parametrize(
    ("code", "said"),
    [(errno.ENOSPC, "disk is full. Free some space"), (errno.EACCES, "Permission denied. Name")],
)
@pytest.mark.parametrize("exists", [False, True])
def test_a_full_disk_leaves_all_as_it_was(
    name: str, code: int, said: str, exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    if exists:
        save_model(pointwise(), folder)
    before = contents(folder) if exists else None
    write = Path.write_bytes

    def fail(path: Path, content: bytes) -> int:
        if path.name != name:
            return write(path, content)
        write(path, content[:10])
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(InputError, match=said) as caught:
        save_model(with_features(), folder)
    assert str(folder) in str(caught.value)
    assert os.listdir(tmp_path) == (["model"] if exists else [])
    assert (contents(folder) if exists else None) == before


def test_an_interrupted_save_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(path: Path, content: bytes) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_model(with_features(), tmp_path / "model")
    assert not os.listdir(tmp_path)


def test_a_place_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    for place in (tmp_path / "file" / "model", tmp_path / ("x" * 300)):
        with pytest.raises(InputError, match=r"cannot be written to .*another folder"):
            save_model(with_features(), place)
    assert contents(tmp_path) == {"file": b"kept"}


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        save_model(without_features(), tmp_path / "model")
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "model").iterdir()}
    assert modes == {0o640}
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o750


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"anchor": 4}, "anchor is context 4, but there are 4"),
        ({"kind": "UBM"}, "'UBM' is not a kind of model"),
        ({"settings": {"epochs": float("nan")}}, "settings.epochs is nan"),
        ({"settings": {"seed": object()}}, "settings.seed is <object"),
        ({"queries": QuerySets(pa.array([1.5]), pa.array([2]))}, "queries.train is double"),
        ({"queries": QuerySets(pa.array([1]), pa.array([2, None]))}, "held_out lacks ids: 1 value"),
        (
            {"contexts": pa.table({"c": [b"\xff"] * 4})},
            "context column c of type binary.*into text",
        ),
        (
            {"contexts": pa.table({"c": [datetime.time(1)] * 4})},
            "context column c of type time64.*into text",
        ),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said):
        save_model(replace(with_features(), **change), tmp_path / "m")
    assert not os.listdir(tmp_path)


def test_weights_that_are_not_numbers_are_not_saved(tmp_path: Path) -> None:
    lookup = BetaLookup(np.array([0.0, np.nan, np.inf, 1.0]), np.ones(4, int))
    model = replace(with_features(), parameters=Parameters(with_features().parameters[0], lookup))
    with pytest.raises(InputError, match="the fitted model cannot be used") as caught:
        save_model(model, tmp_path / "m")
    assert "position.mean_logit must be finite numbers: 2 values" in str(caught.value)
    assert "position.confidence is int64" in str(caught.value)
    assert not os.listdir(tmp_path)


# What is no model


def assert_refused(path: Path, said: str, remedy: str = "Copy the whole folder again") -> None:
    with pytest.raises(InputError, match=said) as caught:
        load_model(path)
    assert str(path) in str(caught.value)
    assert remedy in str(caught.value)


def test_what_is_not_a_model_is_said(tmp_path: Path, saved: Path) -> None:
    give = "Give the folder that"
    assert_refused(tmp_path / "nothing", "there is no model", give)
    assert_refused(saved / "model.json", "is a file, and a model is a folder", give)
    assert_refused(tmp_path, r"is not a model: it has no model\.json", give)
    for content in ('{"schema_version": 1}', "[1]", "null", '{"format": ["epiclick model"]}'):
        (saved / "model.json").write_text(content)
        assert_refused(saved, "is not a model of epiclick", give)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"{}\x00",
        b'{"format": NaN}',
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"a":' * 500 + b"1" + b"}" * 500 + b"]",
        b"1" * 5_000,
    ],
    ids=lambda content: content[:8].hex(),
)
def test_a_damaged_note_is_said(content: bytes, saved: Path) -> None:
    (saved / "model.json").write_bytes(content)
    assert_refused(saved, r"model\.json is damaged")


def test_a_note_changed_by_hand_is_said(saved: Path) -> None:
    note = json.loads((saved / "model.json").read_text())
    note["features"]["scaler"]["mean"][0] += 1e-9
    (saved / "model.json").write_text(json.dumps(note))
    assert_refused(saved, r"model\.json is damaged: it is not as it was written")


def test_a_later_version_asks_for_an_upgrade(saved: Path) -> None:
    forge(saved, lambda note: note.update(schema_version=2, epiclick_version="9.1", kind=None))
    said = "written by epiclick 9.1, with model version 2; this epiclick reads up to 1: upgrade"
    assert_refused(saved, said, "upgrade")


@pytest.mark.parametrize("version", [0, -1, True, 1.0, "1", None])
def test_a_version_that_never_was_is_said(version: Any, saved: Path) -> None:
    forge(saved, put("schema_version", value=version))
    assert_refused(saved, "there is no model version|'schema_version' is of the wrong type")


def test_keys_of_later_minor_versions_are_ignored(saved: Path) -> None:
    def extend(note: dict[str, Any]) -> None:
        for part in (note, note["features"], note["options"], note["training"]):
            part["novelty"] = {"of": ["a later release"]}
        note["contexts"][0]["novelty"] = 1
        note["training"]["history"][0]["novelty"] = 1

    forge(saved, extend)
    assert_same(load_model(saved), with_features())


def test_spacing_and_order_of_the_note_do_not_matter(saved: Path) -> None:
    note = json.loads((saved / "model.json").read_text())
    (saved / "model.json").write_text(json.dumps(dict(reversed(note.items())), indent=7))
    assert_same(load_model(saved), with_features())


@pytest.mark.parametrize("name", [WEIGHTS, QUERIES, ITEMS])
def test_a_lost_or_changed_file_is_said(name: str, saved_items: Path) -> None:
    file = saved_items / name
    content = file.read_bytes()
    file.write_bytes(content[:-3])
    assert_refused(saved_items, f"{name} is damaged: it has .* bytes instead of {len(content):,}")
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert_refused(saved_items, f"{name} is damaged: it is not as it was written")
    file.unlink()
    assert_refused(saved_items, f"lacks the file {name}")
    file.mkdir()
    assert_refused(saved_items, f"lacks the file {name}")


@pytest.mark.parametrize(
    ("error", "said"),
    [(PermissionError(errno.EACCES, "Permission denied"), "Permission"), (MemoryError(), "memory")],
)
def test_a_file_that_cannot_be_read_is_said(
    error: Exception, said: str, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bytes:
        raise error

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert_refused(saved, f"cannot be read .*{said}", "Check its path, permissions and size")


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "..\\x", "items.safetensors/../x"])
def test_no_other_file_is_opened(name: str, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (saved.parent / "secret").write_bytes(b"precious")
    forge(saved, lambda note: note["files"].update({name: note["files"][WEIGHTS]}))
    opened: list[Path] = []
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: opened.append(path) or read(path))
    assert_refused(saved, "it lists the files")
    assert opened == [saved / "model.json"]


@pytest.mark.parametrize("files", [{}, [], {WEIGHTS: {}}, {WEIGHTS: 1, QUERIES: 2}, None])
def test_a_wrong_list_of_files_is_said(files: Any, saved: Path) -> None:
    forge(saved, lambda note: note.update(files=files))
    assert_refused(saved, r"model\.json is damaged")


# What does not fit together


def put(*keys: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(note: dict[str, Any]) -> None:
        part: Any = note
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("anchor", value=4), "anchor is context 4, but there are 4"),
        (put("anchor", value=-1), "anchor is context -1"),
        (put("anchor", value=True), "'anchor' is of the wrong type"),
        (put("kind", value="UBM"), "'UBM' is not a kind of model.*Upgrade epiclick"),
        (put("kind", value="PointwisePBM"), "network has 2 outputs, but PointwisePBM needs 1"),
        (put("settings", value=[]), "'settings' is of the wrong type"),
        (put("features", value=None), "layer 0 takes 3 inputs, but is given 0"),
        (put("features", "names", value=["a"]), "scaler is of 3 features, but 1 have names"),
        (put("features", "names", value=[1, 2, 3]), "'names' must be texts"),
        (put("features", "scaler", "scale", value=[1, 0, 1]), "as many positive scales as means"),
        (put("features", "scaler", "scale", value=[1, 1]), "as many positive scales as means"),
        (put("features", "scaler", "scale", value=[1, 1, float("inf")]), "Infinity is not JSON"),
        (put("features", "scaler", "mean", value=[1, None, 1]), "finite means"),
        (put("features", "scaler", "mean", value=[[1, 2, 3]]), "as many positive scales"),
        (put("features", "scaler", "mean", value="abc"), "could not convert"),
        (put("features", "scaler", value={}), "KeyError: 'mean'"),
        (put("contexts", value=[]), "there are 0 contexts"),
        (put("contexts", 1, "values", value=[1, 2, 1]), "expected length 4 but got length 3"),
        (put("contexts", 1, "values", 0, value="x"), "damaged"),
        (put("contexts", 1, "values", 0, value=2**70), "damaged"),
        (put("contexts", 0, "values", 0, value="\ud800"), "damaged"),
        (put("contexts", 1, "type", value="module"), "No type alias for module"),
        (put("contexts", 1, "type", value="decimal128(99, 2)"), "precision"),
        (put("contexts", 1, "type", value="date32[day]"), "damaged"),
        (put("contexts", 0, "type", value="timestamp[us, tz=Nowhere]"), "damaged"),
        (put("contexts", 1, "name", value="device"), "the same name"),
        (put("contexts", 1, value=3), "damaged"),
        (put("options", "position_base", value=5), "position_base: must be 0 or 1"),
        (put("options", "columns", value=3), "damaged"),
        (put("options", "context", value=[[]]), "damaged"),
        (put("options", "columns", value={"colour": "c"}), "'colour' is not one of"),
        (put("options", "context", value="position"), "'context' is of the wrong type"),
        (put("options", "max_bad", value="x"), "TypeError"),
        (put("options", value={}), "'columns' is missing"),
        (put("training", "pairs", value=1.5), "'pairs' is of the wrong type"),
        (put("training", "seconds", value="soon"), "a number is of the wrong type"),
        (put("training", "warnings", value=[None]), "'warnings' must be texts"),
        (put("training", "checks", value=None), "'checks' is of the wrong type"),
        (put("training", "history", value=[{}]), "KeyError: 'epoch'"),
        (put("training", "history", 0, value=3), "damaged"),
        (put("training", "history", 0, "epoch", value=0.5), "damaged"),
        (put("training", "history_types", "epoch", value="M8[ns]"), "damaged"),
        (put("training", "history_types", "epoch", value=[]), "damaged"),
        (lambda note: note["training"].update(history=[], history_types={"a": []}), "TypeError"),
        (lambda note: note["training"].update(history=[], history_types={"a": "O"}), "KeyError"),
        (lambda note: note.pop("training"), "'training' is missing"),
        (lambda note: note["training"].pop("displays"), "'displays' is missing"),
    ],
)
def test_a_note_that_makes_no_sense_is_said(
    change: Callable[[dict[str, Any]], None], said: str, saved: Path
) -> None:
    forge(saved, change)
    assert_refused(saved, said)


F32 = np.float32


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"relevance__1__weight": None}, "KeyError: 'relevance.1.weight'"),
        ({"relevance__1__weight": None, "relevance__1__bias": None}, "'relevance.1.weight'"),
        ({"relevance__2__weight": None, "relevance__2__bias": None}, "network has 4 outputs"),
        ({"position__confidence": None}, "KeyError: 'position.confidence'"),
        ({"position__logit": np.zeros(4)}, "it holds the arrays"),
        ({"extra": np.zeros(4)}, "it holds the arrays"),
        ({"relevance__1__weight": np.zeros((6, 4), F32)}, "layer 1 takes 6 inputs, but is given 5"),
        ({"relevance__0__weight": np.zeros((2, 5), F32)}, "layer 0 takes 2 inputs, but is given 3"),
        ({"relevance__1__bias": np.zeros(5, F32)}, "layer 1 has weights of shape"),
        ({"relevance__1__weight": np.zeros(4, F32)}, "layer 1 has weights of shape"),
        ({"relevance__1__weight": np.array(1, F32)}, "layer 1 has weights of shape"),
        ({"relevance__2__bias": np.zeros(2, int)}, "relevance.2.bias is int64, not float32"),
        ({"relevance__2__bias": np.zeros(2, np.float16)}, "relevance.2.bias is float16"),
        ({"relevance__2__bias": np.array([np.nan, 1], F32)}, "finite numbers: 1 value"),
        ({"position__mean_logit": np.array([1, 2, np.inf, 4.0])}, "finite numbers: 1 value"),
        ({"position__mean_logit": np.zeros(5)}, r"has shape \(5,\), but there are 4 contexts"),
        ({"position__confidence": np.zeros((4, 1))}, r"has shape \(4, 1\)"),
    ],
)
def test_weights_that_do_not_fit_are_said(
    arrays: dict[str, np.ndarray | None], said: str, saved: Path
) -> None:
    forge_arrays(saved, WEIGHTS, **arrays)
    assert_refused(saved, said)


@pytest.mark.parametrize("names", [None, ["a", "b"]], ids=["no_features", "two_features"])
def test_no_weights_at_all_are_said(names: list[str] | None, saved: Path) -> None:
    (saved / WEIGHTS).write_bytes(save({"position.logit": np.zeros(4)}))
    scaler = {"mean": [0, 0], "scale": [1, 1]}
    forge(saved, put("features", value=names and {"names": names, "scaler": scaler}))
    assert_refused(saved, "the network has no layers")


def test_a_pointwise_model_has_no_betas(tmp_path: Path) -> None:
    layers = pointwise().parameters.layers
    model = replace(pointwise(), parameters=Parameters(layers, with_features().parameters[1]))
    with pytest.raises(InputError, match="PointwisePBM has no BetaLookup"):
        save_model(model, tmp_path / "m")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"train__bytes": None}, "KeyError: 'train.bytes'"),
        ({"held_out__offsets": None}, "KeyError: 'held_out.offsets'"),
        ({"train": np.arange(3)}, "unknown arrays train.bytes, train.offsets"),
        ({"train": np.arange(3.0)}, "train is float64"),
        ({"train": np.zeros((2, 2), int)}, r"train is int64 of shape \(2, 2\)"),
        ({"train__bytes": np.zeros(16, np.int8)}, "train.bytes is int8"),
        ({"train__bytes": np.full(16, 255, np.uint8)}, "(?i)utf"),
        ({"train__offsets": np.zeros(0, int)}, "offsets do not divide"),
        ({"train__offsets": np.array([0, 4, 99])}, "offsets do not divide"),
        ({"train__offsets": np.array([0, 2**62, 16])}, "offsets do not divide"),
        ({"train__offsets": np.array([0, 8, 4, 16])}, "offsets do not divide"),
        ({"train__offsets": np.array([-4, 8, 16])}, "offsets do not divide"),
        ({"train__offsets": np.array([0, 16], np.int32)}, "train.offsets is int32"),
        ({"train__offsets": np.array([0, 5, 16])[None]}, "train.offsets is int64 of shape"),
        ({"train__offsets": np.array([0, 6, 16])}, "(?i)utf"),  # through the middle of an é
    ],
)
def test_queries_that_are_none_are_said(
    arrays: dict[str, np.ndarray | None], said: str, saved_items: Path
) -> None:
    forge_arrays(saved_items, QUERIES, **arrays)
    assert_refused(saved_items, said)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"alpha": np.array([1.0, 0.0, -1.0])}, "items.alpha must be positive: 2 values"),
        ({"beta": np.array([1.0, np.nan, 1.0])}, "items.beta must be finite numbers: 1 value"),
        ({"beta": np.ones(3, int)}, "items.beta is int64"),
        ({"low": np.full(3, 0.2)}, "items.low must not exceed items.high: 1 value"),
        ({"high": np.ones(2)}, r"items.high has shape \(2,\), but there are 3 pairs"),
        ({"doc_id__bytes": None, "doc_id__offsets": None, "doc_id": np.arange(2)}, "items.doc_id"),
        ({"high": None}, "KeyError: 'high'"),
        ({"mean": np.ones(3)}, "unknown arrays mean"),
    ],
)
def test_items_that_do_not_fit_are_said(
    arrays: dict[str, np.ndarray | None], said: str, saved_items: Path
) -> None:
    forge_arrays(saved_items, ITEMS, **arrays)
    assert_refused(saved_items, said)


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
@pytest.mark.parametrize("name", [WEIGHTS, QUERIES, ITEMS])
def test_hostile_arrays_do_no_harm(name: str, content: bytes, saved_items: Path) -> None:
    (saved_items / name).write_bytes(content)
    forge(saved_items)
    assert_refused(saved_items, f"{name} is damaged")


# Damage at random


def damage(content: bytes, rng: np.random.Generator) -> bytes:
    """Flip bits of a byte, replace a byte, cut the end, take out or repeat a piece."""
    at, length = int(rng.integers(len(content))), int(rng.integers(1, 9))
    piece = content[at : at + length]
    ways = (
        content[:at] + bytes([content[at] ^ (1 << int(rng.integers(8)))]) + content[at + 1 :],
        content[:at] + rng.bytes(1) + content[at + 1 :],
        content[:at],
        content[:at] + content[at + length :],
        content[:at] + piece + content[at:],
    )
    return ways[int(rng.integers(len(ways)))]


@pytest.mark.parametrize("name", ["model.json", WEIGHTS, QUERIES, ITEMS])
def test_random_damage_is_found(name: str, saved_items: Path) -> None:
    rng = np.random.default_rng(0)
    content = (saved_items / name).read_bytes()
    refused = 0
    for _ in range(250):
        (saved_items / name).write_bytes(damage(content, rng))
        try:
            assert_same(load_model(saved_items), without_features())
        except InputError:
            refused += 1
    # some damage to the note is to its blanks only
    assert refused > (150 if name == "model.json" else 240)


@pytest.mark.parametrize("name", [WEIGHTS, QUERIES, ITEMS])
def test_random_damage_that_is_vouched_for_does_no_harm(name: str, saved_items: Path) -> None:
    rng = np.random.default_rng(1)
    content = (saved_items / name).read_bytes()
    refused = 0
    for _ in range(150):
        # aimed at the header, where the structure is
        start = int.from_bytes(content[:8], "little") + 8
        changed = damage(content[:start], rng) + content[start:]
        (saved_items / name).write_bytes(changed)
        forge(saved_items)
        try:
            load_model(saved_items)
        except InputError:
            refused += 1
    assert refused > 100


def test_random_notes_that_are_vouched_for_do_no_harm(saved_items: Path) -> None:
    rng = np.random.default_rng(2)
    note = json.loads((saved_items / "model.json").read_text())
    odd = [None, True, -1, 2**70, 1.5, "", "x", "\ud800", [], {}, [None], [[1]], {"a": {}}, 1e308]

    def places(part: Any) -> list[tuple[Any, Any]]:
        keys = (
            part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else []
        )
        return [(part, key) for key in keys] + [p for key in keys for p in places(part[key])]

    refused = 0
    for _ in range(250):
        forged = json.loads(json.dumps(note))
        where = places(forged)
        part, key = where[int(rng.integers(len(where)))]
        part[key] = odd[int(rng.integers(len(odd)))]
        sign(saved_items, forged)
        try:
            load_model(saved_items)
        except InputError:
            refused += 1
    assert refused > 100
