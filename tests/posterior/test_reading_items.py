"""Items of pages whose users may stop, where their Betas are extreme."""

import numpy as np
import pytest

import epiclick as ec
from epiclick.fitted.parameters import parameter_draws
from epiclick.posterior import reading_items


@pytest.mark.slow
def test_a_tiny_beta_is_not_lost_among_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """1e-20 + 3 reads - 3 clicks is 0 in float64, and 0 is no parameter of a Beta."""
    world = ec.simulate(queries=20, docs=4, features=2, pages=200, users="dcm", seed=0)
    counts = ec.read_log(world.log, click_model="dcm")
    fitted = ec.EpistemicDCM(seed=0).fit(counts, progress=False).fitted_
    draws = parameter_draws(fitted, 2)
    tiny = (np.full((2, len(counts)), 2.0), np.full((2, len(counts)), 1e-20))
    monkeypatch.setattr(reading_items, "relevance_of_pairs", lambda *_: tiny)
    found = reading_items.reading_item_draws(fitted, counts, draws).attraction
    always = found.beta < 1  # read as often as clicked
    assert always.any()
    np.testing.assert_array_equal(found.beta[always], 1e-20)
