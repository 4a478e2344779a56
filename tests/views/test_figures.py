"""Figures show the numbers of the tables."""

from collections.abc import Iterator
from functools import cache

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot

import epiclick as ec

from ..device_worlds import device_counts
from ..raising import raises_code
from .test_summaries import model, world

mpl.use("Agg")


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    pyplot.close("all")


@cache
def of_devices() -> ec.EpistemicPBM:
    return ec.EpistemicPBM(seed=1).fit(device_counts(0.8, queries=60), progress=False)


def test_position_bias_is_a_line_with_a_band() -> None:
    table = model().position_bias(level=0.5)
    _, axes = pyplot.subplots()
    assert model().plot_position_bias(axes, level=0.5) is axes
    (line,) = axes.lines
    np.testing.assert_array_equal(line.get_xdata(), table["position"])
    np.testing.assert_allclose(line.get_ydata(), table["mean"])
    (band,) = axes.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(table["low"].min())
    assert "50 %" in axes.get_title()


def test_devices_are_lines_of_one_figure() -> None:
    axes = of_devices().plot_position_bias()
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["device desktop", "device phone"]
    table = of_devices().position_bias()
    for line, device in zip(axes.lines, ("desktop", "phone"), strict=True):
        own = table[table["device"] == device]
        np.testing.assert_allclose(line.get_ydata(), own["mean"])


def test_items_are_drawn_best_first() -> None:
    axes = model().plot_relevance(world().features, query=7)
    table = model().relevance(world().features)
    own = table[table["query_id"] == 7].sort_values("mean", ascending=False)
    np.testing.assert_allclose(axes.lines[0].get_xdata(), own["mean"])
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels == [str(doc) for doc in own["doc_id"]]
    assert "30 best of 360" in model().plot_relevance(world().features).get_title()
    with raises_code("unknown-query"):
        model().plot_relevance(world().features, query="shoes")


def test_rankers_are_drawn_with_their_names_as_they_are() -> None:
    ranked = model().rank(world().features)
    ranked = ranked[ranked["position"] <= 3]
    turned = ranked.assign(position=4 - ranked["position"])
    found = ec.compare(model(), {"$a$": ranked, "b": turned}, world().features)
    axes = found.plot()
    np.testing.assert_allclose(axes.lines[0].get_xdata(), found.rankers["value"])
    assert axes.get_xlabel() == "clicks per page"
    axes.figure.canvas.draw()
    assert [text.get_text() for text in axes.get_yticklabels()] == [r"\$a\$", "b"]


def test_without_matplotlib_a_message_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr("epiclick.arguments._is_installed", lambda package: False)
    with raises_code("missing-extra") as caught:
        model().plot_position_bias()
    assert "epiclick[plots]" in str(caught.value)
