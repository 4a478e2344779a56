"""The page as text: complete, safe whatever the ids contain, without requests."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epiclick.comparison.verdict import Check
from epiclick.report.chart import Axis, Chart, Layer, short
from epiclick.report.item_map import MOST_ROWS, MOST_TEXT, ItemRow
from epiclick.report.markup import Absent, data, figure, missing, prose, table
from epiclick.report.opening import opening
from epiclick.report.page import SCRIPTS, Report, page_of, page_script

from .planted import HOSTILE, MARKUP, sources_of

VOID = {"meta", "input", "br", "hr", "img", "link"}
SECTIONS = (
    *(
        "data",
        "bias",
        "drift",
        "confounding",
        "fit",
        "calibration",
        "click-model",
        "relevance",
        "rankers",
        "training",
    ),
    "reproduce",
)
CHARTS = {
    *("rates", "bias-relative", "observed", "scores", "reliability", "ranks"),
    *("coverage", "map", "values", "lead", "training", "click-models", "drift"),
}


class Outline(HTMLParser):
    """Parses a page: elements in order, scripts, data; every element must be closed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            named, before = self.scripts[-1]
            self.scripts[-1] = (named, before + data)
        elif self.open and self.open[-1] != "style":
            self.text.append(data)

    def data(self) -> dict[str, Any]:
        """Data for the page's script, as strict JSON."""
        strict = {"parse_constant": lambda name: pytest.fail(f"{name} in JSON")}
        return {
            str(named["id"]): json.loads(text, **strict)
            for named, text in self.scripts
            if named.get("type") == "application/json"
        }


def read(text: str) -> Outline:
    outline = Outline()
    outline.feed(text)
    outline.close()
    assert outline.open == []
    return outline


@pytest.fixture(scope="module")
def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def outline(text: str) -> Outline:
    return read(text)


def test_all_sections_and_charts_are_there(outline: Outline) -> None:
    ids = [named.get("id") for _, named in outline.elements]
    assert [each for each in ids if each in SECTIONS] == list(SECTIONS)
    assert len(ids) - ids.count(None) == len({each for each in ids if each})
    found = outline.data()
    assert set(found) == {f"chart-{name}" for name in CHARTS} | {"items"}
    for name in CHARTS:
        for layer in found[f"chart-{name}"]["layers"]:
            assert len(layer["x"]) == len(layer["y"]) > 0
            assert len(layer["text"]) in (0, len(layer["x"]))
            assert len(layer["low"]) in (0, len(layer["x"]))
    links = [n["href"] for tag, n in outline.elements if tag == "a"]
    assert links == [f"#{name}" for name in SECTIONS]


def test_every_chart_has_a_reading_aid_of_one_sentence(outline: Outline, text: str) -> None:
    aids = re.findall(r"<figcaption>(.*?)</figcaption>", text)
    assert len(aids) == len(CHARTS)
    for aid in aids:
        assert aid.endswith(".")
        assert len(re.findall(r"\.(?=\s|$)", aid)) == 1, aid


def test_ids_are_shown_and_never_become_markup(outline: Outline, text: str) -> None:
    assert "alert(1)" in text
    for name in (HOSTILE, MARKUP):
        assert name not in text
        assert name in {row[0] for row in outline.data()["items"]["rows"]}
    assert not any(tag == "img" for tag, _ in outline.elements)
    # the page's own, and data
    running = [body for named, body in outline.scripts if "type" not in named]
    assert running == [page_script()]
    assert "best <b>" in "".join(outline.text)
    assert not any(tag == "b" and "best" in str(named) for tag, named in outline.elements)


def test_the_page_requests_nothing_and_runs_its_own_script_only(
    outline: Outline, text: str
) -> None:
    for _, named in outline.elements:
        assert "src" not in named
        assert not any(name.startswith("on") for name in named)
        assert str(named.get("href", "#")).startswith("#")
    assert not re.search(r"@import|url\((?!#)", text)
    policy = next(n["content"] for _, n in outline.elements if n.get("http-equiv"))
    digest = base64.b64encode(hashlib.sha256(page_script().encode()).digest()).decode()
    assert policy is not None
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


def test_the_same_report_gives_the_same_page(report: Report, text: str) -> None:
    assert page_of(report) == text


def test_a_page_of_the_most_and_longest_items_is_small(report: Report) -> None:
    assert not isinstance(report.items, Absent)
    row = ItemRow("<" * MOST_TEXT, "&" * MOST_TEXT, 0.123456789, 0.0123456789, 0.9, 10**9, 10**8)
    cells = np.full_like(report.items.cells, 10**6)
    items = replace(report.items, rows=(row,) * MOST_ROWS, total=10**9, cells=cells)
    size = len(page_of(replace(report, items=items)).encode())
    assert size < 8e6
    assert "A sample of 2,000 of 1,000,000,000 items" in page_of(replace(report, items=items))


def test_what_is_missing_names_the_option(report: Report) -> None:
    nothing = Absent("There is <nothing>.", "--ranking a=b")
    bare = replace(report, quality=nothing, items=nothing, rankers=nothing)
    found = read(page_of(bare))
    assert "".join(found.text).count("There is <nothing>.") == 4
    assert [tag for tag, _ in found.elements].count("code") == 4 + (
        "--truth" in "".join(found.text)
    )
    assert missing(Absent("a")) == '<p class="missing">a</p>'


def test_changes_are_shown_only_with_an_earlier_model(report: Report) -> None:
    assert 'href="#drift"' in page_of(report)
    alone = page_of(replace(report, changes=Absent("none was given")))
    assert "#drift" not in alone
    assert 'id="drift"' not in alone


def test_a_model_without_intervals_says_so(report: Report) -> None:
    rows = tuple(
        replace(row, low=np.nan, high=np.nan, relative_low=np.nan, relative_high=np.nan)
        for row in report.bias.rows
    )
    found = read(page_of(replace(report, bias=replace(report.bias, intervals="", rows=rows))))
    assert "There are no intervals" in "".join(found.text)
    assert found.data()["chart-bias-relative"]["layers"][0]["low"] == [None] * len(rows)


def test_pieces_of_html_escape_their_text() -> None:
    assert "<b>" not in table(("<b>",), [("<b>",)])
    assert prose("type `a < b`, not <i>") == "type <code>a &lt; b</code>, not &lt;i&gt;"
    assert read(data("k", {"a": "</script><!--"})).data() == {"k": {"a": "</script><!--"}}
    chart = Chart("k", "<b>", "<b>", Axis("<b>"), Axis("y"), (Layer("line", "<b>", [0], [1]),) * 2)
    assert "<b>" not in figure(chart, "")


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_null(value: float | None) -> None:
    assert short(value) is None


def test_numbers_keep_six_digits() -> None:
    assert short(0.123456789) == 0.123457
    assert short(123_456_789) == 123_456_789


def test_assets_are_part_of_the_package() -> None:
    folder = files("epiclick.report").joinpath("assets")
    assert {each.name for each in folder.iterdir()} == {*SCRIPTS, "page.css"}


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not here")
def test_the_script_is_valid(tmp_path: Path) -> None:
    (tmp_path / "page.js").write_text(page_script(), encoding="utf-8")
    done = subprocess.run(["node", "--check", tmp_path / "page.js"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_green_is_for_what_passed(report: Report) -> None:
    """The bars beside the advice and the verdict, by what may be shipped."""
    assert not isinstance(report.rankers, Absent)
    assert not isinstance(report.quality, Absent)
    failed = Check("backtest", "failed", "the backtest failed", "", "Look.")
    doubtful = replace(failed, state="warning")
    wrong = replace(report.quality.backtest, clicks=0)
    for checks, state in (((), "yes"), ((doubtful,), "open"), ((failed,), "no")):
        rankers = replace(report.rankers, checks=checks)
        quality = replace(report.quality, backtest=wrong) if checks else report.quality
        said = opening(report.bias, quality, rankers, report.caveats)
        changed = replace(report, rankers=rankers, quality=quality, opening=said)
        text = page_of(changed)
        assert f'<li class="is-{state}"><b>What to ship</b>' in text
        assert f'<p class="verdict is-{state}"><b>Verdict:</b>' in text
        assert ("<b>What to ship</b>Ship " in text) == (state == "yes")
        assert f'<p class="verdict is-{"no" if checks else "yes"}"><span' in text
    style = files("epiclick.report").joinpath("assets", "page.css").read_text(encoding="utf-8")
    green = [line for line in style.splitlines() if "border-left-color: var(--c2)" in line]
    assert len(green) == 1
    assert "is-yes" in green[0]


def test_devices_are_drawn_over_each_other_by_position(report: Report) -> None:
    rows = tuple(
        replace(row, label=f"{device}, {k}", group=device, place=str(k), truth=np.nan)
        for device in ("desktop", "phone")
        for k, row in enumerate(report.bias.rows[:3], 1)
    )
    found = read(page_of(replace(report, bias=replace(report.bias, rows=rows))))
    chart = found.data()["chart-bias-relative"]
    assert chart["x"]["names"] == ["1", "2", "3"]
    assert [each["name"] for each in chart["layers"]] == ["desktop", "phone"]
    assert [each["x"] for each in chart["layers"]] == [[0, 1, 2]] * 2
    desktop, phone = (each["offset"] for each in chart["layers"])
    assert desktop == -phone < 0
    many = tuple(replace(row, label=str(k), group=str(k)) for k, row in enumerate(rows))
    chart = read(page_of(replace(report, bias=replace(report.bias, rows=many)))).data()
    assert chart["chart-bias-relative"]["x"]["names"] == list("012345")


def test_absolute_values_are_drawn_only_where_they_differ_from_relative_ones(
    report: Report,
) -> None:
    assert "chart-bias-absolute" not in read(page_of(report)).data()
    rows = tuple(replace(row, mean=row.mean / 2) for row in report.bias.rows)
    free = replace(report, bias=replace(report.bias, rows=rows, is_free=True))
    assert "chart-bias-absolute" in read(page_of(free)).data()


def test_items_have_the_mean_position_of_their_displays(report: Report) -> None:
    log, page = sources_of().log, read(page_of(report))
    assert log is not None
    total = np.bincount(log.pair, log.contexts["position"].to_numpy()[log.context] * log.displays)
    mean = total / np.bincount(log.pair, log.displays)
    known = dict(
        zip(zip(log.query_id.to_pylist(), log.doc_id.to_pylist(), strict=True), mean, strict=True)
    )
    rows = page.data()["items"]["rows"]
    assert len(rows) > 100
    by_name = {(str(q), str(d)): m for (q, d), m in known.items()}
    for row in rows:
        assert row[7] == pytest.approx(by_name[row[0], row[1]], rel=1e-4)
