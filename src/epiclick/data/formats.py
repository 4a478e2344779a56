"""Open Parquet, CSV and JSON-lines files as the rows of one table."""

import csv
import gzip
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.data.engine import Source, connect, engine_errors, names_of, quote_name, quote_text
from epiclick.data.files import damage, find_files, is_zipped, kind_of, repeated_files
from epiclick.data.log_formats.page_lines import COLUMNS as PAGE_LINE
from epiclick.data.log_formats.page_lines import are_page_lines
from epiclick.data.schema import headerless_hint
from epiclick.errors import InputError, Problem

GUESSED = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID")
"""Types that DuckDB infers from JSON strings; ids must stay text."""


VIEW = "epiclick_source"


@dataclass(frozen=True)
class Place:
    """Where rows are opened: a connection that may read their files, and the name of a view."""

    connection: Any
    view: str = VIEW


def open_files(
    sources: Sequence[str | Path], header: Sequence[str] = (), place: Place | None = None
) -> Source:
    """Open files of one kind; problems of all files are reported together.

    `header` names the columns of CSV files that have no header line. `place` is where to open them,
    default a connection of their own.
    """
    files = find_files(sources)
    name = str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    kind = kind_of_all(files, name)
    notes = tuple(repeated_files(files))
    where = place or Place(connect(files))
    with engine_errors(name):
        if header and kind == "CSV":
            opened = open_headerless(files, name, header, where)
        elif kind == "CSV" and _has_page_lines(files[0]):
            opened = _open_page_lines(files, name, where)
        else:
            opened = OPENERS[kind](files, name, where)
        return replace(opened, notes=notes, owned=True)


def kind_of_all(files: Sequence[Path], name: str) -> str:
    """The kind of several files, which must be the same; damaged files are refused."""
    kinds = Counter(kind_of(file) for file in files)
    if len(kinds) > 1:
        found = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        raise InputError(
            f"files of different kinds cannot be read together: {found}; name one kind",
            code="mixed-file-kinds",
        )
    kind = next(iter(kinds))
    if problems := [p for file in files if (p := damage(file, kind)) is not None]:
        raise InputError.of(name, problems)
    return kind


def same_names(names: Sequence[str]) -> list[Problem]:
    """Column names that differ at most in case, which engines treat as one."""
    times = Counter(name.lower() for name in names)
    return [
        Problem(
            f"{count} columns are called {name}",
            remedy="Rename or remove all but one.",
            code="repeated-column",
        )
        for name, count in times.items()
        if count > 1
    ]


def _open_parquet(files: Sequence[Path], name: str, place: Place) -> Source:
    """Parquet files; columns are matched by name."""
    schemas = [pq.read_schema(file) for file in files]
    if problems := [p for schema in schemas for p in same_names(schema.names)]:
        raise InputError.of(name, problems)
    columns = {column: None for schema in schemas for column in schema.names}
    having = {column: [s for s in schemas if column in s.names] for column in columns}
    partial = {c: len(files) - len(have) for c, have in having.items() if len(have) < len(files)}
    mixed = [c for c, have in having.items() if len({_is_text(s.field(c).type) for s in have}) > 1]
    same = len({tuple(zip(s.names, map(str, s.types), strict=True)) for s in schemas}) == 1
    connection = place.connection
    # matching columns by name takes time, so only where files differ
    by_name = "" if same else ", union_by_name = true"
    _view(place, f"read_parquet({_listed(files)}, {_hive(files, columns)}{by_name})")
    return Source(connection.table(place.view), name, mixed=tuple(mixed), partial=partial)


def _open_csv(files: Sequence[Path], name: str, place: Place) -> Source:
    """CSV files, read as text: inferring types would turn the id 007 into 7."""
    headers = {file: _header(file) for file in files}
    delimiter, names = headers[files[0]]
    problems = [
        replace(each, remedy=each.remedy + headerless_hint(names)) for each in same_names(names)
    ]
    problems += [
        Problem(
            f"{file} has other columns ({', '.join(own)}) than {files[0]} ({', '.join(names)})",
            remedy="Give all files the same header, or read them separately.",
            code="columns-differ",
        )
        for file, (_, own) in headers.items()
        if own != names
    ]
    if problems := [*problems, *_mixed_compression(files)]:
        raise InputError.of(name, problems)
    return _open_lines(files, name, names, delimiter, place, header=True)


def open_headerless(files: Sequence[Path], name: str, names: Sequence[str], place: Place) -> Source:
    """CSV files without a header line, whose columns are named by the caller."""
    problems = [*same_names(names), *_mixed_compression(files)]
    firsts = {file: _first_line(file) for file in files}
    line = firsts[files[0]]
    fitting = [d for d in DELIMITERS if len(_values(line, d)) == len(names)]
    delimiter = max(fitting or DELIMITERS, key=line.count)
    if "\t" in fitting and ".tsv" in files[0].suffixes:
        delimiter = "\t"  # though a text in the line may contain as many commas
    for file, line in firsts.items():
        values = _values(line, delimiter)
        if [value.strip().lower() for value in values] == [each.lower() for each in names]:
            problems.append(
                Problem(
                    f"{file} has a header line with these very names",
                    remedy="Leave out --columns (in Python: header).",
                    code="has-header",
                )
            )
        elif len(values) != len(names):
            problems.append(
                Problem(
                    f"the first line of {file} has {len(values)} values, and {len(names)} columns "
                    f"are named: {', '.join(names)}",
                    examples=[line.strip()[:80]],
                    remedy="Name every column, in order.",
                    code="columns-differ",
                )
            )
    if problems:
        raise InputError.of(name, problems)
    return _open_lines(files, name, names, delimiter, place, header=False)


def _open_lines(
    files: Sequence[Path],
    name: str,
    names: Sequence[str],
    delimiter: str,
    place: Place,
    *,
    header: bool,
) -> Source:
    """CSV files whose columns and delimiter are known."""
    connection = place.connection
    columns = ", ".join(f"{quote_text(column)}: 'VARCHAR'" for column in names)
    _view(
        place,
        f"read_csv({_listed(files)}, auto_detect = false, header = {str(header).lower()}, "
        f"columns = {{{columns}}}, delim = {quote_text(delimiter)}, quote = '\"', escape = '\"', "
        f"store_rejects = true, compression = '{'gzip' if is_zipped(files[0]) else 'none'}', "
        f"{_hive(files, names)})",
    )

    rejected = _rejects(connection, files, len(names), delimiter)
    return Source(connection.table(place.view), name, text=True, unreadable=rejected)


def _open_page_lines(files: Sequence[Path], name: str, place: Place) -> Source:
    """Page lines, numbered; several files are read in their order."""
    if problems := _mixed_compression(files):
        raise InputError.of(name, problems)
    columns = ", ".join(f"{quote_text(column)}: 'VARCHAR'" for column in PAGE_LINE)
    _view(
        place,
        f"read_csv({_listed(files)}, auto_detect = false, header = false, columns = {{{columns}}}, "
        "delim = '\t', quote = '', escape = '', store_rejects = true, null_padding = false, "
        f"compression = '{'gzip' if is_zipped(files[0]) else 'none'}')",
        # a page without clicks has an empty third field
        "row_number() OVER () AS page_id, query_id, items, coalesce(clicks, '') AS clicks",
    )
    rejected = _rejects(place.connection, files, len(PAGE_LINE), "\t")
    rows = place.connection.table(place.view)
    return Source(rows, name, text=True, unreadable=rejected, format="page-lines")


def _rejects(
    connection: Any, files: Sequence[Path], width: int, delimiter: str
) -> Callable[[], list[Problem]]:
    """Returns the lines of text files that could not be read, after a pass over them."""

    def rejected() -> list[Problem]:
        found = connection.raw_sql(
            "SELECT file_path, line, first(error_type)::VARCHAR, first(error_message) "
            "FROM reject_errors JOIN reject_scans USING (scan_id, file_id) "
            # the connection may have rejected lines of another table's files, too
            f"WHERE file_path IN ({', '.join(quote_text(str(file)) for file in files)}) "
            "GROUP BY 1, 2 ORDER BY 1, 2"
        ).fetchall()
        if not found:
            return []
        examples = [f"{file} line {line}: {why.rstrip('.')}" for file, line, _, why in found[:3]]
        remedy = f"A line needs {width} values, in quotes if they contain '{delimiter}'."
        # an unclosed quote swallows an unknown number of lines after it
        droppable = all(error != "UNQUOTED VALUE" for _, _, error, _ in found)
        what, count = "lines that are not rows of the table", len(found)
        return [Problem(what, count, "line", examples, remedy, droppable, code="malformed-line")]

    return rejected


def _open_json(files: Sequence[Path], name: str, place: Place) -> Source:
    """JSON lines; lines that are not JSON objects are counted separately from the rows."""
    connection = place.connection
    if problems := _mixed_compression(files):
        raise InputError.of(name, problems)
    packing = "gzip" if is_zipped(files[0]) else "uncompressed"
    lines = f"{_listed(files)}, format = 'newline_delimited', compression = '{packing}'"
    # nested values are left as they are: inferring the types of deep ones takes a deep stack
    how = f"{lines}, sample_size = -1, maximum_depth = 2, union_by_name = true, {_hive(files, ())}"
    import duckdb

    flaw = ""
    try:
        types = _described(connection, f"read_json({how})")
    except duckdb.InvalidInputException as error:
        flaw = re.sub(r"\s*LINE \d+:.*", "", str(error), flags=re.S).strip()
        lines, how = (f"{each}, ignore_errors = true" for each in (lines, how))
        types = _described(connection, f"read_json({how})")
    if list(types) == ["json"]:
        raise InputError(
            f"{name} contains no JSON objects; write one object per line (JSON lines).",
            code="not-json-lines",
        )
    if problems := _same_keys(connection, lines, list(types)):
        raise InputError.of(name, problems)
    kept = {c: "VARCHAR" if kind in GUESSED else kind for c, kind in types.items()}
    listed = ", ".join(f"{quote_text(c)}: {quote_text(kind)}" for c, kind in kept.items())
    read = f"read_json({how}, columns = {{{listed}}})"
    mixed = tuple(column for column, read_as in kept.items() if read_as == "JSON")
    values = [
        f"json_extract_string({quote_name(c)}, '$') AS {quote_name(c)}"
        if c in mixed
        else quote_name(c)
        for c in kept
    ]
    blank = " AND ".join(f"{quote_name(column)} IS NULL" for column in kept)
    # a line that is not JSON becomes a row of NULLs; where all are JSON, such a row is {} or null
    _view(place, f"{read} WHERE NOT ({blank})" if flaw else read, ", ".join(values))

    def malformed() -> list[Problem]:
        if not flaw:
            return []
        (count,) = connection.raw_sql(f"SELECT count(*) FROM {read} WHERE {blank}").fetchone()
        # an unknown amount of content after a complete object on its line is skipped
        droppable = "after document" not in flaw
        remedy = "Each line must be one JSON object with values."
        what, count, examples = (
            "lines that are not JSON, or empty",
            max(count, 1),
            [flaw.rstrip(".")],
        )
        return [Problem(what, count, "line", examples, remedy, droppable, code="malformed-line")]

    return Source(connection.table(place.view), name, mixed=mixed, unreadable=malformed)


def _mixed_compression(files: Sequence[Path]) -> list[Problem]:
    """The problem that only some files are compressed, which DuckDB cannot read together."""
    if len({is_zipped(file) for file in files}) == 1:
        return []
    what = "some files are compressed and some are not"
    return [Problem(what, remedy="Read them separately.", code="mixed-compression")]


def _same_keys(connection: Any, lines: str, names: Sequence[str]) -> list[Problem]:
    """Keys of JSON objects that differ at most in case; DuckDB numbers all but one of them."""
    own = {name.lower() for name in names}
    numbered = (re.fullmatch(r"(.+)_\d+", name.lower()) for name in names)
    if not any(match and match[1] in own for match in numbered):
        return []
    query = f"SELECT DISTINCT unnest(json_keys(json)) FROM read_json_objects({lines})"
    return same_names([key for (key,) in connection.raw_sql(query).fetchall()])


OPENERS: Mapping[str, Callable[[Sequence[Path], str, Place], Source]] = {
    "Parquet": _open_parquet,
    "CSV": _open_csv,
    "JSON lines": _open_json,
}
MAX_HEADER = 1 << 20  # bytes


def _view(place: Place, rows: str, values: str = "*") -> None:
    place.connection.raw_sql(f"CREATE VIEW {place.view} AS SELECT {values} FROM {rows}")


def _described(connection: Any, rows: str) -> dict[str, str]:
    """Column names and types of some rows, as inferred by DuckDB."""
    described = connection.raw_sql(f"DESCRIBE SELECT * FROM {rows}").fetchall()
    return {row[0]: row[1] for row in described}


def _listed(files: Sequence[Path]) -> str:
    """The files as a list in SQL, with escaped names."""
    return f"[{', '.join(quote_text(names_of(file)[1]) for file in files)}]"


def _hive(files: Sequence[Path], columns: Sequence[str] | Mapping[str, None]) -> str:
    """Read folders such as day=2026-01-01 as columns, unless the files have a column `day`."""
    own = {column.lower() for column in columns}
    keys = [_partitions(file) for file in files]
    usable = bool(keys[0]) and all(k == keys[0] for k in keys) and not keys[0] & own
    return f"hive_partitioning = {str(usable).lower()}"


def is_partitioned(file: Path) -> bool:
    """Whether folders such as day=2026-01-01 may be columns of a file."""
    return bool(_partitions(file))


def _partitions(file: Path) -> set[str]:
    """The names of a file's folders that are written like day=2026-01-01."""
    return {part.split("=")[0].lower() for part in file.parts[:-1] if part.count("=") == 1}


def _has_page_lines(file: Path) -> bool:
    """Whether a text file has page lines in place of a header."""
    opened = gzip.open if is_zipped(file) else open
    with opened(file, "rt", encoding="utf-8-sig", newline="\n") as text:
        return are_page_lines(text)


DELIMITERS = ",\t;|"


def _header(file: Path) -> tuple[str, list[str]]:
    """Delimiter and column names of a CSV file; unnamed columns are named as in pandas."""
    line = _first_line(file)
    delimiter = max(DELIMITERS, key=line.count)
    names = _values(line, delimiter)
    if not names:
        raise InputError(
            f"{file} has an empty first line; it must name the columns", code="missing-header"
        )
    return delimiter, [n.strip() or f"Unnamed: {i}" for i, n in enumerate(names)]


def _values(line: str, delimiter: str) -> list[str]:
    """The values of one line."""
    return next(csv.reader([line], delimiter=delimiter), [])


def _first_line(file: Path) -> str:
    """The first line of a CSV file."""
    opened = gzip.open if is_zipped(file) else open
    with opened(file, "rb") as stream:
        first = stream.readline(MAX_HEADER)
    line = first.decode("utf-8-sig", errors="replace")
    if "\r" in line.removesuffix("\n").removesuffix("\r"):
        raise InputError(
            f"{file}: the first line contains a lone CR, as in old Mac files. End lines with LF, "
            "such as with tr '\\r' '\\n'.",
            code="lone-carriage-return",
        )
    if len(first) == MAX_HEADER:
        raise InputError(
            f"{file} has a first line of more than 1 MB; it must name the columns",
            code="header-too-long",
        )
    return line


def _is_text(kind: pa.DataType) -> bool:
    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)
    )
