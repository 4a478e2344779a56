"""Log files: found, checked for damage, opened by kind."""

import csv
import glob
import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from epiclick.data.engine import Source, connect, engine_errors, quote_name, quote_text
from epiclick.errors import InputError, Problem


def open_files(sources: Sequence[str | Path]) -> Source:
    """Open files of one kind; all that is wrong with them as files is told at once."""
    files = find_files(sources)
    kinds = Counter(_kind(file) for file in files)
    if len(kinds) > 1:
        found = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        raise InputError(
            f"files of different kinds cannot be read together: {found}; name one kind"
        )
    kind = next(iter(kinds))
    name = str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
    if problems := [p for file in files if (p := _damage(file, kind)) is not None]:
        raise InputError.of(name, problems)
    with engine_errors(name):
        return OPENERS[kind](files, name)


def find_files(sources: Sequence[str | Path]) -> list[Path]:
    """The files behind paths, globs and folders (searched to any depth), each name in order."""
    files: list[Path] = []
    lost: list[Problem] = []
    for source in sources:
        path = Path(source)
        if path.is_dir():
            below = sorted(p for p in path.rglob("*") if p.is_file())
            found = [p for p in below if _kind(p) and not p.name.startswith((".", "_"))]
        elif path.is_file():
            found = [path]
        else:
            matches = sorted(glob.glob(str(source), recursive=True))
            found = [Path(match) for match in matches if Path(match).is_file()]
        if not found:
            lost.append(Problem(f"no file at {source}", remedy=f"Known kinds: {KNOWN}."))
        files += found
    if unknown := [file for file in files if not _kind(file)]:
        examples = [str(file) for file in unknown[:3]]
        remedy = f"Known kinds: {KNOWN}."
        lost.append(Problem("files of no known kind", len(unknown), "file", examples, remedy))
    if lost:
        raise InputError.of("the input", lost)
    return files


SUFFIXES: Mapping[str, str] = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".csv": "CSV",
    ".tsv": "CSV",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".json": "JSON lines",
}
KNOWN = ".parquet, .csv, .tsv, .jsonl, .ndjson, .json, the text kinds also as .gz"


def _kind(file: Path) -> str:
    """The kind of a file by its name, "" if unknown."""
    stem = file.name.lower()
    plain = stem.removesuffix(".gz")
    kind = SUFFIXES.get(Path(plain).suffix, "")
    return "" if plain != stem and kind == "Parquet" else kind


def _zipped(file: Path) -> bool:
    return file.name.lower().endswith(".gz")


def _damage(file: Path, kind: str) -> Problem | None:
    """What makes a file unreadable as a whole, if anything does."""
    try:
        if kind == "Parquet":
            pq.read_metadata(file)
        elif file.stat().st_size == 0:
            return Problem(f"{file} is empty", remedy="Leave it out or write it again.")
        elif _zipped(file):
            # DuckDB reads a cut-off archive up to the cut without a word
            with gzip.open(file) as stream:
                while stream.read(1 << 22):
                    pass
    except (pa.ArrowInvalid, EOFError, gzip.BadGzipFile, zlib.error, OSError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        return Problem(
            f"{file} is damaged or cut off ({reason})", remedy="Copy or write it again, whole."
        )
    return None


def _open_parquet(files: Sequence[Path], name: str) -> Source:
    """Parquet files; columns are matched by name, and must agree in kind between files."""
    schemas = [pq.read_schema(file) for file in files]
    columns = {column: None for schema in schemas for column in schema.names}
    having = {column: [s for s in schemas if column in s.names] for column in columns}
    partial = {c: len(files) - len(have) for c, have in having.items() if len(have) < len(files)}
    mixed = [c for c, have in having.items() if len({_is_text(s.field(c).type) for s in have}) > 1]
    same = len({tuple(zip(s.names, map(str, s.types), strict=True)) for s in schemas}) == 1
    connection = connect()
    listed = ", ".join(quote_text(str(file)) for file in files)
    # matching columns by name costs time, so only where files differ
    by_name = "" if same else ", union_by_name = true"
    connection.raw_sql(
        f"CREATE VIEW epiclick_source AS SELECT * FROM read_parquet([{listed}]{by_name})"
    )
    return Source(connection.table("epiclick_source"), name, mixed=tuple(mixed), partial=partial)


def _open_csv(files: Sequence[Path], name: str) -> Source:
    """CSV files, read as text by their own header: guessing types would turn the id 007 into 7."""
    headers = {file: _header(file) for file in files}
    delimiter, names = headers[files[0]]
    problems = [
        Problem(f"{file} has other columns ({', '.join(own)}) than {files[0]} ({', '.join(names)})")
        for file, (_, own) in headers.items()
        if own != names
    ]
    if repeated := [n for n, times in Counter(names).items() if times > 1]:
        problems.append(Problem(f"two columns are called {', '.join(repeated)}"))
    if problems:
        raise InputError.of(name, problems)
    connection = connect()
    listed = ", ".join(quote_text(str(file)) for file in files)
    connection.raw_sql(
        f"""
        CREATE VIEW epiclick_source AS SELECT * FROM read_csv(
            [{listed}], auto_detect = false, header = true,
            columns = {{{", ".join(f"{quote_text(n)}: 'VARCHAR'" for n in names)}}},
            delim = {quote_text(delimiter)}, quote = '"', escape = '"', store_rejects = true)
        """
    )

    def rejected() -> list[Problem]:
        found = connection.raw_sql(
            "SELECT file_path, line, first(error_message) FROM reject_errors "
            "JOIN reject_scans USING (scan_id, file_id) GROUP BY 1, 2 ORDER BY 1, 2"
        ).fetchall()
        if not found:
            return []
        examples = [f"{file} line {line}: {said.rstrip('.')}" for file, line, said in found[:3]]
        remedy = f"A line needs {len(names)} values, in quotes where they hold '{delimiter}'."
        return [
            Problem("lines that are not rows of the table", len(found), "line", examples, remedy)
        ]

    return Source(connection.table("epiclick_source"), name, text=True, unreadable=rejected)


def _open_json(files: Sequence[Path], name: str) -> Source:
    """JSON lines; a line that is no JSON comes as a row of NULLs, and is counted apart."""
    connection = connect()
    listed = ", ".join(quote_text(str(file)) for file in files)
    zipped = {_zipped(file) for file in files}
    packing = "auto_detect" if len(zipped) > 1 else "gzip" if zipped == {True} else "uncompressed"
    read = (
        f"read_json([{listed}], format = 'newline_delimited', sample_size = -1, "
        f"ignore_errors = true, union_by_name = true, compression = '{packing}')"
    )
    types = {
        row[0]: row[1] for row in connection.raw_sql(f"DESCRIBE SELECT * FROM {read}").fetchall()
    }
    mixed = tuple(column for column, kind in types.items() if kind == "JSON")
    values = [
        f"json_extract_string({quote_name(c)}, '$') AS {quote_name(c)}"
        if c in mixed
        else quote_name(c)
        for c in types
    ]
    blank = " AND ".join(f"{quote_name(column)} IS NULL" for column in types)
    connection.raw_sql(
        f"CREATE VIEW epiclick_source AS SELECT {', '.join(values)} FROM {read} WHERE NOT ({blank})"
    )

    def malformed() -> list[Problem]:
        (count,) = connection.raw_sql(f"SELECT count(*) FROM {read} WHERE {blank}").fetchone()
        remedy = "Each line must be one JSON object."
        return [Problem("lines that are not JSON", count, "line", (), remedy)] if count else []

    return Source(connection.table("epiclick_source"), name, mixed=mixed, unreadable=malformed)


OPENERS: Mapping[str, Callable[[Sequence[Path], str], Source]] = {
    "Parquet": _open_parquet,
    "CSV": _open_csv,
    "JSON lines": _open_json,
}


def _header(file: Path) -> tuple[str, list[str]]:
    """Delimiter and column names of a CSV file; a nameless column is called by its place."""
    opened = gzip.open if _zipped(file) else open
    with opened(file, "rt", encoding="utf-8-sig", newline="") as stream:
        line = stream.readline()
    delimiter = max(",\t;|", key=line.count)
    names = next(csv.reader([line], delimiter=delimiter))
    return delimiter, [n.strip() or f"column{i}" for i, n in enumerate(names)]


def _is_text(kind: pa.DataType) -> bool:
    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)
    )
