"""Campaign: ids that try to be markup, formulas, terminal commands or formats of files.

Each log of payloads has a twin, the same log with plain ids. Its page must have the same elements
and attributes as the twin's, exports must contain each id as it is or refuse it, and the terminal
gets no control characters.
"""

import csv
import json
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from torture.campaign import Campaign, Case, Result
from torture.inputs.mutations import ODD_IDS
from torture.program import call

PAIRS = 6
"""Logs of payloads, each with its twin."""

MARKUP = (
    *('"><img src=x onerror=alert(1)>', "</script><script>alert(1)</script>", "<!--", "-->"),
    *("</title></head>", "' onmouseover='alert(1)", "javascript:alert(1)", "&lt;b&gt;", "&amp;"),
    *("<svg/onload=alert(1)>", "]]>", "{{7*7}}", "${7*7}", "<a href='//127.0.0.1'>x</a>", "</td>"),
    *("\u2028", "\u2029", "\ud7ff", "\U0001f468\u200d\U0001f469", "\u0000x", "x\u0000"),
    *("\x1b[2J\x1b[H", "\x1b]8;;file:///etc/passwd\x07x\x1b]8;;\x07", "\r\x1b[Kfake", "\x08\x08"),
    *("qid:1", "1 Q0 x 1 1.0 run", "# comment", "a\tb\tc", "NaN", '{"a": 1}', "\\u003cb\\u003e"),
)
PAYLOADS = tuple(dict.fromkeys(p for p in (*ODD_IDS, *MARKUP) if p.strip()))

VERBS = ("report", "report", "inspect", "position-bias", "relevance", "evaluate", "compare")
EXPORTS = ("qrels", "run", "quepid", "srw", "ltr")


class Payloads(Campaign):
    """Fitted once for each pair of logs; cases run a verb on one of the models."""

    name = "payloads"
    floors: ClassVar = {
        **dict.fromkeys(VERBS, 0.9),
        **{f"export {to}": 0.9 for to in ("quepid", "srw")},
        **{f"export {to}": 0.05 for to in ("qrels", "run", "ltr")},
    }

    def __init__(self, cases: int) -> None:
        """Run this many cases."""
        self.cases = cases

    def prepare(self, stock: Path) -> None:
        """Logs, their twins, and models of both."""
        for number in range(PAIRS):
            rng = Random(f"payloads/{number}")
            rows, plain = twins(rng, with_blanks=bool(number % 3))
            for name, log in (("odd", rows), ("plain", plain)):
                folder = stock / f"{number}" / name
                folder.mkdir(parents=True)
                write_log(log, folder / "log.parquet")
                write_log(ranking(log), folder / "new.parquet")
                made = call(
                    *("fit", "log.parquet", "--out", "model", "--context", "device,position"),
                    *("--seed", "1", "--quiet"),
                    folder=folder,
                )
                assert made.code == 0, made

    def size(self, stock: Path) -> int:
        """As asked for."""
        return self.cases

    def run(self, case: Case) -> Result:
        """One verb on one log of payloads."""
        rng = case.rng
        number, verb = rng.randrange(PAIRS), rng.choice((*VERBS, "export", "export"))
        pair = case.stock / str(number)
        odd, log = pair / "odd", [pair / "odd" / "log.parquet"]
        if verb == "export":
            to = rng.choice(EXPORTS)
            return self._exported(case, odd, to, rng)
        ended = call(*arguments(verb, odd), folder=case.folder)
        what = f"pair {number}"
        if why := ended.fault:
            return Result(verb, what, "failed", why)
        if ended.code:
            return Result(verb, what, "refused" if ended.is_refused else "failed", ended.err[-300:])
        why = ""
        if verb == "report":
            own = (case.folder / "report.html").read_text("utf-8")
            twin = call(*arguments(verb, pair / "plain"), folder=case.folder)
            assert twin.code == 0, twin
            why = page_fault(own, (case.folder / "report.html").read_text("utf-8"))
        elif verb == "relevance":
            found = ids_of(case.folder / "relevance.parquet")
            why = "" if found == ids_of(log[0]) else "ids differ from those of the log"
        return Result(verb, what, "failed" if why else "accepted", why)

    def _exported(self, case: Case, odd: Path, to: str, rng: Random) -> Result:
        """An export must contain each id as it is, or be refused."""
        suffix = {"quepid": "csv", "srw": "json"}.get(to, "txt")
        path, verb = case.folder / f"out.{suffix}", f"export {to}"
        escaped = to == "quepid" and rng.random() < 0.5
        more = ["--escape-formulas"] if escaped else []
        source = ["--clicks", odd / "log.parquet"]
        ended = call(
            "export", odd / "model", "--to", to, *source, "--out", path, *more, folder=case.folder
        )
        if why := ended.fault:
            return Result(verb, to, "failed", why)
        if ended.is_refused:
            why = "refused, but a file was written" if path.exists() else ""
            return Result(verb, to, "failed" if why else "refused", why)
        if ended.code:
            return Result(verb, to, "failed", ended.err[-300:])
        wanted = ids_of(odd / "log.parquet")
        found = read_export(path, to)
        if escaped:
            bad = [v for pair in found for v in pair if v[:1] in "=+-@" and not is_number(v)]
            if bad:
                return Result(verb, to, "failed", f"a formula: {bad[0]!r}")
            found = {tuple(bare(v, wanted) for v in pair) for pair in found}
        why = "" if found == wanted else f"other ids: {sorted(found ^ wanted)[:2]!r}"
        return Result(verb, to, "failed" if why else "accepted", why)


def arguments(verb: str, folder: Path) -> list[object]:
    """A call of a verb on the model of a folder."""
    model, log = folder / "model", folder / "log.parquet"
    if verb == "inspect":
        return ["inspect", log, "--context", "device,position"]
    more: dict[str, list[object]] = {
        "report": [log, "--out", "report.html", "--title", "a page", "--quiet"],
        "position-bias": [],
        "relevance": ["--clicks", log, "--out", "relevance.parquet"],
        "evaluate": [log, "--by", "device"],
        "compare": ["--ranking", f"new={folder / 'new.parquet'}", "--clicks", log],
    }
    if verb == "compare":
        more["compare"] += ["--ranking", f"old={folder / 'new.parquet'}"]
    return [verb, model, *more[verb]]


Row = dict[str, Any]


def twins(rng: Random, *, with_blanks: bool) -> tuple[list[Row], list[Row]]:
    """A log of payloads, and the same log with plain ids that sort alike."""
    pool = [p for p in PAYLOADS if with_blanks or not any(c.isspace() for c in p)]
    queries, docs = rng.sample(pool, 6), rng.sample(pool, 7)
    devices = rng.sample(pool, 2)
    rows, plain = [], []
    names = {
        kind: {payload: f"{kind}{place}" for place, payload in enumerate(sorted(values))}
        for kind, values in (("query", queries), ("item", docs), ("device", devices))
    }
    for page in range(240):
        query, device = rng.choice(queries), rng.choice(devices)
        for position, doc in enumerate(rng.sample(docs, 3), 1):
            click = int(rng.random() < (0.2 + 0.08 * docs.index(doc)) / position)
            common = {"page_id": page, "position": position, "click": click}
            rows.append({**common, "query_id": query, "doc_id": doc, "device": device})
            own = (("query_id", "query", query), ("doc_id", "item", doc))
            plain.append(
                {
                    **common,
                    **{column: names[kind][value] for column, kind, value in own},
                    "device": names["device"][device],
                }
            )
    return rows, plain


def ranking(rows: list[Row]) -> list[Row]:
    """A ranking of three items for every query and device of a log."""
    docs = sorted({row["doc_id"] for row in rows})
    found = sorted({(row["query_id"], row["device"]) for row in rows})
    return [
        {"query_id": query, "device": device, "doc_id": docs[place], "position": place + 1}
        for query, device in found
        for place in range(3)
    ]


def write_log(rows: list[Row], path: Path) -> None:
    """Write rows as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(rows), path)


def ids_of(path: Path) -> set[tuple[str, ...]]:
    """Pairs of query and item in a Parquet file."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False) as file:
        table = file.read(columns=["query_id", "doc_id"], use_threads=False)
    return {(row["query_id"], row["doc_id"]) for row in table.to_pylist()}


def read_export(path: Path, to: str) -> set[tuple[str, ...]]:
    """Pairs of query and item in an export."""
    text = path.read_bytes().decode("utf-8")
    if to == "quepid":
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file, strict=True)
            return {(row[0], row[1]) for row in list(rows)[1:]}
    if to == "srw":
        return {
            (own["query"], each["docId"])
            for own in json.loads(text)["judgmentRatings"]
            for each in own["ratings"]
        }
    lines = [line for line in text.split("\n") if line and not line.startswith("# qid")]
    if to == "ltr":
        return set(judgement_list(text))
    return {(words[0], words[2]) for words in (line.split(" ") for line in lines)}


def judgement_list(text: str) -> list[tuple[str, ...]]:
    """Pairs of a judgement list, whose head says which query a number is."""
    names, pairs = {}, []
    for line in text.split("\n"):
        if line.startswith("# qid:"):
            number, name = line.removeprefix("# qid:").split(": ", 1)
            names[number] = name
        elif line and not line.startswith("#"):
            head, doc = line.split(" # ", 1)
            pairs.append((names[head.split("qid:")[1].strip()], doc))
    return pairs


def is_number(value: str) -> bool:
    """Whether a cell is a plain number, which computes nothing."""
    return value.lstrip("+-").replace(".", "", 1).isdigit()


def bare(value: str, wanted: set[tuple[str, ...]]) -> str:
    """An id without the apostrophe put before it."""
    known = {each for pair in wanted for each in pair}
    return value[1:] if value not in known and value[:1] == "'" else value


class Skeleton(HTMLParser):
    """The elements and attributes of a page, and what its JSON blocks say."""

    def __init__(self) -> None:
        """An empty one."""
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, ...]] = []
        self.blocks: list[Any] = []
        self._json = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element and the names of its attributes."""
        names = tuple(name for name, _ in attrs)
        self.elements.append((tag, *names))
        self._json = tag == "script" and ("type", "application/json") in attrs

    def handle_endtag(self, tag: str) -> None:
        """Note the end of an element."""
        self.elements.append((f"/{tag}",))
        self._json = False

    def handle_comment(self, data: str) -> None:
        """Note a comment: pages have none."""
        self.elements.append(("comment",))

    def handle_data(self, data: str) -> None:
        """Read blocks of JSON."""
        if self._json:
            self.blocks.append(json.loads(data))


def page_fault(own: str, twin: str) -> str:
    """How a page differs in structure from that of plain ids; empty if it does not."""
    if unsafe := [c for c in own if (ord(c) < 32 and c not in "\n\t") or c == "\x7f"]:
        return f"control characters in the page: {unsafe[:3]!r}"
    skeletons = []
    for page in (own, twin):
        skeleton = Skeleton()
        skeleton.feed(page)
        skeleton.close()
        skeletons.append(skeleton)
    a, b = (each.elements for each in skeletons)
    if a != b:
        at = next(
            (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
        )
        return f"element {at} of the page: {a[at - 2 : at + 3]} instead of {b[at - 2 : at + 3]}"
    if len(skeletons[0].blocks) != len(skeletons[1].blocks):
        return "another number of JSON blocks"
    return ""
