"""What a comparison reports, from hand-made samples."""

import json
from dataclasses import replace

import numpy as np
import pytest

from epiclick.comparison.result import Comparison
from epiclick.comparison.value_samples import ValueSamples

DRAWS, SAMPLES = 50, 20_000
NAMES = ("old", "new", "odd")
MEASURES = ("clicks", "first", "gain")


def comparison(
    means=(1.0, 1.1, 1.05),
    *,
    seen=0.02,
    unseen=(0.0, 0.01, 0.04),
    bias=0.05,
    network=0.03,
    shared=0.2,
    seed=1,
    **others,
) -> Comparison:
    """Values that are sums of independent parts, of known standard deviations.

    `shared` is what parameters add to all rankers equally; `bias` and `network` differ by ranker.
    """
    rng = np.random.default_rng(seed)
    rankers = len(means)
    shape = (len(MEASURES), rankers, DRAWS)

    def unrelated(count: int) -> np.ndarray:
        """(count, draws) of mean 0 and variance 1, each unrelated to all others."""
        drawn = rng.standard_normal((DRAWS, count))
        drawn, _ = np.linalg.qr(drawn - drawn.mean(axis=0))
        return drawn.T * np.sqrt(DRAWS)

    own = unrelated(2 * rankers + 1)
    by_bias = np.reshape(means, (rankers, 1)) + bias * own[:rankers]
    expected = by_bias + network * own[rankers:-1] + shared * own[-1]
    widths = np.broadcast_to(seen, rankers), np.broadcast_to(unseen, rankers)
    within = sum(
        width[:, None] * rng.standard_normal((len(MEASURES), rankers, SAMPLES)) for width in widths
    )
    draw = np.arange(SAMPLES) % DRAWS
    values = ValueSamples(
        samples=np.broadcast_to(expected, shape)[:, :, draw] + within,
        expected=np.broadcast_to(expected, shape),
        by_bias=np.broadcast_to(by_bias, shape),
        seen=np.tile(np.diag(widths[0] ** 2), (len(MEASURES), 1, 1)),
        unseen=np.tile(np.diag(widths[1] ** 2), (len(MEASURES), 1, 1)),
        never_shown=np.zeros(shape),
    )
    settings = {
        "names": NAMES[:rankers],
        "measures": MEASURES,
        "values": values,
        "level": 0.9,
        "queries": 12,
        "seen": np.full(rankers, 0.8),
        "unknown": np.zeros(rankers),
        "pages": 1_000.0,
        "backtest": None,
        "notes": ("a note",),
    }
    return Comparison(**(settings | others))


def of_samples(*samples: list[float], **others) -> Comparison:
    """A comparison of a few samples."""
    drawn = np.tile(np.array(samples, float), (len(MEASURES), 1, 1))
    given = comparison(tuple(np.zeros(len(samples))), seen=0.0, unseen=0.0, bias=0, network=0)
    return replace(given, values=replace(given.values, samples=drawn), **others)


def test_every_ranker_has_its_mean_and_interval() -> None:
    found = comparison()
    table = found.rankers.set_index("name")
    assert table.index.tolist() == list(NAMES)
    for number, measure in enumerate(MEASURES):
        value, prefix = ("value", "") if number == 0 else (measure, f"{measure}_")
        for name in NAMES:
            drawn = np.sort(found.samples(measure)[name])
            row = table.loc[name]
            assert row[value] == pytest.approx(drawn.mean())
            inside = (drawn > row[f"{prefix}low"]) & (drawn < row[f"{prefix}high"])
            assert inside.mean() == pytest.approx(0.9, abs=2 / SAMPLES)
            below = (drawn <= row[f"{prefix}low"]).mean()
            assert below == pytest.approx(0.05, abs=2 / SAMPLES)


def test_another_level_has_other_intervals() -> None:
    narrow, wide = (comparison(level=level).rankers for level in (0.5, 0.99))
    assert np.all(wide["low"] < narrow["low"])
    assert np.all(wide["high"] > narrow["high"])
    np.testing.assert_array_equal(wide["value"], narrow["value"])


def test_prob_best_and_expected_loss_by_a_loop() -> None:
    found = comparison()
    drawn = found.samples().to_numpy()
    best, loss = np.zeros(3), np.zeros(3)
    for row in drawn:
        best[row.argmax()] += 1 / len(drawn)
        loss += (row.max() - row) / len(drawn)
    table = found.rankers
    np.testing.assert_allclose(table["prob_best"], best, rtol=1e-9)
    np.testing.assert_allclose(table["expected_loss"], loss, rtol=1e-9)
    assert table["prob_best"].sum() == pytest.approx(1)
    assert np.all(table["expected_loss"] > 0)
    assert table["prob_best"].between(0.02, 0.9).all()


def test_rankers_that_tie_share_being_best() -> None:
    table = of_samples([1, 2, 3, 4], [1, 2, 3, 4], [0, 2, 5, 0]).rankers
    expected = np.array([1 / 2 + 1 / 3 + 0 + 1 / 2] * 2 + [0 + 1 / 3 + 1 + 0]) / 4
    np.testing.assert_allclose(table["prob_best"], expected)
    assert table["prob_best"].sum() == pytest.approx(1)


def test_a_certain_winner_costs_nothing() -> None:
    table = of_samples([1, 2, 3], [2, 3, 4], [0, 0, 0]).rankers
    assert table["expected_loss"].tolist() == [1, 0, 3]
    assert table["prob_best"].tolist() == [0, 1, 0]


def test_a_spread_is_decomposed_into_its_parts() -> None:
    found = comparison()
    for number, name in enumerate(NAMES):
        spread = found.spread(name)
        assert spread.seen == pytest.approx(0.02**2)
        assert spread.unseen == pytest.approx((0.0, 0.01, 0.04)[number] ** 2)
        assert spread.position_bias == pytest.approx(0.05**2)
        assert spread.network == pytest.approx(0.03**2 + 0.2**2)
        drawn = found.samples()[name].var()
        assert spread.total == pytest.approx(drawn, rel=4 * np.sqrt(2 / SAMPLES))
        shares = found.rankers.set_index("name").loc[name]
        parts = ["seen_share", "unseen_share", "position_bias_share", "network_share"]
        assert shares[parts].sum() == pytest.approx(1)
        assert shares["unseen_share"] == pytest.approx(spread.unseen / spread.total)


def test_what_rankers_share_cancels_in_the_spread_of_a_difference() -> None:
    found = comparison()
    spread = found.spread("odd", "new")
    drawn = found.samples()
    away = (drawn["odd"] - drawn["new"]).var()
    assert spread.total == pytest.approx(away, rel=4 * np.sqrt(2 / SAMPLES))
    assert spread.seen == pytest.approx(2 * 0.02**2)
    assert spread.unseen == pytest.approx(0.01**2 + 0.04**2)
    assert spread.position_bias == pytest.approx(2 * 0.05**2)
    assert spread.network == pytest.approx(2 * 0.03**2)
    assert spread.total < 0.3 * found.spread("odd").total
    back = found.spread("new", "odd")
    assert vars(back) == pytest.approx(vars(spread))


def test_bias_or_network_has_all_variance_where_only_one_is_uncertain() -> None:
    bias, network = comparison(network=0.0, shared=0.0), comparison(bias=0.0, shared=0.0)
    assert bias.spread("new").position_bias == pytest.approx(0.05**2)
    assert bias.spread("new").network == pytest.approx(0, abs=1e-12)
    assert network.spread("new").position_bias == 0
    assert network.spread("new").network == pytest.approx(0.03**2)


def test_differences_are_of_every_pair_of_rankers() -> None:
    found = comparison()
    table = found.differences
    pairs = list(zip(table["name"], table["against"], strict=True))
    assert pairs == [("old", "new"), ("old", "odd"), ("new", "odd")]
    drawn = found.samples()
    for row in table.to_dict("records"):
        away = drawn[row["name"]] - drawn[row["against"]]
        assert row["difference"] == pytest.approx(away.mean())
        assert (row["low"], row["high"]) == pytest.approx(tuple(np.quantile(away, [0.05, 0.95])))
        assert row["prob_better"] == pytest.approx((away > 0).mean())
    assert len(comparison((1.0,), unseen=0.0).differences) == 0


# The verdict


def test_the_verdict_is_between_the_two_best() -> None:
    found = comparison((1.0, 3.0, 2.0))
    assert found.best == "new"
    assert found.verdict.startswith("new beats odd with probability above 0.99; expect +50.0%")
    assert "new is the best of all 3 with probability above 0.99." in found.verdict
    assert found.verdict.endswith("Not backtested.")
    close = comparison((1.0, 1.1, 1.05))
    assert close.verdict.startswith("cannot tell new from odd: new is better with probability 0.")
    assert close.verdict_at(0.6).startswith("new beats odd with probability 0.")
    chance = close.rankers.set_index("name").loc["new", "prob_best"]
    assert f"new is the best of all 3 with probability {chance:.2f}." in close.verdict


def test_the_verdict_on_two_rankers_names_no_best_of_all() -> None:
    assert "best of all" not in comparison((1.0, 3.0), unseen=0.0).verdict


def test_one_ranker_has_a_value_but_no_rival() -> None:
    found = comparison((1.25,), unseen=0.0)
    row = found.rankers.iloc[0]
    expected = (
        f"old is worth {row['value']:.3f} clicks per page ({row['low']:.3f} to {row['high']:.3f})."
    )
    assert found.verdict.startswith(expected)
    assert row["prob_best"] == 1
    assert row["expected_loss"] == 0


def test_rankers_of_mostly_unseen_items_are_named() -> None:
    found = comparison(seen=0.02, backtest="predicted 1.92, observed 1.89")
    assert "never showed" not in found.verdict
    unseen = replace(found, seen=np.array([0.9, 0.25, 0.6]))
    assert "75% of the slots of new contain items that the log never showed" in unseen.verdict
    assert unseen.verdict.count("never showed") == 1
    assert "Backtest: predicted 1.92, observed 1.89" in found.verdict
    assert "Not backtested" not in found.verdict


def test_without_a_log_the_verdict_mentions_none() -> None:
    found = replace(comparison(), seen=np.zeros(3), pages=None)
    assert "the log never showed" not in found.verdict


def test_same_rankers_are_worth_the_same() -> None:
    given = comparison((1.0, 1.0), unseen=0.0)
    same = {
        name: np.repeat(getattr(given.values, name)[:, :1], 2, axis=1)
        for name in ("samples", "expected", "by_bias", "never_shown")
    }
    both = {name: np.full((3, 2, 2), 4e-4) for name in ("seen", "unseen")}
    found = replace(given, values=ValueSamples(**same, **both))
    assert "old and new are worth the same: they show the same items." in found.verdict
    assert found.rankers["prob_best"].tolist() == [0.5, 0.5]
    assert found.spread("old", "new").total == 0


def test_the_record_survives_json() -> None:
    found = comparison()
    record = found.to_dict()
    assert json.loads(json.dumps(record)) == record
    assert record["queries"] == 12
    assert record["notes"] == ["a note"]
    assert [row["name"] for row in record["rankers"]] == list(NAMES)
    assert record["differences"][0]["against"] == "new"
    assert record["verdict"] == found.verdict
