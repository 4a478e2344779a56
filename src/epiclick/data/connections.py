"""Tables of any engine that Ibis connects to by a URL, counted by that engine."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from epiclick.data.credentials import hidden, keep_secret
from epiclick.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from epiclick.data.engine import Source

FROM_ENVIRONMENT = "env:"
MOST_LISTED = 30  # tables in a message
FILES = ("duckdb", "sqlite")
"""Engines whose database is a file, which a connection would create if it is missing."""


@dataclass(frozen=True)
class ConnectedTable:
    """A table of an engine.

    Attributes:
        url: where the engine is. It may contain a password, so it is not shown.
        name: the table's name, with its database and catalog where they are needed, by dots.
    """

    url: str = field(repr=False)
    name: str

    def __str__(self) -> str:
        """The name alone."""
        return self.name


def connected_tables(url: str, names: Sequence[str]) -> list[ConnectedTable]:
    """Tables at a URL; `env:NAME` takes the URL from an environment variable.

    A password in an environment variable is not in the list of processes, nor in a shell's history.
    """
    if url.startswith(FROM_ENVIRONMENT):
        variable = url.removeprefix(FROM_ENVIRONMENT)
        url = os.environ.get(variable, "")
        if not url:
            raise InputError(
                f"--connect env:{variable}: there is no environment variable {variable}",
                code="variable-not-set",
            )
    keep_secret(url)
    if "://" not in url:
        raise InputError(
            "--connect needs a URL such as postgres://user@host/database, or env:NAME, an "
            "environment variable that contains it; files are given as LOG",
            code="invalid-url",
        )
    return [ConnectedTable(url, name) for name in names]


def open_connected(tables: Sequence[ConnectedTable]) -> "Source":
    """The rows of tables of one engine, as one table."""
    from epiclick.data.engine import Source, engine_errors

    backend = connection_to(tables[0].url)
    name = f"{backend.name} table {', '.join(map(str, tables))}"
    with engine_errors(name):
        first, *others = [_find(backend, each.name) for each in tables]
        for each, other in zip(tables[1:], others, strict=True):
            if set(other.columns) != set(first.columns):
                raise InputError(
                    f"{each} has other columns ({', '.join(other.columns)}) than {tables[0]} "
                    f"({', '.join(first.columns)}); read them separately",
                    code="columns-differ",
                )
        for other in others:
            first = first.union(other.select(*first.columns))
        return Source(first, name)


@lru_cache(maxsize=4)
def connection_to(url: str) -> Any:
    """The connection to a URL; errors do not show the URL."""
    import ibis  # slow to import

    parts = urlsplit(url)
    settings = {}
    if parts.scheme in FILES:
        file = Path(parts.netloc + parts.path if parts.netloc else parts.path)
        if str(file) not in (".", ":memory:") and not file.exists():
            raise InputError(f"--connect {parts.scheme}: no file at {file}", code="file-missing")
        if parts.scheme == "duckdb" and file.exists():
            settings["read_only"] = True
    try:
        return ibis.connect(url, **settings)
    except Exception as error:  # noqa: BLE001 - drivers have exceptions of their own
        # the message of the original error may contain the password
        raise _refused(parts.scheme, error) from None


def _refused(scheme: str, error: Exception) -> InputError:
    import ibis

    if isinstance(error, ImportError) and find_spec(f"ibis.backends.{scheme}") is not None:
        return InputError(
            f"--connect {scheme}: its driver is not installed; "
            f"pip install 'ibis-framework[{scheme}]'",
            code="engine-not-installed",
        )
    if isinstance(error, ibis.IbisError | ValueError):
        known = sorted(entry.name for entry in ibis.util.backend_entry_points())
        if scheme not in known:
            return InputError(
                f"--connect {scheme}://...: no such engine{did_you_mean(scheme, known)}; Ibis "
                f"connects to {', '.join(known)}",
                code="unknown-engine",
            )
    why = hidden(" ".join(str(error).split()[:60])).rstrip(".")
    return InputError(
        f"--connect {scheme}://...: no connection ({why or type(error).__name__})",
        code="no-connection",
    )


def _find(backend: Any, name: str) -> "ir.Table":
    """A table by its name, or by catalog.database.name."""
    import ibis

    *path, table = name.split(".")
    try:
        if name in (listed := backend.list_tables()):
            return backend.table(name)
        if path:
            return backend.table(table, database=path[0] if len(path) == 1 else tuple(path))
    except ibis.IbisError:
        listed = []
    shown = ", ".join(listed[:MOST_LISTED])
    if len(listed) > MOST_LISTED:
        shown += f" and {len(listed) - MOST_LISTED} more"
    raise InputError(
        f"{backend.name} has no table '{name}'{did_you_mean(name, listed)}"
        + (f"; it has {shown}" if shown else ""),
        code="unknown-table",
    )
