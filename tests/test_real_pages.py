"""Real pages: click models are no worse than plain EM, and better than position alone."""

import sys
from pathlib import Path

import pandas as pd
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
    click, query = test["click"].to_numpy(), test["query_id"].to_numpy()
    displays = test["query_id"].value_counts()
    plain = {
        name: pd.Series(real_pages.log_likelihoods(click, real_pages.PLAIN[name](train, test)))
        for name in ("pbm", "ubm", "dcm", "sdbn")
    }
    em = {name: each.groupby(query).sum() for name, each in plain.items()}
    assert plain["pbm"].mean() == pytest.approx(-0.3321, abs=2e-4)  # as published with the sample
    assert plain["ubm"].mean() == pytest.approx(-0.3153, abs=2e-4)
    for name in ("ubm", "dcm", "sdbn"):
        ours = real_pages.scored(name, train, test)
        difference = real_pages.paired(ours.by_query - em[name], displays)
        assert difference["high"] > 0, (name, difference)
        assert difference["mean"] > -3e-4, (name, difference)
    # a control: a position-based model is clearly worse on these pages
    assert real_pages.paired(em["pbm"] - em["ubm"], displays)["high"] < 0
    # and pages with two clicks are impossible in a cascade
    assert real_pages.scored("cascade", train, test).impossible > 1_000
