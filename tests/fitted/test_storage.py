"""A model survives its folder, which nothing else is lost to."""

import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epiclick.errors import InputError
from epiclick.fitted.parameters import BetaLookup, Parameters
from epiclick.fitted.state import FittedModel, QuerySets
from epiclick.fitted.storage import check_replaceable, load_model, save_model

from ..raising import raises_code
from .conftest import (
    ITEMS,
    MEMBERS,
    POSTERIOR,
    QUERIES,
    WEIGHTS,
    assert_damaged,
    assert_refused,
    assert_same,
    changed,
    contents,
    each_model,
    forge,
    history,
    pointwise,
    put,
    sign,
    with_features,
    with_members,
    with_posterior,
    without_features,
)

pytestmark = pytest.mark.slow


@each_model
def test_a_model_survives_saving(make: Callable[[], FittedModel], tmp_path: Path) -> None:
    save_model(make(), tmp_path / "deep" / "model")
    assert_same(load_model(tmp_path / "deep" / "model"), make())


@each_model
def test_saving_what_was_loaded_gives_the_same_bytes(
    make: Callable[[], FittedModel], tmp_path: Path
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
        replace(model, members=(model.parameters,)),
        replace(model, posterior=with_posterior().posterior),
    ):
        with pytest.raises(AssertionError):
            assert_same(model, other)


def test_loading_needs_nothing_heavy(saved_items: Path) -> None:
    code = (
        "import sys, time; began = time.perf_counter()\n"
        "from epiclick.fitted.storage import load_model\n"
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
    forge(folder, lambda metadata: metadata.update(schema_version=4))
    save_model(pointwise(), folder)
    assert_same(load_model(folder), pointwise())
    assert os.listdir(tmp_path) == ["model"]


SAVES = (check_replaceable, lambda place: save_model(with_features(), place))


@pytest.mark.parametrize(
    "content", ["precious", "[]", '{"format": "keras"}', '{"format": "epiclick model"', "[" * 9999]
)
def test_nothing_else_is_replaced(content: str, tmp_path: Path) -> None:
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "model.json").write_text(content)
    for place in (folder, folder / "model.json"):
        for write in SAVES:
            with pytest.raises(InputError, match=r"is not replaced\. Name a new folder"):
                write(place)
    assert contents(folder) == {"model.json": content.encode()}
    assert os.listdir(tmp_path) == ["thesis"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["thesis.tex"], "but also thesis.tex, "),
        (["model.json.bak", ".git"], "but also .git, model.json.bak, "),
        (["e", "d", "c", "b", "a"], "but also a, b, c and 2 more, "),
        ([ITEMS], f"but also {ITEMS}, "),
    ],
)
def test_what_stands_beside_a_model_is_not_lost(names: list[str], said: str, saved: Path) -> None:
    kept = [saved / name / "kept" if name in (".git", ITEMS) else saved / name for name in names]
    for file in kept:
        file.parent.mkdir(exist_ok=True)
        file.write_text("precious")
    for write in SAVES:
        with raises_code("foreign-files") as error:
            write(saved)
        assert said in str(error.value)
    assert all(file.read_text() == "precious" for file in kept)
    assert_same(load_model(saved), with_features())


def test_the_folder_behind_a_link_is_replaced(tmp_path: Path) -> None:
    save_model(with_features(), tmp_path / "v1")
    (tmp_path / "latest").symlink_to("v1")
    save_model(pointwise(), tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink()
    assert_same(load_model(tmp_path / "v1"), pointwise())
    assert sorted(os.listdir(tmp_path)) == ["latest", "v1"]


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("model.json", errno.ENOSPC, "disk is full"),
        (WEIGHTS, errno.EACCES, "permission denied"),
    ],
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


def test_an_impossible_path_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    for place in (tmp_path / "file" / "model", tmp_path / ("x" * 300)):
        with pytest.raises(InputError, match=r"cannot be written: .*(place|shorter)"):
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
    ("change", "code", "named"),
    [
        ({"anchor": 4}, "anchor-out-of-range", "It is not saved"),
        ({"settings": {"seed": object()}}, "unsupported-value", "settings.seed is <object"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(
    change: dict[str, Any], code: str, named: str, tmp_path: Path
) -> None:
    with raises_code(code) as caught:
        save_model(replace(with_features(), **change), tmp_path / "m")
    assert named in str(caught.value)
    assert not os.listdir(tmp_path)


# What is read


@pytest.mark.parametrize(
    ("error", "said"),
    [(PermissionError(errno.EACCES, "Permission denied"), "Permission"), (MemoryError(), "memory")],
)
def test_a_file_that_cannot_be_read_is_reported(
    error: Exception, said: str, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bytes:
        raise error

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(InputError, match=said) as caught:
        load_model(saved)
    for part in (str(saved), "Check its path, permissions and size"):
        assert part in str(caught.value)


def test_the_damaged_part_is_named(saved_items: Path) -> None:
    for name in (WEIGHTS, QUERIES, ITEMS):
        content = (saved_items / name).read_bytes()
        (saved_items / name).write_bytes(changed(content, {"extra": np.zeros(1)}))
        forge(saved_items)
        assert_damaged(saved_items, name, "arrays extra")
        (saved_items / name).write_bytes(content)
    forge(saved_items, put("kind", value=3))
    assert_damaged(saved_items, "model.json", "'kind'")


def test_a_posterior_missing_from_the_metadata_is_reported(saved_members: Path) -> None:
    forge(saved_members, put("posterior", value=None))
    assert_damaged(saved_members, "model.json", "'posterior'")


@pytest.mark.parametrize("name", [POSTERIOR, MEMBERS])
def test_damage_to_its_uncertainty_is_found(name: str, saved_members: Path) -> None:
    rng = np.random.default_rng(3)
    content = (saved_members / name).read_bytes()
    start = int.from_bytes(content[:8], "little") + 8
    for _ in range(100):
        # first at random, then with valid checksums and aimed at the header
        (saved_members / name).write_bytes(damage(content, rng))
        try:
            assert_same(load_model(saved_members), with_members())
        except InputError as error:
            assert name in str(error)  # noqa: PT017
        (saved_members / name).write_bytes(damage(content[:start], rng) + content[start:])
        forge(saved_members)
        with suppress(InputError):
            load_model(saved_members)
        (saved_members / name).write_bytes(content)
        forge(saved_members)
    assert_same(load_model(saved_members), with_members())


def test_inconsistent_parts_are_reported(saved_items: Path) -> None:
    forge(saved_items, put("anchor", value=3))
    assert_refused(saved_items, "anchor-out-of-range", "context 3")


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
    # some damage to the metadata is to its blanks only
    assert refused > (150 if name == "model.json" else 240)


@pytest.mark.parametrize("name", [WEIGHTS, QUERIES, ITEMS])
def test_random_damage_with_valid_checksums_does_no_harm(name: str, saved_items: Path) -> None:
    rng = np.random.default_rng(1)
    content = (saved_items / name).read_bytes()
    # aimed at the header, where the structure is
    start = int.from_bytes(content[:8], "little") + 8
    refused = 0
    for _ in range(150):
        (saved_items / name).write_bytes(damage(content[:start], rng) + content[start:])
        forge(saved_items)
        try:
            load_model(saved_items)
        except InputError:
            refused += 1
    assert refused > 100


def test_random_metadata_with_valid_checksums_do_no_harm(saved_items: Path) -> None:
    rng = np.random.default_rng(2)
    metadata = json.loads((saved_items / "model.json").read_text())
    odd = [None, True, -1, 2**70, 1.5, "", "x", "\ud800", [], {}, [None], [[1]], {"a": {}}, 1e308]

    def places(part: Any) -> list[tuple[Any, Any]]:
        keys = (
            part if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else []
        )
        return [(part, key) for key in keys] + [p for key in keys for p in places(part[key])]

    refused = 0
    for _ in range(250):
        forged = json.loads(json.dumps(metadata))
        where = places(forged)
        part, key = where[int(rng.integers(len(where)))]
        part[key] = odd[int(rng.integers(len(odd)))]
        sign(saved_items, forged)
        try:
            load_model(saved_items)
        except InputError:
            refused += 1
    assert refused > 100
