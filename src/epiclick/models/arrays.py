"""The arrays of a model as safetensors: weights, queries it saw, items it knows, how sure it is."""

import numpy as np
import pyarrow as pa
from safetensors.numpy import load, save

from epiclick.models.fitted import FittedModel, Items, QuerySets
from epiclick.models.parameters import Parameters, from_arrays, to_arrays
from epiclick.models.seal import ITEMS, MEMBERS, POSTERIOR, QUERIES, WEIGHTS

ITEM_NUMBERS = ("alpha", "beta", "low", "high")
POSTERIOR_ARRAYS = ("mean", "bayes", "robust")

Arrays = dict[str, np.ndarray]


def pack(fitted: FittedModel) -> dict[str, bytes]:
    """All arrays of a model, by file."""
    queries, items = fitted.queries, fitted.items
    files = {
        WEIGHTS: to_arrays(fitted.parameters),
        QUERIES: _pack_ids("train", queries.train) | _pack_ids("held_out", queries.held_out),
    }
    if items is not None:
        ids = _pack_ids("query_id", items.query_id) | _pack_ids("doc_id", items.doc_id)
        files[ITEMS] = ids | {name: np.asarray(getattr(items, name)) for name in ITEM_NUMBERS}
    if fitted.posterior is not None:
        files[POSTERIOR] = {name: getattr(fitted.posterior, name) for name in POSTERIOR_ARRAYS}
        if fitted.posterior.samples is not None:
            files[POSTERIOR]["samples"] = fitted.posterior.samples
    if fitted.members:
        each = [to_arrays(member) for member in fitted.members]
        files[MEMBERS] = {name: np.stack([arrays[name] for arrays in each]) for name in each[0]}
    return {name: save(_contiguous(arrays)) for name, arrays in files.items()}


def unpack_parameters(content: bytes) -> Parameters:
    """Network and position lookup; raises one of MALFORMED where the file holds others."""
    return _parameters(load(content))


def unpack_members(content: bytes) -> tuple[Parameters, ...]:
    """Networks and lookups, stacked in the file; raises as `unpack_parameters` does."""
    arrays = load(content)
    sizes = {array.shape[:1] for array in arrays.values()}
    if len(sizes) != 1 or sizes & {(), (0,)}:
        raise ValueError("its arrays are not those of as many members, one or more")
    ((count,),) = sizes
    return tuple(
        _parameters({name: array[i] for name, array in arrays.items()}) for i in range(count)
    )


def unpack_posterior(content: bytes) -> Arrays:
    """Arrays of a posterior by name; raises as `unpack_parameters` does."""
    arrays = load(content)
    known = {name: arrays.pop(name) for name in POSTERIOR_ARRAYS}
    if "samples" in arrays:
        known["samples"] = arrays.pop("samples")
    _none_left(arrays)
    return known


def _parameters(arrays: Arrays) -> Parameters:
    parameters = from_arrays(arrays)
    if to_arrays(parameters).keys() != arrays.keys():
        raise ValueError(f"it holds the arrays {', '.join(sorted(arrays))}")
    return parameters


def unpack_queries(content: bytes) -> QuerySets:
    """Queries that were learned from and held out; raises as `unpack_parameters` does."""
    arrays = load(content)
    queries = QuerySets(_unpack_ids("train", arrays), _unpack_ids("held_out", arrays))
    _none_left(arrays)
    return queries


def unpack_items(content: bytes) -> Items:
    """Relevance of the training pairs; raises as `unpack_parameters` does."""
    arrays = load(content)
    ids = {name: _unpack_ids(name, arrays) for name in ("query_id", "doc_id")}
    items = Items(**ids, **{name: arrays.pop(name) for name in ITEM_NUMBERS})
    _none_left(arrays)
    return items


def _contiguous(arrays: Arrays) -> Arrays:
    """Arrays in C order: safetensors writes memory as it lies, whatever the strides say."""
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _none_left(arrays: Arrays) -> None:
    if arrays:
        raise ValueError(f"it holds the unknown arrays {', '.join(sorted(arrays))}")


def _pack_ids(name: str, ids: pa.Array) -> Arrays:
    """Ids as arrays: integers as they are, text as bytes and where each begins."""
    if pa.types.is_integer(ids.type):
        return {name: ids.cast(pa.int64()).to_numpy()}
    ids = ids.cast(pa.large_string())
    offsets, text = np.zeros(1, np.int64), np.zeros(0, np.uint8)
    if len(ids):
        _, begins, content = ids.buffers()
        offsets = np.frombuffer(begins, np.int64)[ids.offset : ids.offset + len(ids) + 1]
        text = np.frombuffer(content or b"", np.uint8)[offsets[0] : offsets[-1]]
    return {f"{name}.bytes": text, f"{name}.offsets": offsets - offsets[0]}


def _unpack_ids(name: str, arrays: Arrays) -> pa.Array:
    """The ids that `_pack_ids` packed, taken out of the arrays."""
    if name in arrays:
        _expect(name, arrays[name], np.int64)
        return pa.array(arrays.pop(name))
    text, offsets = arrays.pop(f"{name}.bytes"), arrays.pop(f"{name}.offsets")
    _expect(f"{name}.bytes", text, np.uint8)
    _expect(f"{name}.offsets", offsets, np.int64)
    ascending = len(offsets) and np.all(offsets[1:] >= offsets[:-1])
    if not ascending or offsets[0] != 0 or offsets[-1] != len(text):
        raise ValueError(f"{name}.offsets do not divide {name}.bytes")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    ids = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
    ids.validate(full=True)  # that the bytes are UTF-8
    return ids


def _expect(name: str, array: np.ndarray, dtype: type) -> None:
    if array.dtype != dtype or array.ndim != 1:
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}")
