"""Public models with members: fit, save, load, and errors for bad input."""

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

import epiclick as ec
from epiclick.batching.batches import Shapes
from epiclick.fitted.parameters import Parameters
from epiclick.fitting import fit_model
from epiclick.plans import pointwise_plan

from .raising import raises_code

pytestmark = pytest.mark.slow

# the pointwise model compiles in a second; networks of all kinds are trained by the same code
OPTIONS = {"epochs": 3, "hidden": (8,), "patience": None, "holdout": 0.2}


@pytest.fixture(scope="module")
def counts() -> ec.ClickCounts:
    return ec.simulate(queries=40, docs=6, features=4, pages=300, positions=3, seed=3).counts()


@pytest.fixture(scope="module")
def model(counts: ec.ClickCounts) -> ec.PointwisePBM:
    return ec.PointwisePBM(members=4, **OPTIONS).fit(counts)


def flat(parameters: Parameters) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(parameters)])


def test_the_model_itself_is_as_without_members(
    model: ec.PointwisePBM, counts: ec.ClickCounts
) -> None:
    alone = ec.PointwisePBM(**OPTIONS).fit(counts)
    assert alone.fitted_.members == ()
    assert len(model.fitted_.members) == 4
    np.testing.assert_allclose(
        flat(model.fitted_.parameters), flat(alone.fitted_.parameters), rtol=1e-4, atol=1e-5
    )
    columns = ["log_likelihood", "validation"]
    np.testing.assert_allclose(model.history_[columns], alone.history_[columns], rtol=1e-6)
    assert not [name for name in alone.history_ if name.startswith("members")]


def test_members_differ_and_a_seed_repeats_them(
    model: ec.PointwisePBM, counts: ec.ClickCounts
) -> None:
    each = np.stack([flat(member) for member in model.fitted_.members])
    assert np.all(each.std(axis=0)[: each.shape[1] - 3] > 0)  # but for position, whose anchor stays
    again = ec.PointwisePBM(members=4, **OPTIONS).fit(counts)
    np.testing.assert_array_equal(each, [flat(member) for member in again.fitted_.members])
    other = ec.PointwisePBM(members=4, seed=1, **OPTIONS).fit(counts)
    assert np.all([flat(member)[0] for member in other.fitted_.members] != each[:, 0])


def test_members_survive_saving(model: ec.PointwisePBM, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = ec.load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    for one, other in zip(loaded.fitted_.members, model.fitted_.members, strict=True):
        for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True):
            assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes())
    assert loaded.history_.equals(model.history_)


def test_members_go_on_from_those_of_another_model(
    model: ec.PointwisePBM, counts: ec.ClickCounts
) -> None:
    still = {**OPTIONS, "epochs": 1, "learning_rate": 1e-12}
    on = ec.PointwisePBM(members=4, **still).fit(counts, init=model)
    for one, other in zip(on.fitted_.members, model.fitted_.members, strict=True):
        np.testing.assert_allclose(flat(one), flat(other), atol=1e-8)
    # another number of members starts at random; the model starts where the other ended
    fewer = ec.PointwisePBM(members=2, **still).fit(counts, init=model)
    np.testing.assert_allclose(
        flat(fewer.fitted_.parameters), flat(model.fitted_.parameters), atol=1e-8
    )
    assert abs(flat(fewer.fitted_.members[0]) - flat(model.fitted_.members[0])).max() > 0.1


def test_a_plain_ensemble_sees_every_query(counts: ec.ClickCounts) -> None:
    plain = ec.PointwisePBM(members=2, bootstrap=False, **OPTIONS).fit(counts)
    one, other = map(flat, plain.fitted_.members)
    assert abs(one - other).max() > 0.1
    bare = replace(counts, features=None, feature_row=None)
    with raises_code("identical-members"):
        ec.EpistemicPBM(members=2, bootstrap=False).fit(bare)


def test_too_few_members_are_refused(counts: ec.ClickCounts) -> None:
    with raises_code("invalid-parameter") as caught:
        ec.PointwisePBM(members=0).fit(counts)
    assert "members must be at least 1, not 0" in str(caught.value)


def test_a_fit_in_given_shapes_is_the_same(model: ec.PointwisePBM, counts: ec.ClickCounts) -> None:
    plan = pointwise_plan(model, counts)
    train, valid = counts.split(0.8, 0.2, by="query", seed=0)
    shapes = Shapes.common([train], 8), Shapes.common([valid], 3)
    wide = tuple(Shapes(each.batches, tuple(n + 4 for n in each.capacity)) for each in shapes)
    fitted = fit_model(replace(plan, shapes=wide), counts, progress=False)
    for one, other in zip(fitted.members, model.fitted_.members, strict=True):
        np.testing.assert_allclose(flat(one), flat(other), rtol=1e-4, atol=1e-5)
    small = tuple(Shapes(each.batches, (0,) * 9) for each in shapes)
    with raises_code("shapes-too-small"):
        fit_model(replace(plan, shapes=small), counts, progress=False)
