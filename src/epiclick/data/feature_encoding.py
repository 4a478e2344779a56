"""How columns of features become numbers: categories one-hot, missing values filled and marked.

A table stays as it was read: NaN where a value is missing, and for a category the number of its
value. A model keeps the encoding that it learned from its training pairs, and applies it to every
later table: the same fill values, the same categories, in the same order.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np

from epiclick.data.checksums import get, texts
from epiclick.data.feature_options import MissingValues
from epiclick.errors import InputError, InputWarning, Problem, did_you_mean

SHOWN = 3

LEAST_DEVIATION = 0.25
"""Least standard deviation by which a column of 0 and 1 is divided: that of a share of 7 %. A rarer
category would otherwise count for more the rarer it is."""

Categories: TypeAlias = Mapping[str, Mapping[str, int]]
"""Text columns of a table -> their values, in order -> rows that have them."""


@dataclass(frozen=True)
class Number:
    """A column of numbers.

    Attributes:
        fill: in place of missing values, the mean over the training pairs, taken on the scale of
            the signed logarithm on which a network sees features; None if they are refused.
        marked: whether a second column is 1 where a value is missing; only if one was in training.
    """

    fill: float | None = None
    marked: bool = False


@dataclass(frozen=True)
class Category:
    """A column of text, one column of 0 and 1 for each value.

    Attributes:
        values: those of the training pairs, in order. All others have 0 everywhere.
        marked: whether a further column is 1 where the text is missing.
    """

    values: tuple[str, ...]
    marked: bool = False


@dataclass(frozen=True, eq=False)
class FeatureEncoding:
    """Columns of a table and what each of them becomes.

    Attributes:
        columns: name -> how it is encoded, in the order of the model.
        missing_values: whether missing values are refused or imputed.
        ignored: columns that were left out by choice, and are in later tables, too.
    """

    columns: Mapping[str, Number | Category]
    missing_values: MissingValues = "error"
    ignored: tuple[str, ...] = ()

    @classmethod
    def plain(cls, names: Sequence[str]) -> Self:
        """The encoding of a model of numbers only, none of them missing."""
        return cls(dict.fromkeys(names, Number()))

    @classmethod
    def learn(
        cls,
        names: Sequence[str],
        categories: Categories,
        raw: np.ndarray,
        missing_values: MissingValues,
        ignored: tuple[str, ...] = (),
    ) -> Self:
        """The encoding of some rows as they were read: (rows, columns) float32."""
        columns: dict[str, Number | Category] = {}
        for name, values in zip(names, raw.T, strict=True):
            there = ~np.isnan(values)
            marked = not bool(there.all())
            if name in categories:
                own = tuple(categories[name])
                seen = np.unique(values[there]).astype(int)
                columns[name] = Category(tuple(own[i] for i in seen), marked)
            else:
                fill = None if missing_values == "error" else _log_mean(values[there])
                columns[name] = Number(fill, marked)
        return cls(columns, missing_values, ignored)

    @classmethod
    def union(cls, several: "Sequence[FeatureEncoding]") -> "FeatureEncoding":
        """An encoding to read one table for several models, none of which loses a category."""
        first, *others = several
        if not others:
            return first
        columns = dict(first.columns)
        for other in others:
            for name, column in other.columns.items():
                own = columns.setdefault(name, column)
                if isinstance(own, Category) and isinstance(column, Category):
                    columns[name] = Category(tuple(dict.fromkeys([*own.values, *column.values])))
        imputes = any(each.missing_values == "impute" for each in several)
        ignored = set.intersection(*(set(each.ignored) for each in several))
        return cls(columns, "impute" if imputes else "error", tuple(sorted(ignored)))

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the encoded columns, such as `brand=acme` and `price missing`."""
        found: list[str] = []
        for name, column in self.columns.items():
            if isinstance(column, Number):
                found.append(name)
            else:
                found += [f"{name}={value}" for value in column.values]
            found += [f"{name} missing"] if column.marked else []
        return tuple(found)

    @cached_property
    def is_binary(self) -> np.ndarray:
        """(inputs,) whether an encoded column is one of 0 and 1 that the encoding has made."""
        found: list[bool] = []
        for column in self.columns.values():
            found += [False] if isinstance(column, Number) else [True] * len(column.values)
            found += [True] if column.marked else []
        return np.array(found, bool)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-serialisable record."""
        return {
            "columns": [
                {"name": name, "fill": column.fill, "marked": column.marked}
                if isinstance(column, Number)
                else {"name": name, "categories": list(column.values), "marked": column.marked}
                for name, column in self.columns.items()
            ],
            "missing_values": self.missing_values,
            "ignored": list(self.ignored),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """The encoding recorded by `to_dict`; raises as other readers of a model file do."""
        columns: dict[str, Number | Category] = {}
        for each in get(stored, "columns", list):
            name, marked = get(each, "name", str), get(each, "marked", bool)
            if name in columns:
                raise ValueError(f"two features are called {name}")
            if "categories" in each:
                columns[name] = Category(texts(each, "categories"), marked)
            else:
                fill = get(each, "fill", float, int, type(None))
                columns[name] = Number(None if fill is None else float(fill), marked)
        missing_values = get(stored, "missing_values", str)
        if missing_values not in ("error", "impute"):
            raise ValueError("missing_values must be error or impute")
        return cls(columns, missing_values, texts(stored, "ignored"))


@dataclass(frozen=True, eq=False)
class RowEncoder:
    """An encoding applied to the rows of one table, whose columns and categories may differ.

    Attributes:
        encoding: of the model.
        columns: of the table.
        places: column of the table for each column of the encoding.
        numbers: for each category of the encoding, the input of each of the table's values; -1 for
            values that were not in training.
    """

    encoding: FeatureEncoding
    columns: tuple[str, ...]
    places: tuple[int, ...]
    numbers: Mapping[str, np.ndarray]

    @classmethod
    def of(
        cls,
        encoding: FeatureEncoding,
        names: Sequence[str],
        categories: Categories,
        missing: Mapping[str, int],
    ) -> Self:
        """Match the columns of a table; refuses what the model cannot use, warns of what is new.

        Args:
            encoding: of the model.
            names: columns of the table.
            categories: those that are text.
            missing: columns with missing values -> how many.
        """
        wanted = encoding.columns
        problems = list(_column_problems(encoding, names, categories, missing))
        if problems:
            raise InputError.of("features", problems)
        if extra := [name for name in names if name not in wanted]:
            warn_unknown(extra)
        for message in (*_unseen(encoding, categories), *_newly_missing(encoding, missing)):
            warnings.warn(message, InputWarning, stacklevel=4)
        place = {name: i for i, name in enumerate(names)}
        numbers = {}
        for name, column in wanted.items():
            if isinstance(column, Category):
                number = {value: i for i, value in enumerate(column.values)}
                numbers[name] = np.array([number.get(v, -1) for v in categories[name]], int)
        return cls(encoding, tuple(names), tuple(place[name] for name in wanted), numbers)

    def __call__(self, raw: np.ndarray) -> np.ndarray:
        """Rows as read, (rows, columns), as (rows, inputs) float32 without missing values."""
        encoded = np.zeros((len(raw), len(self.encoding.inputs)), np.float32)
        at = 0
        for (name, column), place in zip(self.encoding.columns.items(), self.places, strict=True):
            values = raw[:, place]
            missing = np.isnan(values)
            if isinstance(column, Number):
                filled = values if column.fill is None else np.where(missing, column.fill, values)
                encoded[:, at] = filled
                at += 1
            else:
                (there,) = np.nonzero(~missing)
                number = self.numbers[name][values[there].astype(int)]
                encoded[there[number >= 0], at + number[number >= 0]] = 1
                at += len(column.values)
            if column.marked:
                encoded[:, at] = missing
                at += 1
        return encoded


def warn_unknown(names: Sequence[str]) -> None:
    """Warn of features that a model does not know."""
    warnings.warn(
        f"features that the model does not know are left out: {', '.join(names[:5])}"
        + (f" and {len(names) - 5} more" if len(names) > 5 else ""),
        InputWarning,
        stacklevel=5,
    )


def lacking_columns(wanted: Sequence[str], given: Sequence[str]) -> Problem | None:
    """The problem that a table lacks features of a model."""
    missing = [name for name in wanted if name not in given]
    if not missing:
        return None
    extra = [name for name in given if name not in wanted]
    return Problem(
        f"the model was trained on {len(wanted)} features, some of which are missing",
        len(missing),
        "feature",
        [f"'{name}'{did_you_mean(name, extra)}" for name in missing[:SHOWN]],
        f"The table has {len(given)} features. Give those the model was trained on, under the "
        "same names.",
        code="missing-feature-columns",
    )


def _column_problems(
    encoding: FeatureEncoding,
    names: Sequence[str],
    categories: Categories,
    missing: Mapping[str, int],
) -> list[Problem]:
    wanted = encoding.columns
    lacking = lacking_columns(list(wanted), names)
    problems = [] if lacking is None else [lacking]
    for name, column in wanted.items():
        if name not in names:
            continue
        if isinstance(column, Category) != (name in categories):
            own, theirs = ("a category", "numbers")
            if isinstance(column, Number):
                own, theirs = theirs, own
            problems.append(
                Problem(
                    f"feature {name} was {own} in training, but is {theirs} in this table",
                    remedy="Write it as in training, or read the table for the model: "
                    "read_features(..., like=model).",
                    code="feature-kind-differs",
                )
            )
        elif isinstance(column, Number) and column.fill is None and missing.get(name):
            problems.append(
                Problem(
                    f"feature {name} has missing values, and the model was fitted without imputing "
                    "any",
                    missing[name],
                    "value",
                    remedy="Fill them, or fit the model with --missing-values impute (in Python: "
                    'read_features(..., missing_values="impute")).',
                    code="feature-not-finite",
                )
            )
    return problems


def _unseen(encoding: FeatureEncoding, categories: Categories) -> list[str]:
    """Warnings of values that were not in training."""
    found = []
    for name, column in encoding.columns.items():
        if not isinstance(column, Category):
            continue
        known = set(column.values)
        new = {value: rows for value, rows in categories[name].items() if value not in known}
        if rows := sum(new.values()):
            total = sum(categories[name].values())
            listed = ", ".join(list(new)[:SHOWN]) + (" ..." if len(new) > SHOWN else "")
            found.append(
                f"{name}: {rows:,} of {total:,} rows have a value that was not in training "
                f"({listed}); they are treated as having none of its {len(known)} values"
            )
    return found


def _newly_missing(encoding: FeatureEncoding, missing: Mapping[str, int]) -> list[str]:
    """A warning of missing values in columns that had none in training."""
    new = {
        name: missing[name]
        for name, column in encoding.columns.items()
        if missing.get(name) and not column.marked
    }
    if not new:
        return []
    named = ", ".join(f"{name}: {count:,}" for name, count in list(new.items())[:SHOWN])
    more = f" and {len(new) - SHOWN} more features" if len(new) > SHOWN else ""
    return [
        f"values are missing that never were in training ({named}{more}), so what that means is "
        "not known; numbers get the mean of the training pairs, categories none of their values"
    ]


def _log_mean(values: np.ndarray) -> float:
    """The mean on the scale of the signed logarithm, where a network's inputs are standardised."""
    if not len(values):
        return 0.0
    values = values.astype(np.float64)
    mean = float(np.mean(np.copysign(np.log1p(np.abs(values)), values)))
    return float(np.copysign(np.expm1(abs(mean)), mean))
