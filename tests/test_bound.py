"""A context that is examined more than the anchor: found before a fit, reported after it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit

import epiclick as ec
from epiclick.diagnostics.checks import check_fit
from epiclick.diagnostics.contraction import contexts_at_bound
from epiclick.diagnostics.randomised import compare_randomised
from epiclick.fitted.state import FittedModel
from epiclick.fitted.validation import validate
from epiclick.identification.unbounded import unbounded_bias
from epiclick.posterior.known_bias import read_known_bias
from epiclick.report.page import gather, page_of
from epiclick.report.report_sources import Sources

from .cli.conftest import epiclick
from .device_worlds import DESKTOP, FALL, PHONE, device_counts
from .raising import raises_code

pytestmark = pytest.mark.slow

ENDS = ["low", "high", "relative_low", "relative_high"]
FLAG = '--anchor desktop,1 (in Python: anchor=("desktop", 1))'


@pytest.fixture(scope="module")
def counts() -> ec.ClickCounts:
    return device_counts(1.11)


@pytest.fixture(scope="module")
def pressed(counts: ec.ClickCounts) -> ec.EpistemicPBM:
    """The user's anchor is examined less than another context."""
    return ec.EpistemicPBM(anchor=("phone", 1)).fit(counts, progress=False)


@pytest.fixture(scope="module")
def moved() -> ec.EpistemicPBM:
    """With features, and an automatic anchor."""
    counts = device_counts(1.11, features=True)
    return ec.EpistemicPBM(hidden=(8,), epochs=15).fit(counts, progress=False)


@pytest.fixture(scope="module")
def folder(pressed: ec.EpistemicPBM, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bound") / "model"
    pressed.save(path)
    return path


def test_an_anchor_that_is_found_leaves_nothing_at_its_bound(moved: ec.EpistemicPBM) -> None:
    bias = moved.position_bias()
    assert bias["mean"][DESKTOP] == 1
    truth = np.append(FALL, FALL / 1.11)
    free = np.arange(len(truth)) != DESKTOP
    spread = (bias["high"] - bias["low"])[free] / 2
    assert np.all(np.abs(bias["mean"] - truth)[free] < 2 * spread)
    checks = moved.fitted_.training.checks
    assert checks["at_bound"] == []
    assert checks["anchor"]["context"] == {"device": "desktop", "position": 1}
    assert checks["anchor"]["moved_from"] == {"device": "phone", "position": 1}
    assert checks["anchor"]["ratio"] == pytest.approx(1.11, abs=0.05)
    (warning,) = moved.fitted_.training.warnings
    assert warning.endswith('use --anchor phone,1 (in Python: anchor=("phone", 1))')
    assert "if shown at (device, position) (desktop, 1)" in " ".join(checks["words"])


@pytest.mark.parametrize("kind", ["robust", "bayes"])
@pytest.mark.parametrize("level", [0.5, 0.99])
def test_a_bias_at_its_bound_has_no_interval(
    kind: str, level: float, pressed: ec.EpistemicPBM
) -> None:
    bias = pressed.position_bias(kind, level=level)
    assert bias.loc[DESKTOP, ENDS].isna().all()
    assert bias["mean"][DESKTOP] > 0.99
    others = bias.drop(index=DESKTOP)
    assert others[ENDS].notna().all(axis=None)
    assert others.loc[PHONE, ENDS].tolist() == [1.0] * 4


def test_the_warning_names_the_anchor_to_choose(pressed: ec.EpistemicPBM) -> None:
    (warning,) = pressed.fitted_.training.warnings
    assert "(desktop, 1) is at its bound" in warning
    assert "about 1.11 times that of the anchor ((device, position) (phone, 1))" in warning
    assert warning.endswith(FLAG)
    checks = pressed.fitted_.training.checks
    assert checks["anchor"]["moved_from"] is None
    (bound,) = checks["at_bound"]
    assert bound["context"] == {"device": "desktop", "position": 1}
    # its contraction is not known either
    assert len(checks["posterior"]["by_position"]) == 4


def with_bias(model: ec.EpistemicPBM, desktop: float, sd: float) -> FittedModel:
    """The model with another bias at desktop's first position: its mean, and sd of its logit."""
    fitted = model.fitted_
    mean, robust = fitted.posterior.mean.copy(), fitted.posterior.robust.copy()
    mean[DESKTOP] = logit(desktop)
    robust[DESKTOP], robust[:, DESKTOP] = 0, 0
    robust[DESKTOP, DESKTOP] = sd**2
    return replace(
        fitted,
        posterior=replace(fitted.posterior, mean=mean, robust=robust),
        training=replace(fitted.training, checks={}),
    )


@pytest.mark.parametrize(
    ("truth", "shown", "bias", "sd", "expected"),
    [
        (0.97, 60.0, 0.97, 0.2, False),  # near 1, and honest
        (1.11, 8.0, 0.998, 0.3, True),
        (1.11, 8.0, 0.998, 4.0, True),  # the estimate without a bound is sure
        (1.3, 0.3, 0.97, 1.5, False),  # few clicks: a wide interval
        (1.3, 0.3, 0.998, 0.3, True),  # unless the fit has made it narrow
        (1.11, 8.0, 0.8, 0.05, False),  # not near its bound, whatever is wrong
    ],
)
def test_what_is_at_its_bound(
    truth: float, shown: float, bias: float, sd: float, expected: bool, pressed: ec.EpistemicPBM
) -> None:
    fitted = with_bias(pressed, bias, sd)
    unbounded = unbounded_bias(device_counts(truth, shown=shown, seed=2))
    found = contexts_at_bound(fitted, unbounded)
    assert [each.context for each in found] == ([DESKTOP] if expected else [])
    assert contexts_at_bound(fitted, unbounded, fixed=[DESKTOP]) == ()
    assert contexts_at_bound(replace(fitted, anchor=None, posterior=None), unbounded) == ()


def test_true_biases_just_below_one_keep_their_intervals(pressed: ec.EpistemicPBM) -> None:
    fitted = with_bias(pressed, 0.97, 0.2)
    worlds = [unbounded_bias(device_counts(0.97, shown=40, seed=seed)) for seed in range(60)]
    kept = sum(not contexts_at_bound(fitted, unbounded) for unbounded in worlds)
    # the standard error is 0.011: beyond 1 lies 0.3 % of such worlds
    assert kept >= 58


def test_an_anchor_without_clicks_of_its_own(pressed: ec.EpistemicPBM) -> None:
    counts = device_counts(1.11)
    clicks = np.where(counts.context == PHONE, 0, counts.clicks)
    found = contexts_at_bound(
        with_bias(pressed, 0.998, 0.3), unbounded_bias(replace(counts, clicks=clicks))
    )
    assert [each.context for each in found] == [DESKTOP]
    assert found[0].ratio == np.inf


def test_files_keep_it_and_older_ones_have_none(
    folder: Path, pressed: ec.EpistemicPBM, tmp_path: Path
) -> None:
    loaded = ec.load(folder)
    pd.testing.assert_frame_equal(loaded.position_bias(), pressed.position_bias())
    training = pressed.fitted_.training
    older = {k: v for k, v in training.checks.items() if k not in ("at_bound", "anchor")}
    model = ec.EpistemicPBM()
    model.fitted_ = replace(pressed.fitted_, training=replace(training, checks=older))
    model.save(tmp_path / "older")
    assert ec.load(tmp_path / "older").position_bias()["low"].notna().all()


@pytest.mark.parametrize("bad", [[{"index": 6}], [{"index": True}], [3], "all", [{}]])
def test_a_file_that_names_no_context_is_refused(bad: object, pressed: ec.EpistemicPBM) -> None:
    training = pressed.fitted_.training
    broken = replace(training, checks={**training.checks, "at_bound": bad})
    with raises_code("invalid-checks") as caught:
        validate(replace(pressed.fitted_, training=broken), "the model m", "Fit it again.")
    assert "at_bound must list contexts from 0 to 5" in str(caught.value)


def test_position_bias_prints_null_and_words(folder: Path) -> None:
    record = epiclick("position-bias", folder, "--json").record
    row = record["position_bias"][DESKTOP]
    assert [row[end] for end in ENDS] == [None] * 4
    assert row["mean"] > 0.99
    assert record["at_bound"][0]["context"] == {"device": "desktop", "position": 1}
    assert record["at_bound"][0]["ratio"] == pytest.approx(1.11, abs=0.05)
    done = epiclick("position-bias", folder)
    words = " ".join(done.out.split())
    assert "No interval at device, position desktop, 1: the bias is at its bound." in words
    assert FLAG in done.err


def test_a_bias_at_its_bound_is_not_held_when_given_back(
    folder: Path, pressed: ec.EpistemicPBM, tmp_path: Path
) -> None:
    printed = tmp_path / "bias.json"
    printed.write_text(epiclick("position-bias", folder, "--json").out)
    contexts = pressed.fitted_.contexts
    with pytest.warns(ec.InputWarning, match=r"no row for .*\(desktop, 1\), whose bias is learned"):
        known = read_known_bias(printed, contexts, PHONE, 0.9)
    assert np.isnan(known.mean[DESKTOP])
    assert np.isfinite(known.mean[DESKTOP + 1])
    # negative control: a table with only a mean fixes it
    rows = json.loads(printed.read_text())["position_bias"]
    held = read_known_bias(pd.DataFrame(rows), contexts, PHONE, 0.9)
    assert np.isfinite(held.mean[DESKTOP])


def test_a_given_bias_leaves_the_anchor_at_the_first_position(counts: ec.ClickCounts) -> None:
    from epiclick.plans import with_known_bias

    given = pd.DataFrame({"device": ["desktop"], "position": [1], "mean": [0.9]})
    plan = ec.EpistemicPBM()._plan(counts)
    assert plan.anchor == DESKTOP
    with pytest.warns(ec.InputWarning, match="no row for"):
        plan = with_known_bias(plan, counts, given)
    assert (plan.anchor, plan.objective.anchor, plan.moved) == (PHONE, PHONE, None)


def test_the_report_says_at_least_and_shows_no_range(
    pressed: ec.EpistemicPBM, counts: ec.ClickCounts
) -> None:
    report = gather(Sources(pressed, "model", counts))
    rows = {row.name: row for row in report.bias.rows}
    assert rows["device desktop, position 1"].is_at_bound
    assert sum(row.is_at_bound for row in rows.values()) == 1
    assert "at least 100 times at device desktop, position 1" in report.opening.looked_at
    assert "except device desktop, position 1, which is at its bound" in report.opening.uncertainty
    assert "nan" not in f"{report.opening.looked_at} {report.opening.uncertainty}".lower()
    written = page_of(report)
    assert "at its bound" in written
    assert "nan%" not in written.lower()


def test_comparisons_and_exports_say_so(pressed: ec.EpistemicPBM, counts: ec.ClickCounts) -> None:
    ranking = pd.DataFrame({"query_id": [0, 0], "doc_id": [0, 1], "position": [1, 2]})
    found = ec.compare(pressed, {"one": ranking.assign(device="phone")}, samples=100)
    assert any("at its bound at (device, position) (desktop, 1)" in note for note in found.notes)
    data = pytest.importorskip("epiclick.export.arviz").to_inference_data(pressed, draws=10)
    assert data.posterior.attrs["at_bound"] == "desktop/1"


def test_beside_randomised_pages(pressed: ec.EpistemicPBM, counts: ec.ClickCounts) -> None:
    check = compare_randomised(pressed.fitted_, counts, at_bound=[DESKTOP])
    table = check.table
    # the second position of desktop is compared with the first, which is at its bound
    at = table["against"] == DESKTOP
    assert at.sum() == 3
    assert table.loc[at, ["model_low", "model_high"]].isna().all(axis=None)
    assert table.loc[~at, ["model_low", "model_high"]].notna().all(axis=None)
    found = check_fit(pressed.fitted_, counts, 0.9, randomised=counts)
    compared = found.records["identifiability"]["randomised"]["by_position"]
    assert np.isnan(compared[DESKTOP]["model_low"])
