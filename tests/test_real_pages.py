"""Real pages: click models are no worse than plain EM, and better than position alone."""

from pathlib import Path

import pytest

from epiclick.benchmark.cell_scores import METRICS, difference_in, displays_of, score_cell
from epiclick.benchmark.own_fits import fit_own
from epiclick.benchmark.page_files import read_page_files
from epiclick.benchmark.plain_em import PLAIN

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "yandex-pages"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.is_dir(), reason="the yandex-pages sample is not at hand"),
    pytest.mark.filterwarnings("ignore::epiclick.errors.InputWarning"),
]


def test_held_out_pages_are_predicted_as_well_as_by_plain_em() -> None:
    data = read_page_files(DATA)
    assert (data.train.shown.sum(), data.test.shown.sum()) == (79_970, 75_090)
    likelihood = METRICS["log_likelihood"]
    plain = {}
    for name in ("pbm", "ubm", "dcm", "sdbn"):
        found = PLAIN[name](data)
        plain[name] = score_cell(data, displays_of(data, found.chances(data.test)), found.relevance)
    # as published with the sample
    assert plain["pbm"].log_likelihood == pytest.approx(-0.3321, abs=2e-4)
    assert plain["ubm"].log_likelihood == pytest.approx(-0.3153, abs=2e-4)
    for name in ("ubm", "dcm", "sdbn"):
        ours = fit_own(data, name)
        own = score_cell(data, ours.displays, ours.relevance)
        difference = difference_in(likelihood, own, plain[name], 0.9)
        assert difference.high > 0, (name, difference)
        assert difference.difference > -3e-4, (name, difference)
    # a control: a position-based model is clearly worse on these pages
    assert difference_in(likelihood, plain["pbm"], plain["ubm"], 0.9).high < 0
    # and pages with two clicks are impossible in a cascade
    ours = fit_own(data, "cascade")
    assert score_cell(data, ours.displays, ours.relevance).impossible > 1_000
