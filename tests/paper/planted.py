"""Results in which the paper's claims are true, false, or true in every other run."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from epiclick.beta import Beta
from epiclick.paper.results import SCHEMA, Cost, Results, sorted_table
from epiclick.paper.settings import Settings

RUNS, SAMPLES = 12, 200
EPOCHS = (1, *range(10, 100, 10), *range(100, 1_501, 50))
THETA = (1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5)
TRUTH = np.array(THETA)
RANKERS = np.array([1.2, 1.0, 0.8])
START = -0.5
WEIGHTS = ("0.0001", "0.001", "0.01", "0.25")
POINTS = ("pointwise", "marginal")


@dataclass(frozen=True)
class Profile:
    """How a method behaves: its final likelihood, its speed, what it learns."""

    final: float
    slow: bool = False
    theta: np.ndarray = field(default_factory=lambda: np.minimum(TRUTH, 0.99))
    confidence: float = 200.0
    mu_rise: float = 0.0
    mu_sd: float = 0.15
    nu: float = 20.0
    nu_sd: float = 5.0
    nu_grows: bool = False
    ranker_bias: float = 0.0
    ranker_sd: float = 0.05


def as_claimed() -> dict[str, Profile]:
    """Methods for which every claim is true."""
    best = Profile(-0.40)
    naive = Profile(-0.498, theta=np.full(5, 0.5), confidence=1.2, mu_sd=0.002, nu=1.1, nu_sd=0.01)
    alone = replace(best, final=-0.44, theta=TRUTH - 0.08, confidence=3_000, mu_rise=0.15, nu=80,
                    nu_grows=True)  # fmt: skip
    short = np.array([-0.06, -0.06, -0.06, 0, 0])
    points = Profile(-0.41, slow=True, theta=TRUTH + short)
    found = {
        "pointwise": points,
        "naive-literal": naive,
        "naive-literal+baseline": naive,
        "naive": naive,
        "naive+baseline": naive,
        "self_normalized": alone,
        "self_normalized+baseline": replace(alone, final=-0.46),
        "conditioned": best,
        "conditioned+baseline": best,
        "exact": best,
        "marginal": best,
        "pointwise~start=0.1": replace(points, final=-0.42),
        "pointwise~start=0.5": points,
        "pointwise~start=0.9": replace(points, final=-0.43),
        "pointwise~batches": points,
        "pointwise~lookup=1": points,
        "exact~nu-frozen": replace(best, final=-0.405),
        "exact~lookup=1": best,
    }
    flat = replace(best, final=-0.46, theta=np.full(5, 0.5), confidence=1.5, nu=1.5)
    shifted = replace(best, theta=best.theta - 0.03, nu=12)
    for family in ("conditioned", "conditioned/S", "exact"):
        each = (replace(best, nu=18), shifted, replace(shifted, final=-0.405, nu=8), flat)
        found |= {f"{family}@{w}": one for w, one in zip(WEIGHTS, each, strict=True)}
    return found


def contradicted() -> dict[str, Profile]:
    """Methods for which every claim is false."""
    # wrong at one position, and yet closer than methods with a higher likelihood
    worst = Profile(-0.46, slow=True, theta=TRUTH - 0.2 * (TRUTH == 1), confidence=1.2, mu_sd=0.01,
                    nu=5, nu_sd=0.01, ranker_bias=0.5, ranker_sd=0.01)  # fmt: skip
    naive = Profile(-0.40, theta=np.full(5, 0.5), confidence=3_000)
    alone = Profile(-0.44, theta=np.minimum(TRUTH + 0.05, 0.9), confidence=5)
    points = Profile(-0.41, theta=np.minimum(TRUTH + 0.1, 0.98))
    found = {
        "pointwise": points,
        "naive-literal": naive,
        "naive-literal+baseline": naive,
        "naive": naive,
        "naive+baseline": naive,
        "self_normalized": alone,
        "self_normalized+baseline": replace(alone, final=-0.42),
        "conditioned": worst,
        "conditioned+baseline": replace(worst, final=-0.45),
        "exact": worst,
        "marginal": worst,
        "pointwise~start=0.1": points,
        "pointwise~start=0.5": points,
        "pointwise~start=0.9": points,
        "pointwise~batches": points,
        "pointwise~lookup=1": points,
        "exact~nu-frozen": replace(worst, final=-0.47),
        "exact~lookup=1": worst,
    }
    lost = replace(worst, final=-0.51, nu=9)
    kept = replace(worst, confidence=3_000)
    for family in ("conditioned", "conditioned/S", "exact"):
        each = (lost, lost, lost, kept)
        found |= {f"{family}@{w}": one for w, one in zip(WEIGHTS, each, strict=True)}
    return found


Row = tuple[str, int, int, str, int, float]


def results_of(
    rows: Iterable[Row],
    settings: Settings,
    costs: Iterable[Cost] = (),
    rankers: Iterable[str] = (),
) -> Results:
    """Results of rows (method, run, epoch, quantity, index, value) in any order."""
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    table = sorted_table(pa.table(arrays, schema=SCHEMA))
    return Results(table, settings, np.array(settings.theta), tuple(costs), tuple(rankers))


def cell(method: str, run: int, own: Profile, rng: np.random.Generator) -> list[Row]:
    """The rows of one method and run, with a little noise per run."""
    epochs = np.array(EPOCHS, float)
    way = epochs / epochs[-1] if own.slow else 1 - np.exp(-epochs / 20)
    likelihood = START + (own.final - START) * way + 1e-4 * rng.standard_normal()
    share = epochs / epochs[-1] if own.nu_grows else np.ones_like(epochs)
    rise = own.mu_rise * np.exp(-((np.log(epochs / 100)) ** 2))
    steady = np.ones_like(epochs)
    noise = 1 + 0.01 * rng.standard_normal(6)
    curves = {
        "whole_set": likelihood,
        "per_display": likelihood + 0.01,
        "per_pair": 1.4 * likelihood,
        "mu_mean": (0.3 + rise) * noise[0],
        "mu_sd": own.mu_sd * noise[1] * steady,
    }
    if method == "naive-literal":
        curves["zero_gradients"] = np.where(epochs <= 1_200, 1.0, 0.5)  # 0.9 overall
    point = method.startswith("pointwise")
    if not point:
        curves["nu_mean"] = 1 + (own.nu - 1) * share * noise[2]
        curves["nu_sd"] = own.nu_sd * noise[3] * steady
    rows: list[Row] = [
        (method, run, epoch, quantity, 0, float(value))
        for quantity, values in curves.items()
        for epoch, value in zip(EPOCHS, values, strict=True)
    ]

    def last(quantity: str, values: np.ndarray, first: int) -> list[Row]:
        return [(method, run, EPOCHS[-1], quantity, first + i, float(value))
                for i, each in enumerate(values) for value in np.ravel(each)]  # fmt: skip

    if point or method == "marginal":
        spread = 0.02 if point else 0.005
        theta = np.clip(own.theta + spread * rng.standard_normal(5), 0.01, 0.999)
        rows += last("theta", theta, 1)
    else:
        theta = np.clip(own.theta + 0.002 * rng.standard_normal(5), 0.01, 0.999)
        beta = Beta.from_mean(theta, own.confidence * noise[4])
        rows += last("theta_alpha", beta.alpha, 1) + last("theta_beta", beta.beta, 1)
    if method in ("pointwise", "conditioned", "exact", "marginal"):
        value = RANKERS * (1 + own.ranker_bias + 0.01 * rng.standard_normal(3))
        rows += last("ranker_truth", RANKERS, 0) + last("ranker_value", value, 0)
        if not point:
            drawn = rng.standard_normal((3, SAMPLES)) * own.ranker_sd + 1
            rows += last("ranker_sample", value[:, None] * drawn, 0)
    return rows


def planted(*worlds: dict[str, Profile], runs: int = RUNS, seed: int = 1) -> Results:
    """Results whose runs follow the worlds in turn."""
    rng = np.random.default_rng(seed)
    rows = [
        row
        for method in worlds[0]
        for run in range(runs)
        for row in cell(method, run, worlds[run % len(worlds)][method], rng)
    ]
    costs = [
        Cost(method, run, 60.0 + 5 * i + run, 70.0 + 5 * i + run, 700_000_000 + 1_000_000 * i)
        for i, method in enumerate(worlds[0])
        for run in range(runs)
    ]
    settings = Settings(runs=runs, epochs=EPOCHS[-1], theta=THETA)
    return results_of(rows, settings, costs, ("f34", "f172", "f<195>"))


def shortened(results: Results, epochs: int) -> Results:
    """The same without its later epochs; quantities of the last one are lost."""
    kept = [epoch <= epochs for epoch in results.table["epoch"].to_pylist()]
    return replace(results, table=results.table.filter(kept))
