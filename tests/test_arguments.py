"""Wrong arguments of the public functions: one sentence each, before any work is done."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import epiclick as ec

from .fitted.hand_made import by_features, by_ids, clicks_on, items, model_of

ROWS = {"query_id": [1, 1, 2], "doc_id": [1, 2, 1], "position": [1, 2, 1], "click": [1, 0, 0]}
COUNTED = {
    "query_id": [1, 1],
    "doc_id": [1, 2],
    "position": [1, 2],
    "displays": [3, 4],
    "clicks": [1, 0],
}


@pytest.fixture(scope="module")
def given() -> SimpleNamespace:
    """What right calls would take."""
    table = items(10, 3)
    fitted = model_of(by_features())
    return SimpleNamespace(
        frame=pd.DataFrame(ROWS),
        counted=pa.table(COUNTED),
        features=table,
        counts=clicks_on(table, 20),
        model=fitted,
        by_ids=model_of(by_ids()),
        ranking=table.keys.to_pandas().assign(score=1.0),
        scaler=ec.FeatureScaler.fit(np.eye(3)),
        beta=ec.Beta(2.0, 3.0),
    )


def fit(**parameters: Any) -> Callable[[SimpleNamespace], object]:
    return lambda g: ec.EpistemicPBM(**parameters).fit(g.counts)


def fit_pointwise(**parameters: Any) -> Callable[[SimpleNamespace], object]:
    return lambda g: ec.PointwisePBM(**parameters).fit(g.counts)


def read(source: Any = None, **options: Any) -> Callable[[SimpleNamespace], object]:
    return lambda g: ec.read_log(g.frame if source is None else source, **options)


PARAMETERS: dict[str, tuple[Callable[[SimpleNamespace], object], str]] = {
    "hidden is one number": (fit(hidden=64), "hidden"),
    "hidden is text": (fit(hidden="64,32"), "hidden"),
    "hidden has a fraction": (fit(hidden=(8, 2.5)), "hidden"),
    "hidden has an empty layer": (fit(hidden=(8, 0)), "hidden"),
    "hidden is None": (fit(hidden=None), "hidden"),
    "epochs is text": (fit(epochs="5"), "epochs"),
    "epochs has a fraction": (fit(epochs=2.5), "epochs"),
    "epochs is True": (fit(epochs=True), "epochs"),
    "epochs is 0": (fit(epochs=0), "epochs"),
    "level is text": (fit(level="0.9"), "level"),
    "level is a percentage": (fit(level=90), "level"),
    "level is None": (fit(level=None), "level"),
    "level is NaN": (fit(level=float("nan")), "level"),
    "anchor is an object": (fit(anchor=object()), "anchor"),
    "anchor has a value too many": (fit(anchor=(1, 2)), "anchor"),
    "estimator is a number": (fit(estimator=3), "estimator"),
    "estimator is a list": (fit(estimator=["marginal"]), "estimator"),
    "estimator is misspelt": (fit(estimator="marginl"), "did you mean 'marginal'"),
    "seed is negative": (fit(seed=-1), "seed"),
    "seed is None": (fit(seed=None), "seed"),
    "seed is text": (fit(seed="0"), "seed"),
    "seed has a fraction": (fit(seed=0.5), "seed"),
    "batch_size is text": (fit(batch_size="big"), "batch_size"),
    "batch_size is None": (fit(batch_size=None), "batch_size"),
    "learning_rate is text": (fit(learning_rate="1e-2"), "learning_rate"),
    "learning_rate is infinite": (fit(learning_rate=float("inf")), "learning_rate"),
    "weight_decay is None": (fit(weight_decay=None), "weight_decay"),
    "patience is text": (fit(patience="10"), "patience"),
    "holdout is text": (fit(holdout="10%"), "holdout"),
    "members is None": (fit(members=None), "members"),
    "members has a fraction": (fit(members=1.5), "members"),
    "samples is text": (fit(samples="60"), "samples"),
    "entropy is None": (fit(entropy=None), "entropy"),
    "baseline is text": (fit(baseline="no"), "baseline"),
    "literal is a number": (fit(literal=2), "literal"),
    "decay is None": (fit(decay=None), "decay"),
    "bootstrap is text": (fit(bootstrap="yes"), "bootstrap"),
    "theta_posterior is a number": (fit(theta_posterior=1), "theta_posterior"),
    "theta_posterior is a list": (fit(theta_posterior=["nuts"]), "theta_posterior"),
    "pointwise: hidden is one number": (fit_pointwise(hidden=64), "hidden"),
    "pointwise: seed is None": (fit_pointwise(seed=None), "seed"),
    "pointwise: epochs is text": (fit_pointwise(epochs="5"), "epochs"),
    "several at once": (fit(epochs="5", seed=-1), r"epochs .*seed"),
    "set_params of an unknown name": (
        lambda g: ec.EpistemicPBM().set_params(epoch=5),
        "did you mean 'epochs'",
    ),
}

MODELS: dict[str, tuple[Callable[[SimpleNamespace], object], str]] = {
    "fit to a list": (lambda g: ec.EpistemicPBM().fit([1, 2]), "read_log"),
    "fit to None": (lambda g: ec.EpistemicPBM().fit(None), "read_log"),
    "fit to an array": (lambda g: ec.EpistemicPBM().fit(np.eye(3)), "read_log"),
    "fit to features": (lambda g: ec.EpistemicPBM().fit(g.features), "read_log"),
    "fit to a frame without clicks": (
        lambda g: ec.EpistemicPBM().fit(g.frame.drop(columns="click")),
        "click",
    ),
    "fit to no file": (lambda g: ec.EpistemicPBM().fit("no/such.parquet"), "no file at"),
    "valid is a number": (lambda g: ec.EpistemicPBM().fit(g.counts, 0.1), "valid"),
    "randomised is a number": (
        lambda g: ec.EpistemicPBM().fit(g.counts, randomised=3),
        "randomised",
    ),
    "init is a path": (lambda g: ec.EpistemicPBM().fit(g.counts, init="model"), "init.*load"),
    "init is not fitted": (
        lambda g: ec.EpistemicPBM().fit(g.counts, init=ec.EpistemicPBM()),
        "not fitted",
    ),
    "checkpoint is a number": (
        lambda g: ec.EpistemicPBM().fit(g.counts, checkpoint=3),
        "checkpoint",
    ),
    "position_bias is a number": (
        lambda g: ec.EpistemicPBM().fit(g.counts, position_bias=0.5),
        "position_bias|position bias",
    ),
    "posterior of a frame": (lambda g: g.model.posterior(g.frame), "read_log"),
    "posterior of a path": (lambda g: g.model.posterior("log.parquet"), "read_log"),
    "posterior above text": (lambda g: g.model.posterior(g.counts, above="0.5"), "above"),
    "predict_clicks of a frame": (lambda g: g.model.predict_clicks(g.frame), "read_log"),
    "predict_clicks of None": (lambda g: g.model.predict_clicks(None), "read_log"),
    "score of a path": (lambda g: g.model.score("log.parquet"), "read_log"),
    "score_clicks of an array": (lambda g: g.model.score_clicks(np.eye(2)), "read_log"),
    "position_bias of a number": (lambda g: g.model.position_bias(3), "kind"),
    "position_bias of a list": (lambda g: g.model.position_bias(["bayes"]), "kind"),
    "position_bias at a level in text": (lambda g: g.model.position_bias(level="0.9"), "level"),
    "position_bias at 90": (lambda g: g.model.position_bias(level=90), "level"),
    "relevance of a number": (lambda g: g.model.relevance(3), "int"),
    "relevance of nothing": (lambda g: g.model.relevance(), "features"),
    "relevance of a narrow array": (lambda g: g.model.relevance(np.eye(2)), "array"),
    "relevance above text": (lambda g: g.model.relevance(g.features, above="0.5"), "above"),
    "relevance above 2": (lambda g: g.model.relevance(g.features, above=2), "above"),
    "rank by a number": (lambda g: g.model.rank(g.features, how=1), "how|rank"),
    "rank with a negative seed": (lambda g: g.model.rank(g.features, seed=-1), "seed"),
    "rank with a seed in text": (lambda g: g.model.rank(g.features, seed="1"), "seed"),
    "rank with a frame of clicks": (lambda g: g.model.rank(g.features, counts=g.frame), "read_log"),
    "to_lightgbm of a frame": (lambda g: g.model.to_lightgbm(g.frame, g.features), "read_log"),
    "to_lightgbm in another way": (
        lambda g: g.model.to_lightgbm(g.counts, g.features, how=3),
        "how|must be",
    ),
    "to_lightgbm with cuts in text": (
        lambda g: g.model.to_lightgbm(g.counts, g.features, how="grades", cuts="0.1,0.2"),
        "cuts|must be",
    ),
    "save to None": (lambda g: g.model.save(None), "path"),
    "save to a number": (lambda g: g.model.save(3), "path"),
    "save to a path with a NUL": (lambda g: g.model.save("a\0b"), "NUL"),
    "predict before a fit": (lambda g: ec.EpistemicPBM().predict_clicks(g.counts), "fit first"),
    "load None": (lambda g: ec.load(None), "path"),
    "load a model": (lambda g: ec.load(g.model), "path"),
    "load a path with a NUL": (lambda g: ec.load("a\0b"), "NUL"),
    "load nothing": (lambda g: ec.load(""), "empty|path"),
}

READING: dict[str, tuple[Callable[[SimpleNamespace], object], str]] = {
    "read a number": (read(3), "int"),
    "read nothing": (lambda g: ec.read_log(None), "NoneType"),
    "read an empty list": (read([]), "list"),
    "read an empty path": (read(""), "empty"),
    "read a path with a NUL": (read("a\0b.parquet"), "NUL"),
    "read bytes": (read(b"log.parquet"), "bytes"),
    "read an unknown setting": (read(postion_base=0), "did you mean 'position_base'"),
    "read a setting of the command line": (read(column={"a": "b"}), "did you mean 'columns'"),
    "options is a dict": (read(options={"position_base": 0}), "options.*LogOptions"),
    "context is one name": (lambda g: ec.read_log(g.frame, context="position"), "context"),
    "context is a number": (read(context=3), "context"),
    "columns is a list": (read(columns=["position"]), "columns"),
    "columns names a number": (read(columns={"position": 3}), "columns"),
    "position_base is text": (read(position_base="0"), "position_base"),
    "page_parts is text": (read(page_parts="10"), "page_parts"),
    "part is a number": (read(part=3), "part"),
    "where is a number": (read(where=3), "where"),
    "where is True": (read(where=True), "where"),
    "max_bad is text": (read(max_bad="0.1%"), "max_bad"),
    "clip_clicks is text": (read(clip_clicks="yes"), "clip_clicks"),
    "ids is a type": (read(ids=str), "ids"),
    "on_bad is None": (read(on_bad=None), "on_bad"),
    "missing_features is misspelt": (
        lambda g: ec.read_log(g.frame, features=g.features, missing_features="leave"),
        "missing",
    ),
    "features is a number": (read(features=3), "int"),
    "LogOptions by a list": (lambda g: ec.LogOptions(["position"]), "columns"),
    "read_features of a number": (lambda g: ec.read_features(3), "int"),
    "read_features of None": (lambda g: ec.read_features(None), "NoneType"),
    "read_features of a list of numbers": (lambda g: ec.read_features([1, 2]), "list"),
    "read_features with ids of a type": (lambda g: ec.read_features(g.frame, ids=int), "ids"),
    "read_features with a list of columns": (
        lambda g: ec.read_features(g.frame, columns=["a"]),
        "columns",
    ),
    "read_features of a path with a NUL": (lambda g: ec.read_features("a\0b.csv"), "NUL"),
    "read_letor of a number": (lambda g: ec.read_letor(3), "path"),
    "read_letor of a frame": (lambda g: ec.read_letor(g.frame), "path"),
    "read_letor of a path with a NUL": (lambda g: ec.read_letor("a\0b"), "NUL"),
}

REST: dict[str, tuple[Callable[[SimpleNamespace], object], str]] = {
    "split in text": (lambda g: g.counts.split("0.5", "0.5"), "shares"),
    "split in a list": (lambda g: g.counts.split([0.5, 0.5]), "shares"),
    "split in nothing": (lambda g: g.counts.split(), "shares"),
    "split by a number": (lambda g: g.counts.split(0.5, 0.5, by=3), "by must be"),
    "split by a list": (lambda g: g.counts.split(0.5, 0.5, by=["query"]), "by must be"),
    "split with a seed in text": (lambda g: g.counts.split(0.5, 0.5, seed="a"), "seed"),
    "split with a negative seed": (lambda g: g.counts.split(0.5, 0.5, seed=-1), "seed"),
    "subset of text": (lambda g: g.counts.subset("abc"), "pairs"),
    "subset of None": (lambda g: g.counts.subset(None), "pairs"),
    "subset of fractions": (lambda g: g.counts.subset([0.5]), "pairs"),
    "subset by a short mask": (lambda g: g.counts.subset([True, False]), "mask"),
    "subset beyond the end": (lambda g: g.counts.subset([10_000]), "pairs"),
    "from_table of a frame": (lambda g: ec.ClickCounts.from_table(g.frame), "Arrow table"),
    "from_table of None": (lambda g: ec.ClickCounts.from_table(None), "Arrow table"),
    "from_table without a column": (
        lambda g: ec.ClickCounts.from_table(g.counted.drop_columns(["clicks"])),
        "clicks",
    ),
    "from_table with another context": (
        lambda g: ec.ClickCounts.from_table(g.counted, context=("device",)),
        "device",
    ),
    "concat of None": (lambda g: ec.ClickCounts.concat(None), "ClickCounts"),
    "concat of frames": (lambda g: ec.ClickCounts.concat([g.frame]), "ClickCounts"),
    "concat of counts alone": (lambda g: ec.ClickCounts.concat(g.counts), "ClickCounts"),
    "with_features of a frame": (lambda g: g.counts.with_features(g.frame), "read_features"),
    "with_features missing something": (
        lambda g: g.counts.with_features(g.features, missing="no"),
        "missing",
    ),
    "to_parquet to None": (lambda g: g.counts.to_parquet(None), "path"),
    "from_parquet of no file": (lambda g: ec.ClickCounts.from_parquet("no/such"), "no/such"),
    "from_parquet of None": (lambda g: ec.ClickCounts.from_parquet(None), "path"),
    "scaler of text": (lambda g: ec.FeatureScaler.fit("abc"), "matrix"),
    "scaler of a list": (lambda g: ec.FeatureScaler.fit([[1.0, 2.0], [3.0]]), "matrix"),
    "scaler of one row": (lambda g: ec.FeatureScaler.fit(np.ones(3)), "matrix"),
    "scaler of no rows": (lambda g: ec.FeatureScaler.fit(np.ones((0, 3))), "at least one row"),
    "transform of text": (lambda g: g.scaler.transform("abc"), "matrix"),
    "transform of one row": (lambda g: g.scaler.transform(np.ones(3)), "shape"),
    "scaler from an empty record": (lambda g: ec.FeatureScaler.from_dict({}), "mean"),
    "FeatureTable of a frame": (
        lambda g: ec.FeatureTable(g.frame, ("a",), np.ones((3, 1), np.float32)),
        "keys",
    ),
    "FeatureTable of float64": (
        lambda g: ec.FeatureTable(g.features.keys, g.features.names, np.ones((30, 3))),
        "float32",
    ),
    "FeatureTable of a list": (
        lambda g: ec.FeatureTable(g.features.keys, g.features.names, [[1.0]]),
        "float32",
    ),
    "Beta of text": (lambda g: ec.Beta("a", 1.0), "alpha"),
    "Beta of None": (lambda g: ec.Beta(None, 1.0), "alpha"),
    "Beta of 0": (lambda g: ec.Beta(0.0, 1.0), "alpha"),
    "Beta of two shapes": (lambda g: ec.Beta([1.0, 2.0], [1.0, 2.0, 3.0]), "shape"),
    "Beta by a mean of 2": (lambda g: ec.Beta.from_mean(2.0, 1.0), "mean"),
    "Beta by a mean in text": (lambda g: ec.Beta.from_mean("x", 1.0), "mean"),
    "Beta by a variance of 0": (lambda g: ec.Beta.from_moments(0.5, 0.0), "variance"),
    "interval in text": (lambda g: g.beta.interval("0.9"), "level"),
    "interval of 1": (lambda g: g.beta.interval(1.0), "level"),
    "quantile of 2": (lambda g: g.beta.quantile(2.0), "p must"),
    "cdf of text": (lambda g: g.beta.cdf("x"), "x must"),
    "sample by a seed": (lambda g: g.beta.sample(0), "rng"),
    "simulate in text": (lambda g: ec.simulate(queries="many"), "queries"),
    "simulate by None": (lambda g: ec.simulate(seed=None), "seed"),
    "simulate with one theta": (lambda g: ec.simulate(theta=0.5), "theta"),
    "simulate with theta in text": (lambda g: ec.simulate(theta="1,.5"), "theta"),
    "simulate other users": (lambda g: ec.simulate(users=["pbm"]), "users"),
    "simulate from a number": (lambda g: ec.simulate(dataset=3), "dataset"),
    "load a world from None": (lambda g: ec.World.load(None), "path"),
    "load a world from nowhere": (lambda g: ec.World.load("no/such"), "no/such"),
    "compare with a path": (lambda g: ec.compare("model", {"a": g.ranking}), "load"),
    "compare a list": (lambda g: ec.compare(g.model, [g.ranking], g.features), "ranking"),
    "compare nothing": (lambda g: ec.compare(g.model, {}, g.features), "ranking"),
    "compare a number": (lambda g: ec.compare(g.model, {"a": 3}, g.features), "ranking|int"),
    "compare with a frame of clicks": (
        lambda g: ec.compare(g.model, {"a": g.ranking}, g.features, clicks=g.frame),
        "read_log",
    ),
    "compare with a frame of a later log": (
        lambda g: ec.compare(g.model, {"a": g.ranking}, g.features, backtest=g.frame),
        "read_log",
    ),
    "compare by samples in text": (
        lambda g: ec.compare(g.model, {"a": g.ranking}, g.features, samples="9"),
        "samples",
    ),
    "compare at a level in text": (
        lambda g: ec.compare(g.model, {"a": g.ranking}, g.features, level="0.9"),
        "level",
    ),
    "compare by no seed": (
        lambda g: ec.compare(g.model, {"a": g.ranking}, g.features, seed=None),
        "seed",
    ),
    "compare to a depth in text": (
        lambda g: ec.compare(g.model, {"a": g.ranking}, g.features, depth="3"),
        "depth",
    ),
    "compare by other weights": (
        lambda g: ec.compare(g.model, {"a": g.ranking}, g.features, weights=3),
        "weights",
    ),
    "compare by another measure": (
        lambda g: ec.compare(g.model, {"a": g.ranking}, g.features, measures=3),
        "measures",
    ),
    "compare by a model that is not fitted": (
        lambda g: ec.compare(ec.EpistemicPBM(), {"a": g.ranking}),
        "fit first",
    ),
}
WRONG = {**PARAMETERS, **MODELS, **READING, **REST}


def test_the_table_is_as_long_as_its_parts() -> None:
    assert len(WRONG) == sum(map(len, (PARAMETERS, MODELS, READING, REST))) > 150


@pytest.mark.filterwarnings("ignore::epiclick.InputWarning")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_get_a_sentence(
    name: str, given: SimpleNamespace, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, words = WRONG[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "epiclick.conversion_fit.fit_outcomes", lambda *_, **__: pytest.fail("it was fitted")
    )
    with pytest.raises(ec.InputError) as refused:
        call(given)
    said = str(refused.value)
    assert re.search(words, said, re.DOTALL), said
    assert len(said.split()) > 4
    assert not re.search(r"has no attribute|object is not|unsupported operand", said)
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::epiclick.InputWarning")
def test_a_log_is_read_where_it_is_fitted(
    given: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted_to: list[ec.ClickCounts] = []
    unwarned = SimpleNamespace(training=SimpleNamespace(warnings=()))
    monkeypatch.setattr(
        "epiclick.conversion_fit.fit_outcomes",
        lambda plan, counts, *_, **__: fitted_to.append(counts) or unwarned,
    )
    path = tmp_path / "log.csv"
    given.frame.to_csv(path, index=False)
    arrow = pa.Table.from_pandas(given.frame)
    logs = [given.frame, arrow, path, str(path), [path], ec.read_log(path)]
    for log in logs:
        ec.EpistemicPBM().fit(log)
    assert len(fitted_to) == len(logs)
    assert all(each.to_table().equals(fitted_to[-1].to_table()) for each in fitted_to)
