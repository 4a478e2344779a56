"""Estimators by name, with the options that each of them has."""

import subprocess
import sys
from inspect import signature
from typing import get_args

import pytest

from epiclick import EpistemicPBM, read_log, simulate
from epiclick.estimators.conditioned import Conditioned
from epiclick.estimators.exact import Exact
from epiclick.estimators.marginal import Marginal
from epiclick.estimators.names import ESTIMATORS, Entry, EstimatorName, make_estimator

from ..raising import raises_code


def test_all_names_can_be_made() -> None:
    assert list(ESTIMATORS) == ["naive", "self_normalized", "conditioned", "exact", "marginal"]
    assert list(ESTIMATORS) == list(get_args(EstimatorName))
    for name, entry in ESTIMATORS.items():
        made = make_estimator(name, samples=7)
        assert type(made).__name__.lower() == name.replace("_", "")
        assert made.is_point == entry.is_point
        options = {"samples", "baseline", "literal"} & set(signature(type(made)).parameters)
        assert options == set(entry.options)


def test_names_are_known_without_jax() -> None:
    code = (
        "import sys; from epiclick.estimators.names import ESTIMATORS; import epiclick.cli.fit\n"
        "print(len(ESTIMATORS), 'jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["5", "False"]


def test_options_reach_the_estimator() -> None:
    assert make_estimator("conditioned", 9, True, True) == Conditioned(9, True, True)
    assert make_estimator("exact", 9, True) == Exact(9, True)
    assert make_estimator("marginal", 9) == Marginal()


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with raises_code("unknown-estimator") as caught:
        make_estimator("condition")
    assert "'condition' (did you mean 'conditioned'?)" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "option"), [("marginal", "baseline"), ("marginal", "literal"), ("exact", "literal")]
)
def test_options_that_do_not_apply_are_refused(name: str, option: str) -> None:
    with raises_code("option-does-not-apply") as caught:
        make_estimator(name, **{option: True})
    assert option in str(caught.value)
    assert f"'{name}'" in str(caught.value)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "marginal"])
def test_too_few_samples_are_refused(name: str) -> None:
    with raises_code("samples-out-of-range") as caught:
        make_estimator(name, samples=0)
    assert "at least 1; got 0" in str(caught.value)
    with raises_code("samples-out-of-range") as caught:
        make_estimator(name, samples=1, baseline=True)
    assert "at least 2 with a baseline" in str(caught.value)
    assert make_estimator(name, samples=1).samples == 1


class Louder(Exact):
    """An estimator from outside the library."""


def test_an_estimator_of_ones_own_is_fitted_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ESTIMATORS, "louder", Entry(Louder, False, ("samples", "baseline")))
    assert make_estimator("louder", 9, True) == Louder(9, True)
    world = simulate(queries=20, docs=4, features=2, pages=300, positions=3, seed=1)
    counts = read_log(world.log, features=world.features)
    theirs, same = (
        EpistemicPBM(estimator=name, samples=8, epochs=2).fit(counts, progress=False)
        for name in ("exact", "louder")
    )
    assert same.position_bias().equals(theirs.position_bias())
