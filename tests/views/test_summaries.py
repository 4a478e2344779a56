"""Summaries of results, as text and as HTML."""

from functools import cache

import numpy as np
import pandas as pd

import epiclick as ec
from epiclick.views.summaries import MOST_ROWS, Summary


@cache
def world() -> ec.World:
    return ec.simulate(queries=60, docs=6, features=3, pages=1_500, positions=3, seed=0)


@cache
def model() -> ec.EpistemicPBM:
    counts = ec.read_log(world().log, features=world().features)
    return ec.EpistemicPBM(hidden=(4,), epochs=3, seed=1).fit(counts, progress=False)


def test_a_model_is_summarised_by_its_own_numbers() -> None:
    text = str(model().summary())
    training, bias = model().fitted_.training, model().position_bias()
    assert text.startswith("EpistemicPBM(")
    assert f"{training.displays:,}" in text
    assert f"{training.log_likelihood:.5f} per display" in text
    for name in ("mean", "low", "high"):
        assert f"{bias[name].iloc[2]:.4g}" in text
    assert repr(model().summary()) == text


def test_notebooks_get_the_summary_once_there_is_one() -> None:
    unfitted = ec.EpistemicPBM(seed=3)._repr_html_()
    assert unfitted == "<code>EpistemicPBM(seed=3)</code>"
    assert "<table" in model()._repr_html_()
    counts = ec.read_log(world().log)
    assert f"{counts.total_clicks:,} clicks" in counts._repr_html_()
    assert repr(world()).startswith("World(1,500 pages of 3 positions, 360 items")


def test_names_from_a_log_are_no_markup() -> None:
    table = pd.DataFrame({"query_id": ["<script>alert(1)</script>"], "mean": [0.5]})
    summary = Summary("<b>x</b>", [("<i>", "&")], table, "<u>", ["<img>"])
    shown = summary._repr_html_()
    for tag in ("<script>", "<b>", "<i>", "<u>", "<img>"):
        assert tag not in shown


def test_long_tables_are_cut_where_the_reader_sees_it() -> None:
    table = pd.DataFrame({"position": np.arange(40), "mean": np.linspace(0, 1, 40)})
    lines = str(Summary("all", table=table, caption="bias")).splitlines()
    assert len(lines) == 3 + 1 + MOST_ROWS + 1
    assert set(lines[-1].split()) == {"..."}


def test_a_comparison_shows_rankers_and_verdict() -> None:
    ranked = model().rank(world().features)
    ranked = ranked[ranked["position"] <= 3]
    turned = ranked.assign(position=4 - ranked["position"])
    found = ec.compare(model(), {"best": ranked, "worst": turned}, world().features)
    assert repr(found) == str(found)
    assert found.verdict in repr(found)
    assert "best" in found._repr_html_()
    assert f"{found.rankers['value'].iloc[0]:.4g}" in found._repr_html_()


def test_an_evaluation_shows_the_scores() -> None:
    counts = ec.read_log(world().log, features=world().features)
    found = ec.evaluate(model(), counts)
    assert found.clicks.display_log_likelihood == model().score(counts)
    assert f"{found.clicks.display_log_likelihood:.5f}" in str(found)
    assert f"{found.clicks.perplexity:.4f}" in found._repr_html_()
