"""Campaign: mutated rankings through `compare`.

A ranking that is accepted must give the same answer as the lists that a second reader finds in it,
written again; and its value must be the sum of position bias times relevance over its pages.
"""

import json
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from torture.campaign import Campaign, Case, Result
from torture.inputs import mutations, tiny_model
from torture.inputs.event_values import Unsure
from torture.inputs.oracle import Bad
from torture.inputs.ranking_oracle import Lists, lists_of, run_lists
from torture.inputs.table_files import KINDS, write_changed
from torture.inputs.tiny_model import DOCS, QUERIES, Row
from torture.program import Ended, call

TOLERANCE = 0.01
"""Of a value, relative: values are means of 2,500 samples of products, not products of means."""

SCORES = tuple(value for value in mutations.ODD_NUMBERS if value not in ("9223372036854775808",))


def odd_value(rng: Random, rows: list[Row]) -> list[Row]:
    """One cell is odd."""
    name = rng.choice(list(rows[0]))
    kind = SCORES if name in ("position", "score", "bm25") else mutations.ODD_IDS
    at = rng.randrange(len(rows))
    return [{**row, name: rng.choice(kind)} if n == at else row for n, row in enumerate(rows)]


def another_item(rng: Random, rows: list[Row]) -> list[Row]:
    """One item, or query, is another, perhaps an unknown one."""
    at, name = rng.randrange(len(rows)), rng.choice(("doc_id", "doc_id", "query_id"))
    known = [0, 1, 2, 3, 4, 77] if name == "doc_id" else ["query_0", "query_1", "query_9"]
    return [{**row, name: rng.choice(known)} if n == at else row for n, row in enumerate(rows)]


def swapped_places(rng: Random, rows: list[Row]) -> list[Row]:
    """Two rows change their items."""
    one, other = rng.randrange(len(rows)), rng.randrange(len(rows))
    rows = [dict(row) for row in rows]
    rows[one]["doc_id"], rows[other]["doc_id"] = rows[other]["doc_id"], rows[one]["doc_id"]
    return rows


def lost_row(rng: Random, rows: list[Row]) -> list[Row]:
    """A row is missing."""
    at = rng.randrange(len(rows))
    return rows[:at] + rows[at + 1 :]


def another_column(rng: Random, rows: list[Row]) -> list[Row]:
    """A column that nothing needs."""
    name = rng.choice(("note", "tag", "Relevance", "displays"))
    return [{**row, name: number % 2} for number, row in enumerate(rows)]


def without_column(rng: Random, rows: list[Row]) -> list[Row]:
    """A column is missing, or has another name."""
    name = rng.choice(list(rows[0]))
    other = rng.choice((None, "x", mutations.ALIASES.get(name, "y"), name.upper()))
    return [
        {(other if key == name else key): v for key, v in row.items() if key != name or other}
        for row in rows
    ]


CHANGES = {
    True: (mutations.another_order, mutations.columns_in_another_order, another_column),
    False: (
        *(odd_value, odd_value, another_item, swapped_places, lost_row, without_column),
        mutations.repeated_row,
    ),
}


class Rankings(Campaign):
    """Every third ranking is sound, and must be valued."""

    name = "rankings"
    floors: ClassVar = {"compare table": 0.4, "compare scores": 0.4, "compare run": 0.3}

    def __init__(self, cases: int) -> None:
        """Run this many cases."""
        self.cases = cases

    def prepare(self, stock: Path) -> None:
        """Fit a model without features, and write what it knows of its items."""
        log = tiny_model.shown_log(Random(1))
        tiny_model.write_csv(log, stock / "log.csv")
        tiny_model.fit(stock, "log.csv", "--out", "model")
        for name, more in (("own", []), ("clicks", ["--clicks", "log.csv"])):
            out = ["--out", f"{name}.parquet", "--json"]
            tiny_model.done(call("relevance", "model", *more, *out, folder=stock))
        bias = tiny_model.done(call("position-bias", "model", "--json", folder=stock))
        (stock / "bias.json").write_text(json.dumps([b["mean"] for b in bias["position_bias"]]))
        pages = Counter(row["query_id"] for row in log if row["position"] == 1)
        (stock / "pages.json").write_text(json.dumps(pages))
        old = [
            {"query_id": f"query_{query}", "doc_id": doc, "position": doc + 1}
            for query in range(QUERIES)
            for doc in range(3)
        ]
        tiny_model.write_csv(old, stock / "old.csv")

    def size(self, stock: Path) -> int:
        """As asked for."""
        return self.cases

    def run(self, case: Case) -> Result:
        """Value one ranking."""
        rng, sound = case.rng, case.rng.random() < 0.35
        kind = rng.choice(("table", "scores", "run"))
        names: list[str] = []
        try:
            file, lists = written(rng, case.folder, kind, names, sound=sound)
            expected: Lists | str | None = lists()
        except Bad as bad:
            expected = str(bad)
        except Unsure:
            expected = None
        file = next(f for f in sorted(case.folder.iterdir()) if f.stem == "new").name
        column = ":bm25" if kind == "scores" else ""
        options = random_options(rng, case.stock)
        what = f"{file}{column} {' '.join(map(str, options[:4]))}: {', '.join(names) or 'as it is'}"
        ended = compared(case, f"new={file}{column}", options)
        return Result(f"compare {kind}", what, *self._judged(case, ended, expected, options, sound))

    def _judged(
        self,
        case: Case,
        ended: Ended,
        expected: Lists | str | None,
        options: list[str],
        sound: bool,
    ) -> tuple[str, str]:
        if ended.fault:
            return "failed", ended.fault
        if ended.code == 2:
            if sound and isinstance(expected, dict):
                return "failed", f"a sound ranking was refused: {ended.err[-400:]}"
            return "refused", ""
        if ended.code:
            return "failed", f"exit code {ended.code}: {ended.err[-300:]}"
        if expected is None:
            return "accepted", ""
        if isinstance(expected, str):
            return "failed", f"a bad ranking was valued: {expected}"
        write_lists(expected, case.folder / "again.parquet")
        again = compared(case, "new=again.parquet", options)
        if again.code:
            return "failed", f"refused when written again: {again.err[-300:]}"
        found, other = json.loads(ended.out), json.loads(again.out)
        for record in (found, other):
            for name in ("notes", "warnings"):
                record.pop(name)
        if found != other:
            differ = {n: (found[n], other[n]) for n in found if found[n] != other[n]}
            return "failed", f"another answer when written again: {str(differ)[:500]}"
        return valued(case.stock, found, expected, options)


def written(
    rng: Random, folder: Path, kind: str, names: list[str], *, sound: bool
) -> tuple[Path, Any]:
    """Write a ranking; its file, and a function that reads it."""
    rows = [
        {"query_id": f"query_{query}", "doc_id": doc, "position": place}
        for query in range(QUERIES)
        for place, doc in enumerate(rng.sample(range(DOCS), rng.choice((2, 3, 3))), 1)
    ]
    if kind == "run":
        first = rng.choice((0, 1, 1))
        lines = [
            f"{row['query_id']} Q0 {row['doc_id']} {row['position'] - 1 + first} "
            f"{10 - row['position'] / 4} tag\n"
            for row in rows
        ]
        if rng.random() < 0.5:
            lines = rng.sample(lines, len(lines))
        own = "".join(lines).encode()
        if rng.random() < (0.5 if sound else 0.9):
            change = rng.choice(mutations.SOUND_BYTES if sound else mutations.BYTES)
            own = change(rng, own)
            names.append(change.__name__)
        path = folder / f"new.{rng.choice(('run', 'trec', 'res'))}"
        path.write_bytes(own)
        return path, lambda: run_lists(own)
    if kind == "scores":
        for row in rows:
            row |= {"bm25": round(3.0 - row.pop("position") / 2, 2), "score": 1}
    elif rng.random() < 0.2:
        rows = [{**row, "page_id": page} for page in ("a", "b") for row in rows]
    path = folder / f"new.{rng.choice(KINDS)}"
    read = write_changed(rng, rows, path, sound=sound, names=names, changes=CHANGES)
    return path, lambda: lists_of(read(), "bm25" if kind == "scores" else None)


def random_options(rng: Random, stock: Path) -> list[str]:
    """Some options of `compare`."""
    options = [str(stock / "model"), "--ranking", f"old={stock / 'old.csv'}", "--samples", "2500"]
    if rng.random() < 0.5:
        options += ["--clicks", str(stock / "log.csv")]
        options += ["--weights", rng.choice(("traffic", "uniform"))]
    if rng.random() < 0.3:
        options += ["--depth", rng.choice(("1", "2", "3"))]
    return options


def compared(case: Case, ranking: str, options: list[str]) -> Ended:
    """Call `compare`; the model and log stay where they are."""
    model, *others = options
    return call(
        *("compare", model, "--ranking", ranking, *others, "--extrapolate", "--json"),
        folder=case.folder,
    )


def write_lists(lists: Lists, path: Path) -> None:
    """Write lists as a plain ranking."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[Row] = []
    for (query, page), docs in sorted(lists.items()):
        for place, doc in enumerate(docs, 1):
            rows.append({"query_id": query, "doc_id": doc, "position": place})
            if any(page for _, page in lists):
                rows[-1]["page_id"] = page
    if all(
        str(row["doc_id"]).isdecimal() and str(int(row["doc_id"])) == row["doc_id"] for row in rows
    ):
        rows = [{**row, "doc_id": int(row["doc_id"])} for row in rows]
    pq.write_table(pa.Table.from_pylist(rows), path)


def valued(stock: Path, found: dict[str, Any], lists: Lists, options: list[str]) -> tuple[str, str]:
    """Whether the value is the sum of position bias times relevance, if all items are known."""
    with_clicks = "--clicks" in options
    known = tiny_model.relevance_of(stock / f"{'clicks' if with_clicks else 'own'}.parquet")
    bias = json.loads((stock / "bias.json").read_text())
    pages = json.loads((stock / "pages.json").read_text())
    depth = int(options[options.index("--depth") + 1]) if "--depth" in options else len(bias)
    traffic = with_clicks and "uniform" not in options
    per_query: dict[str, list[float]] = defaultdict(list)
    for (query, _), docs in lists.items():
        pairs = list(zip(docs, bias[:depth], strict=False))
        if (
            query not in pages
            or len(docs) > len(bias)
            or any((query, d) not in known for d, _ in pairs)
        ):
            return "accepted", ""
        per_query[query].append(sum(known[query, doc] * share for doc, share in pairs))
    weight = {query: pages[query] if traffic else 1 for query in per_query}
    value = sum(weight[q] * sum(own) / len(own) for q, own in per_query.items()) / sum(
        weight.values()
    )
    (new,) = [each for each in found["rankers"] if each["name"] == "new"]
    if abs(new["value"] - value) > TOLERANCE * value:
        return "failed", f"value {new['value']}, but position bias times relevance is {value}"
    return "accepted", ""
