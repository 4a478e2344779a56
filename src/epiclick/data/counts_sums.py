"""What cannot be known about the sum of counts, and what suggests that rows were counted twice."""

from collections import Counter
from collections.abc import Sequence

from epiclick.data.clusters import AUTOMATIC, FEW_CLUSTERS
from epiclick.data.counts import ClickCounts


def uncertain_sums(total: ClickCounts, several: Sequence[ClickCounts]) -> list[str]:
    """Warnings about a sum of counts of several logs."""
    if len(several) < 2:
        return []
    return [*_parts_twice(several), *_clusters(total, several)]


def _parts_twice(several: Sequence[ClickCounts]) -> list[str]:
    """A warning if logs share parts in time, such as a day that was counted yesterday, too."""
    if any(c.parts is None or c.options.page_parts is not None for c in several):
        return []
    times = Counter(part for c in several if c.parts is not None for part in c.parts.to_pylist())
    shared = sorted(part for part, n in times.items() if n > 1)
    if not shared:
        return []
    column = several[0].options.part or "part"
    return [
        f"{len(shared):,} of {len(times):,} values of {column}, first {shared[0]}, are in several "
        "of the logs; are their rows counted twice?"
    ]


def _clusters(total: ClickCounts, several: Sequence[ClickCounts]) -> list[str]:
    """Warnings about groups of users: lost in the sum, or of unknown number."""
    own = [c.clusters for c in several if c.clusters is not None]
    if total.clusters is not None:
        if total.clusters.is_hashed and total.clusters.by != "page":
            return [
                f"which of the {total.clusters.by}s of the logs are the same is not known: there "
                f"are {total.clusters.clusters:,} or more. Intervals do not depend on it"
            ]
        return []
    few = total.num_queries < max(AUTOMATIC.values())
    if own and few and total.options.cluster != "query":
        return [
            f"there are fewer than {FEW_CLUSTERS} queries, and the logs differ in what else their "
            "intervals could be based on, so that it is left out. Count all logs at once, or each "
            "with the same --cluster"
        ]
    return []
