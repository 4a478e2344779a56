"""The page in a real browser: drawing without errors, search, sorting, zoom, small screens."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from epiclick.report.page import Report, page_of

from .browser import CHROMIUM, Browser
from .planted import HOSTILE
from .test_page import CHARTS

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")

FIRST_ROWS = "[...document.querySelectorAll('.items tbody tr')].map(r => [...r.cells].map(c => c.textContent))"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture
def opened(browser: Browser, page: Path) -> Iterator[Browser]:
    """The page, freshly opened; no test may cause an error."""
    browser.open(page)
    yield browser
    assert browser.problems == []


def box(browser: Browser, chart: str) -> dict[str, float]:
    """Where a chart is on the screen, after it was scrolled to."""
    find = f"document.querySelector('[data-chart=chart-{chart}] svg')"
    return browser.run(
        f"{find}.scrollIntoView({{block: 'center', behavior: 'instant'}}), "
        f"(b => ({{x: b.x, y: b.y, width: b.width, height: b.height}}))({find}.getBoundingClientRect())"
    )


def marks(browser: Browser, chart: str) -> int:
    find = f"[data-chart=chart-{chart}] svg"
    kinds = ", ".join(f"{find} .{kind}" for kind in ("dot", "bar", "line", "cell"))
    return browser.run(f"document.querySelectorAll('{kinds}').length")


def tip(browser: Browser, chart: str) -> str:
    return browser.run(
        f"document.querySelector('[data-chart=chart-{chart}] .tip.shown')?.textContent ?? ''"
    )


def test_the_browser_reports_errors(browser: Browser, tmp_path: Path) -> None:
    broken = tmp_path / "broken.html"
    broken.write_text(
        "<script>document.documentElement.dataset.drawn = ''; nothing.at.all</script>"
    )
    browser.open(broken)
    assert any("nothing is not defined" in problem for problem in browser.problems)
    browser.problems.clear()


@pytest.mark.parametrize(
    ("width", "dark"), [(1000, False), (1000, True), (375, False), (375, True)]
)
def test_all_charts_are_drawn_on_any_screen(
    browser: Browser, page: Path, width: int, dark: bool
) -> None:
    seconds = browser.open(page, width, dark=dark)
    assert seconds < 10  # on a machine that may be busy
    for chart in CHARTS:
        assert marks(browser, chart) > 0, chart
    # nothing overflows
    root = "document.documentElement"
    assert browser.run(f"{root}.scrollWidth - {root}.clientWidth") == 0
    outside = browser.run(
        "[...document.querySelectorAll('svg .ticks text')].filter(t => { const b = t.getBoundingClientRect();"
        f" return b.left < 0 || b.right > {width}; }}).map(t => t.textContent)"
    )
    assert outside == []
    back = browser.run("getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(20, 24, 29)" if dark else "rgb(255, 255, 255)")
    assert browser.problems == []


def test_pointing_at_a_value_shows_it(opened: Browser) -> None:
    at = box(opened, "bias-relative")
    dot = opened.run(
        "(b => [b.x + b.width / 2, b.y + b.height / 2])(document.querySelectorAll("
        "'[data-chart=chart-bias-relative] .dot')[1].getBoundingClientRect())"
    )
    opened.mouse("mouseMoved", *dot)
    assert tip(opened, "bias-relative").startswith("position 2: 60.0%\n90% interval")
    opened.mouse("mouseMoved", at["x"] + at["width"] / 2, at["y"] - 40)
    assert tip(opened, "bias-relative") == ""


def test_touching_a_value_shows_it(browser: Browser, page: Path) -> None:
    browser.open(page, 375)
    browser.call("Emulation.setTouchEmulationEnabled", enabled=True)
    box(browser, "rates")
    place = browser.run(
        "(b => ({x: b.x + b.width / 2, y: b.y + b.height / 2}))(document.querySelector("
        "'[data-chart=chart-rates] .bar').getBoundingClientRect())"
    )
    browser.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[place])
    browser.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    browser.until("document.querySelector('[data-chart=chart-rates] .tip.shown')")
    browser.call("Emulation.setTouchEmulationEnabled", enabled=False)
    assert tip(browser, "rates").startswith("position 1: ")
    assert browser.problems == []


def test_dragging_zooms_and_escape_shows_all(opened: Browser) -> None:
    at = box(opened, "rates")
    before = marks(opened, "rates")
    ticks = "[...document.querySelectorAll('[data-chart=chart-rates] .ticks text')].map(t => t.textContent)"
    whole = opened.run(ticks)
    assert {"1", "2", "3", "4"} <= set(whole)
    middle = at["y"] + at["height"] / 2
    left, right = at["x"] + 0.55 * at["width"], at["x"] + 0.95 * at["width"]
    opened.mouse("mousePressed", left, middle, button="left", clickCount=1)
    opened.mouse("mouseMoved", (left + right) / 2, middle, button="left", buttons=1)
    opened.mouse("mouseMoved", right, middle, button="left", buttons=1)
    opened.mouse("mouseReleased", right, middle, button="left", clickCount=1)
    assert "1" not in opened.run(ticks)
    assert not opened.run("document.querySelector('[data-chart=chart-rates] .all').hidden")
    opened.run("document.querySelector('[data-chart=chart-rates] svg').focus()")
    opened.key("Escape")
    assert opened.run(ticks) == whole
    assert marks(opened, "rates") == before


def test_the_wheel_zooms_a_focused_chart_and_otherwise_scrolls(opened: Browser) -> None:
    at = box(opened, "map")
    middle = (at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
    hidden = "document.querySelector('[data-chart=chart-map] .all').hidden"
    turn = {"deltaX": 0, "deltaY": -120}
    opened.mouse("mouseWheel", *middle, **turn)
    assert opened.run(hidden)
    at = box(opened, "map")
    middle = (at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
    opened.run("document.querySelector('[data-chart=chart-map] svg').focus({preventScroll: true})")
    opened.mouse("mouseWheel", *middle, **turn)
    assert not opened.run(hidden)
    opened.run("document.querySelector('[data-chart=chart-map] .all').click()")
    assert opened.run(hidden)


def test_keys_step_through_the_values_of_a_chart(opened: Browser) -> None:
    opened.run("document.querySelector('[data-chart=chart-rates] svg').focus()")
    for position in (1, 2):
        opened.key("ArrowRight")
        assert tip(opened, "rates").startswith(f"position {position}: ")
    opened.key("End")
    assert tip(opened, "rates").startswith("position 4: ")
    opened.key("+")
    assert not opened.run("document.querySelector('[data-chart=chart-rates] .all').hidden")


def test_the_table_sorts(opened: Browser) -> None:
    heads = opened.run("[...document.querySelectorAll('.items th')].map(h => h.textContent)")
    assert heads[-1] == "underrated"
    column = heads.index("relevance")
    press = f"document.querySelectorAll('.items th button')[{column}].click()"
    for falls in (True, False):
        opened.run(press)
        values = [float(row[column]) for row in opened.run(FIRST_ROWS)]
        assert values == sorted(values, reverse=falls)
        assert len(values) == 25
        state = opened.run(f"document.querySelectorAll('.items th')[{column}].ariaSort")
        assert state == ("descending" if falls else "ascending")
    opened.run("document.querySelector('[data-order]').click()")  # most underrated first
    values = [float(row[-1].replace("\u2212", "-")) for row in opened.run(FIRST_ROWS)]
    assert values == sorted(values, reverse=True)


def search(browser: Browser, words: str) -> list[list[str]]:
    browser.run(
        f"(i => {{ i.value = {words!r}; i.dispatchEvent(new Event('input')); }})"
        "(document.querySelector('.items input'))"
    )
    return browser.run(FIRST_ROWS)


def test_the_table_has_search_and_pages(opened: Browser) -> None:
    first = opened.run(FIRST_ROWS)
    opened.run("document.querySelectorAll('.pager button')[1].click()")
    assert opened.run(FIRST_ROWS) != first
    rows = search(opened, "QUERY 17")
    assert {row[0] for row in rows} == {"query 17"}
    assert opened.run("document.querySelector('.count').textContent") == "1–6 of 6 rows"
    assert search(opened, "no such thing") == []
    assert opened.run("document.querySelector('.count').textContent") == "no matching rows"
    hostile = search(opened, "alert(1)")
    assert {row[0] for row in hostile} == {HOSTILE}
    assert opened.run("document.querySelectorAll('.items img, .items script').length") == 0


def test_the_page_prints(opened: Browser) -> None:
    assert opened.printed().startswith(b"%PDF")


def test_bars_of_two_devices_stand_side_by_side(
    browser: Browser, report: Report, tmp_path: Path
) -> None:
    rows = tuple(
        replace(row, label=f"{device}, {row.label}", group=device)
        for device in ("desk", "phone")
        for row in report.overview.rows
    )
    two = replace(report, overview=replace(report.overview, rows=rows))
    page = tmp_path / "devices.html"
    page.write_text(page_of(two))
    browser.open(page, 1000)
    edges = browser.run(
        "[...document.querySelectorAll('[data-chart=chart-rates] .layer')].map(layer =>"
        " [...layer.querySelectorAll('.bar')].map(bar => bar.getBoundingClientRect())"
        ".map(box => [box.left, box.right]))"
    )
    desk, phone = edges
    assert len(desk) == len(phone) == len(report.overview.rows)
    assert all(left[1] <= right[0] + 1 for left, right in zip(desk, phone, strict=True))
