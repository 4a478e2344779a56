"""Robots are detected by the clicks of their pages, people are not; the remedy removes them."""

import warnings
from math import prod

import numpy as np
import pandas as pd
import pytest

from epiclick import read_log
from epiclick.data.counts import ClickCounts
from epiclick.data.readers import LogReport, count_log
from epiclick.data.robots import (
    FACTORS,
    Expected,
    _rounded_up,
    _weights,
    find_busy,
    slot_rates,
    suspicious_pages,
)
from epiclick.data.schema import LogOptions
from epiclick.errors import InputWarning
from epiclick.simulate.users import USERS

from ..raising import raises_code

pytestmark = pytest.mark.slow


def page_log(
    seed: int,
    *,
    pages: int = 3000,
    queries: int = 50,
    positions: int = 10,
    users: str = "pbm",
    eagerness: float = 0.0,
    robots: int = 0,
    least: int = 6,
) -> pd.DataFrame:
    """Pages of people, and on some of them a robot that clicks `least` results or more."""
    rng = np.random.default_rng(seed)
    docs = 2 * positions
    bias = 1 / np.arange(1, positions + 1) ** rng.uniform(0.7, 1.2)
    relevance = rng.beta(1, rng.uniform(1.5, 4), (queries, docs))
    query = rng.integers(queries, size=pages)
    order = np.argsort(rng.gumbel(size=(pages, docs)) + relevance[query], axis=1)[:, ::-1]
    shown = order[:, :positions]
    zeta = np.take_along_axis(relevance[query], shown, axis=1)
    factor = np.exp(eagerness * rng.standard_normal((pages, 1)) - eagerness**2 / 2)
    clicks = USERS[users].draw(1 - (1 - zeta) ** factor, bias, rng)
    for page in range(robots):
        clicks[page] = rng.permutation(positions) < rng.integers(least, positions + 1)
    return pd.DataFrame(
        {
            "page_id": np.repeat(np.arange(pages), positions),
            "query_id": np.repeat(query, positions),
            "doc_id": shown.ravel(),
            "position": np.tile(np.arange(1, positions + 1), pages),
            "click": clicks.ravel().astype(int),
        }
    )


def counted(log: pd.DataFrame, **options: object) -> tuple[ClickCounts, LogReport]:
    return count_log(log, LogOptions(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize("share", [0.02, 0.065])
def test_robots_are_suspected_and_the_remedy_removes_them(share: float) -> None:
    """Of the pages that the remedy removes, at most a twentieth may be people's."""
    robots = int(3000 * share)
    log = page_log(1, robots=robots)
    _, report = counted(log)
    found = report.robots
    assert found is not None
    assert f"--max-clicks-per-page {found.max_clicks_per_page}" in found.message
    clicks = log.groupby("page_id").click.sum().to_numpy()
    assert found.beyond == np.sum(clicks > found.max_clicks_per_page)
    is_robot = np.arange(3000) < robots
    assert np.all(clicks[is_robot] > found.max_clicks_per_page)
    assert np.sum(clicks[~is_robot] > found.max_clicks_per_page) <= 0.1 * robots

    cleaned, again = counted(log, max_clicks_per_page=found.max_clicks_per_page)
    assert again.robots is None
    assert cleaned.pages == 3000 - found.beyond
    assert (
        f"{found.beyond:,} pages with more than {found.max_clicks_per_page} clicks left out"
        in again.warnings[0]
    )
    assert f"{10 * found.beyond:,} rows" in again.warnings[0]


def test_people_are_not_suspected() -> None:
    """At most 2 % of logs by all kinds of users, however eagerly they click."""
    rng = np.random.default_rng(5)
    suspected = 0
    for seed in range(60):
        log = page_log(
            1000 + seed,
            pages=int(rng.choice([300, 1500])),
            positions=int(rng.choice([3, 5, 10])),
            users=str(rng.choice(list(USERS))),
            eagerness=float(rng.choice([0.0, 0.5, 1.0])),
        )
        suspected += counted(log)[1].robots is not None
    assert suspected <= 1


def test_a_python_user_is_warned_once() -> None:
    with pytest.warns(InputWarning, match="max_clicks_per_page") as caught:
        read_log(page_log(1, robots=200))
    assert len([w for w in caught if "max_clicks_per_page" in str(w.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_log(page_log(1))


def test_short_pages_clicked_everywhere_are_suspected() -> None:
    """Pages of 4 among pages of 10: their 4 clicks alone would not stand out."""
    log = page_log(2)
    short = log[log.position <= 4].assign(page_id=log.page_id + 3000)
    log = pd.concat([log, short.assign(click=np.where(short.page_id < 3150, 1, short.click))])
    found = counted(log)[1].robots
    assert found is not None
    assert found.everywhere
    assert found.max_clicks_per_page == 3
    assert "everything was clicked" in found.message


def test_counts_files_and_sums_of_days_keep_what_is_known_of_pages(tmp_path) -> None:
    one, other = (counted(page_log(1, robots=200))[0] for _ in range(2))
    one.to_parquet(tmp_path / "one.parquet")
    back, report = count_log(tmp_path / "one.parquet", LogOptions())
    assert back.page_clicks.to_dict() == one.page_clicks.to_dict()
    assert report.robots is not None
    both = ClickCounts.concat([one, other])
    assert both.page_clicks.pages == 6000
    assert suspicious_pages(both) is not None
    # the pages of part of a log were not examined
    assert one.subset([0, 1]).page_clicks is None
    assert suspicious_pages(one.subset([0, 1])) is None


def test_expected_clicks_agree_with_a_simulation() -> None:
    """Poisson-binomial, mixed over groups and over u, against 200,000 drawn pages."""
    rng = np.random.default_rng(0)
    rates = rng.uniform(0.02, 0.7, (3, 5))
    pages = np.array([1.0, 2.0, 5.0])
    expected = Expected.of(rates, pages)
    weights = _weights(0.2, np.log(0.6))
    group = rng.choice(3, 200_000, p=pages / 8)
    u = rng.choice(FACTORS, 200_000, p=weights)
    clicked = rng.random((200_000, 5)) < 1 - (1 - rates[group]) ** u[:, None]
    drawn = np.bincount(clicked.sum(axis=1), minlength=6) / 200_000
    chance = weights @ expected.clicks
    assert chance.sum() == pytest.approx(1)
    assert np.all(np.abs(drawn - chance) < 5 * np.sqrt(chance / 200_000))
    first = clicked[:, :3].all(axis=1).mean()
    every = (weights @ expected.everywhere)[3]
    assert abs(first - every) < 5 * np.sqrt(every / 200_000)
    # without a spread of u and with one group it is a product
    alone = Expected.of(rates[:1], pages[:1])
    at_one = alone.everywhere[np.argmin(np.abs(FACTORS - 1))]
    factor = FACTORS[np.argmin(np.abs(FACTORS - 1))]
    assert at_one[5] == pytest.approx(prod(1 - (1 - p) ** factor for p in rates[0]))


def test_slot_rates_recover_the_click_rates_of_queries() -> None:
    log = page_log(3, pages=40_000, queries=8, positions=4)
    counts = counted(log)[0]
    rates, pages = slot_rates(counts, None)
    assert pages.tolist() == log.groupby("query_id").page_id.nunique().tolist()
    observed = log.pivot_table(index="query_id", columns="position", values="click").to_numpy()
    assert np.all(np.abs(rates - observed) < 0.35 * observed)
    assert np.corrcoef(rates.ravel(), observed.ravel())[0, 1] > 0.99


def test_devices_are_pages_of_their_own() -> None:
    log = page_log(3, pages=2000, queries=8, positions=4)
    log = log.assign(device=np.where(log.page_id % 3 == 0, "phone", "desktop"))
    rates, pages = slot_rates(counted(log, context=("device", "position"))[0], None)
    assert rates.shape == (16, 4)
    assert pages.sum() == 2000


# Users


def user_log(seed: int, robot_pages: int, click_rate: float) -> pd.DataFrame:
    """1,000 people with a few pages each, and one user with many."""
    log = page_log(seed, pages=4000)
    rng = np.random.default_rng(seed)
    owner = rng.integers(1, 1001, 4000)
    owner[:robot_pages] = 0
    log = log.assign(user_id=owner[log.page_id])
    clicks = rng.random(len(log)) < click_rate
    return log.assign(click=np.where(log.user_id == 0, clicks, log.click).astype(int))


@pytest.mark.parametrize("click_rate", [0.0, 0.45])
def test_a_busy_user_with_an_unusual_click_rate_is_reported_and_left_out(click_rate) -> None:
    log = user_log(4, 200, click_rate)
    _, report = counted(log)
    message = next(w for w in report.warnings if "busiest" in w)
    assert "the busiest 1 of" in message
    assert "--drop-busiest 0.1%" in message or "--drop-busiest 0.11%" in message
    users = log.user_id.nunique()
    cleaned, again = counted(log, drop_busiest=1 / users)
    assert cleaned.total_displays == np.sum(log.user_id != 0)
    assert cleaned.total_clicks == log.click[log.user_id != 0].sum()
    assert not any("make up" in w for w in again.warnings)
    assert any("1 of the busiest users left out, with 2,000 rows" in w for w in again.warnings)


def test_busy_users_who_click_like_others_are_not_reported() -> None:
    rng = np.random.default_rng(6)
    raised = 0
    for _ in range(200):
        displays = 10 * np.sort(rng.zipf(1.6, 500).clip(max=2000))[::-1]
        raised += find_busy(displays, rng.binomial(displays, 0.1)) is not None
    assert raised <= 4


def test_rows_without_a_user_stay_and_shares_are_never_rounded_to_more_users() -> None:
    log = user_log(4, 200, 0.45)
    log = log.assign(user_id=log.user_id.astype("Int64").mask(log.user_id == 1))
    cleaned, _ = counted(log, drop_busiest=0.0001)
    assert cleaned.total_displays == np.sum(log.user_id.isna() | (log.user_id != 0))
    assert [_rounded_up(x) for x in (0.003, 0.0031, 0.00311, 1 / 1001)] == [
        0.003,
        0.0031,
        0.0032,
        0.001,
    ]


@pytest.mark.parametrize(
    ("options", "code", "named"),
    [
        ({"drop_busiest": 0.01}, "missing-column", 'columns={"user_id": "NAME"}'),
        ({"drop_busiest": 1.5}, "invalid-drop-busiest", "1.5"),
        ({"max_clicks_per_page": 0}, "invalid-max-clicks-per-page", "not 0"),
    ],
)
def test_invalid_options_are_refused(options: dict, code: str, named: str) -> None:
    with raises_code(code) as caught:
        counted(page_log(1, pages=20), **options)
    assert named in str(caught.value)


def test_counted_rows_have_no_pages_to_leave_out() -> None:
    rows = pd.DataFrame(
        {
            "page_id": [1, 2],
            "query_id": 1,
            "doc_id": [1, 2],
            "position": 1,
            "displays": 3,
            "clicks": 1,
        }
    )
    with raises_code("needs-single-displays") as caught:
        counted(rows, max_clicks_per_page=2)
    assert "max_clicks_per_page" in str(caught.value)
    with raises_code("missing-column") as caught:
        counted(rows.drop(columns="page_id"), max_clicks_per_page=2)
    assert 'columns={"page_id": "NAME"}' in str(caught.value)


def test_two_columns_that_could_be_users_are_ignored() -> None:
    log = page_log(1, pages=50).assign(user_id=1, client_id=2)
    assert counted(log)[0].pages == 50
    with raises_code("ambiguous-column") as caught:
        counted(log, drop_busiest=0.01)
    assert "user_id and client_id" in str(caught.value)
    named = {"columns": {"user_id": "client_id"}, "drop_busiest": 0.01}
    with raises_code("no-displays"):
        counted(log, **named)
