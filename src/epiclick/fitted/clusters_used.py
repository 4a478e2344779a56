"""What robust intervals of a model come from: the differences between queries, users, days."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from epiclick.data.clusters import FEW_CLUSTERS, ClusterCounts

if TYPE_CHECKING:
    from epiclick.fitted.state import FittedModel

PLURALS: Mapping[str, str] = {"query": "queries", "user": "users", "page": "pages"}


@dataclass(frozen=True)
class ClustersUsed:
    """The clusters whose differences give the uncertainty of a fit.

    Attributes:
        by: `query`, `user`, `page`, or a column of the log.
        clusters: number of clusters.
        groups: number of groups that they were hashed into.
    """

    by: str
    clusters: int
    groups: int

    @classmethod
    def of(cls, fitted: "FittedModel", clusters: ClusterCounts | None) -> Self:
        """Those of a fit to counts with these clusters; None for queries."""
        if clusters is not None:
            return cls(clusters.by, clusters.clusters, clusters.groups)
        queries = len(fitted.queries.train) + len(fitted.queries.held_out)
        return cls("query", queries, queries)

    @classmethod
    def stored(cls, fitted: "FittedModel") -> Self:
        """Those that the checks of a fit recorded; queries for older models."""
        record = (fitted.training.checks.get("posterior") or {}).get("clusters")
        return cls.of(fitted, None) if record is None else cls(**record)

    @property
    def are_few(self) -> bool:
        """Whether there are too few to estimate uncertainty from."""
        return self.groups < FEW_CLUSTERS

    @property
    def plural(self) -> str:
        """What they are: queries, users, pages, values of day."""
        return PLURALS.get(self.by, f"values of {self.by}")

    @property
    def number(self) -> str:
        """How many of what: 1 query, 7 values of day, 1,200 users in 100 groups."""
        grouped = f" in {self.groups:,} groups" if self.groups < self.clusters else ""
        named = self.by if self.clusters == 1 and self.by in PLURALS else self.plural
        return f"{self.clusters:,} {named}{grouped}"

    def sentence(self) -> str:
        """Where intervals come from."""
        source = "Robust intervals come from the differences between"
        if not self.are_few:
            return f"{source} {self.number}."
        return (
            f"{source} {self.plural}, of which there are only {self.clusters}: see also those of "
            "kind='bayes', or name other clusters, such as --cluster user."
        )

    def to_dict(self) -> dict[str, Any]:
        """A record, read back by `stored`."""
        return asdict(self)
