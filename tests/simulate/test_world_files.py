import json
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from epiclick.data.features import FeatureTable
from epiclick.simulate import world_files
from epiclick.simulate.world import World, simulate

from ..raising import raises_code

FILES = {"clicks.parquet", "features.parquet", "relevance.parquet", "truth.json"}


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def assert_same(first, second):
    assert first.settings == second.settings
    assert first.log.equals(second.log)
    assert first.features.names == second.features.names
    assert first.features.keys.equals(second.features.keys)
    np.testing.assert_array_equal(first.features.matrix, second.features.matrix)
    np.testing.assert_array_equal(first.relevance, second.relevance)
    np.testing.assert_array_equal(first.position_bias, second.position_bias)
    np.testing.assert_array_equal(first.click_if_first, second.click_if_first)


def test_world_survives_saving(small_world, tmp_path, monkeypatch):
    monkeypatch.setattr(world_files, "ROW_GROUP", 100)  # several, the last one short
    small_world.save(tmp_path / "w")
    loaded = World.load(str(tmp_path / "w"))
    assert_same(loaded, small_world)
    assert loaded.prior is None
    assert pq.ParquetFile(tmp_path / "w" / "features.parquet").num_row_groups == 7


def test_beta_world_keeps_its_prior(small_settings, tmp_path):
    world = simulate(**small_settings, relevance="beta")
    world.save(tmp_path / "w")
    loaded = World.load(tmp_path / "w")
    assert_same(loaded, world)
    np.testing.assert_array_equal(loaded.prior.alpha, world.prior.alpha)
    np.testing.assert_array_equal(loaded.prior.beta, world.prior.beta)


def test_world_without_labels_survives_too(small_world, tmp_path):
    features = small_world.features
    bare = FeatureTable(features.keys.drop_columns("label"), features.names, features.matrix)
    parts = (small_world.relevance, small_world.position_bias, small_world.log)
    world = World(small_world.settings, bare, *parts)
    world.save(tmp_path / "w")
    assert_same(World.load(tmp_path / "w"), world)


def test_files_hold_what_the_design_says(small_world, tmp_path):
    small_world.save(tmp_path / "new" / "w")
    folder = tmp_path / "new" / "w"
    assert {file.name for file in folder.iterdir()} == FILES
    features = pq.read_schema(folder / "features.parquet").names
    assert features == ["query_id", "doc_id", "split", *(f"f{j}" for j in range(6))]
    truth = pq.read_table(folder / "relevance.parquet")
    assert truth.column_names[:4] == ["query_id", "doc_id", "relevance", "click_if_first"]
    keys = small_world.features.keys
    assert truth.select(["query_id", "doc_id"]).equals(keys.select(["query_id", "doc_id"]))
    np.testing.assert_array_equal(truth["relevance"], small_world.relevance)
    facts = json.loads((folder / "truth.json").read_text())
    assert facts["schema_version"] == 2
    assert facts["position_bias"] == [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]
    assert facts["settings"]["seed"] == 1
    assert (facts["pages"], facts["pairs"], facts["displays"]) == (12_000, 640, 60_000)
    assert facts["clicks"] == sum(small_world.log["click"].to_pylist())
    assert set(facts["files"]) == FILES - {"truth.json"}


@pytest.mark.slow
def test_same_seed_same_bytes_in_another_process(small_settings, tmp_path):
    simulate(**small_settings).save(tmp_path / "here")
    code = (
        "import epiclick, json, sys\n"
        "epiclick.simulate(**json.loads(sys.argv[1])).save(sys.argv[2])\n"
    )
    arguments = [json.dumps(small_settings), str(tmp_path / "there")]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    simulate(**{**small_settings, "seed": 2}).save(tmp_path / "other")
    here, other = contents(tmp_path / "here"), contents(tmp_path / "other")
    assert all(here[name] != other[name] for name in FILES)


@pytest.mark.slow
def test_loading_does_without_jax(small_world, tmp_path):
    small_world.save(tmp_path / "w")
    code = "import epiclick, sys; epiclick.World.load(sys.argv[1]); print('jax' in sys.modules)"
    command = [sys.executable, "-c", code, str(tmp_path / "w")]
    assert subprocess.run(command, check=True, capture_output=True).stdout.strip() == b"False"


def test_interrupted_save_leaves_nothing(small_world, tmp_path, monkeypatch):
    def interrupted(features, path):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(world_files, "_write_features", interrupted)
    with pytest.raises(KeyboardInterrupt):
        small_world.save(tmp_path / "w")
    assert not list(tmp_path.iterdir())


def test_interrupted_save_keeps_the_old_world(small_world, tmp_path, monkeypatch):
    small_world.save(tmp_path / "w")
    before = contents(tmp_path / "w")

    def interrupted(world):
        raise KeyboardInterrupt

    monkeypatch.setattr(world_files, "_truth", interrupted)
    with pytest.raises(KeyboardInterrupt):
        small_world.save(tmp_path / "w")
    assert contents(tmp_path / "w") == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["w"]


def test_replaces_a_world_or_an_empty_folder(small_world, small_settings, tmp_path):
    folder = tmp_path / "w"
    folder.mkdir()
    simulate(**{**small_settings, "pages": 10}).save(folder)
    small_world.save(folder)
    assert {file.name for file in folder.iterdir()} == FILES
    assert World.load(folder).pages == 12_000
    assert [entry.name for entry in tmp_path.iterdir()] == ["w"]


def test_foreign_files_in_a_world_stay(small_world, tmp_path):
    folder = tmp_path / "w"
    small_world.save(folder)
    (folder / "thesis.tex").write_text("precious")
    before = contents(folder)
    with raises_code("foreign-files") as caught:
        small_world.save(folder)
    assert "thesis.tex" in str(caught.value)
    assert contents(folder) == before


def test_a_world_that_was_edited_stays(small_world, tmp_path):
    folder = tmp_path / "w"
    small_world.save(folder)
    table = pq.read_table(folder / "clicks.parquet").slice(0, 100)
    pq.write_table(table, folder / "clicks.parquet")
    before = contents(folder)
    with raises_code("changed-files") as caught:
        small_world.save(folder)
    assert "clicks.parquet" in str(caught.value)
    assert contents(folder) == before


def test_replaces_nothing_else(small_world, tmp_path):
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter1.txt").write_text("precious")
    with raises_code("foreign-folder"):
        small_world.save(folder)
    with raises_code("foreign-folder"):
        small_world.save(folder / "chapter1.txt")
    assert contents(folder) == {"chapter1.txt": b"precious"}


def test_says_what_is_not_a_world(small_world, tmp_path):
    with raises_code("not-a-world") as caught:
        World.load(tmp_path)
    assert "truth.json" in str(caught.value)
    small_world.save(tmp_path / "w")
    truth = tmp_path / "w" / "truth.json"
    truth.write_text(truth.read_text().replace('"schema_version": 2', '"schema_version": 9'))
    with raises_code("unsupported-version") as caught:
        World.load(tmp_path / "w")
    assert "version 9" in str(caught.value)
