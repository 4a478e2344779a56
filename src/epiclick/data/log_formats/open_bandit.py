"""Open Bandit Dataset: recommendations at three positions, without a query and without pages."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from epiclick.data.log_formats.log_format import Columns
from epiclick.data.log_formats.nested import time_of

if TYPE_CHECKING:
    from epiclick.data.engine import Source
    from epiclick.data.schema import LogOptions

NEEDED = {"timestamp", "item_id", "position", "click", "propensity_score"}
QUERY = "all"


@dataclass(frozen=True)
class OpenBandit:
    """All rows belong to one query: every user may be shown every item of the campaign."""

    name: str = "open-bandit"
    times_clicks: bool = False

    def recognises(self, columns: Columns) -> bool:
        """The columns of the published files; a log with queries of its own is plain."""
        return {*columns} >= NEEDED and any(name.startswith("user_feature") for name in columns)

    def rows(self, source: "Source", options: "LogOptions") -> "Source":
        """The rows as they are, with a query and the day."""
        import ibis

        table = source.table
        day = time_of(table.timestamp).date()
        return replace(source, table=table.mutate(query_id=ibis.literal(QUERY), day=day))
