"""Runs of a benchmark: cells, resuming, peers, and the page that is made from them."""

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epiclick.benchmark import run_benchmark as module
from epiclick.benchmark.benchmark_page import benchmark_page
from epiclick.benchmark.benchmark_worlds import QUICK, WorldPlan, WorldSize
from epiclick.benchmark.run_benchmark import BenchmarkSettings, run_benchmark
from epiclick.errors import InputWarning

from ..raising import raises_code

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning")]

TINY = WorldSize(6, 5, 3, 240, 240, 3, letor_queries=6)
SETTINGS = BenchmarkSettings(worlds=("dcm",), models=("pbm", "cascade", "dcm"), size=TINY)


def run(settings: BenchmarkSettings, folder: Path) -> Any:
    return run_benchmark(settings, folder, progress=False)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Cells run in this process, which saves seconds; the list has those that were measured."""
    measured: list[tuple[str, str]] = []

    def call(function: Any, path: Path, model: str, version: str, *, programs: Path) -> Any:
        measured.append((model, version))
        return function(path, model, version)

    monkeypatch.setattr(module, "call_in_process", call)
    return measured


def test_a_stopped_run_resumes_and_leaves_no_partial_file(
    here: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = module.call_in_process

    def stopped(function: Any, path: Path, model: str, version: str, **more: Any) -> Any:
        if (model, version) == ("cascade", "plain"):
            raise KeyboardInterrupt
        return own(function, path, model, version, **more)

    monkeypatch.setattr(module, "call_in_process", stopped)
    with pytest.raises(KeyboardInterrupt):
        run(SETTINGS, tmp_path)
    names = {path.name for path in (tmp_path / "cells" / "dcm").iterdir()}
    assert names == {"pbm-epiclick.json", "pbm-plain.json", "cascade-epiclick.json"}
    here.clear()
    monkeypatch.setattr(module, "call_in_process", own)
    found = run(SETTINGS, tmp_path)
    assert here == [
        ("cascade", "plain"),
        ("cascade", "counting"),
        *(("dcm", v) for v in ("epiclick", "plain", "counting")),
    ]
    here.clear()
    again = run(SETTINGS, tmp_path)
    assert here == []
    assert again == found
    # a damaged cell, and cells of other data, are measured again
    cell = tmp_path / "cells" / "dcm" / "pbm-plain.json"
    cell.write_text(cell.read_text().replace('"impossible": 0', '"impossible": 1'))
    run(SETTINGS, tmp_path)
    assert here == [("pbm", "plain")]
    here.clear()
    run(BenchmarkSettings(worlds=("dcm",), models=("pbm",), size=TINY, seed=1), tmp_path)
    assert here == [("pbm", "epiclick"), ("pbm", "plain")]


def test_the_page_has_a_row_for_every_fit_and_says_what_is_impossible(
    here: list[tuple[str, str]], tmp_path: Path
) -> None:
    results = run(SETTINGS, tmp_path)
    (found,) = results.datasets
    places = [(row.model, row.version) for row in found.rows]
    assert len(places) == len(set(places)) == 8
    twice = found.sizes["held_out_pages_with_two_clicks"]
    page = benchmark_page(results)
    for row in found.rows:
        assert f"| `{row.model}` | `{row.version}` |" in page
        assert row.impossible == (twice if row.model == "cascade" else 0)
        assert (row.scores["log_likelihood"] is None) == (row.model == "cascade")
        assert row.processor_seconds >= 0
        assert row.peak_mb > 10
    assert f"gives {twice} held-out pages probability 0" in page
    others = {each.other for each in found.from_ours if each.metric == "log_likelihood"}
    assert others == {("pbm", "plain"), ("dcm", "plain"), ("dcm", "counting")}
    for each in found.from_ours:
        values = {(row.model, row.version): row.scores[each.metric] for row in found.rows}
        assert each.difference == pytest.approx(values[each.one] - values[each.other])
        assert each.low <= each.difference <= each.high
    best = found.best("log_likelihood")
    assert best.scores["log_likelihood"] == max(
        row.scores["log_likelihood"] for row in found.rows if row.model != "cascade"
    )
    json.dumps(results.to_dict(), allow_nan=False)


def test_features_take_part_where_there_are_some(
    here: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    letor = tmp_path / "items"
    letor.mkdir()
    for first, name in enumerate(("train", "vali", "test")):
        rows = [
            f"{rng.integers(5)} qid:{10 * first + q} 1:{rng.normal():.3f} 2:{rng.normal():.3f}\n"
            for q in range(4)
            for _ in range(5)
        ]
        (letor / f"{name}.txt").write_text("".join(rows))
    monkeypatch.setenv("EPICLICK_CACHE", str(tmp_path / "cache"))
    plan = WorldPlan("pbm", TINY, 0, letor)
    data = plan.make()
    assert (data.name, data.queries, data.pairs) == ("items-pbm", 6, 30)
    assert data.features.shape == (30, 2)
    assert set(np.log2(data.gain + 1)) <= {0, 1, 2, 3, 4}
    settings = BenchmarkSettings(worlds=(), models=("pbm",), size=TINY, letor=letor)
    results = run(settings, tmp_path / "out")
    assert [each.name for each in results.datasets] == ["items-pbm", "items-sdbn"]
    assert here == 2 * [("pbm", version) for version in ("epiclick", "features", "plain")]


def test_a_fit_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    settings = BenchmarkSettings(worlds=("pbm",), models=("pbm",), size=TINY)
    (found,) = run(settings, tmp_path).datasets
    for row in found.rows:
        assert 0 <= row.processor_seconds < row.process_seconds


def fake_python(folder: Path, fits: str) -> Path:
    """An executable that says it has CLAX, and fits as the given Python statements do."""
    path = folder / "python"
    path.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "import numpy as np\n"
        "if sys.argv[1] == '-c':\n    print('0.0.1')\n    sys.exit()\n"
        "_, _, side, data, model, out = sys.argv\n"
        f"stored = np.load(data)\n{fits}\n"
        "print(json.dumps(dict(processor_seconds=1, process_seconds=2, peak_memory=3e6, epochs=4)))\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_peer_is_scored_by_the_same_definitions(
    here: list[tuple[str, str]], tmp_path: Path
) -> None:
    fits = (
        "clicked = stored['test_clicked']\n"
        "given = np.where(clicked, 0.5, 0.25) if model != 'cascade' else np.full(clicked.shape, 1e-8)\n"
        "np.savez(out, given=given, marginal=given, relevance=stored['gain'])"
    )
    settings = BenchmarkSettings(
        worlds=("dcm",), models=("cascade", "ccm"), size=TINY, clax=fake_python(tmp_path, fits)
    )
    results = run(settings, tmp_path / "out")
    assert results.clax == "0.0.1"
    rows = {(row.model, row.version): row for row in results.datasets[0].rows}
    own = rows["ccm", "clax"]
    clicks = results.datasets[0].sizes["held_out_clicks"]
    displays = results.datasets[0].sizes["held_out_displays"]
    expected = (clicks * np.log(0.5) + (displays - clicks) * np.log(0.75)) / displays
    assert own.scores["log_likelihood"] == pytest.approx(expected)
    assert own.scores["ndcg"] == 1.0
    assert (own.processor_seconds, own.process_seconds, own.peak_mb) == (1, 2, 3)
    assert rows["cascade", "clax"].impossible > 0  # 1e-8 stands for impossible
    assert "`ccm` | `clax`" in benchmark_page(results)


def test_what_is_absent_is_skipped_with_a_message(
    here: list[tuple[str, str]], tmp_path: Path
) -> None:
    tiny = {"worlds": ("pbm",), "models": ("pbm",), "size": TINY}
    absent = BenchmarkSettings(**tiny, data=(tmp_path / "yandex-pages",), clax=tmp_path / "none")
    with pytest.warns(InputWarning) as caught:
        run(absent, tmp_path / "out")
    said = [str(each.message) for each in caught]
    assert any("yandex-pages is skipped" in each for each in said)
    assert any("CLAX is skipped" in each for each in said)
    broken = BenchmarkSettings(**tiny, clax=fake_python(tmp_path, "raise ValueError('no fit')"))
    with pytest.warns(InputWarning, match=r"pbm \(clax\) is left out: ValueError: no fit"):
        results = run(broken, tmp_path / "out")
    assert {row.version for row in results.datasets[0].rows} == {"epiclick", "plain"}


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"worlds": ("pmb",)}, "unknown-choice"),
        ({"models": ("pmb",)}, "unknown-choice"),
        ({"worlds": ("pbm", "pbm")}, "repeated-name"),
        ({"worlds": ()}, "no-data"),
        ({"level": 1.5}, "level-out-of-range"),
        ({"letor": Path("nothing"), "size": QUICK, "models": ("pbm",)}, "file-missing"),
    ],
)
def test_what_cannot_be_run_is_refused(settings: dict[str, Any], code: str, tmp_path: Path) -> None:
    with raises_code(code):
        run(BenchmarkSettings(**settings), tmp_path)
    assert os.listdir(tmp_path) == []
