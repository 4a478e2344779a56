r"""Position bias known from elsewhere, such as a randomised slice of traffic: read and checked.

A table has the columns of the contexts and `mean`. Rows that also have `low` and `high` are a
prior, Gaussian in logits, with these as the ends of its central interval of probability `level`;
the bias of other rows is fixed. All are relative to the anchor, at which relevance is measured.
"""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from scipy import special

from epiclick.arguments import is_number, shown
from epiclick.click_models.priors import FIXED_SD
from epiclick.data.arrays import locate_rows
from epiclick.data.checksums import DIGEST, check_record, damaged
from epiclick.data.engine import engine_errors
from epiclick.data.sources import open_source
from epiclick.errors import InputError, InputWarning, Problem, did_you_mean
from epiclick.identification.identifiability import named
from epiclick.posterior.laplace import KnownBias

LARGEST = 1 - 1e-6  # a bias of exactly 1 has no logit
NUMBERS = ("mean", "low", "high", "level")


def read_known_bias(source: Any, contexts: pa.Table, anchor: int | None, level: float) -> KnownBias:
    """Known bias of the contexts, in logits; NaN where the table has no row, and at the anchor.

    Args:
        source: a DataFrame, an Arrow table, or a path: CSV, Parquet, JSON lines, or the output of
            `epiclick position-bias --json`. Positions count from 1.
        contexts: the contexts of the log.
        anchor: index of the context whose bias is 1, or None.
        level: probability of the intervals of rows without a `level`.
    """
    table, name = _open(source)
    _check_columns(table, contexts, name)
    keys = _keys(table, contexts, name)
    numbers = {column: _numbers(table, column, name) for column in NUMBERS}
    numbers["level"] = np.where(np.isnan(numbers["level"]), level, numbers["level"])
    index = locate_rows(keys, {column: contexts[column] for column in contexts.column_names})
    if problems := list(_problems(pa.table(keys), index, numbers)):
        raise InputError.of(name, problems)
    _report_unmatched(pa.table(keys), contexts, index, anchor, name)
    used = index >= 0
    by_context = {}
    for column, values in numbers.items():
        by_context[column] = np.full(len(contexts), np.nan)
        by_context[column][index[used]] = values[used]
    if anchor is not None:
        by_context = _relative(by_context, contexts, anchor, name)
    return _logits(by_context, contexts, name)


def fixed_contexts(known: KnownBias) -> tuple[int, ...]:
    """Indices of the contexts whose bias is fixed at the given value."""
    return tuple(map(int, np.flatnonzero(known.sd <= FIXED_SD)))


def describe_known(known: KnownBias, contexts: pa.Table, level: float) -> list[dict[str, Any]]:
    """A record per context whose bias was given: how, mean, and the interval of a prior."""
    rows, half = contexts.to_pylist(), float(special.ndtri((1 + level) / 2))
    fixed = fixed_contexts(known)
    found = []
    for k in np.flatnonzero(np.isfinite(known.mean)).tolist():
        record = {**rows[k], "how": "fixed" if k in fixed else "prior"}
        record["mean"] = float(special.expit(known.mean[k]))
        if k not in fixed:
            for end, side in (("low", -1), ("high", 1)):
                record[end] = float(special.expit(known.mean[k] + side * half * known.sd[k]))
        found.append(record)
    return found


def _open(source: Any) -> tuple[pa.Table, str]:
    """The table, and its name in messages."""
    name = "the given position bias"
    if isinstance(source, str | Path):
        name = str(source)
        if (records := _json_records(Path(source))) is not None:
            source = pd.DataFrame(records)
    elif is_number(source) or isinstance(source, list | tuple | dict | np.ndarray | None):
        raise InputError(
            "position_bias must be a table, or the path of a CSV, Parquet or JSON file, not "
            f"{shown(source)}",
            code="invalid-type",
        )
    opened = open_source(source)
    with engine_errors(name):
        table = opened.table.to_pyarrow()
        unreadable = list(opened.unreadable())
    if unreadable:  # rows that are left out would be learned instead
        raise InputError.of(name, unreadable)
    return table, name


def _json_records(path: Path) -> list[dict[str, Any]] | None:
    """The rows of a file that is one JSON value; None for all others, JSON lines among them."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return None
    at_bound: list[Any] = []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise InputError(
            f"{path} cannot be read: its JSON is nested too deeply", code="nested-too-deeply"
        ) from error
    except ValueError:
        return None
    if isinstance(found, dict):
        _check_digest(found, path)
        at_bound = found.get("at_bound") or []
        found = found.get("position_bias", [found])
    rows = isinstance(found, list) and found and all(isinstance(row, dict) for row in found)
    if rows and _are_contexts(at_bound):
        return [row for row in found if not _is_at_bound(row, at_bound)]
    raise InputError(
        f"{path} has no rows of position bias; see epiclick position-bias --json", code="no-rows"
    )


def _check_digest(record: dict[str, Any], path: Path) -> None:
    """Refuse the output of `epiclick position-bias` if it changed; other files have no digest."""
    try:
        if DIGEST in record:
            check_record(record)
    except ValueError as error:
        raise damaged(
            path,
            str(error),
            "Write it again with epiclick position-bias MODEL --json; if you changed it on "
            f"purpose, remove '{DIGEST}' from it.",
        ) from error


def _are_contexts(at_bound: Any) -> bool:
    """Whether a record lists contexts, as `epiclick position-bias --json` does."""
    return isinstance(at_bound, list) and all(
        isinstance(each, dict) and isinstance(each.get("context"), dict) for each in at_bound
    )


def _is_at_bound(row: dict[str, Any], at_bound: list[Any]) -> bool:
    """Whether a row lacks an interval because its bias was at its bound: it is not fixed there."""
    keys = [each["context"].items() for each in at_bound]
    return any(key <= row.items() for key in keys)


def _check_columns(table: pa.Table, contexts: pa.Table, name: str) -> None:
    has = table.column_names
    missing = [column for column in (*contexts.column_names, "mean") if column not in has]
    problems = [
        Problem(
            f"there is no column '{column}'{did_you_mean(column, has)}",
            remedy=f"It has {', '.join(has)}.",
            code="missing-column",
        )
        for column in missing
    ]
    if not table.num_rows:
        problems.append(Problem("it has no rows", code="no-rows"))
    if problems:
        raise InputError.of(name, problems)


def _keys(table: pa.Table, contexts: pa.Table, name: str) -> dict[str, pa.ChunkedArray]:
    """The columns of the contexts, typed as the log's."""
    keys = {}
    for column in contexts.column_names:
        wanted = contexts[column].type
        try:
            keys[column] = pc.cast(_without_empty(table[column]), wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            reason = str(error).split("\n")[0]
            raise InputError(
                f"{name}: {column} must be {wanted}, as in the log ({reason})",
                code="wrong-column-type",
            ) from None
    missing = {column: np.flatnonzero(pc.is_null(key)) for column, key in keys.items()}
    if problems := [
        Problem(
            f"{column} must have a value in every row",
            len(rows),
            examples=[f"(row {row + 1})" for row in rows[:3].tolist()],
            code="missing-context",
        )
        for column, rows in missing.items()
        if len(rows)
    ]:
        raise InputError.of(name, problems)
    return keys


def _without_empty(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values of a column; empty text, as text files have it, is a missing one."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
    return values


def _numbers(table: pa.Table, column: str, name: str) -> np.ndarray:
    """(rows,) numbers of a column; NaN where it or its value is missing."""
    if column not in table.column_names:
        return np.full(table.num_rows, np.nan)
    values = _without_empty(table[column])
    try:
        typed = pc.cast(values, pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error).split("\n")[0]
        raise InputError(
            f"{name}: {column} must be numbers ({reason})", code="wrong-column-type"
        ) from None
    return typed.to_numpy()


def _problems(
    keys: pa.Table, index: np.ndarray, numbers: dict[str, np.ndarray]
) -> Iterator[Problem]:
    """The rules that rows break, each with its first offenders."""
    mean, low, high, level = (numbers[column] for column in NUMBERS)
    first = np.full(len(index), False)
    first[pd.DataFrame(keys.to_pylist()).drop_duplicates().index] = True
    rules = (
        ("mean-not-positive", "mean must be a number above 0", ~(np.isfinite(mean) & (mean > 0))),
        (
            "incomplete-interval",
            "low and high must both be given, or neither",
            np.isnan(low) != np.isnan(high),
        ),
        (
            "mean-outside-interval",
            "low must be above 0, at most the mean, and the mean at most high",
            ~(np.isnan(low) | np.isnan(high))
            & ~((low > 0) & (low <= mean) & (mean <= high) & np.isfinite(high)),
        ),
        (
            "level-out-of-range",
            "level must lie strictly between 0 and 1",
            ~((level > 0) & (level < 1)),
        ),
        ("duplicate-context", "a context must have one row", ~first),
    )
    for code, what, broken in rules:
        if broken.any():
            rows = np.flatnonzero(broken)
            examples = [_row(keys, numbers, i) for i in rows[:3]]
            yield Problem(what, len(rows), examples=examples, code=code)
    if not np.any(index >= 0):
        yield Problem(
            "none of its contexts is in the log",
            examples=[_row(keys, numbers, 0)],
            remedy="Positions count from 1.",
            code="no-common-context",
        )


def _row(keys: pa.Table, numbers: dict[str, np.ndarray], i: int) -> str:
    shown = [f"{column} {values[i]:g}" for column, values in numbers.items() if column != "level"]
    return f"{named(keys, [int(i)])} ({', '.join(shown)})"


def _report_unmatched(
    keys: pa.Table, contexts: pa.Table, index: np.ndarray, anchor: int | None, name: str
) -> None:
    """Warn of rows that match no context of the log, and of contexts whose bias is learned."""
    if foreign := np.flatnonzero(index < 0).tolist():
        _warn(f"{name} has rows that are not in the log; they are ignored: {named(keys, foreign)}")
    given = {*index.tolist(), anchor}
    missing = [k for k in range(len(contexts)) if k not in given]
    if not missing:
        return
    where = named(contexts, missing)
    if anchor is None:
        raise InputError(
            f"{name} has no row for {where}. Without an anchor the scale must come from the table: "
            "give all contexts, or choose an anchor",
            code="context-without-bias",
        )
    _warn(f"{name} has no row for {where}, whose bias is learned from the clicks")


def _relative(
    given: dict[str, np.ndarray], contexts: pa.Table, anchor: int, name: str
) -> dict[str, np.ndarray]:
    """Values relative to the anchor, whose own row is dropped."""
    top = given["mean"][anchor]
    scaled = dict(given)
    if np.isfinite(top) and not np.isclose(top, 1, rtol=1e-6, atol=0):
        _warn(
            f"{name} has {top:g} at {named(contexts, [anchor])}, the anchor, where relevance is "
            "measured: all values were divided by it"
        )
        scaled |= {column: given[column] / top for column in ("mean", "low", "high")}
    # the anchor is neither learned nor given
    scaled["mean"] = np.where(np.arange(len(contexts)) == anchor, np.nan, scaled["mean"])
    return scaled


def _logits(given: dict[str, np.ndarray], contexts: pa.Table, name: str) -> KnownBias:
    """Mean and standard deviation in logits, (contexts,) each."""
    mean, low, high, level = (given[column] for column in NUMBERS)
    if over := np.flatnonzero(mean > 1 + 1e-9).tolist():
        values = ", ".join(f"{mean[k]:g}" for k in over[:3])
        raise InputError(
            f"{name} has a bias above that of the anchor, or above 1, at {named(contexts, over)} "
            f"({values}). Bias must be at most 1: choose the most examined context as the anchor",
            code="bias-above-one",
        )
    mean, low = np.minimum(mean, LARGEST), np.minimum(low, LARGEST)
    half = special.ndtri((1 + np.where(np.isnan(level), 0.5, level)) / 2)
    # an upper end of 1 or more says only that the bias is at most 1
    inside = high < 1
    top = special.logit(np.where(inside, high, mean))
    middle = np.where(inside, (special.logit(low) + top) / 2, special.logit(mean))
    spread = np.where(inside, (top - special.logit(low)) / 2, top - special.logit(low)) / half
    # a bias that was fixed in one model is reported by it with an interval about as narrow
    prior = np.isfinite(mean) & (spread > 2 * FIXED_SD)
    return KnownBias(
        np.where(prior, middle, special.logit(mean)),
        np.where(np.isfinite(mean), np.where(prior, spread, FIXED_SD), np.nan),
    )


def _warn(message: str) -> None:
    warnings.warn(message, InputWarning, stacklevel=4)
