"""Differences from samples of known distributions, and the verdict on them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from epiclick.comparison.verdict import FAR_MORE, SURE, Difference, Spread, pages_needed

SAMPLES = 40_000
NONE = Spread(0.0, 0.0, 0.0, 0.0)


def values(mean: float, sd: float, base: float = 2.0, seed: int = 1) -> tuple[np.ndarray, ...]:
    """Samples of two values whose difference is normal, and which have far more in common."""
    rng = np.random.default_rng(seed)
    other = rng.normal(base, 0.3, SAMPLES)
    return other + rng.normal(mean, sd, SAMPLES), other


def difference(mean: float, sd: float, *, level: float = 0.9, unseen: float = 0.0) -> Difference:
    """Of a normal difference; `unseen` is a share of its variance."""
    spread = Spread((1 - unseen) * sd**2, unseen * sd**2, 0.0, 0.0)
    return Difference.of_samples(("new", "old"), *values(mean, sd), level, spread)


@pytest.mark.parametrize(
    ("mean", "sd", "level"), [(0.1, 0.05, 0.9), (-0.2, 0.3, 0.5), (0, 0.1, 0.8)]
)
def test_a_normal_difference_is_found(mean: float, sd: float, level: float) -> None:
    found = difference(mean, sd, level=level)
    error = sd / np.sqrt(SAMPLES)
    assert found.difference == pytest.approx(mean, abs=4 * error)
    for end, p in ((found.low, (1 - level) / 2), (found.high, (1 + level) / 2)):
        at = norm.ppf(p)
        of_quantile = np.sqrt(p * (1 - p)) / norm.pdf(at) * error
        assert end == pytest.approx(mean + at * sd, abs=4 * of_quantile)
    chance = norm.cdf(mean / sd)
    of_chance = np.sqrt(chance * (1 - chance) / SAMPLES)
    assert found.prob_better == pytest.approx(chance, abs=4 * of_chance)


def test_values_that_are_not_paired_would_be_noticed() -> None:
    """The control: what the rankers share does not cancel."""
    one, other = values(0.1, 0.05)
    shuffled = np.random.default_rng(2).permutation(other)
    found = Difference.of_samples(("new", "old"), one, shuffled, 0.9, NONE)
    paired = difference(0.1, 0.05)
    assert found.prob_better < 0.7 < 0.95 < paired.prob_better
    assert found.high - found.low > 4 * (paired.high - paired.low)


def test_shares_are_of_the_other_value() -> None:
    one, other = values(0.1, 0.05)
    found = Difference.of_samples(("new", "old"), one, other, 0.9, NONE)
    assert found.relative == pytest.approx(one.mean() / other.mean() - 1)
    low, high = np.quantile(one / other - 1, [0.05, 0.95])
    assert (found.relative_low, found.relative_high) == pytest.approx((low, high))


def test_ties_count_half() -> None:
    one, other = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 2.0, 5.0])
    found = Difference.of_samples(("a", "b"), one, other, 0.9, NONE)
    assert found.prob_better == 0.25 + 0.5 / 2
    assert Difference.of_samples(("a", "b"), one, one, 0.9, NONE).prob_better == 0.5


@pytest.mark.parametrize("mean", [0.3, -0.1])
def test_a_reversed_difference_is_that_of_the_other_ranker(mean: float) -> None:
    one, other = values(mean, 0.2)
    spread = Spread(0.01, 0.02, 0.005, 0.005)
    backwards = Difference.of_samples(("new", "old"), one, other, 0.9, spread).reversed()
    expected = Difference.of_samples(("old", "new"), other, one, 0.9, spread)
    for name in Difference.__dataclass_fields__:
        given, wanted = getattr(backwards, name), getattr(expected, name)
        if isinstance(wanted, float):
            assert given == pytest.approx(wanted, rel=1e-4, abs=1e-12), name
        else:
            assert given == wanted, name
    twice = backwards.reversed()
    assert twice.difference == pytest.approx(one.mean() - other.mean())
    assert twice.relative_low < twice.relative < twice.relative_high
    assert backwards.low < backwards.difference < backwards.high


def test_the_parts_of_a_spread_add_up() -> None:
    spread = Spread(1.0, 2.0, 3.0, 4.0)
    assert spread.total == 10
    assert spread.shares() == {"seen": 0.1, "unseen": 0.2, "position_bias": 0.3, "network": 0.4}
    assert set(NONE.shares().values()) == {0.0}


# The verdict


def test_the_better_ranker_is_named_with_what_to_expect() -> None:
    found = difference(0.1, 0.05)
    verdict = found.verdict(1_000.0)
    assert verdict == (
        f"new beats old with probability {found.prob_better:.2f}; expect {found.relative:+.1%} "
        f"clicks ({found.relative_low:+.1%} to {found.relative_high:+.1%})."
    )
    assert "expect +5.0% clicks (+0." in verdict


def test_the_worse_ranker_is_never_named_first() -> None:
    worse, better = difference(-0.1, 0.05), difference(-0.1, 0.05).reversed()
    assert worse.verdict(1_000.0) == better.verdict(1_000.0)
    assert worse.verdict(None).startswith("old beats new with probability 0.98; expect +5.")


def test_certainty_is_never_claimed() -> None:
    assert "with probability above 0.99;" in difference(1.0, 0.05).verdict(None)
    assert difference(1.0, 0.05).prob_better == 1
    assert "with probability 0.98;" in difference(0.1, 0.05).verdict(None)


def test_the_required_probability_can_be_chosen() -> None:
    found = difference(0.1, 0.1)  # 0.84
    assert found.verdict(1_000.0).startswith(
        "cannot tell new from old: new is better with probability 0.84;"
    )
    assert found.verdict(1_000.0, sure=0.8).startswith("new beats old with probability 0.84;")


def test_rankers_that_show_the_same_items_are_worth_the_same() -> None:
    same = values(0.1, 0.1)[1]
    found = Difference.of_samples(("new", "old"), same, same, 0.9, NONE)
    assert found.verdict(10.0) == "new and old are worth the same: they show the same items."


def test_a_model_without_uncertainty_gives_a_point_estimate() -> None:
    found = Difference.of_samples(("new", "old"), np.full(9, 1.1), np.ones(9), 0.9, NONE)
    assert found.verdict(10.0) == (
        "new is expected to get +10.0% clicks compared with old; this is a point estimate from a "
        "model without uncertainty."
    )


@pytest.mark.parametrize(
    ("pages", "needed"),
    [(None, "1.7 times the log's pages in addition"), (10_000.0, "17,000 more pages")],
)
def test_the_pages_needed_have_two_digits(pages: float | None, needed: str) -> None:
    found = replace(difference(0.1, 0.1), difference=0.1)
    expected = norm.ppf(0.95) ** 2 - 1
    assert expected == pytest.approx(1.7056, abs=1e-4)
    assert f"About {needed} would settle it." in found.verdict(pages)


def test_more_pages_do_not_help_with_items_never_shown() -> None:
    found = difference(0.1, 0.1, unseen=0.9)
    verdict = found.verdict(10_000.0)
    assert "More pages like those in the log would not settle it: 90% of the variance" in verdict
    assert "Show some of these items." in verdict
    assert "more pages would" not in verdict
    assert "90% of the variance comes from items without clicks" in found.verdict(None)
    assert "give the log" in found.verdict(None)


@pytest.mark.parametrize("unseen", [0.0, 0.02])
def test_a_tiny_difference_is_not_blamed_on_items_never_shown(unseen: float) -> None:
    found = replace(difference(0.0, 0.1, unseen=unseen), difference=1e-4)
    verdict = (found if found.prob_better >= 0.5 else found.reversed()).verdict(10_000.0)
    assert f"Even {FAR_MORE} times the log's pages would hardly settle it." in verdict
    assert "never show" not in verdict
    exactly = replace(found, difference=0.0)
    assert f"Even {FAR_MORE} times" in exactly.verdict(10_000.0)


def test_a_nearly_certain_lead_needs_at_least_a_few_more_pages() -> None:
    """Samples that are not normal may be uncertain where a normal difference would not be."""
    found = replace(difference(0.1, 0.06), prob_better=0.94)
    assert pages_needed(found.difference, found.spread, SURE) == 0
    verdict = found.verdict(50_000.0)
    assert "About 1 more pages" not in verdict
    assert "About 5,000 more pages would settle it." in verdict
    assert "About 0.1 times" in found.verdict(None)


# More pages


@pytest.mark.parametrize("unseen", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("sure", [0.9, 0.95, 0.99])
def test_the_pages_needed_reach_the_required_probability(unseen: float, sure: float) -> None:
    """In closed form: the variance from seen items falls with pages, that of unseen ones stays."""
    mean, sd = 0.15, 0.1
    spread = Spread(0.5 * (1 - unseen) * sd**2, unseen * sd**2, 0.3 * (1 - unseen) * sd**2, 0)
    spread = replace(spread, network=sd**2 - spread.total)
    more = pages_needed(mean, spread, sure)
    if (mean / norm.ppf(sure)) ** 2 < unseen * sd**2:
        assert more is None
        return
    assert more is not None

    def chance(pages: float) -> float:
        variance = spread.unseen + (spread.total - spread.unseen) / (1 + pages)
        return norm.cdf(mean / np.sqrt(variance))

    if more == 0:
        assert chance(0) >= sure
    else:
        assert chance(more) == pytest.approx(sure, abs=1e-9)
        assert chance(0.9 * more) < sure - 1e-4  # the control


def test_the_claim_holds_in_simulated_logs() -> None:
    """Rates of two rankers from n pages; the pages needed make the posterior certain enough."""
    rng = np.random.default_rng(4)
    true, sd, first = 0.02, 1.0, 1_500
    started = Spread(sd**2 / first, 0.0, 0.0, 0.0)
    more = pages_needed(true, started, SURE)
    assert more is not None
    assert 0.5 < more < 10
    pages = round(first * (1 + more))
    means = rng.normal(true, sd / np.sqrt(pages), 20_000)
    chances = norm.cdf(means / (sd / np.sqrt(pages)))
    assert np.median(chances) == pytest.approx(SURE, abs=0.005)
    assert norm.cdf(true / (sd / np.sqrt(first))) < 0.85


def test_no_pages_help_where_unseen_items_alone_leave_it_open() -> None:
    mean, sure = 0.1, 0.95
    bound = (mean / norm.ppf(sure)) ** 2
    assert pages_needed(mean, Spread(1.0, bound * 1.001, 0.0, 0.0), sure) is None
    assert pages_needed(mean, Spread(1.0, bound * 0.999, 0.0, 0.0), sure) > 1e4
    assert pages_needed(mean, Spread(1.0, 0.0, 0.0, 0.0), sure) == pytest.approx(1 / bound - 1)
    assert pages_needed(-mean, Spread(1.0, 0.0, 0.0, 0.0), sure) == pytest.approx(1 / bound - 1)
