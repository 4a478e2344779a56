"""Claims: decided by their rules in worlds where they are true, false, or undecided."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from epiclick.paper.claims import STATEMENTS, make_claims, write_claims
from epiclick.paper.results import Results
from epiclick.paper.statement import (
    FAILS,
    HOLDS,
    OPEN,
    Check,
    Claim,
    combined,
    epoch_near_best,
    epoch_near_last,
    epoch_stays_near_last,
    mean_interval,
)

from .planted import EPOCHS, RUNS, as_claimed, contradicted, planted, results_of, shortened

pytestmark = pytest.mark.slow

MIXED = 4  # runs, two of them as claimed and two against it: no claim can be decided from them
IDS = [statement.id for statement in STATEMENTS]


@pytest.fixture(scope="module")
def true() -> Results:
    return planted(as_claimed())


@pytest.fixture(scope="module")
def outcomes(true: Results) -> dict[str, dict[str, Claim]]:
    worlds = {
        HOLDS: true,
        FAILS: planted(contradicted()),
        OPEN: planted(as_claimed(), contradicted(), runs=MIXED),
    }
    return {name: {c.id: c for c in make_claims(r)} for name, r in worlds.items()}


def without(results: Results, *methods: str) -> Results:
    """The same without some methods."""
    kept = [method not in methods for method in results.table["method"].to_pylist()]
    return replace(results, table=results.table.filter(kept))


class TestInterval:
    def test_is_that_of_a_paired_t_test(self) -> None:
        rng = np.random.default_rng(3)
        a, b = rng.normal(1, 1, 15), rng.normal(0, 1, 15)
        oracle = stats.ttest_rel(a, b).confidence_interval(0.95)
        found = mean_interval(a - b)
        assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high))
        assert found.mean == pytest.approx((a - b).mean())
        assert mean_interval(a - b, 0.99).low < found.low

    @pytest.mark.parametrize("by_run", [[], [1.0], [1.0, np.nan], [1.0, np.inf]])
    def test_is_nan_without_enough_finite_runs(self, by_run: list[float]) -> None:
        found = mean_interval(by_run)
        assert np.isnan([found.low, found.high]).all()
        assert Check("x", tuple(by_run), above=0).outcome == OPEN
        assert "run" in Check("x", tuple(by_run), above=0).reason


class TestCheck:
    """Intervals around 2 with half-width 2.484."""

    runs = (1.0, 2.0, 3.0)

    @pytest.mark.parametrize(
        ("above", "below", "outcome"),
        [(-0.5, np.inf, HOLDS), (0, np.inf, OPEN), (4.4, np.inf, OPEN), (4.5, np.inf, FAILS),
         (-np.inf, 4.5, HOLDS), (-np.inf, 4.4, OPEN), (-np.inf, -0.5, FAILS),
         (-1, 5, HOLDS), (0, 5, OPEN), (-1, 4, OPEN), (5, 6, FAILS), (-6, -5, FAILS), (1, 3, OPEN)],
    )  # fmt: skip
    def test_follows_its_range(self, above: float, below: float, outcome: str) -> None:
        assert Check("x", self.runs, above, below).outcome == outcome
        opposite = {HOLDS: FAILS, FAILS: HOLDS, OPEN: OPEN}[outcome]
        assert Check("x", self.runs, above, below, outside=True).outcome == opposite

    def test_several_hold_together_or_one_is_enough(self) -> None:
        good, bad = Check("x", self.runs, above=-2), Check("x", self.runs, above=9)
        undecided = Check("x", self.runs, above=1)
        shown = replace(bad, decides=False)
        assert combined([good, shown]) == HOLDS
        assert combined([good, undecided]) == OPEN
        assert combined([good, undecided, bad]) == FAILS
        assert combined([shown]) == OPEN
        assert combined([bad, good], any_of_them=True) == HOLDS
        assert combined([bad, undecided], any_of_them=True) == OPEN
        assert combined([bad, bad], any_of_them=True) == FAILS

    @pytest.mark.parametrize(("any_of_them", "alone"), [(False, FAILS), (True, HOLDS)])
    def test_one_of_six_decides_alone_no_more_often_than_one_of_one(
        self, any_of_them: bool, alone: str
    ) -> None:
        """At the margin itself, in 2.5 % of the cases; four standard errors allowed."""
        worlds = np.random.default_rng(6).normal(1, 1, (1_000, 6, 15))
        checks = [[Check("x", tuple(by_run), above=1) for by_run in world] for world in worlds]
        rate = np.mean([combined(each, any_of_them) == alone for each in checks])
        allowed = 0.025 + 4 * np.sqrt(0.025 * 0.975 / len(worlds))
        assert rate < allowed
        assert np.mean([any(c.outcome == alone for c in each) for each in checks]) > 2 * allowed

    def test_one_against_others_within_chance_is_undecided(self) -> None:
        bad, good = Check("x", (0.0, 1.0, 2.0), above=4.0), Check("x", self.runs, above=-2)
        assert (bad.outcome, combined([bad])) == (FAILS, FAILS)
        assert combined([bad, good, good]) == OPEN

    def test_unfit_runs_are_shown_and_decide_nothing(self) -> None:
        check = Check("x", self.runs, above=9, unfit="too short")
        assert check.outcome == combined([check]) == OPEN
        assert check.reason == "x: too short"
        assert check.to_dict()["mean"] == 2

    def test_equivalence_errs_at_its_nominal_rate_at_most(self) -> None:
        """At the margin itself, "holds" occurs in 2.5 % of cases; 4 standard errors allowed."""
        rng = np.random.default_rng(5)
        samples = rng.normal(1, 1, (2_000, 15))
        outcomes = [Check("x", tuple(s), -1, 1).outcome for s in samples]
        for outcome in (HOLDS, FAILS):
            rate = np.mean([found == outcome for found in outcomes])
            assert rate < 0.025 + 4 * np.sqrt(0.025 * 0.975 / len(samples))


class TestEpochs:
    def test_against_a_loop(self) -> None:
        results = planted({"pointwise": as_claimed()["conditioned"]})
        epochs, curves = results.of("pointwise", "whole_set")
        for curve, best, first, stays in zip(
            curves,
            epoch_near_best(results, "pointwise"),
            epoch_near_last(results, "pointwise"),
            epoch_stays_near_last(results, "pointwise"),
            strict=True,
        ):
            near = [abs(value - curve[-1]) <= 0.001 for value in curve]
            assert first == next(e for e, ok in zip(epochs, near, strict=True) if ok) == 100
            assert stays == next(e for i, e in enumerate(epochs) if all(near[i:]))
            assert best == next(
                e for e, v in zip(epochs, curve, strict=True) if v >= max(curve) - 0.001
            )

    def test_a_curve_that_overfits_is_near_its_last_value_before_its_best(self) -> None:
        rows = [
            ("pointwise", 0, epoch, "whole_set", 0, value)
            for epoch, value in ((1, -0.5), (10, -0.4), (20, -0.3), (30, -0.4), (40, -0.4))
        ]
        results = results_of(rows, planted(as_claimed(), runs=1).settings)
        assert epoch_near_best(results, "pointwise").tolist() == [20]
        assert epoch_near_last(results, "pointwise").tolist() == [10]
        assert epoch_stays_near_last(results, "pointwise").tolist() == [30]


class TestClaims:
    def test_every_question_of_the_paper_is_asked(self) -> None:
        assert len(set(IDS)) == len(IDS)
        for question, least in (("RQ1", 5), ("RQ2", 7), ("RQ3", 13), ("RQ4", 6), ("RQ5", 3)):
            plain = {i for i in IDS if i.startswith(question) and " " not in i}
            assert len(plain) >= least, question

    @pytest.mark.parametrize("id", IDS)
    @pytest.mark.parametrize("outcome", [HOLDS, FAILS, OPEN])
    def test_outcome_is_the_planted_one(
        self, outcomes: dict[str, dict[str, Claim]], id: str, outcome: str
    ) -> None:
        claim = outcomes[outcome][id]
        assert claim.outcome == outcome, [(c.quantity, c.interval, c.rule) for c in claim.checks]
        assert bool(claim.reason) == (outcome == OPEN)
        runs = MIXED if outcome == OPEN else RUNS
        assert all(len(check.by_run) == runs for check in claim.checks)

    def test_a_missing_variant_is_named(self, true: Results) -> None:
        few = without(true, "self_normalized", "conditioned/S@0.25")
        for claim in make_claims(few):
            gone = {"self_normalized", "conditioned/S@0.25"} & set(claim.needs)
            assert (claim.outcome == OPEN) == bool(gone)
            assert all(key in claim.reason for key in gone)
        one = without(true, *(key for key in true.methods if key != "naive"))
        assert all(c.outcome == OPEN for c in make_claims(one))

    def test_a_claim_needs_no_other_methods_than_it_names(self, true: Results) -> None:
        for statement in STATEMENTS:
            others = (key for key in true.methods if key not in statement.needs)
            claim = statement.of(without(true, *others))
            assert claim.outcome == HOLDS, (claim.id, claim.reason)

    def test_a_run_that_diverged_decides_nothing(self, true: Results) -> None:
        rows = true.table.to_pylist()
        broken = [
            (r["method"], r["run"], r["epoch"], r["quantity"], r["index"],
             np.nan if r["method"] in ("self_normalized", "exact") and r["run"] == 3
             and r["epoch"] > 50 and r["quantity"] != "ranker_truth" else r["value"])
            for r in rows
        ]  # fmt: skip
        results = results_of(broken, true.settings)
        for claim in make_claims(results):
            about = {"self_normalized", "exact"} & set(claim.needs)
            assert (claim.outcome == OPEN) == bool(about), claim.id
            assert (f"1 of {RUNS} runs" in claim.reason) == bool(about), claim.id

    def test_one_run_is_not_enough(self) -> None:
        claims = make_claims(planted(as_claimed(), runs=1))
        assert {claim.outcome for claim in claims} == {OPEN}
        assert all(claim.reason for claim in claims)

    def test_a_short_run_cannot_decide_about_1200_epochs_but_shows_its_own(
        self, true: Results
    ) -> None:
        claims = {c.id: c for c in make_claims(shortened(true, 1_000))}
        claim = claims["RQ2.3"]
        assert claim.outcome == OPEN
        assert "1,000 epochs were run" in claim.reason
        assert [check.interval.mean for check in claim.checks] == [100, pytest.approx(1_000, 0.02)]
        assert claims["RQ2.2"].outcome == HOLDS
        assert EPOCHS[-1] > 1_200

    def test_far_fewer_epochs_cannot_be_refuted_by_a_short_run(self, true: Results) -> None:
        """The epistemic model takes 100 epochs, and three times that is more than 250."""
        claims = {c.id: c for c in make_claims(shortened(true, 250))}
        for id in ("RQ2.2", "RQ2.2 exact", "RQ2.why.5", "RQ2.why.6"):
            assert claims[id].outcome == OPEN
            assert "took almost all of 250 epochs" in claims[id].reason
            assert 0 < claims[id].checks[0].interval.mean < np.log2(3)

    def test_similar_likelihoods_do_not_order_methods(self) -> None:
        world = as_claimed()
        alike = replace(world["naive+baseline"], final=world["self_normalized"].final)
        (claim,) = (
            c for c in make_claims(planted({**world, "naive+baseline": alike})) if c.id == "RQ3.7"
        )
        assert claim.outcome == OPEN
        assert "unclear which of the two has the higher likelihood" in claim.reason

    def test_json_has_every_number(
        self, outcomes: dict[str, dict[str, Claim]], tmp_path: Path
    ) -> None:
        claims = list(outcomes[OPEN].values())
        write_claims(claims, tmp_path / "claims.json")
        whole = json.loads((tmp_path / "claims.json").read_text())
        assert [entry["id"] for entry in whole["claims"]] == IDS
        for entry in whole["claims"]:
            assert all(entry[name] for name in ("claim", "measured", "test", "needs"))
            for check in entry["checks"]:
                assert check["low"] <= check["mean"] <= check["high"]
                assert np.mean(check["by_run"]) == pytest.approx(check["mean"])
