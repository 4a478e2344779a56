"""Held-out pages of a real log: epiclick's click models compared with plain EM.

Reads the `yandex-pages` sample (see `--data`), fits each model to its training pages without
features, and scores the test pages per display: the mean log-probability of each click or skip
given the page's clicks above it. Prints JSON; `difference` is from plain EM with the same contexts,
with the 90 % interval of a t distribution over queries.
"""

import argparse
import gzip
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

ITERATIONS = 200
CONTEXTS = {"pbm": ["position"], "ubm": ["position", "last_click"]}


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


def log_likelihoods(click: np.ndarray, probability: np.ndarray) -> np.ndarray:
    return np.where(click > 0, np.log(probability), np.log1p(-probability))


def predicted(
    name: str, train: pd.DataFrame, test: pd.DataFrame, **parameters: object
) -> np.ndarray:
    """(test rows,) click probabilities of an epiclick model."""
    import epiclick as ec
    from epiclick.api import EPISTEMIC

    logs = [each.drop(columns="last_click") for each in (train, test)]
    counts, held_out = (ec.read_log(log, click_model=name) for log in logs)
    model = EPISTEMIC[name](**parameters).fit(counts, progress=False)
    table = held_out.to_table().to_pandas()
    table["probability"] = model.predict_clicks(held_out)
    keys = ["query_id", "doc_id", *CONTEXTS[name]]
    return test.merge(table[[*keys, "probability"]], on=keys, how="left")["probability"].to_numpy()


def paired(query: pd.Series, gain: np.ndarray, level: float = 0.9) -> dict[str, float]:
    """Mean gain per display, its interval from the differences between queries, and p(no gain)."""
    sums, sizes = (np.bincount(query.astype("category").cat.codes, w) for w in (gain, None))
    mean, queries = gain.mean(), len(sums)
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
    data = parser.parse_args().data
    if not data.is_dir():
        print(json.dumps({"skipped": "the yandex-pages sample is not available"}))
        return
    warnings.simplefilter("ignore")
    train, test = (read_pages(data / f"{part}.tsv.gz") for part in ("train", "test"))
    click = test["click"].to_numpy()
    results: dict[str, object] = {"displays": len(test), "queries": test["query_id"].nunique()}
    for name, contexts in CONTEXTS.items():
        em = log_likelihoods(click, plain_em(train, test, contexts))
        ours = log_likelihoods(click, predicted(name, train, test))
        results[name] = {
            "plain_em": round(float(em.mean()), 5),
            "epiclick": round(float(ours.mean()), 5),
            "difference": paired(test["query_id"], ours - em),
        }
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
