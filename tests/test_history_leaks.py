"""Outcomes of a page must not describe where its items were shown.

Two logs have the same pages and different clicks. Whatever says where items were shown (exposure,
traffic, reach, page rules, slots) must be the same of both, to the last bit. Each test has a
control: the same by full contexts, history included, does differ.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from epiclick import InputError, LogOptions
from epiclick.batching.pairset import PairSet
from epiclick.click_models.registry import click_model
from epiclick.comparison.rankings import read_ranking
from epiclick.comparison.shown_items import Items, moments_of
from epiclick.comparison.slots import slots_of, traffic_of
from epiclick.data.counts import ClickCounts
from epiclick.data.readers import count_log
from epiclick.diagnostics.randomised import compare_randomised
from epiclick.evaluation.click_scores import kept_rates, rate_by_context, score_clicks
from epiclick.fitted.parameters import Parameters, PointLookup
from epiclick.fitted.prediction import contexts_of, given_contexts_of, relevance_of
from epiclick.fitted.state import FittedModel, QuerySets, TrainingSummary, given_of, history_of
from epiclick.fitted.validation import validate
from epiclick.identification.anchor import _clearly_larger, resolve_anchor
from epiclick.identification.unbounded import unbounded_bias
from epiclick.posterior.density import Density, Emitter
from epiclick.posterior.joint_prior import Prior
from epiclick.relevance.heads import exposure
from epiclick.training.checkpoint import warm_start

from .raising import raises_code

DEPTH = 4
UBM = LogOptions(context=("device", "position"), click_model="ubm")
PBM = replace(UBM, click_model="pbm")


def pages(seed=0, pages=400):
    """Pages of 2 to 4 items on two devices, without clicks."""
    rng = np.random.default_rng(seed)
    rows = [
        (page, page % 8, int(doc), place, ("phone", "tv")[page % 16 // 8])
        for page in range(pages)
        for place, doc in enumerate(rng.permutation(10)[: rng.integers(2, DEPTH + 1)], 1)
    ]
    return pd.DataFrame(rows, columns=["page_id", "query_id", "doc_id", "position", "device"])


def clicked(log, seed, rate):
    """The same pages with clicks; `rate` by position."""
    chance = np.asarray(rate)[log.position.to_numpy() - 1]
    draws = np.random.default_rng(seed).random(len(log))
    return log.assign(click=(draws < chance).astype(int))


@pytest.fixture(scope="module")
def logs():
    """The same pages, clicked at the top and clicked at the bottom."""
    shown = pages()
    return clicked(shown, 1, [0.8, 0.4, 0.1, 0.05]), clicked(shown, 2, [0.05, 0.1, 0.3, 0.6])


@pytest.fixture(scope="module")
def both(logs):
    return tuple(count_log(log, UBM)[0] for log in logs)


def model_of(counts: ClickCounts, seed=3) -> FittedModel:
    """A model without features whose relevance depends on exposure, by a ubm."""
    model = click_model(counts.options.click_model)
    contexts = model.complete(counts.contexts)
    given = len(counts.given[0])
    rng = np.random.default_rng(seed)
    nobody = pa.array([], pa.int64())
    rates = {name: rng.integers(1, 99, len(contexts)).tolist() for name in ("displays", "clicks")}
    summary = TrainingSummary(0, 0, 0, 0, 0, 0.0, 0.0, pd.DataFrame(), {"by_context": rates})
    layer = (rng.normal(size=(given, 2)).astype(np.float32), np.zeros(2, np.float32))
    return FittedModel(
        kind="EpistemicUBM",
        head="id_beta",
        click_model="ubm",
        settings={},
        parameters=Parameters((layer,), PointLookup(rng.normal(size=len(contexts)))),
        anchor=0,
        contexts=contexts,
        features=None,
        options=counts.options,
        queries=QuerySets(nobody, nobody),
        items=None,
        training=summary,
    )


@pytest.fixture(scope="module")
def fitted(both):
    """A model of the first log; the second one has contexts that it does not know."""
    found = model_of(both[0])
    keep = [k for k, row in enumerate(found.contexts.to_pylist()) if row["last_click"] < 3]
    lookup = PointLookup(found.parameters.position.logit[keep])
    found = replace(
        found,
        contexts=found.contexts.take(keep),
        parameters=found.parameters._replace(position=lookup),
    )
    assert (contexts_of(found, both[1].contexts, warn=False) < 0).any()
    assert (given_contexts_of(found, both[1].given[0]) >= 0).all()
    validate(found, "the model", "")
    return found


def test_the_two_logs_differ_in_history(both):
    assert not both[0].to_table().equals(both[1].to_table())
    shares = [exposure(counts.dense()[0]) for counts in both]
    assert shares[0].shape != shares[1].shape or np.abs(shares[0] - shares[1]).max() > 0.1


def test_exposure_in_training(both):
    found = []
    for counts in both:
        batches = PairSet.of(counts, None, 16)
        inputs = np.full((len(counts), batches.width), np.nan)
        for pairs, (x, _) in zip(batches.batches.epoch(), batches.epoch(), strict=True):
            inputs[pairs[pairs >= 0]] = x[pairs >= 0]
        found.append(inputs)
    np.testing.assert_array_equal(*found)
    assert found[0].shape == (len(both[0]), 2 * DEPTH)
    np.testing.assert_array_equal(found[0], exposure(both[0].by_given().dense()[0]))


def test_exposure_in_the_posterior(both):
    found = []
    for counts in both:
        pairs = PairSet.of(counts, None, 64)
        prior = Prior.__new__(Prior)  # parts do not look at it
        emitter = Emitter(click_model("ubm"), len(counts.contexts), 0)
        density = Density(pairs, (), emitter, prior, pairs.width)
        rows = np.full((len(counts), pairs.width + 1), np.nan)
        for part in density.parts():
            shown = part.pairs >= 0
            rows[part.pairs[shown]] = part.given[shown]
        found.append(rows)
    np.testing.assert_array_equal(*found)


def test_exposure_in_predictions(fitted, both):
    one, other = (relevance_of(fitted, counts) for counts in both)
    np.testing.assert_array_equal(one, other)
    assert np.ptp(one[0] / (one[0] + one[1])) > 0.05, "relevance must depend on exposure"


def test_exposure_of_items_never_shown(fitted):
    nothing = np.zeros(0, int)
    items = Items(None, None, nothing, nothing, 3, np.arange(3))
    rng = np.random.default_rng(0)
    ((mean, _),) = moments_of(fitted, items, [fitted.parameters], rng)
    assert mean.shape == (1, 3)


def test_traffic_and_reach(fitted, logs, both):
    one, other = (traffic_of(fitted, counts) for counts in both)
    assert one.keys.equals(other.keys)
    np.testing.assert_array_equal(one.pages, other.pages)
    np.testing.assert_array_equal(one.reach, other.reach)
    np.testing.assert_array_equal(one.reach, traffic_of(fitted, count_log(logs[0], PBM)[0]).reach)
    # a page has a first position whatever happens on it
    shown = logs[0].groupby(["query_id", "device"]).page_id.nunique()
    assert one.keys.column_names == ["query_id", "device"]
    keys = list(zip(*(one.keys[name].to_pylist() for name in one.keys.column_names), strict=True))
    assert dict(zip(keys, one.pages, strict=True)) == shown.to_dict()
    assert len(one.reach) == 2 * DEPTH

    # control: reach by full contexts follows the clicks
    def reach(counts):
        return {
            (row["device"], row["position"], row["last_click"]): row["displays"]
            for row in counts.by_context().to_dict("records")
        }

    assert reach(both[0]) != reach(both[1])


def test_slots_of_rankings(fitted, both):
    ranking = pd.DataFrame(
        [(q, d, p, dev) for q in range(8) for p, d in ((1, 3), (2, 5)) for dev in ("phone", "tv")],
        columns=["query_id", "doc_id", "position", "device"],
    )
    given, index = given_of(fitted)
    assert history_of(fitted) == ("last_click",)
    assert given.column_names == ["device", "position"]
    read = read_ranking(ranking, "new", context=tuple(given.column_names))
    one, other = (slots_of(fitted, [read], traffic_of(fitted, counts)) for counts in both)
    for name in ("given", "position", "weight", "reach", "ranker"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    rows = given.take(one.given).to_pylist()
    assert [row["position"] for row in rows] == one.position.tolist()
    # control: a slot has several full contexts
    assert np.bincount(index).max() > 1
    assert one.given.max() < len(given) < len(fitted.contexts)


@pytest.mark.slow
def test_page_rules(logs):
    doubled = logs[0].assign(position=np.where(logs[0].position == 3, 2, logs[0].position))
    again = logs[1].assign(position=doubled.position)
    said = []
    for log in (doubled, again):
        with pytest.raises(InputError, match=r"one .* twice on a page") as error:
            count_log(log, UBM)
        said.append(str(error.value))
    assert said[0] == said[1]
    assert "(device, position) twice" in said[0]
    assert "last_click" not in said[0]
    drop = replace(UBM, on_bad="drop", max_bad=1.0)
    kept = [count_log(log, drop)[0].by_given() for log in (doubled, again)]
    np.testing.assert_array_equal(kept[0].displays, kept[1].displays)
    assert kept[0].pages == kept[1].pages


def test_baselines_are_by_given_contexts(logs, both):
    train, test = both
    plain = [count_log(log, PBM)[0] for log in logs]
    by_given = rate_by_context(*plain)
    place = dict(zip(keys_of(plain[1]), by_given, strict=True))
    rates = rate_by_context(train, test)
    np.testing.assert_array_equal(rates, [place[key] for key in keys_of(test)])
    kept = kept_rates(model_of(train), test)["by_context"]
    context = test.given[1][test.context]
    assert all(len(set(kept[context == k])) == 1 for k in np.unique(context))
    # control: by full contexts, the rate would depend on the clicks above
    full = train.by_context()
    spread = full.groupby(["device", "position"]).click_rate.agg(np.ptp)
    assert spread.max() > 0.05


def keys_of(counts):
    table = counts.to_table()
    names = ("query_id", "doc_id", "device", "position")
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def test_scores_by_position_are_those_of_given_contexts(logs, both):
    plain = count_log(logs[0], PBM)[0]
    rate = np.linspace(0.1, 0.6, 2 * DEPTH)
    one = score_clicks(plain, rate[plain.context])
    other = score_clicks(both[0], rate[both[0].given[1][both[0].context]])
    pd.testing.assert_frame_equal(one.by_context, other.by_context)
    assert one.perplexity == pytest.approx(other.perplexity)
    assert len(both[0].contexts) > len(other.by_context)


def test_the_anchor_is_before_any_click():
    """Though users examine displays after a click more than the first position."""
    rng = np.random.default_rng(0)
    shown = pages(pages=4_000)
    zeta = rng.uniform(0.1, 0.9, (8, 10))[shown.query_id, shown.doc_id]
    clicks, last = np.zeros(len(shown), int), 0
    for i, (place, look) in enumerate(zip(shown.position, rng.random(len(shown)), strict=True)):
        last = 0 if place == 1 else last
        theta = 0.4 if last == 0 else 1.0
        if look < theta * zeta[i]:
            clicks[i], last = 1, place
    counts, _ = count_log(shown.assign(click=clicks), UBM)
    found = resolve_anchor(counts, "auto")
    row = counts.contexts.slice(found.index, 1).to_pylist()[0]
    assert (row["position"], row["last_click"]) == (1, 0)
    every = np.arange(len(counts.contexts))
    assert _clearly_larger(unbounded_bias(counts), found.index, every), "the control must move"
    single, _ = count_log(shown.assign(click=clicks), LogOptions(click_model="ubm"))
    assert resolve_anchor(single, "auto").index == 0


def test_randomised_pages_are_compared_with_the_position_based_model_alone(fitted, both):
    with pytest.raises(InputError, match='click_model="pbm"'):
        compare_randomised(fitted, both[0])


def test_a_start_moves_weights_by_given_contexts(fitted, both):
    counts = both[1]
    contexts, given = len(counts.contexts), len(counts.given[0])
    layer = (np.zeros((given, 2), np.float32), np.zeros(2, np.float32))
    start = Parameters((layer,), PointLookup(np.full(contexts, 9.0)))
    moved = warm_start(fitted, start, counts)
    np.testing.assert_array_equal(moved.layers[0][0], fitted.parameters.layers[0][0])
    known = contexts_of(fitted, counts.contexts, warn=False)
    expected = np.where(known >= 0, fitted.parameters.position.logit[known], 9.0)
    np.testing.assert_array_equal(moved.position.logit, expected)
    with raises_code("init-click-model-mismatch"):
        warm_start(fitted, start, counts.by_given())


def test_a_log_counted_for_another_click_model_is_refused(fitted, logs):
    with raises_code("context-mismatch") as caught:
        contexts_of(fitted, count_log(logs[0], PBM)[0].contexts)
    assert 'context=["device", "position"] and click_model="ubm"' in str(caught.value)
