"""Campaign: mutated tables of features through `relevance` and `fit`.

Tables that are accepted must give the same answer as the vectors that a second reader finds in
them, written again as one table.
"""

import math
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from torture.campaign import Campaign, Case, Result
from torture.inputs import mutations, tiny_model
from torture.inputs.event_values import Unsure
from torture.inputs.feature_oracle import Vectors, vectors
from torture.inputs.oracle import Bad
from torture.inputs.table_files import KINDS, write_changed
from torture.inputs.tiny_model import DOCS, QUERIES, Row
from torture.program import call

BRANDS = ("acme", "kilo", "zeta")
NUMBERS = ("f0", "f1")
TEXTS: dict[str, tuple[str, ...]] = {"numbers": (), "mixed": ("brand",)}
"""Model -> its categories. The one with categories imputes missing values."""

ROUNDING = 2e-4
"""Largest difference of means: a network is trained on float32, whose sums depend on the order."""

ODD_FEATURES = (
    *mutations.ODD_NUMBERS,
    *("1e38", "3.5e38", "1e39", "-1e300", "1e-320", "NaN", "Infinity", "NA", "N/A", "true", "1e5"),
)


def odd_value(rng: Random, rows: list[Row]) -> list[Row]:
    """One cell is odd."""
    name = rng.choice(list(rows[0]))
    odd = mutations.ODD_IDS if name in ("query_id", "doc_id", "brand") else ODD_FEATURES
    at = rng.randrange(len(rows))
    return [{**row, name: rng.choice(odd)} if n == at else row for n, row in enumerate(rows)]


def odd_number(rng: Random, rows: list[Row]) -> list[Row]:
    """One cell is an odd number, with the type of a number."""
    name = rng.choice([*[n for n in NUMBERS if n in rows[0]], "f0"])
    value = rng.choice((math.nan, math.inf, -math.inf, 1e39, -1e300, 5e-324, True, None, 2**63, 0))
    at = rng.randrange(len(rows))
    return [{**row, name: value} if n == at else row for n, row in enumerate(rows)]


def missing_value(rng: Random, rows: list[Row]) -> list[Row]:
    """One cell is empty."""
    name, at = rng.choice(list(rows[0])), rng.randrange(len(rows))
    return [{**row, name: None} if n == at else row for n, row in enumerate(rows)]


def without_column(rng: Random, rows: list[Row]) -> list[Row]:
    """A column is missing, or has another name."""
    name = rng.choice(list(rows[0]))
    other = rng.choice((None, None, f"{name} ", name.upper(), "x", "f0", "brand"))
    return [
        {(other if key == name else key): v for key, v in row.items() if key != name or other}
        for row in rows
    ]


def lost_row(rng: Random, rows: list[Row]) -> list[Row]:
    """A row is missing."""
    at = rng.randrange(len(rows))
    return rows[:at] + rows[at + 1 :]


def another_column(rng: Random, rows: list[Row]) -> list[Row]:
    """A column that the model does not know."""
    name = rng.choice(("f9", "note", "ünï", "a b", 'q"uote', "Unnamed: 0", "x0", "select"))
    return [{**row, name: n} for n, row in enumerate(rows)]


def meaningful_column(rng: Random, rows: list[Row]) -> list[Row]:
    """A column whose name means something."""
    name = rng.choice(("label", "split", "new_item", "day", "date", "snapshot", "as_of", "Label"))
    known = ("0", "1", "2026-01-01", "2026-01-02", "test", "train", "true", "", "x", "1.5", 3, None)
    chosen = rng.sample(known, rng.choice((1, 2)))
    return [{**row, name: rng.choice(chosen)} for row in rows]


CHANGES = {
    True: (mutations.another_order, mutations.columns_in_another_order, another_column),
    False: (
        *(odd_value, odd_value, odd_number, odd_number, missing_value, without_column, lost_row),
        *(meaningful_column, mutations.repeated_row),
    ),
}


class Features(Campaign):
    """Every third case has sound tables, which must be used."""

    name = "features"
    floors: ClassVar = {"relevance": 0.4, "fit --features": 0.3}

    def __init__(self, cases: int) -> None:
        """Run this many cases."""
        self.cases = cases

    def prepare(self, stock: Path) -> None:
        """Fit a model of numbers, and one of numbers and categories with missing values."""
        tiny_model.write_csv(tiny_model.shown_log(Random(2), pages=100), stock / "log.csv")
        for model, more in (("numbers", []), ("mixed", ["--missing-values", "impute"])):
            rows = feature_rows(Random(3), model)
            if model == "mixed":
                rows[0]["f1"] = rows[1]["brand"] = None
            tiny_model.write_csv(rows, stock / f"{model}.csv")
            given = ["--features", f"{model}.csv", *more]
            tiny_model.fit(stock, "log.csv", *given, "--out", model)

    def size(self, stock: Path) -> int:
        """As asked for."""
        return self.cases

    def run(self, case: Case) -> Result:
        """Use one set of tables."""
        rng, sound = case.rng, case.rng.random() < 0.4
        model = rng.choice(list(TEXTS))
        names: list[str] = []
        rows, read = feature_rows(rng, model), []
        tables = {"pairs": rows}
        if rng.random() < 0.3:
            tables = {"pairs": [without(row, "f1") for row in rows], "items": of_items(rows)}
            if rng.random() < 0.5:
                tables = dict(reversed(tables.items()))
        arguments: list[str] = []
        for name, own in tables.items():
            path = case.folder / f"{name}.{rng.choice(KINDS)}"
            changes = CHANGES if sound or name == "pairs" or rng.random() < 0.5 else None
            changes = changes or {True: CHANGES[True], False: CHANGES[True]}
            read.append(write_changed(rng, own, path, sound=sound, names=names, changes=changes))
            arguments += ["--features", path.name]
        if rng.random() < 0.15:
            arguments += ["--ignore-feature", rng.choice(("note", "f9", "label"))]
        try:
            expected: Vectors | str | None = vectors(
                [own() for own in read], numbers=NUMBERS, text=TEXTS[model], impute=model == "mixed"
            )
        except Bad as bad:
            expected = str(bad)
        except Unsure:
            expected = None
        verb = rng.choice((*["relevance"] * 5, "fit --features"))
        if verb != "relevance" and another_column.__name__ in " ".join(names):
            expected = None  # a column more is a feature more
        what = f"{model} {' '.join(arguments)}: {', '.join(names) or 'as it is'}"
        try:
            outcome = self._judged(case, verb, model, arguments, expected, sound)
        except Fault as fault:
            outcome = ("failed", str(fault))
        return Result(verb, what, *outcome)

    def _judged(
        self,
        case: Case,
        verb: str,
        model: str,
        arguments: list[str],
        expected: Vectors | str | None,
        sound: bool,
    ) -> tuple[str, str]:
        answer = relevance if verb == "relevance" else fitted_relevance
        found = answer(case, model, arguments, "found.parquet")
        if isinstance(found, str):
            if sound and not isinstance(expected, str):
                return "failed", f"sound tables were refused: {found[-400:]}"
            return "refused", ""
        if expected is None:
            return "accepted", ""
        if isinstance(expected, str):
            return "failed", f"bad tables were used: {expected}"
        write_vectors(expected, model, case.folder / "again.parquet")
        again = answer(case, model, ["--features", "again.parquet"], "other.parquet")
        if isinstance(again, str):
            return "failed", f"refused when written again: {again[-300:]}"
        if found.keys() != again.keys():
            return "failed", f"other pairs: {sorted(found.keys() ^ again.keys())[:4]}"
        worst = max(found, key=lambda key: abs(found[key] - again[key]))
        if not abs(found[worst] - again[worst]) <= ROUNDING:
            return "failed", f"{worst}: {found[worst]}, but {again[worst]} when written again"
        return "accepted", ""


class Fault(Exception):
    """A call did what it never must."""


def used(case: Case, *arguments: object) -> str | None:
    """Why a call refused its input; None if it did its work."""
    ended = call(*arguments, folder=case.folder)
    if ended.fault:
        raise Fault(ended.fault)
    if ended.code == 2:
        return ended.err
    if ended.code:
        raise Fault(f"exit code {ended.code}: {ended.err[-300:]}")
    return None


def relevance(
    case: Case, model: str, arguments: list[str], out: str
) -> dict[tuple[str, str], float] | str:
    """Relevance by pair, or why the tables were refused."""
    refused = used(case, "relevance", case.stock / model, *arguments, "--out", out, "--quiet")
    file = case.folder / out
    if refused:
        if file.exists():
            raise Fault("refused, but a file was written")
        return refused
    return tiny_model.relevance_of(file)


def fitted_relevance(
    case: Case, model: str, arguments: list[str], out: str
) -> dict[tuple[str, str], float] | str:
    """The same by a model that is fitted with the tables."""
    log, folder = case.stock / "log.csv", f"of-{out}"
    how = ["--missing-values", "impute"] if model == "mixed" else []
    refused = used(case, "fit", log, *arguments, *how, "--out", folder, "--quiet")
    if refused:
        if (case.folder / folder).exists():
            raise Fault("refused, but a model was written")
        return refused
    refused = used(case, "relevance", folder, *arguments, "--out", out, "--quiet")
    return refused or tiny_model.relevance_of(case.folder / out)


def feature_rows(rng: Random, model: str) -> list[Row]:
    """Features of all pairs; f1 and the brand depend on the item alone."""
    of_item = [round(rng.uniform(-2, 9), 3) for _ in range(DOCS)]
    rows: list[Row] = []
    for query in range(QUERIES):
        for doc in range(DOCS):
            row: Row = {"query_id": f"query_{query}", "doc_id": doc}
            row |= {"f0": round(rng.uniform(0, 1), 3), "f1": of_item[doc]}
            rows.append(row | dict.fromkeys(TEXTS[model], BRANDS[doc % 3]))
    return rows


def without(row: Row, name: str) -> Row:
    """A row without a column."""
    return {key: value for key, value in row.items() if key != name}


def of_items(rows: list[Row]) -> list[Row]:
    """A table of items with f1."""
    return [{"doc_id": doc, "f1": f1} for doc, f1 in {r["doc_id"]: r["f1"] for r in rows}.items()]


def write_vectors(found: Vectors, model: str, path: Path) -> None:
    """Write vectors as a plain table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    docs = [doc for _, doc in found]
    whole = all(doc.isdecimal() and str(int(doc)) == doc for doc in docs)
    columns: dict[str, Any] = {
        "query_id": [query for query, _ in found],
        "doc_id": [int(doc) for doc in docs] if whole else docs,
    }
    # in their order: a network starts from random weights of its inputs, one after the other
    for name in next(iter(found.values())):
        kind = pa.string() if name in TEXTS[model] else pa.float64()
        columns[name] = pa.array([own[name] for own in found.values()], kind)
    pq.write_table(pa.table(columns), path)
