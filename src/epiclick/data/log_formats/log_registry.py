"""The formats by name, which of them a table is in, and the rows it then has."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from epiclick.data.engine import Source
from epiclick.data.log_formats.ga4 import Ga4
from epiclick.data.log_formats.list_columns import ListColumns
from epiclick.data.log_formats.log_format import AUTO, ROWS, TITLES, Columns, LogFormat
from epiclick.data.log_formats.metarank import Metarank
from epiclick.data.log_formats.open_bandit import OpenBandit
from epiclick.data.log_formats.page_lines import PageLines
from epiclick.data.log_formats.snowplow import Snowplow
from epiclick.data.log_formats.two_tables import TwoTablesJoined
from epiclick.data.log_formats.ubi import Ubi
from epiclick.data.schema import ALIASES
from epiclick.data.sources import open_source, open_two
from epiclick.data.two_sources import TwoTables, two_tables_in
from epiclick.errors import InputError

if TYPE_CHECKING:
    from epiclick.data.schema import LogOptions

FORMATS: Mapping[str, LogFormat] = {
    each.name: each
    for each in (
        TwoTablesJoined(),
        Ubi(),
        Ubi("ubi-hits", only_hits=True),
        ListColumns(),
        PageLines(),
        OpenBandit(),
        Ga4(),
        Snowplow(),
        Metarank(),
    )
}
"""Name -> what reads it. Plain rows need nothing."""

UBI_NEEDS = ("query_id", "action_name")
NEEDED: Mapping[str, tuple[str, ...]] = {
    "ubi": UBI_NEEDS,
    "ubi-hits": UBI_NEEDS,
    "open-bandit": ("timestamp",),
    "ga4": ("event_name", "event_timestamp", "items", "user_pseudo_id"),
    "metarank": ("event", "id", "items", "ranking", "item", "type"),
}
"""Name -> columns without which it cannot be read; the other formats look for theirs."""


def open_rows(source: Any, options: "LogOptions") -> Source:
    """Open a log in any format as rows of single displays (or as counted rows).

    What was opened like that before stays as it is.
    """
    if isinstance(source, Source):
        return source
    source = two_tables_in(source)
    opener = open_two if isinstance(source, TwoTables) else open_source
    opened = opener(source, options.header)
    name = chosen_format(opened, options)
    if options.click_window is not None and (name == ROWS or not FORMATS[name].times_clicks):
        raise InputError(
            f"{opened.name} has no times of clicks apart from those of displays, so click_window "
            "cannot be applied; leave it out, or use --click-window none",
            code="click-window-needs-times",
        )
    if name == ROWS:
        return opened
    _check_columns(opened, name)
    return replace(FORMATS[name].rows(opened, options), format=name)


def _check_columns(opened: Source, name: str) -> None:
    """Refuse a table that is not in the format that was given."""
    columns = opened.table.columns
    if lacking := [each for each in NEEDED.get(name, ()) if each not in columns]:
        raise InputError(
            f"{opened.name} has no column {', '.join(lacking)}, so it is not in the format {name} "
            f"({TITLES[name]}); leave out --format, or name another. Its columns are "
            f"{', '.join(columns)}",
            code="not-in-format",
        )


def chosen_format(opened: Source, options: "LogOptions") -> str:
    """Name of the format: the given one, else the only one that fits the columns."""
    if opened.beside is not None:
        return TwoTablesJoined.name
    if options.format != AUTO:
        return options.format
    if opened.format != ROWS:
        return opened.format
    schema = opened.table.schema()
    columns = dict(zip(schema.names, schema.types, strict=True))
    if is_plain(columns):
        return ROWS
    found = [name for name, each in FORMATS.items() if each.recognises(columns)]
    if len(found) > 1:
        raise InputError(
            f"{opened.name} could be in several formats: "
            f"{', '.join(f'{name} ({TITLES[name]})' for name in found)}; decide with --format "
            f'{found[0]} (in Python: format="{found[0]}")',
            code="ambiguous-format",
        )
    return found[0] if found else ROWS


def is_plain(columns: Columns) -> bool:
    """Whether a table has a query, an item, and clicks under their usual names, as plain values."""
    plain = {name.lower() for name, kind in columns.items() if not kind.is_nested()}

    def has(canonical: str) -> bool:
        return bool(plain & {*ALIASES[canonical]})

    return has("query_id") and has("doc_id") and (has("click") or has("displays"))
