"""Natural changes of ranking: clicks of lists that a model never saw, predicted and observed.

The pages of the `yandex-pages` sample (see `--data`) show the same query with many lists. Lists are
dealt into folds; each click model is fitted to the training pages of all other folds, and predicts
clicks per page of the lists held out, as `compare` does, with their differences. They are compared
with later pages of these lists (`later`), and with the training pages held out (`same`), on which
nothing but the ranking has changed. Lists with fewer than `--least` pages are not judged. Prints
JSON, and the progress on standard error; `--tables FILE` prints the tables of such a file.
`control` has the same scores on the same lists with the clicks of simulated users.
"""

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from epiclick.benchmark.page_data import BenchmarkData, PageLog
from epiclick.benchmark.page_files import read_page_files
from natural_lists import MeanClicks, Overlap, ShownLists
from natural_scores import Judged, Predictions, difference_scores, value_scores
from natural_tables import tables
from natural_users import SimulatedUsers
from natural_values import LEARNERS, SAMPLES, Learner

DECIMALS = 4
PERIODS = ("later", "same")


@dataclass(frozen=True)
class Settings:
    """Of the study.

    Attributes:
        folds: of lists.
        partitions: how often lists are dealt.
        least: pages that a list must have to be judged.
        depths: positions whose clicks count; each has results of its own.
        seed: of the dealing.
        shrink: factor of all widths, for a control.
    """

    folds: int = 4
    partitions: int = 1
    least: int = 30
    depths: tuple[int, ...] = (10, 3)
    seed: int = 0
    shrink: float = 1.0


@dataclass(frozen=True, eq=False)
class Split:
    """What is held out of one fit.

    Attributes:
        held_out: (lists,).
        pages: the training pages of all other lists.
    """

    held_out: np.ndarray
    pages: PageLog


@dataclass(frozen=True, eq=False)
class Study:
    """Pages and their lists."""

    data: BenchmarkData
    settings: Settings

    @cached_property
    def lists(self) -> ShownLists:
        """All that were shown."""
        return ShownLists.of(self.data)

    @cached_property
    def splits(self) -> tuple[Split, ...]:
        """One for each fold of each partition."""
        found = []
        for partition in range(self.settings.partitions):
            rng = np.random.default_rng([self.settings.seed, partition])
            fold = self.lists.folds(self.settings.folds, rng)
            for number in range(self.settings.folds):
                held_out = fold == number
                kept = ~held_out[self.lists.train]
                pages = PageLog(self.data.train.pair[kept], self.data.train.clicked[kept])
                found.append(Split(held_out, pages))
        return tuple(found)

    @cached_property
    def observed(self) -> Mapping[tuple[str, int], MeanClicks]:
        """Clicks per page of all lists, by period and depth."""
        of = {
            "later": (self.data.test, self.lists.test),
            "same": (self.data.train, self.lists.train),
        }
        return {
            (period, depth): MeanClicks.of(*of[period], len(self.lists), depth)
            for period in PERIODS
            for depth in self.settings.depths
        }

    def enough(self, period: str, depth: int) -> np.ndarray:
        """(lists,) whether a list has enough pages to be judged."""
        return self.observed[period, depth].judged(self.settings.least)

    def judged(self, learner: Learner) -> tuple[dict[tuple[int, str], Judged], Counter[str]]:
        """All predictions by depth and kind, and how many fits failed which check."""
        parts: dict[tuple[int, str], list[Judged]] = {}
        failed: Counter[str] = Counter()
        for split in self.splits:
            learned = learner(split.pages, self.data.query_of)
            failed.update(learned.checks)
            for depth in self.settings.depths:
                for own in self._judged_together(split, depth):
                    samples = learned.values(self.lists.items[own, :depth])
                    for name, judged in self._judge(split, depth, own, samples):
                        parts.setdefault((depth, name), []).append(judged)
        return {name: Judged.together(each) for name, each in parts.items()}, failed

    def scores(self, learner: Learner) -> dict[str, Any]:
        """All scores of one way to predict."""
        found, failed = self.judged(learner)
        shares = {name: number / len(self.splits) for name, number in sorted(failed.items())}
        return {**scores_of(found), "failed_checks": shares}

    def _judged_together(self, split: Split, depth: int) -> Iterator[np.ndarray]:
        """Of each query with held-out lists to judge, these and those that were fitted to."""
        enough = np.logical_or(*(self.enough(period, depth) for period in PERIODS))
        fitted_to = np.isin(np.arange(len(self.lists)), self.lists.train) & ~split.held_out
        for query in np.unique(self.lists.query[split.held_out & enough]):
            own = (self.lists.query == query) & enough & (split.held_out | fitted_to)
            yield np.flatnonzero(own)

    def _judge(
        self, split: Split, depth: int, own: np.ndarray, samples: np.ndarray
    ) -> Iterator[tuple[str, Judged]]:
        """Values and differences of the lists of one query."""
        items, is_new = self.lists.items[own, :depth], split.held_out[own]
        for period in PERIODS:
            predictions = Predictions(
                query=self.lists.query[own],
                lists=own,
                items=items,
                samples=samples,
                observed=self.observed[period, depth].at(own),
                known=np.isin(items, split.pages.pair).all(axis=1),
                shrink=self.settings.shrink,
            )
            enough = self.enough(period, depth)[own]
            new, logged = np.flatnonzero(enough & is_new), np.flatnonzero(enough & ~is_new)
            yield period, predictions.values(new)
            one, other = np.triu_indices(len(new), 1)
            yield f"{period}_both_new", predictions.differences(new[one], new[other])
            if period == "later":  # the others' training pages were fitted to
                one, other = (each.ravel() for each in np.meshgrid(new, logged))
                yield f"{period}_one_new", predictions.differences(one, other)

    def overlap(self) -> dict[str, Any]:
        """How much held-out lists differ from the pages that models are fitted to."""
        found: list[Overlap] = []
        depth = self.data.train.depth
        judged = self.enough("later", self.settings.depths[0])
        for split in self.splits:
            pages = split.pages.pair
            query = self.data.query_of[pages[:, 0]]
            own = split.held_out & judged
            for each in np.unique(self.lists.query[own]):
                lists = self.lists.items[own & (self.lists.query == each)]
                found.append(Overlap.of(lists, pages[query == each]))
        every = Overlap.together(found)
        return {
            "positions": depth,
            "nearest": every.nearest.mean(),
            "nearest_quartiles": np.quantile(every.nearest, [0.25, 0.5, 0.75]).tolist(),
            "nearest_most": every.nearest.max(),
            "average": every.average.mean(),
            "unseen": every.unseen.mean(),
            "moved": every.moved.mean(),
            "with_unseen": (every.unseen > 0).mean(),
        }

    def drift(self) -> dict[str, Any]:
        """Later pages predicted by earlier pages of the very same lists, by depth."""
        found = {}
        for depth in self.settings.depths:
            both = np.flatnonzero(self.enough("later", depth) & self.enough("same", depth))
            early, rng = self.observed["same", depth].at(both), np.random.default_rng(0)
            noise = rng.standard_t(early.degrees[:, None], (len(both), SAMPLES))
            predictions = Predictions(
                query=self.lists.query[both],
                lists=both,
                items=self.lists.items[both, :depth],
                samples=early.mean[:, None] + early.error[:, None] * noise,
                observed=self.observed["later", depth].at(both),
                known=np.ones(len(both), bool),
                shrink=self.settings.shrink,
            )
            one, other = np.triu_indices(len(both), 1)
            within = predictions.query[one] == predictions.query[other]
            found[f"depth_{depth}"] = {
                "later": value_scores(predictions.values(np.arange(len(both)))),
                "later_pairs": difference_scores(
                    predictions.differences(one[within], other[within])
                ),
            }
        return found

    def described(self) -> dict[str, Any]:
        """Numbers of pages, lists and queries."""
        found: dict[str, Any] = {
            "training_pages": len(self.data.train),
            "later_pages": len(self.data.test),
            "queries": self.data.queries,
            "lists": len(self.lists),
        }
        depth = self.settings.depths[0]
        for period in PERIODS:
            enough = self.enough(period, depth)
            pages = self.observed[period, depth].degrees + 1
            found[f"judged_{period}"] = {
                "lists": int(enough.sum()),
                "pages": int(pages[enough].sum()),
                "by_query": np.bincount(
                    self.lists.query[enough], minlength=self.data.queries
                ).tolist(),
            }
        never = ~np.isin(np.arange(len(self.lists)), self.lists.train)
        return {**found, "judged_only_later": int((self.enough("later", depth) & never).sum())}


def scores_of(found: Mapping[tuple[int, str], Judged]) -> dict[str, Any]:
    """By depth and kind."""
    scores: dict[str, Any] = {}
    for (depth, name), judged in found.items():
        score = value_scores if name in PERIODS else difference_scores
        scores.setdefault(f"depth_{depth}", {})[name] = score(judged)
    return scores


def control(data: BenchmarkData, settings: Settings, worlds: int) -> dict[str, Any]:
    """The same pages with clicks of simulated users who follow the model that is fitted, `pbm`.

    Every world has relevance and clicks of its own; its queries count as others.
    """
    users = SimulatedUsers.of(data)
    parts: dict[tuple[int, str], list[Judged]] = {}
    for world in range(worlds):
        study = Study(users.clicks(data, world), replace(settings, partitions=1, seed=world))
        found, _ = study.judged(LEARNERS["pbm"])
        for name, judged in found.items():
            own = replace(judged, query=judged.query + world * data.queries)
            parts.setdefault(name, []).append(own)
    scores = scores_of({name: Judged.together(each) for name, each in parts.items()})
    for depth in scores.values():
        for period in PERIODS:
            del depth[period]["by_query"]
    return {"worlds": worlds, **scores}


def run(
    data: BenchmarkData, names: Sequence[str], settings: Settings, worlds: int
) -> dict[str, Any]:
    """Everything that is printed."""
    study = Study(data, settings)
    found: dict[str, Any] = {
        "settings": asdict(settings),
        "pages": study.described(),
        "overlap": study.overlap(),
        "drift": study.drift(),
        "rows": {},
    }
    if worlds:
        print("control", file=sys.stderr)
        found["control"] = control(data, settings, worlds)
    for name in names:
        print(name, file=sys.stderr)
        found["rows"][name] = study.scores(LEARNERS[name])
    return rounded(found)


def rounded(value: Any) -> Any:
    """Numbers to a few decimals, in JSON types."""
    if isinstance(value, Mapping):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    if isinstance(value, float | np.floating):
        return round(float(value), DECIMALS)
    return int(value) if isinstance(value, np.integer) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).parents[2] / "shared" / "data" / "yandex-pages"
    parser.add_argument("--data", type=Path, default=default)
    parser.add_argument("--rows", default=",".join(LEARNERS), help="what predicts; default all")
    parser.add_argument("--partitions", type=int, default=Settings.partitions)
    parser.add_argument("--worlds", type=int, default=4, help="of simulated users, as a control")
    parser.add_argument("--least", type=int, default=Settings.least)
    parser.add_argument("--shrink", type=float, default=1.0, help="of all widths, which must fail")
    parser.add_argument("--tables", type=Path, help="file of results whose tables are printed")
    given = parser.parse_args()
    if given.tables:
        print("\n\n".join(tables(json.loads(given.tables.read_text())).values()))
        return
    if not given.data.is_dir():
        print(json.dumps({"skipped": "the yandex-pages sample is not available"}))
        return
    warnings.simplefilter("ignore")
    settings = replace(
        Settings(), partitions=given.partitions, least=given.least, shrink=given.shrink
    )
    found = run(read_page_files(given.data), given.rows.split(","), settings, given.worlds)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
