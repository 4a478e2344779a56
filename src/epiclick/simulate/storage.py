"""A world as a folder: clicks.parquet, features.parquet, relevance.parquet and truth.json."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.beta import Beta
from epiclick.data.atomic import folder_aside
from epiclick.data.features import FeatureTable
from epiclick.errors import InputError
from epiclick.simulate.settings import WorldSettings
from epiclick.simulate.world import World

SCHEMA_VERSION = 1
TRUTH = "truth.json"
COMPRESSION = "zstd"  # a third smaller than none on features, and hardly slower
ROW_GROUP = 65_536


def save_world(world: World, folder: Path) -> None:
    """Write all files aside, then let them take the folder's place at once.

    The label stays out of features.parquet, where a model could learn from it: it is part of the
    truth, in relevance.parquet.
    """
    if folder.exists() and not _may_be_replaced(folder):
        raise InputError(
            f"{folder} holds something other than a simulated world and is not replaced. "
            "Name a new folder, or remove this one first."
        )
    with folder_aside(folder) as aside:
        pq.write_table(world.log, aside / "clicks.parquet", compression=COMPRESSION)
        _write_features(world.features, aside / "features.parquet")
        pq.write_table(_truth_table(world), aside / "relevance.parquet", compression=COMPRESSION)
        (aside / TRUTH).write_text(json.dumps(_truth(world), indent=2) + "\n", encoding="utf-8")


def load_world(folder: Path) -> World:
    """Read a saved world back, whole, into memory."""
    if not (folder / TRUTH).is_file():
        raise InputError(
            f"{folder} is not a simulated world: it has no {TRUTH}. "
            "Give the folder that World.save or `epiclick simulate --out` wrote."
        )
    truth = json.loads((folder / TRUTH).read_text(encoding="utf-8"))
    if truth["schema_version"] != SCHEMA_VERSION:
        raise InputError(
            f"{folder / TRUTH} has schema version {truth['schema_version']}, and this release "
            f"reads version {SCHEMA_VERSION}. Simulate the world again from its settings."
        )
    table = pq.read_table(folder / "relevance.parquet")
    features = _read_features(folder / "features.parquet")
    if "label" in table.column_names:
        keys = features.keys.append_column("label", table["label"])
        features = FeatureTable(keys, features.names, features.matrix)
    prior = None
    if "alpha" in table.column_names:
        prior = Beta(table["alpha"].to_numpy(), table["beta"].to_numpy())
    return World(
        settings=WorldSettings.from_dict(truth["settings"]),
        features=features,
        relevance=table["relevance"].to_numpy(),
        position_bias=np.array(truth["position_bias"]),
        log=pq.read_table(folder / "clicks.parquet"),
        prior=prior,
    )


def _may_be_replaced(folder: Path) -> bool:
    """Whether nothing is lost by replacing what stands there: a world, or an empty folder."""
    return folder.is_dir() and ((folder / TRUTH).is_file() or not any(folder.iterdir()))


def _truth(world: World) -> dict[str, Any]:
    """What truth.json says; nothing that differs between two runs of one seed."""
    return {
        "schema_version": SCHEMA_VERSION,
        "pages": world.pages,
        "pairs": len(world.features),
        "displays": world.log.num_rows,
        "clicks": world.clicks,
        "position_bias": world.position_bias.tolist(),
        "settings": world.settings.to_dict(),
    }


def _truth_table(world: World) -> pa.Table:
    """What is true of each pair, in the order of the features."""
    keys = world.features.keys
    table = keys.select(["query_id", "doc_id"])
    table = table.append_column("relevance", pa.array(world.relevance))
    table = table.append_column("click_if_first", pa.array(world.click_if_first))
    if "label" in keys.column_names:
        table = table.append_column("label", keys["label"])
    if world.prior is not None:
        table = table.append_column("alpha", pa.array(world.prior.alpha))
        table = table.append_column("beta", pa.array(world.prior.beta))
    return table


def _write_features(features: FeatureTable, path: Path) -> None:
    """Keys and a column per feature, by row groups, as the matrix may be larger than memory."""
    keys = features.keys.select([name for name in features.keys.column_names if name != "label"])
    schema = pa.schema([*keys.schema, *((name, pa.float32()) for name in features.names)])
    # Real-valued columns repeat too seldom for a dictionary, and trying one takes most of the time.
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
