"""Held-out pages of a real log: epiclick's click models compared with plain EM.

Reads the `yandex-pages` sample (see `--data`), fits each model to its training pages without
features, and scores the test pages per display: the mean log-probability of each click or skip
given the page's clicks above it. Prints JSON; `difference` is from plain EM of the same click
model, with a 90 % interval clustered by query. `epiclick benchmark` has more scores and versions.
"""

import argparse
import json
import warnings
from pathlib import Path

from epiclick.benchmark.cell_scores import (
    METRICS,
    CellScores,
    difference_in,
    displays_of,
    score_cell,
)
from epiclick.benchmark.own_fits import fit_own
from epiclick.benchmark.page_data import BenchmarkData
from epiclick.benchmark.page_files import read_page_files
from epiclick.benchmark.plain_em import PLAIN
from epiclick.click_models.registry import REGISTRY

LIKELIHOOD = METRICS["log_likelihood"]


def plain_scores(data: BenchmarkData, name: str) -> CellScores:
    found = PLAIN[name](data)
    return score_cell(data, displays_of(data, found.chances(data.test)), found.relevance)


def compared(data: BenchmarkData, name: str) -> dict[str, object]:
    """One click model: our score, that of plain EM, and their difference."""
    ours = fit_own(data, name)
    own = score_cell(data, ours.displays, ours.relevance)
    result: dict[str, object] = {"processor_seconds": round(ours.processor_seconds, 2)}
    if own.impossible:
        return {**result, "pages_of_probability_0": own.impossible}
    plain = plain_scores(data, name)
    difference = difference_in(LIKELIHOOD, own, plain, 0.9)
    return {
        **result,
        "epiclick": round(own.log_likelihood, 5),
        "plain_em": round(plain.log_likelihood, 5),
        "difference": {key: round(value, 5) for key, value in vars(difference).items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).parents[2] / "shared" / "data" / "yandex-pages"
    parser.add_argument("--data", type=Path, default=default)
    parser.add_argument("--models", help="names of click models; default all")
    given = parser.parse_args()
    if not given.data.is_dir():
        print(json.dumps({"skipped": "the yandex-pages sample is not available"}))
        return
    warnings.simplefilter("ignore")
    data = read_page_files(given.data)
    names = given.models.split(",") if given.models else REGISTRY
    results: dict[str, object] = {
        "displays": int(data.test.shown.sum()),
        "queries": data.queries,
        **{name: compared(data, name) for name in names},
    }
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
