"""Estimators by name, with the options that each of them has."""

import subprocess
import sys
from inspect import signature
from typing import get_args

import pytest

from epiclick.errors import InputError
from epiclick.estimators.conditioned import Conditioned
from epiclick.estimators.exact import Exact
from epiclick.estimators.marginal import Marginal
from epiclick.estimators.names import ESTIMATORS, EstimatorName, make_estimator


def test_all_names_can_be_made() -> None:
    assert list(ESTIMATORS) == ["naive", "self_normalized", "conditioned", "exact", "marginal"]
    assert list(ESTIMATORS) == list(get_args(EstimatorName))
    for name, listed in ESTIMATORS.items():
        made = make_estimator(name, samples=7)
        assert type(made).__name__ == listed.class_name
        assert made.is_point == listed.is_point
        options = {"samples", "baseline", "literal"} & set(signature(type(made)).parameters)
        assert options == set(listed.options)


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
    with pytest.raises(InputError, match=r"'condition' \(did you mean 'conditioned'\?\)"):
        make_estimator("condition")


@pytest.mark.parametrize(
    ("name", "option"), [("marginal", "baseline"), ("marginal", "literal"), ("exact", "literal")]
)
def test_options_that_do_not_apply_are_refused(name: str, option: str) -> None:
    with pytest.raises(InputError, match=f"{option} does not apply to estimator '{name}'"):
        make_estimator(name, **{option: True})


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "marginal"])
def test_too_few_samples_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="samples must be at least 1; got 0"):
        make_estimator(name, samples=0)
    with pytest.raises(InputError, match="samples must be at least 2 with a baseline"):
        make_estimator(name, samples=1, baseline=True)
    assert make_estimator(name, samples=1).samples == 1
