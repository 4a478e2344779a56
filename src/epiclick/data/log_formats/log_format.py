"""What a format is, and the names of all of them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from epiclick.data.engine import Source
    from epiclick.data.schema import LogOptions

AUTO, ROWS = "auto", "rows"

TITLES: Mapping[str, str] = {
    ROWS: "one row per display, or counted rows",
    "two-tables": "a table of impressions and a table of clicks",
    "ubi": "OpenSearch UBI, queries and events",
    "ubi-hits": "OpenSearch UBI, displays from query_response_hit_ids",
    "list-columns": "one row per page, items and clicks as lists",
    "page-lines": "one line per page: query, item ids, clicked ids",
    "open-bandit": "Open Bandit Dataset",
    "ga4": "Google Analytics 4, BigQuery export",
    "snowplow": "Snowplow ecommerce events",
    "metarank": "Metarank events",
}
"""Name -> title. `log_registry.FORMATS` has what reads each of them, except plain rows."""

Columns = Mapping[str, Any]
"""Names of the columns of an opened table -> their Ibis types."""


class LogFormat(Protocol):
    """Turns an opened table into the log relation.

    The log relation has one row per display under the canonical names `query_id`, `doc_id`,
    `position` and `click`, where the format has them `page_id` and `user_id`, and whatever else it
    knows (`timestamp`, `day`, `device`, `add_to_cart`, ...). Everything after it reads this table
    as it would a log that was written like that.
    """

    @property
    def name(self) -> str:
        """Its name, a key of `TITLES`."""
        ...

    @property
    def times_clicks(self) -> bool:
        """Whether it has the times of clicks and of displays, so that a click can come too late."""
        ...

    def recognises(self, columns: Columns) -> bool:
        """Whether a table can only be in this format, judged by its columns."""
        ...

    def rows(self, source: "Source", options: "LogOptions") -> "Source":
        """The log relation: table, messages, and what cannot be read."""
        ...
