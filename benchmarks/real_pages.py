"""Held-out pages of a real log: epiclick's click models compared with plain EM.

Reads the `yandex-pages` sample (see `--data`), fits each model to its training pages without
features, and scores the test pages per display: the mean log-probability of each click or skip
given the page's clicks above it. Prints JSON; `difference` is from plain EM with the same contexts,
with the 90 % interval of a t distribution over queries.
"""

import argparse
import gzip
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from epiclick.click_models.registry import REGISTRY

ITERATIONS = 200


def read_pages(path: Path) -> pd.DataFrame:
    """One row per display of `query TAB ids TAB clicked ids` lines, with its last click above."""
    rows = []
    with gzip.open(path, "rt") as lines:
        for page, line in enumerate(lines):
            query, items, clicked = line.rstrip("\n").split("\t")
            clicks, last = set(clicked.split()), 0
            for position, item in enumerate(items.split(), 1):
                click = int(item in clicks)
                rows.append((page, query, item, position, click, last))
                last = position if click else last
    columns = ["page_id", "query_id", "doc_id", "position", "click", "last_click"]
    return pd.DataFrame(rows, columns=columns)


def plain_em(train: pd.DataFrame, test: pd.DataFrame, contexts: list[str]) -> np.ndarray:
    """(test rows,) click probabilities by EM with one pseudo-click and one pseudo-skip."""
    both = pd.concat([train, test])
    context = both.groupby(contexts).ngroup().to_numpy()
    pair = both.groupby(["query_id", "doc_id"]).ngroup().to_numpy()
    c, p, click = context[: len(train)], pair[: len(train)], train["click"].to_numpy() > 0
    theta, zeta = np.full(context.max() + 1, 0.5), np.full(pair.max() + 1, 0.5)
    for _ in range(ITERATIONS):
        a, b = theta[c], zeta[p]
        missed = 1 - a * b
        looked = np.where(click, 1, a * (1 - b) / missed)
        attracted = np.where(click, 1, b * (1 - a) / missed)
        for values, group, soft in ((theta, c, looked), (zeta, p, attracted)):
            size = len(values)
            total = np.bincount(group, minlength=size)
            values[:] = (np.bincount(group, soft, size) + 1) / (total + 2)
    return theta[context[len(train) :]] * zeta[pair[len(train) :]]


def plain_trust(train: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    """(test rows,) the same for clicks on attractive and on unattractive items."""
    both = pd.concat([train, test])
    place = both["position"].to_numpy() - 1
    pair = both.groupby(["query_id", "doc_id"]).ngroup().to_numpy()
    c, p, click = place[: len(train)], pair[: len(train)], train["click"].to_numpy() > 0
    attractive, unattractive = np.full(place.max() + 1, 0.6), np.full(place.max() + 1, 0.05)
    zeta = np.full(pair.max() + 1, 0.5)
    for _ in range(ITERATIONS):
        a, b, z = attractive[c], unattractive[c], zeta[p]
        one, other = np.where(click, a, 1 - a) * z, np.where(click, b, 1 - b) * (1 - z)
        attracted = one / (one + other)
        for values, group, weight, soft in (
            (attractive, c, attracted, attracted * click),
            (unattractive, c, 1 - attracted, (1 - attracted) * click),
            (zeta, p, np.ones(len(c)), attracted),
        ):
            total = np.bincount(group, weight, len(values))
            values[:] = (np.bincount(group, soft, len(values)) + 1) / (total + 2)
    k, z = place[len(train) :], zeta[pair[len(train) :]]
    return attractive[k] * z + unattractive[k] * (1 - z)


def plain_reading(train: pd.DataFrame, test: pd.DataFrame, *, by_item: bool) -> np.ndarray:
    """(test rows,) the same for users who go on after a click, by position or by item."""
    both = pd.concat([train, test.assign(page_id=test["page_id"] + train["page_id"].max() + 1)])
    pair = both.groupby(["query_id", "doc_id"]).ngroup().to_numpy()
    page, place = both["page_id"].to_numpy(), both["position"].to_numpy() - 1
    shape = (page.max() + 1, place.max() + 1)
    items, clicked = np.full(shape, -1), np.zeros(shape, bool)
    items[page, place], clicked[page, place] = pair, both["click"].to_numpy() > 0
    kind = items if by_item else np.where(items >= 0, np.arange(shape[1]), -1)
    pages = train["page_id"].max() + 1
    zeta, stay = np.full(pair.max() + 2, 0.5), np.full(kind.max() + 2, 0.5)
    zeta[-1] = 0  # past the end of a page
    last = np.where(clicked, np.arange(shape[1]), -1).max(axis=1)
    below = (np.arange(shape[1]) > last[:, None]) & (items >= 0)
    has_tail = (last >= 0) & below.any(axis=1)
    row = np.flatnonzero(has_tail[:pages])
    at_last = kind[row, last[row]]
    before_last = clicked & (np.arange(shape[1]) < last[:, None])
    certain = (items >= 0) & (~below | (last < 0)[:, None])

    def total(mask: np.ndarray, of: np.ndarray, size: int, weight: np.ndarray | None = None) -> Any:
        own = None if weight is None else np.broadcast_to(weight, mask[:pages].shape)[mask[:pages]]
        return np.bincount(of[:pages][mask[:pages]], own, size)

    for _ in range(ITERATIONS):
        skipped = np.where(below[row], 1 - zeta[items[row]], 1).prod(axis=1)
        c = stay[at_last]
        on = c * skipped / (1 - c + c * skipped)
        weight = np.zeros((pages, 1))
        weight[row, 0] = on
        clicks = total(clicked, items, len(zeta))
        read = total(certain, items, len(zeta)) + total(
            below & has_tail[:, None], items, len(zeta), weight
        )
        zeta[:-1] = ((clicks + 1) / (read + 2))[:-1]
        went_on = total(before_last, kind, len(stay)) + np.bincount(at_last, on, len(stay))
        trials = total(before_last, kind, len(stay)) + np.bincount(at_last, minlength=len(stay))
        stay[:] = (went_on + 1) / (trials + 2)
    reading, chance = np.ones(shape[0]), np.zeros(shape)
    for k in range(shape[1]):
        z = zeta[items[:, k]]
        chance[:, k] = reading * z
        after_skip = reading * (1 - z) / (1 - reading * z)
        reading = np.where(clicked[:, k], stay[kind[:, k]], after_skip)
    return chance[page, place][len(train) :]


PLAIN: dict[str, Callable[[pd.DataFrame, pd.DataFrame], np.ndarray]] = {
    "pbm": lambda train, test: plain_em(train, test, ["position"]),
    "ubm": lambda train, test: plain_em(train, test, ["position", "last_click"]),
    "trust": plain_trust,
    "dcm": lambda train, test: plain_reading(train, test, by_item=False),
    "sdbn": lambda train, test: plain_reading(train, test, by_item=True),
}


def log_likelihoods(click: np.ndarray, probability: np.ndarray) -> np.ndarray:
    return np.where(click > 0, np.log(probability), np.log1p(-probability))


class Scored(NamedTuple):
    """Log-likelihoods of test pages by query, and processor seconds of the fit."""

    by_query: pd.Series
    seconds: float
    impossible: int


def scored(name: str, train: pd.DataFrame, test: pd.DataFrame, **parameters: object) -> Scored:
    """An epiclick model on the test pages."""
    import epiclick as ec
    from epiclick.api import EPISTEMIC
    from epiclick.data.schema import LogOptions
    from epiclick.data.shown_pages import read_pages as shown_pages
    from epiclick.selection.held_out_scores import held_out_scores

    logs = [each.drop(columns="last_click") for each in (train, test)]
    start = time.process_time()
    counts = ec.read_log(logs[0], click_model=name)
    model = EPISTEMIC[name](**parameters).fit(counts, progress=False)
    seconds = time.process_time() - start
    options = LogOptions(click_model=name, page_parts=2)
    held_out = ec.read_log(logs[1], options=options)
    pages = None
    if model.fitted_.clicks.history:
        pages = shown_pages(logs[1], options, held_out)
    found = held_out_scores(model, held_out, pages)
    query = held_out.query_id.unique().to_pylist()
    return Scored(pd.Series(found.given, query), seconds, found.impossible)


def paired(gain: pd.Series, displays: pd.Series, level: float = 0.9) -> dict[str, float]:
    """Mean gain per display, and its interval from the differences between queries."""
    sums, sizes = gain.to_numpy(), displays[gain.index].to_numpy()
    mean, queries = sums.sum() / sizes.sum(), len(sums)
    residual = sums - mean * sizes
    error = np.sqrt(queries / (queries - 1) * np.square(residual).sum()) / sizes.sum()
    half = stats.t.ppf((1 + level) / 2, queries - 1) * error
    return {
        name: round(float(v), 5)
        for name, v in (("mean", mean), ("low", mean - half), ("high", mean + half))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).parents[2] / "shared" / "data" / "yandex-pages"
    parser.add_argument("--data", type=Path, default=default)
    parser.add_argument("--models", help="names of click models; default all")
    given = parser.parse_args()
    data = given.data
    if not data.is_dir():
        print(json.dumps({"skipped": "the yandex-pages sample is not available"}))
        return
    warnings.simplefilter("ignore")
    train, test = (read_pages(data / f"{part}.tsv.gz") for part in ("train", "test"))
    query, click = test["query_id"], test["click"].to_numpy()
    displays = query.value_counts()
    results: dict[str, object] = {"displays": len(test), "queries": query.nunique()}
    names = given.models.split(",") if given.models else REGISTRY
    for name in names:
        ours = scored(name, train, test)
        result: dict[str, object] = {"processor_seconds": round(ours.seconds, 2)}
        if ours.impossible:
            result["pages_of_probability_0"] = ours.impossible
        else:
            result["epiclick"] = round(float(ours.by_query.sum() / len(test)), 5)
        if name in PLAIN and not ours.impossible:
            plain = log_likelihoods(click, PLAIN[name](train, test))
            by_query = pd.Series(plain).groupby(query.to_numpy()).sum()
            result["plain_em"] = round(float(plain.mean()), 5)
            result["difference"] = paired(ours.by_query - by_query[ours.by_query.index], displays)
        results[name] = result
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
