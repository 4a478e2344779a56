"""Figures and page of a reproduction: complete, reproducible, and showing the measurements."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats

from epiclick.beta import Beta
from epiclick.paper import figure_curves
from epiclick.paper.claims import make_claims, write_claims_table
from epiclick.paper.figure_curves import band, likelihood_range
from epiclick.paper.figures import (
    FIGURES,
    P,
    density_curves,
    draw_all,
    draw_position_bias,
    draw_rankers,
)
from epiclick.paper.reproduction_page import write_page
from epiclick.paper.results import Results
from epiclick.paper.statement import FAILS, Check

from .planted import as_claimed, planted, results_of, shortened

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _coarse() -> Iterator[None]:
    """Few dots per inch: rendering takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure_curves, "DPI", 40)
        yield


@pytest.fixture(scope="module")
def results() -> Results:
    return planted(as_claimed(), runs=3)


@pytest.fixture(scope="module")
def folder(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reproduction")
    draw_all(results, folder / "figures")
    return folder


def only(results: Results, *methods: str) -> Results:
    """The same with only some methods."""
    kept = [method in methods for method in results.table["method"].to_pylist()]
    return replace(results, table=results.table.filter(kept))


class TestDensities:
    runs = Beta([30.0, 2.0, 300.0], [20.0, 7.0, 150.0])

    def test_the_barycentre_is_nearest_to_all_runs(self) -> None:
        """Brute force: of all increasing step functions, the one with the smallest squared distance.

        Distance of distributions on a line is that of their quantiles; at each probability the
        minimiser is found by a search that knows nothing of means.
        """
        places, _, place, _ = density_curves(self.runs)
        for i in range(5, len(P), 40):
            own = stats.beta.ppf(P[i], [30, 2, 300], [20, 7, 150])
            found = optimize.minimize_scalar(
                lambda x, own=own: ((x - own) ** 2).sum(), bounds=(0, 1), method="bounded",
                options={"xatol": 1e-10},
            )  # fmt: skip
            assert place[i] == pytest.approx(found.x, abs=1e-6)
            assert places[:, i] == pytest.approx(own)

    def test_its_density_is_that_of_averaged_order_statistics(self) -> None:
        """Within 5 standard errors of a histogram's bins; the mixture's density is far off."""
        draws, edges = 200_000, np.linspace(0.35, 0.75, 9)
        rng = np.random.default_rng(2)
        samples = [rng.beta(a, b, draws) for a, b in ((30, 20), (2, 7), (300, 150))]
        averaged = np.sort(samples, axis=1).mean(axis=0)
        share = np.histogram(averaged, edges)[0] / draws
        _, _, place, density = density_curves(self.runs)
        steps = np.diff(place) * (density[1:] + density[:-1]) / 2
        curve = np.concatenate([[P[0]], P[0] + np.cumsum(steps)])
        expected = np.diff(np.interp(edges, place, curve))
        # an area from 203 points of a curve is accurate to 1e-3
        error = 5 * np.sqrt(share * (1 - share) / draws) + 1e-3
        assert (np.abs(share - expected) < error).all()
        mixture = np.histogram(np.concatenate(samples), edges)[0] / (3 * draws)
        assert np.abs(mixture - expected).max() > 20 * error.max()

    def test_distributions_at_the_bounds_give_numbers(self) -> None:
        for alpha, beta in ((0.01, 0.5), (1e5, 1e-2), (1e-3, 1e-3)):
            for values in density_curves(Beta([alpha, 1.0], [beta, 1.0])):
                assert not np.isnan(values).any()


class TestBand:
    def test_is_the_student_t_interval_of_every_epoch(self) -> None:
        values = np.random.default_rng(1).normal(size=(15, 4))
        mean, low, high = band(values)
        for epoch in range(4):
            column = values[:, epoch]
            oracle = stats.t.interval(0.95, 14, column.mean(), stats.sem(column))
            assert (low[epoch], high[epoch]) == pytest.approx(oracle)
            assert mean[epoch] == pytest.approx(column.mean())

    def test_leaves_out_diverged_runs(self) -> None:
        values = np.array([[1.0, np.nan, np.nan], [2.0, 2.0, np.nan], [3.0, 4.0, np.nan]])
        mean, low, _ = band(values)
        assert mean[:2].tolist() == [2.0, 3.0]
        assert np.isnan(mean[2])
        oracle = stats.t.interval(0.95, 1, 3.0, stats.sem([2.0, 4.0]))
        assert low[1] == pytest.approx(oracle[0])


class TestFigures:
    def test_every_figure_is_drawn_in_both_formats(self, folder: Path) -> None:
        for name in FIGURES:
            assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
            assert (folder / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert len(list((folder / "figures").iterdir())) == 2 * len(FIGURES)

    def test_the_same_results_give_the_same_files(
        self, results: Results, folder: Path, tmp_path: Path
    ) -> None:
        draw_rankers(results, tmp_path)
        for form in ("png", "pdf"):
            again = (tmp_path / f"figure-7.{form}").read_bytes()
            assert again == (folder / "figures" / f"figure-7.{form}").read_bytes()
        draw_rankers(only(results, "pointwise", "exact"), tmp_path)
        assert (tmp_path / "figure-7.png").read_bytes() != (
            folder / "figures" / "figure-7.png"
        ).read_bytes()

    def test_methods_that_were_not_run_are_left_out(self, results: Results, tmp_path: Path) -> None:
        drawn = draw_all(only(results, "marginal"), tmp_path)
        assert [path.name for path in drawn] == ["figure-2.png", "figure-3.png", "figure-7.png"]

    def test_a_method_that_diverged_does_not_stop_the_others(
        self, results: Results, tmp_path: Path
    ) -> None:
        kept = only(results, "self_normalized", "exact").table.to_pylist()
        rows = [
            (r["method"], r["run"], r["epoch"], r["quantity"], r["index"],
             np.nan if r["method"] == "self_normalized" else r["value"])
            for r in kept
        ]  # fmt: skip
        assert draw_position_bias(results_of(rows, results.settings), tmp_path)

    def test_distributions_at_a_bound_can_be_drawn(self, results: Results, tmp_path: Path) -> None:
        rows = [
            ("exact", run, 1, quantity, k, value)
            for run in range(2)
            for k in range(1, 6)
            for quantity, value in (("theta_alpha", 1e5), ("theta_beta", 1e-2 / k))
        ]
        assert draw_position_bias(results_of(rows, results.settings), tmp_path)


class TestRangeOfLikelihoods:
    overfitted = np.array([-0.9, -0.42, -0.40, -0.45, -0.47])
    steady = np.array([-0.6, -0.50, -0.49, -0.49, -0.49])

    def test_shows_every_curve_but_for_its_first_epoch(self) -> None:
        means = {"exact": self.overfitted, "naive": self.steady}
        low, high = likelihood_range(means, close_up=False)
        assert -0.6 < low < -0.50
        assert -0.40 < high < -0.35

    def test_a_close_up_is_of_the_best_methods_and_never_wider(self) -> None:
        means = {"exact": self.overfitted, "naive": self.steady}
        low, high = likelihood_range(means, close_up=True)
        assert -0.49 < low < -0.47, "where the exact estimator ends, not the naive one"
        assert high > -0.40
        whole = likelihood_range(means, close_up=False)
        assert whole[0] <= low
        assert high <= whole[1]

    def test_a_method_that_is_far_off_is_cut_off(self) -> None:
        means = {"exact": self.overfitted, "naive": np.array([-0.6, -3.0, -9.0, -9.0, -9.0])}
        assert likelihood_range(means, close_up=False)[0] > -1.1


class TestTable:
    def test_has_a_row_for_every_claim_with_its_number(
        self, results: Results, tmp_path: Path
    ) -> None:
        claims = make_claims(results)
        write_claims_table(claims, tmp_path / "claims.md")
        rows = [
            [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in (tmp_path / "claims.md").read_text().splitlines()
            if line.startswith("| RQ")
        ]
        assert [row[0] for row in rows] == [claim.id for claim in claims]
        assert [row[3] for row in rows] == [f"**{claim.outcome}**" for claim in claims]
        assert {len(row) for row in rows} == {4}
        gain = next(claim.checks[0] for claim in claims if claim.id == "RQ1.1").interval
        row = next(row for row in rows if row[0] == "RQ1.1")
        assert f"{gain.mean:.4g} ({gain.low:.4g} to {gain.high:.4g}; above 0.001)" in row[2]

    def test_says_why_a_claim_was_not_measured(self, results: Results, tmp_path: Path) -> None:
        few = only(results, "pointwise")
        write_claims_table(make_claims(few), tmp_path / "claims.md")
        assert "| not run: conditioned, self_normalized |" in (tmp_path / "claims.md").read_text()

    def test_shows_numbers_of_unfit_runs(self, results: Results, tmp_path: Path) -> None:
        write_claims_table(make_claims(shortened(results, 1_000)), tmp_path / "claims.md")
        rows = (tmp_path / "claims.md").read_text().splitlines()
        row = next(row for row in rows if row.startswith("| RQ2.3 |"))
        assert "epochs of conditioned: 100 (" in row
        assert "epochs of pointwise: " in row
        assert ". 1,000 epochs were run, and the claim is about more than 1,200 |" in row

    def test_a_refuted_claim_shows_what_refutes_it(self, results: Results, tmp_path: Path) -> None:
        claim = next(claim for claim in make_claims(results) if len(claim.checks) > 1)
        undecided = Check("one", (1.0, 2.0, 3.0), above=0, unfit="too short")
        against = Check("another", (1.0, 2.0, 3.0), above=99)
        write_claims_table(
            [replace(claim, checks=(undecided, against), outcome=FAILS)], tmp_path / "claims.md"
        )
        row = (tmp_path / "claims.md").read_text().splitlines()[-1]
        assert "another: 2 (" in row
        assert "too short" not in row


class Reader(HTMLParser):
    """Checks that elements are closed in order, and keeps addresses and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "img"):
            self.open.append(tag)
        self.addresses += [v or "" for k, v in attrs if k in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


class TestPage:
    def test_is_complete_and_self_contained(self, results: Results, folder: Path) -> None:
        claims = make_claims(results)
        page = write_page(results, claims, folder).read_text()
        reader = Reader()
        reader.feed(page)
        assert not reader.open
        assert len(reader.addresses) == len(FIGURES)
        assert all(each.startswith("data:image/png;base64,") for each in reader.addresses)
        style = re.search(r"<style>(.*?)</style>", page, re.S)
        assert style
        assert "prefers-color-scheme: dark" in style[1]
        assert "url(" not in style[1]
        text = " ".join(reader.text)
        for claim in claims:
            assert claim.id in text
            assert claim.claim in text
        assert "f<195>" in text, "names are escaped"
        memory = max(cost.memory for cost in results.costs if cost.method == "exact")
        assert f"{memory / 2**20:,.0f} MiB" in text
        value = results.last("exact", "per_display").mean()
        assert f"{value:.5f}" in text
        assert "90.0%" in text, "share of steps of the literal naive estimator without a gradient"

    def test_an_unfinished_reproduction_has_a_page_too(
        self, results: Results, tmp_path: Path
    ) -> None:
        few = replace(only(results, "pointwise"), costs=(), rankers=())
        page = write_page(few, make_claims(few), tmp_path).read_text()
        assert "not run: " in page
        assert "Not recorded" in page
        assert "None: their methods were not run" in page


def test_matplotlib_is_loaded_only_when_a_figure_is_drawn() -> None:
    code = (
        "import sys, epiclick.paper.reproduction_page; "
        "print([m for m in ('matplotlib', 'jax') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
