"""model.json vouches for a model, and what it does not vouch for is told from one."""

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


def test_the_note_tells_of_the_files_beside_it(
    saved: Path, saved_items: Path, saved_posterior: Path, saved_members: Path
) -> None:
    assert set(contents(saved)) == {"model.json", WEIGHTS, QUERIES}
    assert set(contents(saved_items)) == {"model.json", WEIGHTS, QUERIES, ITEMS}
    assert set(contents(saved_posterior)) == {"model.json", WEIGHTS, QUERIES, POSTERIOR}
    assert set(contents(saved_members)) == {*contents(saved_items), POSTERIOR, MEMBERS}
    for folder in (saved, saved_items, saved_posterior, saved_members):
        note = json.loads((folder / "model.json").read_text())
        assert (note["format"], note["schema_version"]) == ("epiclick model", 3)
        assert {"model.json", *note["files"]} == set(contents(folder))
        for name, stated in note["files"].items():
            content = (folder / name).read_bytes()
            assert stated == {"bytes": len(content), "blake2b": blake2b(content)}


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


def test_spacing_and_order_of_the_note_do_not_matter(saved: Path) -> None:
    note = json.loads((saved / "model.json").read_text())
    (saved / "model.json").write_text(json.dumps(dict(reversed(note.items())), indent=7))
    assert_same(load_model(saved), with_features())


def test_a_later_version_asks_for_an_upgrade(saved: Path) -> None:
    forge(saved, lambda note: note.update(schema_version=4, epiclick_version="9.1", kind=None))
    said = "written by epiclick 9.1, with model version 4; this epiclick reads up to 3: upgrade"
    assert_refused(saved, said, "upgrade")


def first(note: dict[str, Any]) -> None:
    """Make a note of version 1."""
    note.update(schema_version=1)
    for name in ("posterior", "click_model", "head"):
        del note[name]


def test_the_first_version_is_read_still(saved: Path, tmp_path: Path) -> None:
    forge(saved, first)
    assert_same(load_model(saved), with_features())
    save_model(pointwise(), tmp_path / "pointwise")
    forge(tmp_path / "pointwise", first)
    assert_same(load_model(tmp_path / "pointwise"), pointwise())


def test_a_first_version_that_means_something_else_today_is_refused(saved_items: Path) -> None:
    """Where position bias is a point, confidence of relevance is another function since."""
    forge(saved_items, first)
    said = "model version 1, in which confidence of relevance was another function"
    assert_refused(saved_items, said, "Fit and save it again")


@pytest.mark.parametrize("version", [0, -1, True, 1.0, "1", None])
def test_a_version_that_never_was_is_said(version: Any, saved: Path) -> None:
    forge(saved, put("schema_version", value=version))
    assert_refused(saved, "there is no model version|'schema_version' is of the wrong type")


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


@pytest.mark.parametrize("name", [POSTERIOR, MEMBERS])
def test_a_lost_or_changed_file_of_how_sure_a_model_is(name: str, saved_members: Path) -> None:
    test_a_lost_or_changed_file_is_said(name, saved_members)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "items.safetensors/../x"])
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
    forge(saved, put("files", value=files))
    assert_refused(saved, r"model\.json is damaged")
