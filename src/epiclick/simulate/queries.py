"""Which rows belong to which query, for queries of any size and rows in any order."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, eq=False)
class QueryGroups:
    """Rows of a table grouped by query: those of query q are `rows[starts[q] : starts[q + 1]]`.

    Queries are numbered in the order in which they first appear.
    """

    rows: np.ndarray  # (pairs,) int64
    starts: np.ndarray  # (queries + 1,) int64

    @classmethod
    def of(cls, query_ids: pa.ChunkedArray) -> "QueryGroups":
        """Group by the query of each row."""
        codes = query_ids.combine_chunks().dictionary_encode().indices.to_numpy()
        starts = np.concatenate([[0], np.cumsum(np.bincount(codes))])
        return cls(np.argsort(codes, kind="stable"), starts)

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> np.ndarray:
        """(queries,) number of documents of each query."""
        return np.diff(self.starts)

    def padded(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the given queries side by side, and which of them are real.

        Returns:
            rows (len(queries), docs of the largest) int64, and a mask of that shape; padding
            repeats the query's first row.
        """
        sizes = self.sizes[queries][:, None]
        offsets = np.arange(sizes.max(initial=0))
        real = offsets < sizes
        return self.rows[self.starts[queries][:, None] + np.where(real, offsets, 0)], real
