r"""Robots in a log: pages with too many clicks, unusual users, and filters to leave them out.

Given how attractive its slots are, a page's number of clicks C is a sum of independent clicks.
People differ in how eagerly they click, so each page has its own factor u,

.. math:: P(C = c) = \sum_u w_u \sum_g \pi_g P\Big(\sum_k B_k = c\Big),
          \quad B_k \sim \mathrm{Bernoulli}\big(1 - (1 - p_{gk})^u\big), \quad
          w \sim \mathrm{LogNormal}(m, s)

with p_gk the probability of a click at slot k of the pages of group g (a query, on a device). m and
s are fitted only to the pages with at most c clicks, so that robots beyond c do not affect the fit;
the number of pages expected beyond c is compared with the observed number. Since some people click
on and on, pages beyond c must also greatly outnumber a geometric tail extrapolated from the pages
with c - 1 and c clicks.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from epiclick.data.counting import number
from epiclick.data.counts import ClickCounts
from epiclick.data.page_clicks import MAX_LENGTH, PageClicks
from epiclick.data.pages import sampled_pages
from epiclick.data.placement import positions_in
from epiclick.data.schema import LogOptions

if TYPE_CHECKING:
    import ibis.expr.types as ir

MIN_SHARE = 0.005
"""Smallest share of all pages for which an excess is reported."""

MIN_RATIO = 3.0
"""Smallest ratio of observed to expected pages."""

MIN_ERRORS = 5.0
"""Smallest excess in standard errors."""

MAX_LOST = 0.05
"""Largest share of people's pages among those left out; of all pages, a tenth of this."""

MIN_LENGTH = 3
"""Shortest page for which clicks on all of its results are informative."""

MAX_QUERIES = 2_000  # of a longer log, a sample of queries is used
GROUPS = 64  # of queries with similar click rates
FACTORS = np.exp(np.linspace(-4.0, 3.5, 41))  # u
SPREADS = (0.1, 1.5)  # of log u


@dataclass(frozen=True)
class Suspicion:
    """Pages that look like those of robots.

    Attributes:
        pages: number of pages examined.
        max_clicks_per_page: suggested limit on the clicks of a page.
        beyond: pages above the limit.
        expected: pages of people that are expected above the limit.
        everywhere: whether they were found as pages on which everything was clicked.
    """

    pages: int
    max_clicks_per_page: int
    beyond: int
    expected: float
    everywhere: bool

    @property
    def message(self) -> str:
        """What was found, and the remedy."""
        most = self.max_clicks_per_page
        found = f"{self.beyond / self.pages:.1%} of pages have {most + 1} or more clicks"
        if self.everywhere:
            found = f"on {self.beyond / self.pages:.1%} of pages everything was clicked"
        return (
            f"{found}, where {self.expected / self.pages:.2%} are expected. Robots click like "
            "that, and make all positions and items look alike. If these are robots, "
            f"--max-clicks-per-page {most} (in Python: max_clicks_per_page={most}) "
            "leaves these pages out"
        )


def suspicious_pages(counts: ClickCounts, bias: np.ndarray | None = None) -> Suspicion | None:
    """Pages with far more clicks than people make; None if there are none or pages are unknown.

    Args:
        counts: a log.
        bias: (contexts,) examination probability of each context; default its click rate.
    """
    pages = counts.page_clicks
    if pages is None or not pages.pages:
        return None
    counts, bias = _by_given(counts, bias)
    places = int(_places(counts)[1].max()) + 1
    observed = np.pad(pages.clicks.astype(np.float64), (0, max(places + 1 - len(pages.clicks), 0)))
    beyond = observed.sum() - np.cumsum(observed)
    everywhere = pages.everywhere[MIN_LENGTH:].sum() >= MIN_SHARE * pages.pages
    if not _is_excess(beyond, _geometric(observed), pages.pages).any() and not everywhere:
        return None  # true of nearly all logs, so nothing is fitted
    expected = Expected.of(*slot_rates(counts, bias))
    observed = observed[: places + 1]
    return _beyond(observed, expected) or _everywhere(pages, observed, expected)


@dataclass(frozen=True, eq=False)
class Expected:
    """Expected clicks on pages of people with a factor u.

    Attributes:
        clicks: (factors, clicks) probability of 0, 1, ... clicks on a page.
        everywhere: (factors, slots + 1) probability that the first 0, 1, ... slots are all clicked.
    """

    clicks: np.ndarray
    everywhere: np.ndarray

    @classmethod
    def of(cls, rates: np.ndarray, weight: np.ndarray) -> "Expected":
        """From (groups, slots) click rates and (groups,) numbers of pages."""
        order = np.argsort(rates.sum(axis=1), kind="stable")
        share = np.cumsum(weight[order]) / weight.sum()
        bins = np.minimum((share * GROUPS).astype(int), GROUPS - 1)
        used, bins = np.unique(bins, return_inverse=True)
        size = np.bincount(bins, weight[order])
        mean = np.zeros((len(used), rates.shape[1]))
        np.add.at(mean, bins, rates[order] * weight[order, None])
        mean /= size[:, None]
        clicked = 1 - (1 - mean[:, None, :]) ** FACTORS[:, None]  # (bins, factors, slots)
        clicks = np.zeros((*clicked.shape[:2], rates.shape[1] + 1))
        clicks[..., 0] = 1
        for k in range(rates.shape[1]):
            p = clicked[..., k, None]
            clicks[..., 1:] = clicks[..., 1:] * (1 - p) + clicks[..., :-1] * p
            clicks[..., :1] *= 1 - p
        everywhere = np.cumprod(
            np.pad(clicked, ((0, 0), (0, 0), (1, 0)), constant_values=1), axis=2
        )
        share = size / size.sum()
        return cls(*(np.einsum("b,buc->uc", share, table) for table in (clicks, everywhere)))

    def fitted(self, observed: np.ndarray, most: int) -> np.ndarray:
        """(factors,) weights of u, fitted to the pages with at most `most` clicks."""
        from scipy.optimize import minimize  # slow to import, and rarely needed

        seen, allowed = observed[: most + 1], self.clicks[:, : most + 1]

        def loss(parameters: np.ndarray) -> float:
            probability = _weights(*parameters) @ allowed
            return -float(seen @ np.log(np.maximum(probability / probability.sum(), 1e-300)))

        starts = ((0.0, np.log(0.15)), (0.0, np.log(0.5)))
        bounds = ((-2.0, 2.0), tuple(np.log(SPREADS)))
        settings = {"xatol": 1e-3, "fatol": 1e-2, "maxiter": 150}
        fits = [
            minimize(loss, s, method="Nelder-Mead", bounds=bounds, options=settings) for s in starts
        ]
        return _weights(*min(fits, key=lambda fit: fit.fun).x)


def slot_rates(counts: ClickCounts, bias: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """(groups, slots) click probability at the slots of a query's pages, (groups,) its pages.

    A pair's relevance is the ratio of its clicks to those expected in its contexts, shrunk towards
    the mean; long logs are represented by a sample of queries.
    """
    counts, bias = _by_given(counts, bias)
    step = -(-counts.num_queries // MAX_QUERIES)
    if step > 1:
        counts = counts.subset(counts.query % step == 0)
    table = counts.by_context()
    rate = table["clicks"].to_numpy() / np.maximum(table["displays"].to_numpy(), 1)
    bias = rate if bias is None else np.asarray(bias, np.float64)
    looks = counts.displays * bias[counts.context]
    clicks, looks_of_pair = (
        np.bincount(counts.pair, amount, len(counts)) for amount in (counts.clicks, looks)
    )
    expected = looks * shrunk_ratio(clicks, looks_of_pair)[counts.pair]

    kind, place = _places(counts)
    key = counts.query[counts.pair] * (kind.max() + 1) + kind[counts.context]
    _, group = np.unique(key, return_inverse=True)
    at = (group, place[counts.context])
    shown, clicked = np.zeros((2, int(group.max()) + 1, int(place.max()) + 1))
    np.add.at(shown, at, counts.displays)
    np.add.at(clicked, at, expected)
    pages = shown.max(axis=1)
    return np.minimum(clicked / pages[:, None], 0.999), pages


def shrunk_ratio(clicks: np.ndarray, looks: np.ndarray) -> np.ndarray:
    """(items,) clicks per look, shrunk to the mean by the method of moments for a Gamma."""
    level = clicks.sum() / max(looks.sum(), 1e-300)
    mean = looks * level
    spread = max(float(((clicks - mean) ** 2 - mean).sum() / max((mean**2).sum(), 1e-300)), 1e-6)
    ratio: np.ndarray = level * (clicks + 1 / spread) / (mean + 1 / spread)
    return ratio


def _by_given(
    counts: ClickCounts, bias: np.ndarray | None
) -> tuple[ClickCounts, np.ndarray | None]:
    """Counts, and the bias if given, by given contexts: slots do not depend on history."""
    if counts.history and bias is not None:
        given, index = counts.given
        shown = np.bincount(counts.context, counts.displays, len(counts.contexts))
        whole = np.bincount(index, shown, len(given))
        bias = np.bincount(index, shown * bias, len(given)) / np.maximum(whole, 1)
    return counts.by_given(), bias


def _places(counts: ClickCounts) -> tuple[np.ndarray, np.ndarray]:
    """(contexts,) the kind of page of each context, such as its device, and its slot on it."""
    contexts = counts.contexts
    names = contexts.column_names
    position = positions_in(contexts, counts.options)
    if position is None:
        return np.zeros(len(contexts), int), np.arange(len(contexts))
    place = np.unique(position, return_inverse=True)[1]
    codes = [
        contexts[name].combine_chunks().dictionary_encode().indices.to_numpy()
        for name in names
        if name not in counts.options.slot
    ]
    kind = np.zeros(len(contexts), int)
    if codes:
        kind = np.unique(np.stack(codes), axis=1, return_inverse=True)[1]
    return kind, np.minimum(place, MAX_LENGTH - 1)


def _beyond(observed: np.ndarray, expected: Expected) -> Suspicion | None:
    """Pages with more clicks than a limit that nearly all people stay below."""
    pages = observed.sum()
    beyond = pages - np.cumsum(observed)
    # where too few pages are left for a warning, nothing needs to be fitted
    cuts = np.flatnonzero(beyond[:-1] >= MIN_SHARE * pages)[1:]
    people = np.array([_people_beyond(observed, expected, int(cut)) for cut in cuts])
    found = beyond[cuts]
    if not _is_excess(found, np.maximum(people, _geometric(observed)[cuts]), pages).any():
        return None
    few = (people <= MAX_LOST * (found - people)) & (people <= MAX_LOST / 10 * pages)
    if not few.any():
        return None
    first = int(np.argmax(few))
    return Suspicion(int(pages), int(cuts[first]), int(found[first]), float(people[first]), False)


def _people_beyond(observed: np.ndarray, expected: Expected, most: int) -> float:
    """Pages with more clicks than `most` that are expected given the pages with fewer."""
    clicks = expected.fitted(observed, most) @ expected.clicks
    return float(observed[: most + 1].sum() * clicks[most + 1 :].sum() / clicks[: most + 1].sum())


def _everywhere(pages: PageClicks, observed: np.ndarray, expected: Expected) -> Suspicion | None:
    """Pages on which everything was clicked; short pages do not stand out by their clicks."""
    total = observed.sum()
    weights = expected.fitted(observed, len(observed) - 1)
    chance = (weights @ expected.everywhere)[: len(pages.displays)]
    lengths = np.arange(len(chance))
    long = lengths >= MIN_LENGTH
    people = np.where(long, pages.displays[: len(chance)] * chance, 0.0)
    found = np.where(long, pages.everywhere[: len(chance)], 0)
    if not _is_excess(found.sum(), people.sum(), total):
        return None
    shortest = int(lengths[found > MIN_RATIO * people][0])
    return Suspicion(int(total), shortest - 1, int(found.sum()), float(people.sum()), True)


def _is_excess(found: np.ndarray, expected: np.ndarray, pages: float) -> np.ndarray:
    """Whether far more pages were found than expected, and more than chance explains."""
    excess = found - expected
    return (
        (excess >= MIN_SHARE * pages)
        & (found >= MIN_RATIO * expected)
        & (excess >= MIN_ERRORS * np.sqrt(expected + 1))
    )


def _geometric(observed: np.ndarray) -> np.ndarray:
    """(clicks,) pages beyond each number of clicks, extrapolated by the last ratio."""
    before = np.r_[observed[:1], observed[:-1]]
    ratio = np.minimum(observed / np.maximum(before, 1), 0.95)
    return np.where(np.arange(len(observed)) < 2, np.inf, observed * ratio / (1 - ratio))


def _weights(middle: float, log_spread: float) -> np.ndarray:
    """(factors,) a log-normal distribution of u."""
    density = np.exp(-0.5 * ((np.log(FACTORS) - middle) / np.exp(log_spread)) ** 2)
    return density / density.sum()


MIN_USER_SHARE = 0.01
"""Smallest share of all displays for which users are reported."""

MIN_BUSY_RATIO = 5.0
"""Smallest ratio of a suspected user's displays to the average user's."""

MIN_RATE_FACTOR = 2.0
"""Smallest factor by which their click rate is above or below that of the others."""

MIN_USER_ERRORS = 8.0
"""Smallest difference in standard errors; these assume independent clicks, which clicks of one
person are not."""

MAX_USERS = 0.05
"""Largest share of users that may be suspected."""


@dataclass(frozen=True)
class BusyUsers:
    """Users who are far busier than others and have an unusual click rate.

    Attributes:
        users: number of such users.
        of_users: number of users in the log.
        share: their share of the displays.
        ratio: their click rate relative to that of the others.
    """

    users: int
    of_users: int
    share: float
    ratio: float

    @property
    def message(self) -> str:
        """What was found, and the remedy."""
        share = _rounded_up(self.users / self.of_users)
        rate = f"{self.ratio:.1f}" if self.ratio >= 0.1 else f"{self.ratio:.2f}"
        return (
            f"the busiest {self.users:,} of {self.of_users:,} users make up {self.share:.1%} of "
            f"the displays, at {rate} times the click rate of the others. If these are robots, "
            f"--drop-busiest {100 * share:.12g}% (in Python: drop_busiest={share:.12g}) leaves "
            "them out"
        )


def busy_users(log: "ir.Table", pages: int | None) -> BusyUsers | None:
    """Busy users of a canonical log, from a sample of its pages if there are many."""
    import ibis  # slow to import

    whole = log
    if pages is not None:
        log = sampled_pages(log, pages)
    rows = log.filter(log.user_id.notnull())
    users = rows.group_by("user_id").aggregate(
        displays=rows.count(), clicks=number(rows.click).sum().fill_null(0).cast("int64")
    )
    table = users.order_by([ibis.desc("displays"), "user_id"]).to_pyarrow()
    found = find_busy(*(table[name].to_numpy() for name in ("displays", "clicks")))
    # a sample of pages contains all busy users, but not all others
    return found and replace(found, of_users=whole.user_id.nunique().to_pyarrow().as_py())


def find_busy(displays: np.ndarray, clicks: np.ndarray) -> BusyUsers | None:
    """The busiest users, if their click rate is unusual; (users,) inputs, busiest first."""
    most = min(math.ceil(MAX_USERS * len(displays)), len(displays) - 1)
    busy = int(np.sum(displays[:most] >= MIN_BUSY_RATIO * displays.mean())) if most > 0 else 0
    if not busy:
        return None
    shown, clicked = np.cumsum(displays[:busy]), np.cumsum(clicks[:busy])
    rest = (clicks.sum() - clicked) / (displays.sum() - shown)  # (busy,) click rate of the others
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = clicked / shown / rest
    errors = np.abs(clicked - shown * rest) / np.sqrt(shown * rest + 1)
    found = (
        (shown >= MIN_USER_SHARE * displays.sum())
        & ((ratio >= MIN_RATE_FACTOR) | (ratio <= 1 / MIN_RATE_FACTOR))
        & (errors >= MIN_USER_ERRORS)
    )
    if not found.any():
        return None
    at = int(np.argmax(np.where(found, errors, 0)))
    return BusyUsers(at + 1, len(displays), float(shown[at] / displays.sum()), float(ratio[at]))


def _rounded_up(share: float) -> float:
    """A share rounded up to two significant digits."""
    scale = 10.0 ** (1 - math.floor(math.log10(share)))
    return math.ceil(share * scale - 1e-9) / scale


def without_robots(log: "ir.Table", options: LogOptions) -> "ir.Table":
    """The canonical log without what `drop_busiest` and `max_clicks_per_page` leave out."""
    if options.drop_busiest:
        log = _without_busiest(log, options.drop_busiest)
    if options.max_clicks_per_page is not None:
        log = _without_clicked_pages(log, options.max_clicks_per_page)
    return log


def left_out(whole: "ir.Table", options: LogOptions) -> list[str]:
    """Messages on how much the options leave out of a canonical log."""
    found = []
    if options.drop_busiest:
        kept = _without_busiest(whole, options.drop_busiest)
        rows, users = (_fewer(whole, kept, column) for column in (None, "user_id"))
        found.append(f"{users:,} of the busiest users left out, with {rows:,} rows")
        whole = kept
    if options.max_clicks_per_page is not None:
        kept = _without_clicked_pages(whole, options.max_clicks_per_page)
        rows, pages = (_fewer(whole, kept, column) for column in (None, "page_id"))
        more = f"with more than {options.max_clicks_per_page} clicks"
        found.append(f"{pages:,} pages {more} left out, with {rows:,} rows")
    return found


def _without_busiest(log: "ir.Table", share: float) -> "ir.Table":
    """Rows without a user are kept."""
    import ibis

    rows = log.filter(log.user_id.notnull())
    users = rows.group_by("user_id").aggregate(displays=rows.count())
    rank = ibis.row_number().over(order_by=[ibis.desc("displays"), "user_id"])
    users = users.mutate(rank=rank, users=users.count())
    # rounding must not turn a share such as 3/1000 into 4 of 1,000
    return log.anti_join(users.filter(users.rank < (users.users * share - 1e-9).ceil()), "user_id")


def _without_clicked_pages(log: "ir.Table", most: int) -> "ir.Table":
    page = log.group_by("page_id").aggregate(clicks=number(log.click).sum())
    return log.anti_join(page.filter(page.clicks > most), "page_id")


def _fewer(whole: "ir.Table", kept: "ir.Table", column: str | None) -> int:
    """How many rows, or distinct values of a column, were removed."""
    before, after = (
        (log.count() if column is None else log[column].nunique()).to_pyarrow().as_py()
        for log in (whole, kept)
    )
    return before - after
