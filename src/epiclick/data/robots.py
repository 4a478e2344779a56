r"""Robots in a log: pages with too many clicks, users unlike the others, rows left out on request.

Given how attractive its slots are, a page's number of clicks C is a sum of independent clicks.
People differ in how eagerly they click, so the clicks of a page get a factor u of their own,

.. math:: P(C = c) = \sum_u w_u \sum_g \pi_g P\Big(\sum_k B_k = c\Big),
          \quad B_k \sim \mathrm{Bernoulli}\big(1 - (1 - p_{gk})^u\big), \quad
          w \sim \mathrm{LogNormal}(m, s)

with p_gk the probability of a click at slot k of the pages of group g (a query, on a device). m and
s are fitted to the pages with at most c clicks alone, so that robots beyond c cannot explain
themselves away; what the fit expects beyond c is compared with what is there. Some people go on
clicking, too: so pages beyond c must also be many more than a geometric tail, continued from the
pages with c - 1 and c clicks, would give.
"""

import math
from dataclasses import dataclass, replace

import ibis
import ibis.expr.types as ir
import numpy as np

from epiclick.data.counting import number
from epiclick.data.counts import ClickCounts
from epiclick.data.pages import MOST, PageClicks, sampled_pages
from epiclick.data.schema import LogOptions

LEAST_SHARE = 0.005
"""Share of all pages from which on an excess is worth a warning."""

LEAST_RATIO = 3.0
"""Observed pages for one expected."""

LEAST_ERRORS = 5.0
"""Standard errors of the excess."""

MOST_LOST = 0.05
"""Largest share of people's pages among those left out; of all pages, a tenth of this."""

SHORTEST = 3
"""Displays of a page from which on it says something that all of them were clicked."""

LOOKED_AT = 2_000  # queries that stand for all
GROUPS = 64  # of queries with similar click rates
FACTORS = np.exp(np.linspace(-4.0, 3.5, 41))  # u
SPREADS = (0.1, 1.5)  # of log u


@dataclass(frozen=True)
class Suspicion:
    """Pages that look like those of robots.

    Attributes:
        pages: how many were looked at.
        max_clicks_per_page: clicks that a page may have to be kept.
        beyond: pages with more.
        expected: pages with more that people make.
        everywhere: whether they were found as pages on which everything was clicked.
    """

    pages: int
    max_clicks_per_page: int
    beyond: int
    expected: float
    everywhere: bool

    @property
    def words(self) -> str:
        """What was found, and what to do about it."""
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
    """Pages with many more clicks than people make; None if there are none, or pages are unknown.

    Args:
        counts: a log.
        bias: (contexts,) how much each context is looked at; without a model, its click rate.
    """
    pages = counts.page_clicks
    if pages is None or not pages.pages:
        return None
    counts, bias = _by_given(counts, bias)
    places = int(_places(counts)[1].max()) + 1
    observed = np.pad(pages.clicks.astype(np.float64), (0, max(places + 1 - len(pages.clicks), 0)))
    beyond = observed.sum() - np.cumsum(observed)
    everywhere = pages.everywhere[SHORTEST:].sum() >= LEAST_SHARE * pages.pages
    if not _is_excess(beyond, _geometric(observed), pages.pages).any() and not everywhere:
        return None  # as for nearly all logs, before anything is fitted
    expected = Expected.of(*slot_rates(counts, bias))
    observed = observed[: places + 1]
    return _beyond(observed, expected) or _everywhere(pages, observed, expected)


@dataclass(frozen=True, eq=False)
class Expected:
    """Clicks of pages as people with a factor u make them.

    Attributes:
        clicks: (factors, clicks) probability of 0, 1, ... clicks on a page.
        everywhere: (factors, slots + 1) probability that the first 0, 1, ... slots are all clicked.
    """

    clicks: np.ndarray
    everywhere: np.ndarray

    @classmethod
    def of(cls, rates: np.ndarray, weight: np.ndarray) -> "Expected":
        """From (groups, slots) click rates, and (groups,) the number of pages of each."""
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
        """(factors,) weights of u, fitted to the pages with at most so many clicks."""
        from scipy.optimize import minimize  # slow to load, and hardly ever needed

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
    """(groups, slots) probability of a click at the slots of a query's pages, (groups,) its pages.

    A pair's relevance is its clicks for those expected at its contexts, shrunk to the mean as far
    as pairs are alike (the moments of a Gamma); of long logs, some queries stand for all.
    """
    counts, bias = _by_given(counts, bias)
    step = -(-counts.num_queries // LOOKED_AT)
    if step > 1:
        counts = counts.subset(counts.query % step == 0)
    table = counts.by_context()
    rate = table["clicks"].to_numpy() / np.maximum(table["displays"].to_numpy(), 1)
    bias = rate if bias is None else np.asarray(bias, np.float64)
    looks = counts.displays * bias[counts.context]
    clicks, looks_of_pair = (
        np.bincount(counts.pair, amount, len(counts)) for amount in (counts.clicks, looks)
    )
    level = clicks.sum() / max(looks_of_pair.sum(), 1e-300)
    mean = looks_of_pair * level
    spread = max(float(((clicks - mean) ** 2 - mean).sum() / max((mean**2).sum(), 1e-300)), 1e-6)
    relevance = level * (clicks + 1 / spread) / (mean + 1 / spread)
    expected = looks * relevance[counts.pair]

    kind, place = _places(counts)
    key = counts.query[counts.pair] * (kind.max() + 1) + kind[counts.context]
    _, group = np.unique(key, return_inverse=True)
    at = (group, place[counts.context])
    shown, clicked = np.zeros((2, int(group.max()) + 1, int(place.max()) + 1))
    np.add.at(shown, at, counts.displays)
    np.add.at(clicked, at, expected)
    pages = shown.max(axis=1)
    return np.minimum(clicked / pages[:, None], 0.999), pages


def _by_given(
    counts: ClickCounts, bias: np.ndarray | None
) -> tuple[ClickCounts, np.ndarray | None]:
    """Counts, and the bias if there is one, by given contexts: history says nothing of a slot."""
    if counts.history and bias is not None:
        given, index = counts.given
        shown = np.bincount(counts.context, counts.displays, len(counts.contexts))
        whole = np.bincount(index, shown, len(given))
        bias = np.bincount(index, shown * bias, len(given)) / np.maximum(whole, 1)
    return counts.by_given(), bias


def _places(counts: ClickCounts) -> tuple[np.ndarray, np.ndarray]:
    """(contexts,) the kind of page a context is of, such as a device's, and its place on it."""
    contexts = counts.contexts
    names = contexts.column_names
    if "position" not in names:
        return np.zeros(len(contexts), int), np.arange(len(contexts))
    place = np.unique(contexts["position"].to_numpy(), return_inverse=True)[1]
    codes = [
        contexts[name].combine_chunks().dictionary_encode().indices.to_numpy()
        for name in names
        if name != "position"
    ]
    kind = np.zeros(len(contexts), int)
    if codes:
        kind = np.unique(np.stack(codes), axis=1, return_inverse=True)[1]
    return kind, np.minimum(place, MOST - 1)


def _beyond(observed: np.ndarray, expected: Expected) -> Suspicion | None:
    """Pages with more clicks than a number that nearly all people keep to."""
    pages = observed.sum()
    beyond = pages - np.cumsum(observed)
    # where fewer are left than are worth a warning, nothing needs to be fitted
    cuts = np.flatnonzero(beyond[:-1] >= LEAST_SHARE * pages)[1:]
    people = np.array([_people_beyond(observed, expected, int(cut)) for cut in cuts])
    found = beyond[cuts]
    if not _is_excess(found, np.maximum(people, _geometric(observed)[cuts]), pages).any():
        return None
    few = (people <= MOST_LOST * (found - people)) & (people <= MOST_LOST / 10 * pages)
    if not few.any():
        return None
    first = int(np.argmax(few))
    return Suspicion(int(pages), int(cuts[first]), int(found[first]), float(people[first]), False)


def _people_beyond(observed: np.ndarray, expected: Expected, most: int) -> float:
    """Pages with more clicks than `most` that those with fewer let expect."""
    clicks = expected.fitted(observed, most) @ expected.clicks
    return float(observed[: most + 1].sum() * clicks[most + 1 :].sum() / clicks[: most + 1].sum())


def _everywhere(pages: PageClicks, observed: np.ndarray, expected: Expected) -> Suspicion | None:
    """Pages on which everything was clicked, where pages are too short to stand out by clicks."""
    total = observed.sum()
    weights = expected.fitted(observed, len(observed) - 1)
    chance = (weights @ expected.everywhere)[: len(pages.displays)]
    lengths = np.arange(len(chance))
    long = lengths >= SHORTEST
    people = np.where(long, pages.displays[: len(chance)] * chance, 0.0)
    found = np.where(long, pages.everywhere[: len(chance)], 0)
    if not _is_excess(found.sum(), people.sum(), total):
        return None
    shortest = int(lengths[found > LEAST_RATIO * people][0])
    return Suspicion(int(total), shortest - 1, int(found.sum()), float(people.sum()), True)


def _is_excess(found: np.ndarray, expected: np.ndarray, pages: float) -> np.ndarray:
    """Whether many more pages were found than expected, and more than chance explains."""
    excess = found - expected
    return (
        (excess >= LEAST_SHARE * pages)
        & (found >= LEAST_RATIO * expected)
        & (excess >= LEAST_ERRORS * np.sqrt(expected + 1))
    )


def _geometric(observed: np.ndarray) -> np.ndarray:
    """(clicks,) pages beyond each number of clicks if they went on falling as they did last."""
    before = np.r_[observed[:1], observed[:-1]]
    ratio = np.minimum(observed / np.maximum(before, 1), 0.95)
    return np.where(np.arange(len(observed)) < 2, np.inf, observed * ratio / (1 - ratio))


def _weights(middle: float, log_spread: float) -> np.ndarray:
    """(factors,) a log-normal distribution of u."""
    density = np.exp(-0.5 * ((np.log(FACTORS) - middle) / np.exp(log_spread)) ** 2)
    return density / density.sum()


LEAST_USER_SHARE = 0.01
"""Share of all displays from which on users are worth a warning."""

BUSY = 5.0
"""Displays of a suspected user for one of the average user's."""

UNLIKE = 2.0
"""Factor by which their click rate is above or below that of the others."""

LEAST_USER_ERRORS = 8.0
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
        (shown >= LEAST_USER_SHARE * displays.sum())
        & ((ratio >= UNLIKE) | (ratio <= 1 / UNLIKE))
        & (errors >= LEAST_USER_ERRORS)
    )
    if not found.any():
        return None
    at = int(np.argmax(np.where(found, errors, 0)))
    return BusyUsers(at + 1, len(displays), float(shown[at] / displays.sum()), float(ratio[at]))


def _rounded_up(share: float) -> float:
    """A share to two digits, never below it."""
    scale = 10.0 ** (1 - math.floor(math.log10(share)))
    return math.ceil(share * scale - 1e-9) / scale


def without_robots(log: ir.Table, options: LogOptions) -> ir.Table:
    """The canonical log without what `drop_busiest` and `max_clicks_per_page` leave out."""
    if options.drop_busiest:
        log = _without_busiest(log, options.drop_busiest)
    if options.max_clicks_per_page is not None:
        log = _without_clicked_pages(log, options.max_clicks_per_page)
    return log


def left_out(whole: ir.Table, options: LogOptions) -> list[str]:
    """How much the options take away from a canonical log, in words."""
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


def _without_busiest(log: ir.Table, share: float) -> ir.Table:
    """Rows without a user stay: nobody knows whose they are."""
    rows = log.filter(log.user_id.notnull())
    users = rows.group_by("user_id").aggregate(displays=rows.count())
    rank = ibis.row_number().over(order_by=[ibis.desc("displays"), "user_id"])
    users = users.mutate(rank=rank, users=users.count())
    # a share such as 3/1000 must not become 4 of 1,000 by rounding
    return log.anti_join(users.filter(users.rank < (users.users * share - 1e-9).ceil()), "user_id")


def _without_clicked_pages(log: ir.Table, most: int) -> ir.Table:
    page = log.group_by("page_id").aggregate(clicks=number(log.click).sum())
    return log.anti_join(page.filter(page.clicks > most), "page_id")


def _fewer(whole: ir.Table, kept: ir.Table, column: str | None) -> int:
    """How many rows, or values of a column, are gone."""
    before, after = (
        (log.count() if column is None else log[column].nunique()).to_pyarrow().as_py()
        for log in (whole, kept)
    )
    return before - after
