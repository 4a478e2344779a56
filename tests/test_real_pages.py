"""Real pages: the user browsing model is no worse than plain EM, and better than position alone."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "yandex-pages"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.is_dir(), reason="the yandex-pages sample is not at hand"),
    pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning"),
]


def test_held_out_pages_are_predicted_as_well_as_by_plain_em(monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    import real_pages

    train, test = (real_pages.read_pages(DATA / f"{part}.tsv.gz") for part in ("train", "test"))
    assert (len(train), len(test)) == (79_970, 75_090)
    click, query = test["click"].to_numpy(), test["query_id"]
    em = {
        name: real_pages.log_likelihoods(click, real_pages.plain_em(train, test, contexts))
        for name, contexts in real_pages.CONTEXTS.items()
    }
    assert em["pbm"].mean() == pytest.approx(-0.3321, abs=2e-4)  # as published with the sample
    assert em["ubm"].mean() == pytest.approx(-0.3153, abs=2e-4)
    ours = real_pages.log_likelihoods(click, real_pages.predicted("ubm", train, test))
    difference = real_pages.paired(query, ours - em["ubm"])
    assert difference["high"] > 0, difference
    assert ours.mean() > em["ubm"].mean() - 3e-4
    # a control: a position-based model is clearly worse on these pages
    assert real_pages.paired(query, em["pbm"] - em["ubm"])["high"] < 0
