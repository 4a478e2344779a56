"""Users who make up much of a log and click unlike the others: robots, testers, monitoring."""

import math
from dataclasses import dataclass, replace

import ibis
import ibis.expr.types as ir
import numpy as np

from epiclick.data.counting import number
from epiclick.data.pages import sampled_pages

LEAST_SHARE = 0.01
"""Share of all displays from which on users are worth a warning."""

BUSY = 5.0
"""Displays of a suspected user for one of the average user's."""

UNLIKE = 2.0
"""Factor by which their click rate is above or below that of the others."""

LEAST_ERRORS = 8.0
"""Standard errors, as if clicks were independent: those of one person are not."""

MOST_USERS = 0.05
"""Largest share of users that may be suspected."""


@dataclass(frozen=True)
class BusyUsers:
    """Users who are busier than others and click unlike them.

    Attributes:
        users: how many they are.
        of_users: how many users the log has.
        share: their share of the displays.
        ratio: their click rate for that of the others.
    """

    users: int
    of_users: int
    share: float
    ratio: float

    @property
    def words(self) -> str:
        """What was found, and what to do about it."""
        share = _rounded_up(self.users / self.of_users)
        rate = f"{self.ratio:.1f}" if self.ratio >= 0.1 else f"{self.ratio:.2f}"
        return (
            f"the busiest {self.users:,} of {self.of_users:,} users make up {self.share:.1%} of "
            f"the displays, at {rate} times the click rate of the others. If these are robots, "
            f"--drop-busiest {100 * share:.12g}% (in Python: drop_busiest={share:.12g}) leaves "
            "them out"
        )


def busy_users(log: ir.Table, pages: int | None) -> BusyUsers | None:
    """Look at the users of a canonical log, on a sample of its pages where there are many."""
    whole = log
    if pages is not None:
        log = sampled_pages(log, pages)
    rows = log.filter(log.user_id.notnull())
    users = rows.group_by("user_id").aggregate(
        displays=rows.count(), clicks=number(rows.click).sum().fill_null(0).cast("int64")
    )
    table = users.order_by([ibis.desc("displays"), "user_id"]).to_pyarrow()
    found = find_busy(*(table[name].to_numpy() for name in ("displays", "clicks")))
    # a sample of pages has all busy users, but not all others
    return found and replace(found, of_users=whole.user_id.nunique().to_pyarrow().as_py())


def find_busy(displays: np.ndarray, clicks: np.ndarray) -> BusyUsers | None:
    """The busiest users, if they click unlike the others; users (users,) come busiest first."""
    most = min(math.ceil(MOST_USERS * len(displays)), len(displays) - 1)
    busy = int(np.sum(displays[:most] >= BUSY * displays.mean())) if most > 0 else 0
    if not busy:
        return None
    shown, clicked = np.cumsum(displays[:busy]), np.cumsum(clicks[:busy])
    rest = (clicks.sum() - clicked) / (displays.sum() - shown)  # (busy,) click rate of the others
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = clicked / shown / rest
    errors = np.abs(clicked - shown * rest) / np.sqrt(shown * rest + 1)
    found = (
        (shown >= LEAST_SHARE * displays.sum())
        & ((ratio >= UNLIKE) | (ratio <= 1 / UNLIKE))
        & (errors >= LEAST_ERRORS)
    )
    if not found.any():
        return None
    at = int(np.argmax(np.where(found, errors, 0)))
    return BusyUsers(at + 1, len(displays), float(shown[at] / displays.sum()), float(ratio[at]))


def _rounded_up(share: float) -> float:
    """A share to two digits, never below it."""
    scale = 10.0 ** (1 - math.floor(math.log10(share)))
    return math.ceil(share * scale - 1e-9) / scale
