"""A world as a folder: clicks.parquet, features.parquet, relevance.parquet and truth.json."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.beta import Beta
from epiclick.data.checksums import (
    check_file,
    check_record,
    from_json,
    get,
    listed_files,
    reading,
    to_json,
)
from epiclick.data.features import FeatureTable
from epiclick.data.leftovers import bring_back
from epiclick.data.writing import FolderKind, replacing
from epiclick.errors import InputError
from epiclick.simulate.purchases import Purchases
from epiclick.simulate.users import USERS
from epiclick.simulate.world import World
from epiclick.simulate.world_settings import WorldSettings

FORMAT = "epiclick world"
SCHEMA_VERSION = 2
"""Version 1 had no checksums."""

TRUTH = "truth.json"
CLICKS, FEATURES, RELEVANCE = "clicks.parquet", "features.parquet", "relevance.parquet"
WORLD = FolderKind("simulated world", TRUTH, FORMAT)
GIVE = "Give the folder that World.save or `epiclick simulate --out` wrote."
REMEDY = "Copy the whole folder again from where it was written, or simulate the world again."
COMPRESSION = "zstd"  # features take a third less space than without, at hardly any time
ROW_GROUP = 65_536


def save_world(world: World, folder: Path) -> None:
    """Write all files to a temporary folder, which then replaces the folder at once.

    The label is part of the truth, so it is in relevance.parquet; in features.parquet a model could
    learn from it.
    """
    with replacing(folder, WORLD) as aside:
        pq.write_table(world.log, aside / CLICKS, compression=COMPRESSION)
        _write_features(world.features, aside / FEATURES)
        pq.write_table(_truth_table(world), aside / RELEVANCE, compression=COMPRESSION)
        files = listed_files(aside / name for name in (CLICKS, FEATURES, RELEVANCE))
        (aside / TRUTH).write_bytes(to_json({**_truth(world), "files": files}))


def load_world(folder: Path) -> World:
    """Read a saved world into memory; InputError if it is damaged or not a world."""
    bring_back(Path(os.path.realpath(folder)))
    truth = read_truth_file(folder)
    with world_file(folder, truth, CLICKS) as path:
        log = pq.read_table(path, partitioning=None)
    with world_file(folder, truth, RELEVANCE) as path:
        table = pq.read_table(path, partitioning=None)
    with world_file(folder, truth, FEATURES) as path:
        features = _read_features(path)
    with reading(folder / TRUTH, REMEDY):
        if "label" in table.column_names:
            keys = features.keys.append_column("label", table["label"])
            features = FeatureTable(keys, features.names, features.matrix)
        prior = None
        if "alpha" in table.column_names:
            prior = Beta(table["alpha"].to_numpy(), table["beta"].to_numpy())
        return World(
            settings=WorldSettings.from_dict(get(truth, "settings", dict)),
            features=features,
            relevance=table["relevance"].to_numpy(),
            position_bias=position_bias_of(truth),
            log=log,
            prior=prior,
            satisfaction=table["satisfaction"].to_numpy()
            if "satisfaction" in table.column_names
            else None,
            purchases=Purchases(table["conversion"].to_numpy(), table["value"].to_numpy())
            if "conversion" in table.column_names
            else None,
        )


def read_truth_file(folder: Path) -> dict[str, Any]:
    """The validated content of truth.json."""
    path = folder / TRUTH
    if not path.is_file():
        raise InputError(
            f"{folder} is not a simulated world: it has no {TRUTH}. {GIVE}", code="not-a-world"
        )
    with reading(path, REMEDY):
        truth = from_json(path.read_bytes())
        if not isinstance(truth, dict):
            raise ValueError("it is not a JSON object")
        version = get(truth, "schema_version", int)
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{path} has schema version {version}, and this release reads version "
            f"{SCHEMA_VERSION}. Simulate the world again from its settings.",
            code="unsupported-version",
        )
    with reading(path, REMEDY):
        check_record(truth)
        if truth.get("format") != FORMAT:
            raise ValueError("it is not the truth of a simulated world")
    return truth


@contextmanager
def world_file(folder: Path, truth: Mapping[str, Any], name: str) -> Iterator[Path]:
    """Path of a file of a world, checked; errors of reading it in the block say what to do."""
    path = folder / name
    if not path.is_file():
        raise InputError(
            f"the simulated world {folder} lacks the file {name}. {REMEDY}", code="file-missing"
        )
    with reading(path, REMEDY):
        check_file(path, truth)
        yield path


def position_bias_of(truth: Mapping[str, Any]) -> np.ndarray:
    """(positions,) the position bias in truth.json."""
    bias = get(truth, "position_bias", list)
    if not bias or not all(type(value) in (int, float) for value in bias):
        raise ValueError("its position bias is not a list of numbers")
    return np.array(bias, float)


def users_of_world(truth: Mapping[str, Any]) -> str:
    """Name of the users in truth.json."""
    users = get(get(truth, "settings", dict), "users", str)
    if users not in USERS:
        raise ValueError(f"its users are of an unknown kind, {users!r}")
    return users


def _truth(world: World) -> dict[str, Any]:
    """The content of truth.json; the same for every run with the same seed."""
    model = USERS[world.settings.users].click_model
    # without a history or clicks on unattractive items, position bias is all there is
    more = model is not None and (bool(model.history) or model.is_affine)
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "pages": world.pages,
        "pairs": len(world.features),
        "displays": world.log.num_rows,
        "clicks": world.clicks,
        "position_bias": world.position_bias.tolist(),
        **({"examination": world.examination.to_pylist()} if more else {}),
        "settings": world.settings.to_dict(),
    }


def _truth_table(world: World) -> pa.Table:
    """The truth about each pair, in the order of the features."""
    keys = world.features.keys
    table = keys.select(["query_id", "doc_id"])
    table = table.append_column("relevance", pa.array(world.relevance))
    table = table.append_column("click_if_first", pa.array(world.click_if_first))
    if "label" in keys.column_names:
        table = table.append_column("label", keys["label"])
    if world.satisfaction is not None:
        table = table.append_column("satisfaction", pa.array(world.satisfaction))
    if world.purchases is not None:
        table = table.append_column("conversion", pa.array(world.purchases.conversion))
        table = table.append_column("value", pa.array(world.purchases.value))
    if world.prior is not None:
        table = table.append_column("alpha", pa.array(world.prior.alpha))
        table = table.append_column("beta", pa.array(world.prior.beta))
    return table


def _write_features(features: FeatureTable, path: Path) -> None:
    """Keys and a column per feature, by row groups, as the matrix may not fit into memory."""
    keys = features.keys.select([name for name in features.keys.column_names if name != "label"])
    schema = pa.schema([*keys.schema, *((name, pa.float32()) for name in features.names)])
    # Real values rarely repeat; trying to build dictionaries of them would take most of the time.
    options = {"compression": COMPRESSION, "use_dictionary": keys.column_names}
    with pq.ParquetWriter(path, schema, **options) as writer:
        for start in range(0, len(features), ROW_GROUP):
            columns = np.ascontiguousarray(features.matrix[start : start + ROW_GROUP].T)
            part = keys.slice(start, ROW_GROUP)
            writer.write_table(
                pa.Table.from_arrays([*part.columns, *map(pa.array, columns)], schema=schema)
            )


def _read_features(path: Path) -> FeatureTable:
    """The inverse of `_write_features`."""
    with pq.ParquetFile(path) as file:
        names = tuple(f.name for f in file.schema_arrow if f.type == pa.float32())
        matrix = np.empty((file.metadata.num_rows, len(names)), dtype=np.float32)
        keys, start = [], 0
        for group in range(file.num_row_groups):
            part = file.read_row_group(group)
            for column, name in enumerate(names):
                matrix[start : start + len(part), column] = part[name].to_numpy()
            keys.append(part.drop_columns(list(names)))
            start += len(part)
    return FeatureTable(pa.concat_tables(keys), names, matrix)
