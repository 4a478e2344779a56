"""Gates: whether scripts may choose the ranker that is named first."""

from dataclasses import replace

import numpy as np
import pytest

from epiclick.comparison.verdict import Check

from ..raising import raises_code
from .test_result import comparison, of_samples


def first_is(*means: float, **others):
    """A comparison in which `old`, named first, has the first of these means."""
    return comparison(means, **others)


def test_the_lower_bound_must_be_above_zero() -> None:
    clear = first_is(3.0, 1.0, 2.0)
    assert clear.gate() == ()
    behind = first_is(1.0, 3.0, 2.0)
    (reason,) = behind.gate()
    assert reason.check == ""
    assert str(reason) == (
        "the 90% interval of the difference of old from new and odd is not above 0"
    )


def test_it_uses_the_interval_of_the_level() -> None:
    """98 of 100 samples are above: the 90 % interval is, and the 99 % interval is not."""
    gain = np.r_[np.full(98, 1.0), np.full(2, -1.0)]
    found = of_samples((1 + gain).tolist(), np.ones(100).tolist())
    assert found.difference("old", "new").low > 0
    assert found.gate() == ()
    assert len(replace(found, level=0.99).gate()) == 1
    # by a probability instead
    assert found.gate(0.97) == ()
    (reason,) = found.gate(0.99)
    assert str(reason) == "old does not beat new with probability 0.99 or more"


def test_a_tie_does_not_pass() -> None:
    same = np.linspace(1, 2, 100).tolist()
    assert len(of_samples(same, same).gate()) == 1


def test_failed_checks_close_it_and_warnings_do_not() -> None:
    checks = (
        Check("fit", "failed", "clicks are overdispersed", "", ""),
        Check("estimators", "warning", "clicks contradict the model", "", ""),
    )
    found = first_is(3.0, 1.0, 2.0, model_checks=checks)
    (reason,) = found.gate()
    assert (reason.words, reason.check) == ("clicks are overdispersed", "fit")
    assert found.gate(despite=["fit"]) == ()
    little = replace(found, seen=np.array([0.9, 0.9, 0.1]), model_checks=())
    assert [each.check for each in little.gate()] == ["unseen"]  # of any ranker


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"sure": 1.5}, "level-out-of-range"),
        ({"despite": ["fitt"]}, "unknown-choice"),
        ({"despite": "fit"}, "invalid-type"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict, code: str) -> None:
    with raises_code(code):
        first_is(3.0, 1.0, 2.0).gate(**arguments)


def test_what_cannot_be_decided_is_refused() -> None:
    with raises_code("too-few-rankers"):
        of_samples([1.0, 2.0]).gate()
    with raises_code("no-uncertainty"):
        of_samples([1.0] * 50, [2.0] * 50).gate()
