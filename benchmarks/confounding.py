"""False alarms and power of the checks for confounding, in worlds with known truth.

Prints JSON. `moved`: for each family of `epiclick calibrate`, the share of fits whose position bias
was found to differ from that of items that moved, with the mean of both at the last position; and
the share in which relevance was found to depend on placement, with the mean slope.
`days`: for logs of five days, the share in which moves within a day and between days were found to
differ; these need no fit.

Usage: python benchmarks/confounding.py [moved|days] [worlds] [family ...]
"""

import json
import sys
import time
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from scipy.special import expit, logit

import epiclick as ec
from epiclick.api import EPISTEMIC
from epiclick.calibration.families import FAMILIES, make_case
from epiclick.data.counts import ClickCounts
from epiclick.diagnostics.confounding import Outcome, contrast_of_days, groups_of
from epiclick.identification.unbounded import unbounded_bias
from epiclick.simulate.world import logging_scores, random_streams, show_pages
from epiclick.simulate.world_items import QueryGroups

SEED = 11
RIGHT = ("five-positions", "strong-policy", "sparse", "few-queries")
WRONG = (
    *("knows-a-little-more", "knows-as-much-more", "knows-far-more"),
    *("knows-a-little-more-deterministic", "knows-as-much-more-deterministic", "personal"),
)


def moved(name: str, worlds: int) -> dict[str, object]:
    """The first check, in worlds of a family."""
    found, placed, began = [], [], time.process_time()
    for index in range(worlds):
        case = make_case(FAMILIES[name], SEED, index)
        model = EPISTEMIC[case.family.click_model]().fit(case.train, progress=False)
        checks = model.fitted_.training.checks
        found.append(checks["confounding"]["moved_items"])
        placed.append(checks["placement"])
    last = [each["by_position"][-1] for each in found]
    return {
        **shares([each["found"] for each in found], [each["p_value"] for each in found]),
        "effect": round(float(np.mean([each["effect"] for each in found])), 3),
        "true": FAMILIES[name].theta[-1] / FAMILIES[name].theta[0],
        **{key: round(float(np.mean([row[key] for row in last])), 3) for key in ("moved", "model")},
        "placement": shares([p["found"] for p in placed], [p["p_value"] for p in placed])
        | {key: round(float(np.mean([p[key] for p in placed])), 3) for key in ("slope", "effect")},
        "processor_seconds_per_world": round((time.process_time() - began) / worlds, 1),
    }


@dataclass(frozen=True)
class Days:
    """A log of several days.

    Attributes:
        update: standard deviation of daily changes of the ranker's scores, relative to theirs.
        taste: standard deviation of users' taste, which the ranker knows, in logits.
        drift: standard deviation of daily changes of relevance, in logits.
        followed: whether the ranker knows these changes.
        days: number of days.
    """

    update: float = 0.0
    taste: float = 0.0
    drift: float = 0.0
    followed: bool = False
    days: int = 5

    def counts(self, seed: int) -> ClickCounts:
        """Counts of a world like those of the family five-positions."""
        family = FAMILIES["five-positions"]
        world = ec.simulate(
            queries=family.queries,
            docs=family.docs,
            features=family.features,
            pages=family.pages,
            theta=family.theta,
            relevance="beta",
            seed=seed,
        )
        assert world.prior is not None
        users = "personal" if self.taste else "pbm"
        pages = family.pages // self.days
        settings = replace(world.settings, users=users, taste_sd=self.taste, pages=pages)
        queries = QueryGroups.of(world.features.keys["query_id"])
        rng = np.random.default_rng([seed, 1])
        streams = random_streams(seed + 1)
        scores = logging_scores(
            settings, world.features, queries, world.prior.mean, streams["policy"]
        )
        known = logit(np.clip(world.relevance, 1e-6, 1 - 1e-6))
        logs = []
        for day in range(self.days):
            change = self.drift * rng.standard_normal(len(known))
            today = scores + self.update * scores.std() * rng.standard_normal(len(known))
            today = today + (change if self.followed else 0)
            relevance = expit(known + change)
            log = show_pages(settings, world.features, queries, today, relevance, streams)
            place = log.column_names.index("page_id")
            page = pa.array(log["page_id"].to_numpy() + day * pages)
            log = log.set_column(place, "page_id", page)
            logs.append(log.append_column("day", pa.array(np.full(len(log), day))))
        return ec.read_log(pa.concat_tables(logs), part="day")


DAYS = {
    "the same ranker every day": Days(),
    "a ranker that changes": Days(update=1.0),
    "and relevance that changes": Days(update=1.0, drift=0.7),
    "personal, the same ranker every day": Days(taste=1.0),
    "personal (taste 0.5), a ranker that changes": Days(update=1.0, taste=0.5),
    "personal (taste 1), a ranker that changes": Days(update=1.0, taste=1.0),
    "personal (taste 1), a ranker that changes much": Days(update=2.0, taste=1.0),
    "a ranker that follows relevance that changes": Days(drift=0.7, followed=True),
}


def days(which: Days, worlds: int) -> dict[str, object]:
    """The second check, in logs of several days."""
    outcomes: list[Outcome] = []
    for index in range(worlds):
        counts = which.counts(1_000 * SEED + index)
        estimate = unbounded_bias(counts).estimate(0, groups_of(counts))
        outcomes.append(contrast_of_days(counts, estimate, 0))
    found = [each.contrast for each in outcomes if each.contrast is not None]
    last = {"within_days": [each.first[-1] for each in found]}
    last["between_days"] = [each.second[-1] for each in found]
    return {
        **shares([each.is_finding for each in outcomes], [each.p_value for each in found]),
        "effect": round(float(np.mean([each.effect for each in found])), 3),
        "true": FAMILIES["five-positions"].theta[-1],
        **{key: round(float(np.mean(np.exp(values))), 3) for key, values in last.items()},
    }


def shares(found: list[bool], p_values: list[float]) -> dict[str, object]:
    """How often there was a finding, and p-values below the usual levels."""
    below = {
        f"p<{level}": round(float(np.mean(np.array(p_values) < level)), 3) for level in (0.05, 0.01)
    }
    return {"worlds": len(found), "found": round(float(np.mean(found)), 3), **below}


def main() -> None:
    warnings.simplefilter("ignore", ec.InputWarning)
    kind = sys.argv[1] if len(sys.argv) > 1 else "all"
    worlds = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    results: dict[str, object] = {}
    if kind in ("all", "moved"):
        for name in sys.argv[3:] or (*RIGHT, *WRONG):
            results[name] = moved(name, worlds)
            print(name, results[name], file=sys.stderr, flush=True)
    if kind in ("all", "days"):
        for name, which in DAYS.items():
            results[name] = days(which, worlds)
            print(name, results[name], file=sys.stderr, flush=True)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
