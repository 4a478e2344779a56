from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from epiclick.data.features import FeatureTable
from epiclick.simulate import policy
from epiclick.simulate import world as module
from epiclick.simulate.world import World, random_streams, simulate
from epiclick.simulate.world_items import label_relevance, mean_over_users

from ..raising import raises_code

pytestmark = pytest.mark.slow


def rows_shown(world):
    """(displays,) row of the item on each line of the log."""
    docs = world.settings.docs
    return world.log["query_id"].to_numpy() * docs + world.log["doc_id"].to_numpy()


def click_z(world, theta, relevance=None):
    """(positions,) clicks minus their expectation under theta, in standard errors."""
    position = world.log["position"].to_numpy() - 1
    zeta = (world.relevance if relevance is None else relevance)[rows_shown(world)]
    p = np.asarray(theta)[position] * zeta
    clicks = world.log["click"].to_numpy()
    surplus = np.bincount(position, clicks - p)
    return surplus / np.sqrt(np.bincount(position, p * (1 - p)))


def item_z(world, relevance):
    """Chi-square of clicks per item, as standard deviations above its degrees of freedom."""
    rows = rows_shown(world)
    p = world.position_bias[world.log["position"].to_numpy() - 1] * relevance[rows]
    surplus = np.bincount(rows, world.log["click"].to_numpy() - p)
    variance = np.bincount(rows, p * (1 - p))
    seen = variance > 2  # enough displays for the normal approximation
    return ((surplus[seen] ** 2 / variance[seen]).sum() - seen.sum()) / np.sqrt(2 * seen.sum())


def test_log_has_the_columns_of_the_design(small_world):
    assert small_world.log.schema == pa.schema(
        {
            "page_id": pa.int64(),
            "query_id": pa.int64(),
            "doc_id": pa.int64(),
            "position": pa.int32(),
            "click": pa.int8(),
        }
    )


def test_pages_are_whole_and_in_order(small_world, small_settings):
    pages, positions = small_settings["pages"], small_settings["positions"]
    log = small_world.log
    assert log["page_id"].to_pylist() == [p for p in range(pages) for _ in range(positions)]
    assert log["position"].to_pylist() == list(range(1, positions + 1)) * pages
    query = log["query_id"].to_numpy().reshape(pages, positions)
    assert (query == query[:, :1]).all()
    doc = np.sort(log["doc_id"].to_numpy().reshape(pages, positions), axis=1)
    assert (np.diff(doc, axis=1) > 0).all(), "no document twice on a page"
    assert set(np.unique(log["click"])) == {0, 1}
    assert (small_world.pages, small_world.clicks) == (pages, np.sum(log["click"]))


def test_queries_are_uniform_over_all_splits(small_world, small_settings):
    pages, queries = small_settings["pages"], small_settings["queries"]
    shown = np.bincount(small_world.log["query_id"].to_numpy()[::5], minlength=queries)
    # Chi-square with queries - 1 degrees of freedom: mean df, standard deviation sqrt(2 df).
    chi2 = ((shown - pages / queries) ** 2 / (pages / queries)).sum()
    assert abs(chi2 - (queries - 1)) < 4.5 * np.sqrt(2 * (queries - 1))


def test_relevance_is_the_papers_function_of_the_label(small_world):
    label = small_world.features.keys["label"].to_numpy()
    np.testing.assert_array_equal(small_world.relevance, label_relevance(label))
    np.testing.assert_array_equal(small_world.position_bias, 1 / np.arange(1, 6))
    np.testing.assert_array_equal(small_world.click_if_first, small_world.relevance)
    assert small_world.prior is None


def test_click_rates_are_position_bias_times_relevance(small_world):
    assert np.abs(click_z(small_world, small_world.position_bias)).max() < 4.5
    wrong = small_world.position_bias ** np.array([1, 0.8, 0.8, 0.8, 0.8])
    assert np.abs(click_z(small_world, wrong))[1:].min() > 4.5


def test_seed_and_pages_move_only_what_they_should(small_world, small_settings):
    again = simulate(**small_settings)
    assert again.log.equals(small_world.log)
    more = simulate(**{**small_settings, "pages": 500, "users": "trust"})
    np.testing.assert_array_equal(more.features.matrix, small_world.features.matrix)
    np.testing.assert_array_equal(more.relevance, small_world.relevance)
    assert more.features.keys.equals(small_world.features.keys)
    other = simulate(**{**small_settings, "pages": 500, "seed": 2})
    assert not np.array_equal(other.features.matrix, more.features.matrix)
    assert not np.array_equal(other.relevance, more.relevance)
    assert not other.log["query_id"].equals(more.log["query_id"])


def test_every_stage_has_its_own_randomness():
    draws = [rng.random() for seed in (0, 1) for rng in random_streams(seed).values()]
    assert len(set(draws)) == len(draws) == 16
    assert draws[:8] == [rng.random() for rng in random_streams(0).values()]


def test_own_theta(small_settings):
    theta = [0.8, 0.9, 0.3, 0.3, 0.05]
    world = simulate(**{**small_settings, "theta": theta})
    assert np.abs(click_z(world, theta)).max() < 4.5
    np.testing.assert_array_equal(world.click_if_first, 0.8 * world.relevance)


def test_beta_relevance_is_drawn_from_the_prior(small_settings):
    world = simulate(**small_settings, relevance="beta")
    alpha, beta = world.prior.alpha, world.prior.beta
    sd = np.sqrt(alpha * beta / (alpha + beta + 1)) / (alpha + beta)
    z = (world.relevance - world.prior.mean) / sd
    assert abs(z.mean()) < 4.5 / np.sqrt(len(z))
    assert z.std() == pytest.approx(1, abs=0.15)
    assert np.abs(click_z(world, world.position_bias)).max() < 4.5
    # Clicks of each item follow the relevance that was drawn, not its mean.
    assert abs(item_z(world, world.relevance)) < 4.5
    assert item_z(world, world.prior.mean) > 20


def test_rankings_of_a_beta_world_depend_on_features_only(small_settings, monkeypatch):
    """Redrawing relevance changes the clicks but not what is shown."""
    world = simulate(**small_settings, relevance="beta")
    draw = module.draw_relevance

    def drawn_anew(settings, table, rng):
        _, prior = draw(settings, table, rng)
        return rng.beta(prior.alpha, prior.beta), prior

    monkeypatch.setattr(module, "draw_relevance", drawn_anew)
    other = simulate(**small_settings, relevance="beta")
    assert not np.array_equal(other.relevance, world.relevance)
    assert other.log.drop_columns("click").equals(world.log.drop_columns("click"))
    assert not other.log["click"].equals(world.log["click"])


@pytest.mark.parametrize("users", ["impatient", "trust", "personal"])
def test_worlds_that_break_the_model_break_it(small_settings, users):
    world = simulate(**small_settings, users=users)
    assert np.abs(click_z(world, world.position_bias)).max() > 4.5
    expected = world.relevance if users != "trust" else world.relevance * 0.7 + 0.3
    np.testing.assert_allclose(world.click_if_first, expected, rtol=1e-12)


def test_personal_taste_misleads_only_because_the_policy_sees_it(small_settings):
    seen = simulate(**small_settings, users="personal")
    blind = simulate(**small_settings, users="personal", policy_strength=0.0)
    assert click_z(seen, seen.position_bias)[0] > 4.5, "users like what they are shown first"
    assert np.abs(click_z(blind, blind.position_bias)).max() < 4.5
    zeta = label_relevance(seen.features.keys["label"].to_numpy())
    np.testing.assert_array_equal(seen.relevance, mean_over_users(zeta, 1.0))
    assert np.abs(click_z(blind, blind.position_bias, zeta)).max() > 4.5


def test_strength_zero_ranks_at_random(small_settings, small_world):
    def first_docs(world):
        first = rows_shown(world)[:: world.settings.positions]
        shown = np.bincount(first, minlength=len(world.features)).reshape(-1, 8)
        expected = shown.sum(axis=1, keepdims=True) / 8
        degrees = shown.size - len(shown)
        return (((shown - expected) ** 2 / expected).sum() - degrees) / np.sqrt(2 * degrees)

    assert abs(first_docs(simulate(**small_settings, policy_strength=0.0))) < 4.5
    assert first_docs(small_world) > 100


def ragged_dataset(sizes, labels=(0, 1, 2, 3, 4), split="train"):
    rng = np.random.default_rng(0)
    ids = np.repeat([f"q{i}" for i in range(len(sizes))], sizes)
    doc_ids = np.concatenate([np.arange(size) for size in sizes])
    keys = {"query_id": ids, "doc_id": doc_ids, "split": [split] * len(ids)}
    keys = pa.table({**keys, "label": rng.choice(labels, size=len(ids)).astype(np.int8)})
    matrix = rng.normal(size=(len(ids), 6)).astype(np.float32)
    return FeatureTable(keys, tuple(f"f{j}" for j in range(6)), matrix)


def test_short_queries_give_short_pages():
    sizes = [1, 3, 8, 5, 2]
    world = simulate(dataset=ragged_dataset(sizes), pages=300, positions=5)
    assert world.settings.dataset == "FeatureTable"
    log = world.log.to_pandas()
    for (_, query), page in log.groupby(["page_id", "query_id"]):
        depth = min(5, sizes[int(query[1:])])
        assert page["position"].tolist() == list(range(1, depth + 1))
        assert page["doc_id"].nunique() == depth
    assert log["query_id"].nunique() == 5


def test_more_positions_than_documents_show_all(small_settings):
    world = simulate(**{**small_settings, "positions": 11, "pages": 50})
    assert world.log.num_rows == 50 * 8
    assert len(world.position_bias) == 11


@pytest.mark.parametrize(
    ("table", "codes"),
    [
        (ragged_dataset([3, 2], labels=[7]), ["label-out-of-range"]),
        (ragged_dataset([3], split="test"), ["no-training-rows"]),
        (
            FeatureTable(
                pa.table({"query_id": [1], "doc_id": [1]}), ("a",), np.ones((1, 1), np.float32)
            ),
            ["missing-column", "missing-column"],
        ),
    ],
)
def test_refuses_datasets_it_cannot_use(table, codes):
    with raises_code(codes[0]) as caught:
        simulate(dataset=table, pages=10)
    assert [problem.code for problem in caught.value.problems] == codes
    if codes[0] == "missing-column":
        named = [problem.examples for problem in caught.value.problems]
        assert named == [("split",), ("label",)]


def test_refuses_features_that_are_not_numbers():
    table = ragged_dataset([1, 3, 8, 5, 2])
    matrix = table.matrix.copy()
    matrix[7, 2] = np.nan
    with raises_code("feature-not-finite"):
        simulate(dataset=FeatureTable(table.keys, table.names, matrix), pages=10)


def test_finds_a_bad_feature_the_scaler_did_not_look_at(monkeypatch):
    monkeypatch.setattr(policy, "SCALER_ROWS", 6)  # every third of 19 rows
    table = ragged_dataset([1, 3, 8, 5, 2], split="test")
    split = np.where(table.keys["query_id"].to_numpy() == "q2", "train", "test")
    keys = table.keys.set_column(2, "split", pa.array(split))
    matrix = table.matrix.copy()
    matrix[1, 2] = np.nan
    with raises_code("feature-not-finite") as caught:
        simulate(dataset=FeatureTable(keys, table.names, matrix), pages=10)
    (problem,) = caught.value.problems
    assert (problem.count, problem.examples) == (1, ["row 1"])


def test_beta_relevance_needs_no_labels():
    table = ragged_dataset([1, 3, 8, 5, 2])
    bare = FeatureTable(table.keys.drop_columns("label"), table.names, table.matrix)
    world = simulate(dataset=bare, relevance="beta", pages=50)
    assert ((world.relevance > 0) & (world.relevance < 1)).all()


def test_dataset_from_letor_text(tmp_path, monkeypatch):
    monkeypatch.setenv("EPICLICK_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    labels = {}
    for split, queries in {"train": (1, 2, 3), "vali": (4,), "test": (5,)}.items():
        lines = []
        for query in queries:
            labels[query] = rng.integers(5, size=8)
            for label in labels[query]:
                values = " ".join(f"{j}:{rng.normal():.3f}" for j in range(1, 7))
                lines.append(f"{label} qid:{query} {values}\n")
        (tmp_path / f"{split}.txt").write_text("".join(lines))
    world = simulate(dataset=tmp_path, pages=200)
    assert world.settings.dataset == str(tmp_path)
    assert set(world.log["query_id"].to_pylist()) == {1, 2, 3, 4, 5}
    np.testing.assert_array_equal(
        world.relevance, label_relevance(np.concatenate(list(labels.values())))
    )


def test_refuses_wrong_arguments_before_it_computes():
    with raises_code("not-whole-number") as caught:
        simulate(pages=0, users="robots")
    assert [problem.code for problem in caught.value.problems][1:] == ["unknown-choice"]


def test_purchases_follow_clicks_with_the_probability_of_the_item(tmp_path: Path) -> None:
    world = simulate(queries=40, docs=5, features=3, pages=4000, seed=2, conversions=True)
    plain = simulate(queries=40, docs=5, features=3, pages=4000, seed=2)
    assert world.log.select(plain.log.column_names).equals(plain.log)
    assert plain.purchases is None
    log = world.log.to_pandas()
    row = world.features.locate(*(world.log[n].combine_chunks() for n in ("query_id", "doc_id")))
    chance = world.purchases.conversion[row][log["click"] == 1]
    bought = log.loc[log["click"] == 1, "purchase"]
    assert abs((bought - chance).sum()) < 4 * np.sqrt((chance * (1 - chance)).sum())
    assert log.loc[log["click"] == 0, "purchase"].sum() == 0
    paid = (log["revenue"] / world.purchases.value[row])[log["purchase"] == 1]
    assert abs(paid.mean() - 1) < 4 * 0.5 / np.sqrt(len(paid))  # a Gamma of shape 4
    world.save(tmp_path / "world")
    again = World.load(tmp_path / "world")
    np.testing.assert_array_equal(again.purchases.conversion, world.purchases.conversion)
    np.testing.assert_array_equal(again.purchases.value, world.purchases.value)
    assert again.settings.conversions
    assert again.conversions == world.conversions == log["purchase"].sum()
