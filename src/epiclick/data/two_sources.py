"""A log in two parts: a table of impressions, and a table of the clicks on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epiclick.errors import InputError

ROLES = ("impressions", "clicks")


@dataclass(frozen=True)
class TwoTables:
    """Impressions, one row per display, and clicks, one row each, joined on page and item.

    Each is anything that a log can be; both must be in one engine.
    """

    impressions: Any
    clicks: Any


def without_role(path: str | Path) -> tuple[str, str]:
    """The role of a path such as `clicks=clicks.parquet` ("" if it has none), and the path.

    >>> without_role("clicks=today.csv")
    ('clicks', 'today.csv')
    """
    role, equals, rest = str(path).partition("=")
    # a folder may be named like that, too
    if equals and rest and role in ROLES and not Path(path).exists():
        return role, rest
    return "", str(path)


def with_roles(impressions: Sequence[str], clicks: Sequence[str]) -> list[str]:
    """Paths that say themselves which table they belong to, as one list of files."""
    return [
        f"{role}={path}"
        for role, paths in zip(ROLES, (impressions, clicks), strict=True)
        for path in paths
    ]


def two_tables_in(source: Any) -> Any:
    """The two tables if the paths of a source have roles, else the source itself."""
    several = source if isinstance(source, list | tuple) else [source]
    if not all(isinstance(path, str | Path) for path in several):
        return source
    named = [without_role(path) for path in several]
    if not any(role for role, _ in named):
        return source
    paths = {role: [path for own, path in named if own == role] for role in (*ROLES, "")}
    if paths[""] or not (paths["impressions"] and paths["clicks"]):
        raise InputError(
            "impressions and clicks are given together: --impressions FILE --clicks FILE, and no "
            "other log beside them",
            code="impressions-need-clicks",
        )
    return TwoTables(paths["impressions"], paths["clicks"])
