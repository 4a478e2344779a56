"""Fits, posteriors and comparisons of fixed seeds, as they were when they were recorded.

A port must not change a number. `python tests/test_reference.py` records them again, which a commit
that means to change one does, with its reason in the message. The same programs on the same kind of
processor give the same bits; sums that a compiler orders differently differ by 1e-6 or less, which
is the tolerance. Training in float32 may differ more on another kind of processor.
"""

import json
import platform
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import epiclick as ec
from epiclick.evaluation.backtest import backtest
from epiclick.evaluation.log_scores import evaluate
from epiclick.posterior.mode import SETTLED

pytestmark = pytest.mark.slow

RECORDED = Path(__file__).with_name("reference.json")
SAME_PROCESSOR, OTHER_PROCESSOR = 1e-6, 2e-3
SMALL = {"hidden": (8,), "epochs": 3, "seed": 3}
SHOWN = 12  # values of a long array that are kept


def processor() -> str:
    """What decides how programs are compiled."""
    flags: set[str] = set()
    if Path("/proc/cpuinfo").is_file():
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                flags = {f for f in line.split() if f.startswith(("avx", "fma", "sse", "amx"))}
                break
    return " ".join([platform.machine(), *sorted(flags)])


@cache
def world() -> ec.World:
    """A stored log of 60 queries, so that numbers do not depend on how worlds are simulated."""
    return ec.World.load(Path(__file__).with_name("reference_world"))


@cache
def counted(*, features: bool = True) -> tuple[ec.ClickCounts, ...]:
    own = world().counts() if features else ec.read_log(world().log)
    return own.split(0.8, 0.2, by="query", seed=0)


def by_device() -> ec.ClickCounts:
    """The same log on two devices, one of which shows less of its second position."""
    log = world().log.to_pandas()
    log["device"] = np.where(log["page_id"] % 3 == 0, "phone", "desktop")
    log.loc[(log["device"] == "phone") & (log["position"] == 2), "click"] = 0
    return ec.read_log(log, context=("device", "position"))


def rankings() -> dict[str, pa.Table]:
    """By the first feature, and by the reverse."""
    table = world().features
    score = table.rows(np.arange(len(table)))[:, 0].reshape(-1, 6)
    found = {}
    for name, sign in (("new", -1), ("old", 1)):
        best = np.argsort(sign * score, axis=1, kind="stable")[:, :3]
        found[name] = pa.table(
            {
                "query_id": np.repeat(np.arange(len(best)), 3),
                "doc_id": best.ravel(),
                "position": np.tile([1, 2, 3], len(best)),
            }
        )
    return found


def answers(model: Any, test: ec.ClickCounts, train: ec.ClickCounts) -> dict[str, Any]:
    """The results of all public methods of a model."""
    features = world().features if model.fitted_.features is not None else None
    found = {
        "position_bias": model.position_bias(),
        "relevance": model.relevance(features),
        "rank": model.rank(features)["score"],
        "predicted": model.predict_clicks(test),
        "score": model.score(test),
        "log_likelihood": model.history_["log_likelihood"],
        "chi2": model.fitted_.training.checks["chi2_per_df"],
        "evaluation": evaluate(model.fitted_, test, train=train).to_dict(),
        "backtest": backtest(model.fitted_, test).to_dict(),
    }
    if hasattr(model, "posterior"):
        found["posterior"] = model.posterior(test)
        found["upper"] = model.rank(features, "upper", train)["score"]
    if model.fitted_.posterior is not None:
        posterior = model.fitted_.posterior
        found["bayes"] = model.position_bias("bayes")
        found["mean"], found["pareto_k"] = posterior.mean, posterior.pareto_k
        found["robust_sd"] = np.sqrt(np.diag(posterior.robust))
    for name, clicks in (("compared", train), ("compared_by_features", None)):
        result = ec.compare(model, rankings(), features, clicks=clicks, samples=400, seed=5)
        found[name] = result.to_dict()["rankers"]
    return found


def default() -> dict[str, Any]:
    train, test = counted()
    return answers(ec.EpistemicPBM(**SMALL).fit(train), test, train)


def without_features() -> dict[str, Any]:
    train, test = counted(features=False)
    return answers(ec.EpistemicPBM(seed=3).fit(train), test, train)


def ensemble() -> dict[str, Any]:
    train, test = counted()
    return answers(ec.EpistemicPBM(**SMALL, members=2).fit(train), test, train)


def pointwise() -> dict[str, Any]:
    train, test = counted()
    return answers(ec.PointwisePBM(**SMALL, members=3).fit(train), test, train)


def papers(estimator: str) -> Callable[[], dict[str, Any]]:
    def fit() -> dict[str, Any]:
        train, test = counted()
        model = ec.EpistemicPBM(estimator, samples=8, entropy=0.1, **SMALL).fit(train)
        return answers(model, test, train)

    return fit


def devices() -> dict[str, Any]:
    counts = by_device()
    known = pa.table({"device": ["desktop"], "position": [3], "mean": [0.45]}).to_pandas()
    model = ec.EpistemicPBM(seed=3).fit(counts, position_bias=known)
    return {
        "position_bias": model.position_bias(),
        "relevance": model.relevance(),
        "checks": {
            name: value
            for name, value in model.fitted_.training.checks.items()
            if name in ("anchor", "at_bound", "posterior", "given_bias")
        },
    }


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "default": default,
    "without features": without_features,
    "ensemble": ensemble,
    "pointwise": pointwise,
    "naive": papers("naive"),
    "self_normalized": papers("self_normalized"),
    "conditioned": papers("conditioned"),
    "exact": papers("exact"),
    "devices": devices,
}


def plain(value: Any) -> Any:
    """Numbers of any result, by name; long arrays by their sum, their squares and some values."""
    if hasattr(value, "columns"):
        return {str(name): plain(value[name].to_numpy()) for name in value.columns}
    if isinstance(value, dict):
        return {str(key): plain(v) for key, v in value.items()}
    array = np.asarray(value)
    if array.dtype == object and array.ndim and not all(np.isscalar(v) for v in array.ravel()):
        return [plain(each) for each in value]
    if array.ndim == 0 or array.dtype.kind not in "fiub":
        return (
            value.tolist()
            if isinstance(value, np.ndarray)
            else getattr(value, "item", lambda: value)()
        )
    array = array.astype(float).ravel()
    if len(array) <= SHOWN:
        return array.tolist()
    some = array[np.linspace(0, len(array) - 1, SHOWN).astype(int)].tolist()
    return [float(np.nansum(array)), float(np.nansum(array**2)), *some]


def flat(value: Any, name: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    else:
        return {name: value}
    return {k: v for key, each in pairs for k, v in flat(each, f"{name}.{key}").items()}


def answered(case: str) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ec.InputWarning)
        return flat(json.loads(json.dumps(plain(CASES[case]()))))


@pytest.mark.parametrize("case", CASES)
def test_numbers_are_as_recorded(case):
    recorded = json.loads(RECORDED.read_text())
    same = recorded["processor"] == processor()
    tolerance = SAME_PROCESSOR if same else OTHER_PROCESSOR
    expected, found = recorded["cases"][case], answered(case)
    assert found.keys() == expected.keys()
    wrong = {}
    for name, value in expected.items():
        # shares are ratios of variances: their rounding is that of 1, however small they are
        rounding = 1e-8 if name.endswith("_share") else 1e-9
        # what is left of the gradient is noise below the tolerance of the search for the mode
        rounding = SETTLED if name.endswith(".gradient") else rounding
        if not isinstance(value, float | int) or isinstance(value, bool):
            if same and found[name] != value:
                wrong[name] = (value, found[name])
        elif not np.isclose(found[name], value, rtol=tolerance, atol=rounding, equal_nan=True):
            wrong[name] = (value, found[name])
    assert not wrong


def test_a_changed_number_is_seen():
    recorded = json.loads(RECORDED.read_text())["cases"]["default"]
    assert sum(isinstance(value, float) for value in recorded.values()) > 100


if __name__ == "__main__":
    cases = {case: answered(case) for case in (sys.argv[1:] or CASES)}
    RECORDED.write_text(json.dumps({"processor": processor(), "cases": cases}, indent=0) + "\n")
