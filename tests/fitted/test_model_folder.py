"""model.json has checksums of a model's files; whatever differs from it is rejected."""

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import (
    ITEMS,
    MEMBERS,
    POSTERIOR,
    QUERIES,
    WEIGHTS,
    assert_damaged,
    assert_refused,
    assert_same,
    blake2b,
    contents,
    forge,
    load_model,
    pointwise,
    put,
    save_model,
    with_features,
)


def test_the_metadata_list_all_other_files(
    saved: Path, saved_items: Path, saved_posterior: Path, saved_members: Path
) -> None:
    assert set(contents(saved)) == {"model.json", WEIGHTS, QUERIES}
    assert set(contents(saved_items)) == {"model.json", WEIGHTS, QUERIES, ITEMS}
    assert set(contents(saved_posterior)) == {"model.json", WEIGHTS, QUERIES, POSTERIOR}
    assert set(contents(saved_members)) == {*contents(saved_items), POSTERIOR, MEMBERS}
    for folder in (saved, saved_items, saved_posterior, saved_members):
        metadata = json.loads((folder / "model.json").read_text())
        assert (metadata["format"], metadata["schema_version"]) == ("epiclick model", 3)
        assert {"model.json", *metadata["files"]} == set(contents(folder))
        for name, stated in metadata["files"].items():
            content = (folder / name).read_bytes()
            assert stated == {"bytes": len(content), "blake2b": blake2b(content)}


def test_what_is_not_a_model_is_reported(tmp_path: Path, saved: Path) -> None:
    give = "Give the folder that"
    assert_refused(tmp_path / "nothing", "file-missing", remedy=give)
    assert_refused(saved / "model.json", "not-a-model", "is a file", remedy=give)
    assert_refused(tmp_path, "not-a-model", "no model.json", remedy=give)
    for content in ('{"schema_version": 1}', "[1]", "null", '{"format": ["epiclick model"]}'):
        (saved / "model.json").write_text(content)
        assert_refused(saved, "not-a-model", str(saved / "model.json"), remedy=give)


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
def test_damaged_metadata_are_reported(content: bytes, saved: Path) -> None:
    (saved / "model.json").write_bytes(content)
    assert_damaged(saved, "model.json")


def test_metadata_changed_by_hand_are_reported(saved: Path) -> None:
    metadata = json.loads((saved / "model.json").read_text())
    metadata["features"]["scaler"]["mean"][0] += 1e-9
    (saved / "model.json").write_text(json.dumps(metadata))
    assert_damaged(saved, "model.json")


def test_spacing_and_order_of_the_metadata_do_not_matter(saved: Path) -> None:
    metadata = json.loads((saved / "model.json").read_text())
    (saved / "model.json").write_text(json.dumps(dict(reversed(metadata.items())), indent=7))
    assert_same(load_model(saved), with_features())


def test_a_later_version_asks_for_an_upgrade(saved: Path) -> None:
    forge(
        saved, lambda metadata: metadata.update(schema_version=4, epiclick_version="9.1", kind=None)
    )
    named = ("epiclick 9.1", "version 4", "reads up to 3")
    assert_refused(saved, "unsupported-version", *named, remedy="upgrade")


def first(metadata: dict[str, Any]) -> None:
    """Make metadata of version 1."""
    metadata.update(schema_version=1)
    for name in ("posterior", "click_model", "head"):
        del metadata[name]


def test_the_first_version_is_read_still(saved: Path, tmp_path: Path) -> None:
    forge(saved, first)
    assert_same(load_model(saved), with_features())
    save_model(pointwise(), tmp_path / "pointwise")
    forge(tmp_path / "pointwise", first)
    assert_same(load_model(tmp_path / "pointwise"), pointwise())


def test_a_first_version_that_means_something_else_today_is_refused(saved_items: Path) -> None:
    """Where position bias is a point, confidence of relevance is another function since."""
    forge(saved_items, first)
    remedy = "Fit and save it again"
    assert_refused(saved_items, "unsupported-version", "version 1", remedy=remedy)


@pytest.mark.parametrize("version", [0, -1, True, 1.0, "1", None])
def test_a_version_that_does_not_exist_is_reported(version: Any, saved: Path) -> None:
    forge(saved, put("schema_version", value=version))
    assert_damaged(saved, "model.json", f"(version {version}|'schema_version')")


@pytest.mark.parametrize("name", [WEIGHTS, QUERIES, ITEMS])
def test_a_lost_or_changed_file_is_reported(name: str, saved_items: Path) -> None:
    file = saved_items / name
    content = file.read_bytes()
    file.write_bytes(content[:-3])
    assert_damaged(saved_items, name, f"bytes instead of {len(content):,}")
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert_damaged(saved_items, name)
    file.unlink()
    assert_refused(saved_items, "file-missing", name)
    file.mkdir()
    assert_refused(saved_items, "file-missing", name)


@pytest.mark.parametrize("name", [POSTERIOR, MEMBERS])
def test_a_lost_or_changed_file_of_its_uncertainty(name: str, saved_members: Path) -> None:
    test_a_lost_or_changed_file_is_reported(name, saved_members)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "items.safetensors/../x"])
def test_no_other_file_is_opened(name: str, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (saved.parent / "secret").write_bytes(b"precious")
    forge(saved, lambda metadata: metadata["files"].update({name: metadata["files"][WEIGHTS]}))
    opened: list[Path] = []
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: opened.append(path) or read(path))
    assert_damaged(saved, "model.json", "lists the files")
    assert opened == [saved / "model.json"]


@pytest.mark.parametrize("files", [{}, [], {WEIGHTS: {}}, {WEIGHTS: 1, QUERIES: 2}, None])
def test_a_wrong_list_of_files_is_reported(files: Any, saved: Path) -> None:
    forge(saved, put("files", value=files))
    assert_damaged(saved, "model.json")
