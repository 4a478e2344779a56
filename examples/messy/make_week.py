"""A week of a shop's search log as it leaves the servers, with every trap that real logs have.

    python make_week.py raw

writes to `raw/`

- `impressions/day=.../part.parquet`: what was sent to browsers, one row per result; the rank starts
  again on the second results page, some rows are sponsored, some never came into view, some were
  logged twice, a few have no rank or item, and search terms are as users typed them;
- `clicks.parquet`: clicks, some twice, some hours later, some on pages that were never logged;
- `items.parquet`: features of items, one snapshot per day, with missing ratings and a brand;
- `matches.parquet`: features of (search term, item) pairs;
- `live.parquet`, `new.parquet`: what two rankers show;
- `truth.json`: what an analysis should find.

Users follow a position-based model on each device. Robots click on nearly everything.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

TERMS, ITEMS, SIZE, DAYS, PAGES = 150, 24, 10, 7, 100_000
SPONSORED = (0, 3)
"""Slots of the first results page that are sold."""

PAGE_TWO = 0.4
"""Share of searches whose second results page is opened."""

PEOPLE, ROBOTS, ROBOT_SHARE = 9_000, 6, 0.025

LOOKED_AT = {
    "desktop": np.concatenate([[1.0, 0.92, 0.84, 0.76, 0.69, 0.63, 0.57, 0.52, 0.48, 0.45],
                               0.62 * 0.95 ** np.arange(10)]),
    "mobile": np.concatenate([[1.0, 0.8, 0.64, 0.52, 0.43, 0.36, 0.31, 0.27, 0.24, 0.22],
                              0.45 * 0.92 ** np.arange(10)]),
}  # fmt: skip
"""Probability that a result in view is looked at, by absolute position."""

IN_VIEW = {"desktop": 0.97, "mobile": 0.9}
"""Probability that a user scrolls on from one result to the next."""

WORDS = ("red", "blue", "warm", "light", "garden", "kids", "travel", "office", "sport", "winter")
THINGS = ("shoes", "jacket", "lamp", "chair", "bag", "bottle", "watch", "table", "hat", "gloves",
          "tent", "rug", "mug", "clock", "desk")  # fmt: skip
BRANDS = np.array(["acme", "borealis", "cirrus", "delta", "ember"])


def main(folder: Path, pages: int = PAGES) -> None:
    """Make the week, with that many searches."""
    rng = np.random.default_rng(2026)
    terms = np.array([f"{word} {thing}" for thing in THINGS for word in WORDS])[:TERMS]
    sku = np.array([[f"SKU-{q:03d}-{d:02d}" for d in range(ITEMS)] for q in range(TERMS)])
    rating, price, match = (rng.standard_normal((TERMS, ITEMS)) for _ in range(3))
    brand = rng.integers(len(BRANDS), size=(TERMS, ITEMS))
    liked = np.array([0.5, 0.2, 0.0, -0.2, -0.5])[brand]
    logit = -1.5 + 0.7 * rating + 0.6 * match - 0.3 * price + liked
    relevance = 1 / (1 + np.exp(-logit - 0.4 * rng.standard_normal((TERMS, ITEMS))))

    rankers = {
        "live": 0.6 * match + 0.1 * rating - 0.3 * price,
        "new": 0.6 * match + 0.5 * rating - 0.3 * price,
    }
    shown = searches(rng, rankers["live"], pages)
    impressions = sent(rng, shown, terms, sku)
    clicks = clicked(rng, shown, impressions, relevance)
    write(rng, folder, impressions, clicks)
    write_features(rng, folder, terms, sku, rating, price, match, brand)
    values = {
        name: write_ranking(folder / f"{name}.parquet", score, terms, sku, relevance, shown)
        for name, score in rankers.items()
    }
    truth = {
        "looked_at": {device: list(np.round(bias, 4)) for device, bias in LOOKED_AT.items()},
        "clicks_per_page": values,
        "pages": len(shown),
        "robot_pages": int(shown["robot"].sum()),
    }
    (folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


def searches(rng: np.random.Generator, live: np.ndarray, pages: int) -> pd.DataFrame:
    """Results pages: who opened which page of which search, and in which order items were."""
    eager = rng.gamma(2.0, size=PEOPLE)
    people = rng.choice(PEOPLE, size=pages, p=eager / eager.sum())
    frame = pd.DataFrame({
        "user": np.char.add("u", people.astype(str)),
        "term": rng.choice(TERMS, size=pages, p=popularity()),
        "device": np.where(people % 5 < 2, "desktop", "mobile"),
        "robot": False,
    })  # fmt: skip
    number = round(ROBOT_SHARE * pages)
    robots = pd.DataFrame({
        "user": np.char.add("r", rng.integers(ROBOTS, size=number).astype(str)),
        "term": rng.choice(TERMS, size=number),
        "device": "desktop",
        "robot": True,
    })  # fmt: skip
    frame = pd.concat([frame, robots], ignore_index=True)
    seconds = np.sort(rng.uniform(0, DAYS * 86_400, len(frame)))
    frame["time"] = pd.Timestamp("2026-03-02") + pd.to_timedelta(np.round(seconds, 3), unit="s")
    frame["results_page"] = np.where(rng.random(len(frame)) < PAGE_TWO / (1 + PAGE_TWO), 2, 1)
    noise = 0.8 * rng.standard_normal((len(frame), ITEMS))
    frame["order"] = list(np.argsort(-(live[frame["term"]] + noise), axis=1))
    frame["page"] = [f"pv-{i:06d}" for i in rng.permutation(len(frame))]
    return frame


def popularity() -> np.ndarray:
    """Shares of searches by term."""
    share = 1 / np.arange(3, TERMS + 3)
    return share / share.sum()


def sent(
    rng: np.random.Generator, shown: pd.DataFrame, terms: np.ndarray, sku: np.ndarray
) -> pd.DataFrame:
    """One row per result of every page."""
    second = shown["results_page"].to_numpy() == 2
    term = shown["term"].to_numpy()
    order = np.stack(shown["order"].to_list())
    sold = np.zeros((len(shown), SIZE), bool)
    sold[np.ix_(~second, SPONSORED)] = True
    organic = SIZE - len(SPONSORED)
    place = np.cumsum(~sold, axis=1) - 1 + np.where(second, organic, 0)[:, None]
    item = np.take_along_axis(order, place, axis=1)
    ads = np.char.add("AD-", rng.integers(40, size=sold.shape).astype(str))
    typed = terms[term].astype(object)
    how = rng.random(len(shown))
    typed = np.where(how < 0.2, np.char.title(typed.astype(str)), typed)
    typed = np.where((how >= 0.2) & (how < 0.3), np.char.add(typed.astype(str), " "), typed)
    typed = np.where(how > 0.95, np.char.replace(typed.astype(str), " ", "  "), typed)
    stays = np.array([IN_VIEW[device] for device in shown["device"]])[:, None]
    scrolled = rng.random((len(shown), SIZE)) < np.where(np.arange(SIZE) == 0, 1.0, stays)
    in_view = np.cumprod(scrolled, axis=1).astype(bool) | shown["robot"].to_numpy()[:, None]
    names = ("page", "user", "device", "time", "results_page")
    frame = shown[list(names)].loc[shown.index.repeat(SIZE)].reset_index(drop=True)
    frame["search_term"] = np.repeat(typed, SIZE)
    frame["rank"] = np.tile(np.arange(1, SIZE + 1), len(shown))
    frame["sku"] = np.where(sold, ads, sku[term[:, None], item]).ravel()
    frame["sponsored"] = sold.ravel()
    frame["in_view"] = in_view.ravel()
    frame["number"] = np.repeat(np.arange(len(shown)), SIZE)
    frame["item"] = np.where(sold, -1, item).ravel()
    return frame


def clicked(
    rng: np.random.Generator,
    shown: pd.DataFrame,
    impressions: pd.DataFrame,
    relevance: np.ndarray,
) -> pd.DataFrame:
    """Clicks of people and robots, with their times."""
    number, item = impressions["number"].to_numpy(), impressions["item"].to_numpy()
    absolute = impressions["rank"].to_numpy() + SIZE * (impressions["results_page"].to_numpy() - 1)
    looks = np.where(
        impressions["device"] == "desktop",
        LOOKED_AT["desktop"][absolute - 1],
        LOOKED_AT["mobile"][absolute - 1],
    )
    attracts = np.where(item < 0, 0.04, relevance[shown["term"].to_numpy()[number], item])
    chance = np.where(impressions["in_view"], looks * attracts, 0.0)
    chance = np.where(shown["robot"].to_numpy()[number], 0.85, chance)
    rows = np.flatnonzero(rng.random(len(chance)) < chance)
    after = rng.exponential(20, len(rows))
    # the tab is opened again hours later
    back = rng.random(len(impressions)) < 0.004
    late = np.flatnonzero(back & (impressions["rank"] > 5) & ~impressions["sponsored"])
    rows, after = np.r_[rows, late], np.r_[after, rng.uniform(7_200, 40_000, len(late))]
    frame = impressions.loc[rows, ["page", "sku", "time"]].reset_index(drop=True)
    frame["time"] += pd.to_timedelta(np.round(after, 3), unit="s")
    return frame


def write(
    rng: np.random.Generator, folder: Path, impressions: pd.DataFrame, clicks: pd.DataFrame
) -> None:
    """Both tables with what goes wrong between browsers and the warehouse."""
    table = impressions.drop(columns=["number", "item"])
    table["rank"] = table["rank"].astype("Int64")
    table.loc[rng.choice(len(table), 150, replace=False), "rank"] = pd.NA
    table.loc[rng.choice(len(table), 100, replace=False), "sku"] = None
    again = table.sample(frac=0.004, random_state=1)
    table = pd.concat([table, again]).sort_values(["time", "page"], kind="stable")
    for day, rows in table.groupby(table["time"].dt.date):
        target = folder / "impressions" / f"day={day}"
        target.mkdir(parents=True, exist_ok=True)
        own = rows.rename(columns={"page": "page_view_id", "user": "user_id"})
        own.to_parquet(target / "part.parquet", index=False)
    twice = clicks.sample(frac=0.08, random_state=2)
    twice = twice.assign(time=twice["time"] + pd.Timedelta("2s"))
    lost = clicks.sample(n=400, random_state=3)
    lost = lost.assign(page=[f"pv-lost-{i}" for i in range(len(lost))])
    every = pd.concat([clicks, twice, lost]).sort_values("time", kind="stable")
    every.rename(columns={"page": "page_view_id"}).to_parquet(
        folder / "clicks.parquet", index=False
    )


def write_features(
    rng: np.random.Generator,
    folder: Path,
    terms: np.ndarray,
    sku: np.ndarray,
    rating: np.ndarray,
    price: np.ndarray,
    match: np.ndarray,
    brand: np.ndarray,
) -> None:
    """Daily snapshots of items, and what depends on the search term."""
    parts = []
    for day in pd.date_range("2026-03-01", periods=DAYS + 1):
        drift = 0.02 * rng.standard_normal(price.shape)
        known = rng.random(rating.shape) > 0.1
        parts.append(
            pd.DataFrame({
                "sku": sku.ravel(),
                "day": day.date(),
                "price": (price + drift).ravel(),
                "rating": np.where(known, rating, np.nan).ravel(),
                "brand": BRANDS[brand].ravel(),
            })
        )  # fmt: skip
    pd.concat(parts).to_parquet(folder / "items.parquet", index=False)
    pd.DataFrame({
        "search_term": np.repeat(terms, ITEMS), "sku": sku.ravel(), "match": match.ravel()
    }).to_parquet(folder / "matches.parquet", index=False)  # fmt: skip


def write_ranking(
    path: Path,
    score: np.ndarray,
    terms: np.ndarray,
    sku: np.ndarray,
    relevance: np.ndarray,
    shown: pd.DataFrame,
) -> float:
    """Write what a ranker shows in the organic slots of the first page; clicks per page there."""
    slots = np.array([slot for slot in range(SIZE) if slot not in SPONSORED])
    best = np.argsort(-score, axis=1)[:, : len(slots)]
    pd.DataFrame({
        "search_term": np.repeat(terms, len(slots)),
        "sku": np.take_along_axis(sku, best, axis=1).ravel(),
        "rank": np.tile(np.arange(1, len(slots) + 1), len(terms)),
    }).to_parquet(path, index=False)  # fmt: skip
    people = shown[~shown["robot"]]
    traffic = np.bincount(people["term"], minlength=TERMS) / len(people)
    looks = sum(
        (people["device"] == device).mean() * bias[slots] for device, bias in LOOKED_AT.items()
    )
    clicks = np.take_along_axis(relevance, best, axis=1) @ looks
    return round(float(traffic @ clicks), 4)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "raw"))
