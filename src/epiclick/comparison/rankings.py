"""Rankings to compare: tables, TREC run files, or functions that score items."""

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from epiclick.comparison.page_layout import PageLayout
from epiclick.comparison.ranking_rows import (
    Order,
    RankingRows,
    context_problems,
    is_numbered,
    order_rows,
    settle,
    table_rows,
)
from epiclick.data.arrays import as_array, distinct
from epiclick.data.engine import CANONICAL_INTEGER
from epiclick.data.features import FeatureTable
from epiclick.data.files import damage, did_you_mean_path, is_zipped
from epiclick.data.ids import folded, settle_types
from epiclick.data.schema import LogColumns, LogOptions
from epiclick.errors import InputError, Problem


def scored_rows(
    function: Callable[[pd.DataFrame], Any], features: FeatureTable | None, options: LogOptions
) -> RankingRows:
    """Rows of the features with the function's score for each.

    The function gets a DataFrame with query_id, doc_id and a column per feature.
    """
    name = f"the function {getattr(function, '__name__', type(function).__name__)}"
    problems = []
    if features is None:
        what = "a function scores features, but none are given"
        remedy = "Give features, or a table of query_id, doc_id and position."
        problems.append(Problem(what, remedy=remedy, code="features-needed"))
    if others := [column for column in options.context if column != "position"]:
        what = f"a function gives one list per query, which has no {' and no '.join(others)}"
        remedy = f"Give a table of query_id, doc_id, {', '.join(options.context)}."
        problems.append(Problem(what, remedy=remedy, code="function-without-contexts"))
    if problems or features is None:
        raise InputError.of(name, problems)
    features.refuse_open()
    keys = features.keys.select(["query_id", "doc_id"])
    # a copy for the user: a function that writes to its frame must not change the features
    values = features.rows(np.arange(len(features)))
    frame = pd.DataFrame(values, columns=list(features.names), copy=False)
    for text, own in features.categories.items():
        if text in frame:
            number = frame[text].fillna(-1).astype(int)
            frame[text] = pd.Categorical.from_codes(number, list(own))
    for at, column in enumerate(keys.column_names):
        frame.insert(at, column, keys[column].to_pandas())
    index = frame.index.copy()
    score = _scores(function(frame), index, name)
    return RankingRows(
        source=name,
        # the ids stay those of the features, where they will be looked up
        keys=settle_types(keys, LogColumns({}, {}, counted=False), LogOptions(), text=False),
        by="score",
        value=score,
        written=pa.array(score),
    )


def _scores(answer: Any, index: pd.Index, name: str) -> np.ndarray:
    """What a function returned as (rows,) float64."""
    remedy = "Return one number for each row of the frame, in its order."
    if isinstance(answer, pd.Series) and not answer.index.equals(index):
        what = "the index of the returned Series differs from the frame's, so their order may too"
        raise InputError.of(name, [Problem(what, remedy=remedy, code="scores-misaligned")])
    try:
        score = np.asarray(answer, np.float64)
    except (TypeError, ValueError) as error:
        what = f"the function did not return numbers ({error})"
        problem = Problem(what, remedy=remedy, code="scores-not-numbers")
        raise InputError.of(name, [problem]) from error
    if score.shape != index.shape:
        what = f"the function returned shape {score.shape} for {len(index):,} rows"
        raise InputError.of(name, [Problem(what, remedy=remedy, code="scores-wrong-shape")])
    return score


FIELDS = ("query_id", "Q0", "doc_id", "rank", "score", "tag")
SUFFIXES = (".run", ".trec", ".res")
DECIMAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def is_run(source: Any) -> bool:
    """Whether a source is a TREC run file: by its name, or the number of columns if it is .txt."""
    if not isinstance(source, str | Path):
        return False
    path = Path(source)
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".txt") and path.is_file() and damage(path, "TREC run") is None:
        with gzip.open(path) if is_zipped(path) else path.open("rb") as file:
            return len(file.readline().split()) == len(FIELDS)
    return name.endswith(SUFFIXES)


def run_rows(source: str | Path, options: LogOptions) -> RankingRows:
    """Rows of a TREC run: by rank where ranks number each query's documents, else by score."""
    path = Path(source)
    if not path.is_file():
        raise InputError(f"no file at {path}{did_you_mean_path(path)}.", code="file-missing")
    flaw = damage(path, "TREC run")
    if problems := [*([flaw] if flaw else []), *context_problems(options.context, FIELDS)]:
        raise InputError.of(str(path), problems)
    fields, problems = _fields(path)
    names = {name: name for name in ("query_id", "doc_id")}
    keys = pa.table({name: pa.chunked_array([fields[name]]) for name in names})
    rank = fields["rank"].cast(pa.int64()).to_numpy()
    score = fields["score"].cast(pa.float64()).to_numpy()
    # without its bad lines a file has gaps in its ranks, which are not what is wrong with it
    by_rank, notes = (None, []) if problems else _positions(keys, rank, score)
    keys, unsettled = settle(keys, LogColumns(names, {}, counted=False), options, text=True)
    return RankingRows(
        source=str(path),
        keys=keys,
        by="score" if by_rank is None else "position",
        value=score if by_rank is None else by_rank.astype(np.float64),
        written=fields["score" if by_rank is None else "rank"],
        problems=(*problems, *unsettled),
        notes=tuple(notes),
    )


def _fields(path: Path) -> tuple[dict[str, pa.Array], list[Problem]]:
    """The well-formed lines as (lines,) columns of text, and the problems of the others."""
    with gzip.open(path) if is_zipped(path) else path.open("rb") as file:
        text = file.read().removeprefix(b"\xef\xbb\xbf")
    lines = pc.ascii_trim_whitespace(_lines(text))
    words = pc.ascii_split_whitespace(lines)
    width = pc.list_value_length(words).to_numpy()
    blank = pc.equal(lines, "").to_numpy(zero_copy_only=False)
    six = width == len(FIELDS)
    values = pc.list_flatten(words if six.all() else words.filter(pa.array(six)))
    at = np.arange(0, len(values), len(FIELDS))
    fields = {name: values.take(at + i) for i, name in enumerate(FIELDS)}
    whole_rank = _is_number(fields["rank"], pa.int64(), CANONICAL_INTEGER)
    finite = _is_number(fields["score"], pa.float64(), DECIMAL)
    number = np.flatnonzero(six) + 1

    def named(column: str, good: np.ndarray) -> list[str]:
        return [
            f"line {number[i]}: {column} '{fields[column][int(i)]}'"
            for i in np.flatnonzero(~good)[:1]
        ]

    other = np.flatnonzero(~six & ~blank)
    short = [f"line {i + 1}: {width[i]} column{'' if width[i] == 1 else 's'}" for i in other[:1]]
    found = [
        Problem(
            "lines without the six columns of a TREC run",
            len(other),
            "line",
            short,
            "A run has lines of: qid Q0 docid rank score tag.",
            code="malformed-line",
        ),
    ]
    for column, good, what, code in (
        ("rank", whole_rank, "rank must be a whole number", "rank-not-whole"),
        ("score", finite, "score must be a finite number", "score-not-finite"),
    ):
        found.append(Problem(what, int((~good).sum()), "line", named(column, good), code=code))
    if not (whole_rank & finite).all():
        good = pa.array(whole_rank & finite)
        fields = {name: column.filter(good) for name, column in fields.items()}
    return fields, [problem for problem in found if problem.count]


def _lines(text: bytes) -> pa.Array:
    """The lines of a text that is known to be UTF-8, with their line breaks; nothing is copied."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
    # an empty last line is blank, and blank lines are skipped
    offsets = np.concatenate([[0], ends, [len(text)]])
    return pa.LargeStringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(text)
    )


def _positions(
    keys: pa.Table, rank: np.ndarray, score: np.ndarray
) -> tuple[np.ndarray | None, list[str]]:
    """(rows,) position of each document, None if scores must decide the order; and notes."""
    queries, page = distinct({"query_id": keys["query_id"].combine_chunks()})
    total, notes = f"{len(queries):,} queries", []
    position = rank
    if len(rank) and is_numbered(page, rank + 1):
        position = rank + 1
        notes.append("ranks start at 0 in all queries, so 1 was added to each")
    if not is_numbered(page, position):
        wrong = (
            "ranks do not number the documents of each query 1, 2, 3 ...; as trec_eval does, "
            "documents were ordered by score"
        )
        return None, [wrong]
    order = np.lexsort((position, page))
    rises = (np.diff(page[order]) == 0) & (np.diff(score[order]) > 0)
    if rises.any():
        differing = len(np.unique(page[order][1:][rises]))
        notes.append(
            f"in {differing:,} of {total} the order by score differs from that by rank; "
            "the rank was used"
        )
    return position, notes


def _is_number(column: pa.Array, kind: pa.DataType, pattern: str) -> np.ndarray:
    """(lines,) whether the text is a finite number of a kind."""
    try:
        # nearly always all values are numbers, and no pattern has to be matched
        return np.isfinite(column.cast(kind).to_numpy())
    except pa.ArrowInvalid:
        good = np.array(pc.match_substring_regex(column, pattern).to_numpy(zero_copy_only=False))
        # 1e999 is written like a number, but overflows
        good[good] = np.isfinite(column.filter(pa.array(good)).cast(kind).to_numpy())
        return good


@dataclass(frozen=True, eq=False)
class Ranking:
    """Which item a ranker shows where: one row per slot, ordered by list, then position.

    Attributes:
        name: of the ranker.
        query_id: (slots,) query of each slot's list.
        doc_id: (slots,) the item.
        page: (slots,) int64, number of the list (0, 1, ...) each slot belongs to; a query may have
            several lists, distinguished by page_id or by context columns such as a device.
        contexts: (slots rows) the context columns in the order given, with that of the slot.
        repeated: context columns that the source lacks, over whose values lists are repeated.
        notes: what a user must know: ties broken, deeper positions cut, ...
    """

    name: str
    query_id: pa.Array
    doc_id: pa.Array
    page: np.ndarray  # (slots,)
    contexts: pa.Table
    notes: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Number of slots."""
        return len(self.page)

    @property
    def lists(self) -> int:
        """Number of lists."""
        return int(self.page[-1]) + 1 if len(self) else 0

    @property
    def position(self) -> np.ndarray:
        """(slots,) position in the list, from 1; that on the page is one of the contexts."""
        first = np.flatnonzero(np.diff(self.page, prepend=-1))
        position: np.ndarray = np.arange(len(self)) - first[self.page] + 1
        return position


def read_ranking(
    source: Any,
    name: str,
    *,
    context: Sequence[str] = ("position",),
    ids: Literal["auto", "string", "integer"] | None = None,
    depth: int | None = None,
    features: FeatureTable | None = None,
    layout: PageLayout | None = None,
) -> Ranking:
    """Read the ranking of one ranker.

    Args:
        source: a Parquet, CSV or JSON-lines file, a pandas DataFrame, an Arrow or Ibis table with
            `query_id`, `doc_id`, `position` (or, without it, `score`: the highest comes first),
            the context columns, and `page_id` where a query has several lists; a tuple of such a
            table and the name of its column of scores; a TREC run file; or a function that returns
            one score for each row of a DataFrame of features. A Ranking is returned unchanged.
        name: of the ranker, for messages and results.
        context: the model's context columns, `position` among them.
        ids: `auto` keeps ids as they are (text files: integers where all are); or force a type.
        depth: the last position kept; default all.
        features: what a function scores; other sources need none.
        layout: of the model's pages, in place of `context`. Lists without some context column are
            then repeated over its values, and queries are normalised as in the model's log.
    """
    if isinstance(source, Ranking):
        return source
    if layout is not None:
        context = ("position", *layout.others)
    if "position" not in context:
        raise InputError(
            f"context {', '.join(context)}: rankings can only be compared by a model whose "
            "contexts include the position",
            code="context-without-position",
        )
    if depth is not None and depth < 1:
        raise InputError(f"depth must be 1 or more, not {depth}", code="depth-out-of-range")
    options = LogOptions(context=tuple(context), ids=ids or "auto")
    try:
        rows = _rows(source, features, options, partial=layout is not None)
        if layout is not None and layout.options.normalise_queries:
            rows = _normalised(rows)
        order = order_rows(rows)
    except InputError as error:
        raise error.with_message(f"ranking '{name}': {error}") from error
    keep = slice(None) if depth is None else order.position <= depth
    row, page, position = order.row[keep], order.page[keep], order.position[keep]
    columns = {n: as_array(rows.keys[n]).take(pa.array(row)) for n in rows.keys.column_names}
    columns["position"] = pa.array(position)
    ranking = Ranking(
        name=name,
        query_id=columns["query_id"],
        doc_id=columns["doc_id"],
        page=page,
        contexts=pa.table({each: columns[each] for each in context if each in columns}),
        notes=(*rows.notes, *_notes(order, depth)),
    )
    return ranking if layout is None else laid_out(ranking, layout)


def laid_out(ranking: Ranking, layout: PageLayout) -> Ranking:
    """A ranking in the slots of a model's pages, in every kind of list that it does not name."""
    present = {n: ranking.contexts[n].combine_chunks() for n in ranking.contexts.column_names}
    position = present.pop("position").to_numpy()
    missing = tuple(name for name in layout.others if name not in present)
    notes = ranking.notes
    if missing:
        try:
            copies = layout.repeated(ranking.page, present)
        except InputError as error:
            raise error.with_message(f"ranking '{ranking.name}': {error}") from error
        if copies.cut:
            which = f"the last position that the log shows there, by {', '.join(layout.others)}"
            notes += (f"{copies.cut:,} slots of repeated lists are below {which}, and are cut",)
        rows, position, kinds = pa.array(copies.slot), position[copies.slot], layout.kinds[0]
        present = {name: kinds[name].take(pa.array(copies.kind)) for name in kinds.column_names}
        ranking = replace(
            ranking,
            query_id=ranking.query_id.take(rows),
            doc_id=ranking.doc_id.take(rows),
            page=copies.page,
            repeated=missing,
        )
    on_page, moved = layout.on_page(position)
    columns = {**present, **layout.cells(on_page)}
    return replace(
        ranking,
        contexts=pa.table({name: columns[name] for name in layout.names}),
        notes=(*notes, *moved),
    )


def _normalised(rows: RankingRows) -> RankingRows:
    """Rows whose queries are normalised as those of a log; lists of the same query are one."""
    query = as_array(rows.keys["query_id"])
    if not (pa.types.is_string(query.type) or pa.types.is_large_string(query.type)):
        return rows
    at = rows.keys.column_names.index("query_id")
    return replace(rows, keys=rows.keys.set_column(at, "query_id", folded(query)))


def _rows(
    source: Any, features: FeatureTable | None, options: LogOptions, *, partial: bool
) -> RankingRows:
    """The rows of a ranking, whatever its source; it may lack contexts if `partial`."""
    if isinstance(source, tuple):
        table, score = source
        return table_rows(table, options, score, partial=partial)
    alone = replace(options, context=("position",)) if partial else options
    if is_run(source):
        return run_rows(source, alone)
    if callable(source):
        return scored_rows(source, features, alone)
    return table_rows(source, options, partial=partial)


def _notes(order: Order, depth: int | None) -> list[str]:
    """Notes on ties among the slots that are kept, and on slots that are cut."""
    slots = len(order.position)
    kept = np.ones(slots, bool) if depth is None else order.position <= depth
    notes = []
    if tied := int(order.tied[kept].sum()):
        notes.append(
            f"{tied:,} of {int(kept.sum()):,} slots show a document whose score ties with another "
            "in its list; ties were broken by doc_id"
        )
    if cut := slots - int(kept.sum()):
        notes.append(f"{cut:,} of {slots:,} slots are deeper than position {depth} and were cut")
    return notes
