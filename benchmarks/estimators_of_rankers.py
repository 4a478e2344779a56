"""Other estimators of rankers' values in simulated worlds: bias, coverage and warnings, as JSON.

Arguments: families of worlds (`calibrate`), and their number; by default the four families and 60
worlds of docs/compare.md, about a quarter of an hour. `knows-as-much-more 5` has a live ranker that
knows more than the features.
"""

import json
import sys
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd

import epiclick as ec
from epiclick.calibration.families import FAMILIES, Case, make_case
from epiclick.click_models.registry import REGISTRY
from epiclick.comparison.compare_rankers import read_slots, traffic_of
from epiclick.data.arrays import locate_rows
from epiclick.evaluation.truth import Truth

DEFAULT = ("five-positions", 20, "weak-policy", 20, "sparse", 10, "without-features", 10)


def rankings(case: Case, seed: int) -> dict[str, pd.DataFrame]:
    """By two features, and at random; as many slots as the log has."""
    items = case.world.features
    keys = items.keys.select(["query_id", "doc_id"]).to_pandas()
    values = items.rows(np.arange(len(items)))
    scores = {"f0": values[:, 0], "f1": values[:, 1]}
    scores["random"] = np.random.default_rng(seed).random(len(items))
    found = {}
    for name, score in scores.items():
        rank = pd.Series(score).groupby(keys["query_id"]).rank(ascending=False, method="first")
        rows = keys.assign(position=rank.astype(int))
        found[name] = rows[rows["position"] <= len(case.family.theta)]
    return found


def true_values(case: Case, model: ec.EpistemicPBM, lists: dict[str, pd.DataFrame]) -> np.ndarray:
    """(rankers,) true clicks per page on items that the log has shown."""
    world, log = case.world, case.train
    truth = Truth(world.position_bias, world.features.keys, world.relevance, world.settings.users)
    fitted = model.fitted_
    _, slots = read_slots(fitted, lists, None, log, traffic_of(fitted, log))
    relevance = truth.relevance_of(slots.query_id, slots.doc_id)
    chance = truth.click_chances(slots.page, slots.position, relevance)
    names = ("query_id", "doc_id")
    row = locate_rows(*({name: getattr(each, name) for name in names} for each in (slots, log)))
    return np.bincount(slots.ranker, slots.weight * slots.reach * chance * (row >= 0))


def judged(family: str, index: int) -> pd.DataFrame:
    """All estimates in one world, with the truth."""
    case = make_case(FAMILIES[family], 0, index)
    model = ec.api.MODELS[REGISTRY[case.family.click_model].public](seed=index)
    model.fit(case.train, progress=False)
    lists = rankings(case, index)
    features = case.world.features if case.family.with_features else None
    found = ec.compare(model, lists, features, clicks=case.train)
    truth = dict(zip(lists, true_values(case, model, lists), strict=True))
    warned = any(check.name == "estimators" for check in found.checks(found.names))
    table = found.estimators
    return table.assign(truth=table["name"].map(truth), world=index, warned=warned)


def main() -> None:
    """Print one line per family."""
    warnings.simplefilter("ignore")
    given = [*sys.argv[1:]] or [str(each) for each in DEFAULT]
    for family, worlds in [*pairwise(given)][::2]:
        table = pd.concat([judged(family, i) for i in range(int(worlds))])
        inside = table["truth"].between(table["low"], table["high"])
        record = {"family": family, "worlds": int(worlds)}
        record["warned"] = int(table.groupby("world")["warned"].first().sum())
        record["model_bias"] = float((table["model"] / table["truth"] - 1).mean())
        for name, own in table.groupby("estimator"):
            record[f"{name}_bias"] = float((own["value"] / own["truth"] - 1).mean())
            record[f"{name}_coverage"] = float(inside[table["estimator"] == name].mean())
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
