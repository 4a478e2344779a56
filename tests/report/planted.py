"""A model with known truth and no features, and logs drawn from it, some ids being hostile."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.special import logit

import epiclick as ec
from epiclick.api import EpistemicPBM
from epiclick.click_models.pbm import PositionBased
from epiclick.data.schema import LogOptions
from epiclick.diagnostics.checks import check_fit
from epiclick.evaluation.truth import Truth
from epiclick.fitted.parameters import ParameterPosterior, Parameters, PointLookup, to_vector
from epiclick.fitted.state import FittedModel, QuerySets, TrainingSummary
from epiclick.posterior.items import known_items
from epiclick.report.report_sources import Sources
from epiclick.selection.parsimony import ModelScores
from epiclick.selection.selection_file import StoredSelection

THETA = np.array([1.0, 0.6, 0.4, 0.25])
MEAN, NU = 0.3, 4.0  # of the Beta that relevance comes from
HOSTILE = "</script><script>alert(1)</script>"
MARKUP = '<img src=x onerror="alert(2)">&amp;\u2028'


def name_of(query: int) -> str:
    return {0: HOSTILE, 1: MARKUP}.get(query, f"query {query}")


def draw_log(seed: int, *, queries: int = 60, docs: int = 6, pages: int = 30) -> tuple[
    ec.ClickCounts, Truth
]:  # fmt: skip
    """Pages of four items in random order, and the true relevance.

    The relevance does not depend on the seed, so that all logs are of one world.
    """
    zeta = np.random.default_rng(0).beta(MEAN * NU, (1 - MEAN) * NU, (queries, docs))
    rng = np.random.default_rng([seed, 1])
    size = len(THETA)
    shown = np.array(
        [rng.permutation(docs)[:size] for _ in range(queries * pages)]
    )  # (pages, positions)
    query = np.repeat(np.arange(queries), pages)
    chance = THETA * zeta[query[:, None], shown]
    frame = pd.DataFrame(
        {
            "page_id": np.repeat(np.arange(len(query)), size),
            "query_id": np.repeat([name_of(q) for q in query], size),
            "doc_id": [f"doc {d}" for d in shown.ravel()],
            "position": np.tile(np.arange(1, size + 1), len(query)),
            "click": (rng.random(chance.shape) < chance).astype(int).ravel(),
        }
    )
    every = [(name_of(q), f"doc {d}") for q in range(queries) for d in range(docs)]
    keys = pa.table(
        {name: [row[i] for row in every] for i, name in enumerate(("query_id", "doc_id"))}
    )
    log = ec.read_log(frame)
    keys = keys.cast(pa.schema([(name, log.query_id.type) for name in keys.column_names]))
    return log, Truth(THETA, keys, zeta.ravel())


def planted(log: ec.ClickCounts, *, nu: float = NU, sd: float = 0.05) -> EpistemicPBM:
    """The model that the log was drawn from; `nu` is the confidence of its Beta."""
    raw = np.array([logit(MEAN), np.log(np.expm1(nu - 1))])
    layer = (np.zeros((len(THETA), 2)), raw)
    theta = PointLookup(logit(np.clip(THETA, None, 1 - 1e-9)))
    history = pd.DataFrame(
        {
            "epoch": [1, 2, 3],
            "log_likelihood": [-0.5, -0.4, -0.39],
            "validation": [-0.5, -0.42, -0.43],
            "zero_gradients": 0,
            "seconds": [1.0, 2.0, 3.0],
        }
    )
    queries = log.query_id.unique()
    made = FittedModel(
        kind="EpistemicPBM",
        head="id_beta",
        settings={"estimator": "marginal", "level": 0.9, "seed": 0},
        parameters=Parameters((layer,), theta),
        anchor=0,
        contexts=log.contexts,
        features=None,
        options=LogOptions(),
        queries=QuerySets(queries, queries.slice(0, 0)),
        items=None,
        training=TrainingSummary(
            *(len(log), log.total_displays, log.total_clicks, 3, 2, 3.0, -0.42), history=history
        ),
    )
    mode = to_vector(made.parameters, PositionBased(), 0)
    covariance = np.zeros((len(mode), len(mode)))
    covariance[:3, :3] = np.eye(3) * sd**2
    made = replace(made, posterior=ParameterPosterior(mode, covariance, covariance, 0.1, 0.0))
    made = replace(made, items=known_items(made, log, 0.9))
    found = check_fit(made, log, 0.9)
    model = EpistemicPBM()
    model.fitted_ = replace(
        made, training=replace(made.training, checks=found.records, warnings=found.warnings)
    )
    return model


def two_rankings(truth: Truth) -> dict[str, pd.DataFrame]:
    """The four best items of every query, and the four worst."""
    frame = truth.keys.to_pandas().assign(score=truth.relevance)
    best = frame.groupby("query_id")["score"].rank(ascending=False)
    worst = frame.groupby("query_id")["score"].rank()
    return {
        name: frame.assign(position=place.astype(int)).loc[place <= 4].drop(columns="score")
        for name, place in (("best <b>", best), ("worst", worst))
    }


def selected() -> StoredSelection:
    """Three click models, of which the first is as good as the best, and simpler."""
    scores = (
        ModelScores(
            "pbm", 3, -0.35, -0.001, -0.003, 0.001, 1.45, chi2_per_df=1.0, relative_bias=0.25
        ),
        ModelScores("ubm", 9, -0.349, 0.0, 0.0, 0.0, 1.44, chi2_per_df=1.1, relative_bias=0.3),
        ModelScores("cascade", 0, None, impossible=12),
    )
    return StoredSelection(scores, 0.9, 360, 1_440, 60, "position 4", ("<dcm> is left out",))


def sources_of(seed: int = 1, **more: object) -> Sources:
    """A log, a later one, the truth, two rankers, a selection of click models."""
    (log, truth), (later, _) = draw_log(seed), draw_log(seed + 1)
    model = planted(log)
    compared = ec.compare(model, two_rankings(truth), clicks=log, backtest=later, samples=200)
    # rankers by the truth know more than the model, which other estimators notice
    overlap = compared.overlap
    assert overlap is not None
    likely = tuple(replace(each, p_value=1.0) for each in overlap.estimates)
    compared = replace(compared, overlap=replace(overlap, estimates=likely))
    given = {"log": log, "later": later, "truth": truth, "comparison": compared}
    given |= {"selection": selected(), "previous": planted(later), "previous_name": "<b>old"}
    given |= more
    return Sources(model=model, name="planted", command="epiclick report planted", **given)  # type: ignore[arg-type]
