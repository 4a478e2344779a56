"""Page lines: `query TAB item ids TAB clicked ids`, one page per line, without a header."""

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from epiclick.data.log_formats.list_columns import ListColumns
from epiclick.data.log_formats.log_format import Columns
from epiclick.errors import InputError

if TYPE_CHECKING:
    from epiclick.data.engine import Source
    from epiclick.data.schema import LogOptions

COLUMNS = ("query_id", "items", "clicks")
FIRST_LINES = 20
LONGEST = 1 << 20  # characters of a line


def are_page_lines(text: IO[str]) -> bool:
    """Whether a file begins with page lines rather than with a header.

    All of the first lines have three fields, some have several ids, and most clicks are on an id of
    their own line.
    """
    lines = [text.readline(LONGEST).rstrip("\r\n") for _ in range(FIRST_LINES)]
    pages = [line.split("\t") for line in lines if line]
    if not pages or any(len(page) != len(COLUMNS) for page in pages):
        return False
    shown, clicked = ([page[field].split() for page in pages] for field in (1, 2))
    hits = [each in ids for ids, of_page in zip(shown, clicked, strict=True) for each in of_page]
    return any(len(ids) > 1 for ids in shown) and 2 * sum(hits) > len(hits)


@dataclass(frozen=True)
class PageLines:
    """Lists of ids separated by spaces, in the order shown; pages are numbered by their lines."""

    name: str = "page-lines"
    times_clicks: bool = False

    def recognises(self, columns: Columns) -> bool:
        """Never by columns: the file has no header, and is recognised when it is opened."""
        return False

    def rows(self, source: "Source", options: "LogOptions") -> "Source":
        """A row for each item of each page."""
        if source.format != self.name:
            raise InputError(
                f"{source.name} has no page lines: lines of query, ids and clicked ids, separated "
                "by tabs, the ids by spaces, in a .tsv file without a header",
                code="not-in-format",
            )
        return ListColumns().rows(source, options)
