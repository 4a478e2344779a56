"""Changes to nested records, such as events; sound ones keep what they say."""

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

Record = dict[str, Any]
Path = tuple[str | int, ...]
RecordChange = Callable[[Random, list[Record]], list[Record]]

ODD_LEAVES: tuple[Any, ...] = (
    *(
        None,
        "",
        " ",
        "(not set)",
        "null",
        0,
        1,
        -1,
        1.5,
        True,
        False,
        "1.5",
        "0",
        "01",
        "x",
        "Click",
    ),
    *("impression", "impressions", "position", "Position", "CLICK", "clicked", "query_id"),
    *("epiclick_flaw", 'say "hi"', "it's", "ünï", "🙂", "\x1b[31m", "\u202eabc", "two\nlines"),
    *("a" * 2000, "9223372036854775808", [], {}, ["d1"], "any_click", "\x00", "$", "a.b", "[", "{"),
)


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """Paths of the values that contain no others."""
    if isinstance(value, dict) and value:
        for key, own in value.items():
            yield from leaves(own, (*path, key))
    elif isinstance(value, list) and value:
        for place, own in enumerate(value):
            yield from leaves(own, (*path, place))
    else:
        yield path


def at(value: Any, path: Path) -> Any:
    """The value at a path."""
    for step in path:
        value = value[step]
    return value


def with_value(records: list[Record], number: int, path: Path, value: Any) -> list[Record]:
    """The records, one of them with another value at a path."""
    changed = copy.deepcopy(records[number])
    at(changed, path[:-1])[path[-1]] = value
    return [*records[:number], changed, *records[number + 1 :]]


def _any_leaf(rng: Random, records: list[Record]) -> tuple[int, Path] | None:
    """A record and the path of a leaf; each key is as likely, however rare it is."""
    found: dict[tuple[str, ...], list[tuple[int, Path]]] = {}
    for number, record in enumerate(records):
        for path in leaves(record):
            keys = tuple(step for step in path if isinstance(step, str))
            found.setdefault(keys, []).append((number, path))
    found.pop((), None)
    return rng.choice(found[rng.choice(sorted(found))]) if found else None


def odd_leaf(rng: Random, records: list[Record]) -> list[Record]:
    """One value is odd."""
    found = _any_leaf(rng, records)
    return with_value(records, *found, rng.choice(ODD_LEAVES)) if found else records


def odd_branch(rng: Random, records: list[Record]) -> list[Record]:
    """A value, perhaps with all that it contains, is odd."""
    found = _any_leaf(rng, records)
    if not found:
        return records
    number, path = found
    value = rng.choice((None, "x", 1, [], {}, ["x"], {"x": 1}))
    return with_value(records, number, path[: rng.randint(1, len(path))], value)


def without_key(rng: Random, records: list[Record]) -> list[Record]:
    """A key or an element is missing."""
    found = _any_leaf(rng, records)
    if not found:
        return records
    number, path = found
    path = path[: rng.randint(1, len(path))]
    changed = copy.deepcopy(records[number])
    del at(changed, path[:-1])[path[-1]]
    return [*records[:number], changed, *records[number + 1 :]]


def without_key_anywhere(rng: Random, records: list[Record]) -> list[Record]:
    """A key is missing from all records."""
    key = rng.choice(sorted({key for record in records for key in record}))
    return [{name: v for name, v in record.items() if name != key} for record in records]


def another_records_value(rng: Random, records: list[Record]) -> list[Record]:
    """A value is that of another record."""
    found = _any_leaf(rng, records)
    if not found:
        return records
    number, path = found
    others = []
    for record in records:
        try:
            others.append(at(record, path))
        except (KeyError, IndexError, TypeError):
            continue  # a record of another shape
    return with_value(records, number, path, copy.deepcopy(rng.choice(others)))


def repeated_record(rng: Random, records: list[Record]) -> list[Record]:
    """A record is there twice."""
    number = rng.randrange(len(records))
    return [*records[:number], records[number], *records[number:]]


def lost_records(rng: Random, records: list[Record]) -> list[Record]:
    """Some records are missing."""
    kept = rng.choice((0.0, 0.5, 0.9, 0.98))
    return [record for record in records if rng.random() < kept]


def another_order_of_records(rng: Random, records: list[Record]) -> list[Record]:
    """Records in another order."""
    return rng.sample(records, len(records))


def another_order_of_keys(rng: Random, records: list[Record]) -> list[Record]:
    """Keys of each record in another order."""
    return [
        {key: record[key] for key in rng.sample(list(record), len(record))} for record in records
    ]


def another_key(rng: Random, records: list[Record]) -> list[Record]:
    """A key that nothing needs."""
    name = rng.choice(("note", "ünï", "select", "a b", 'q"uote', "it's", "shown_at", "of_page"))
    value = rng.choice(("x", 1, None, {"deep": [1, "x"]}, [1, 2], "2026-01-01"))
    some = rng.random() < 0.5
    return [
        {**record, name: copy.deepcopy(value)} if not some or rng.random() < 0.5 else record
        for record in records
    ]


SOUND_RECORDS: tuple[RecordChange, ...] = (
    another_order_of_records,
    another_order_of_keys,
    another_key,
)
RECORDS: tuple[RecordChange, ...] = (
    *(odd_leaf, odd_leaf, odd_leaf, odd_branch, without_key, without_key_anywhere),
    *(another_records_value, another_records_value, repeated_record, lost_records),
)
