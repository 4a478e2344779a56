"""Work on all cores: every piece once, in order, few at a time."""

import threading

import numpy as np
import pytest

from epiclick.posterior.density import on_all_cores


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_results_come_in_the_order_of_the_pieces(cores: int) -> None:
    assert list(on_all_cores(lambda i: i * i, range(20), cores)) == [i * i for i in range(20)]
    assert list(on_all_cores(lambda i: i, [], cores)) == []


@pytest.mark.parametrize("cores", [1, 3])
def test_numbers_that_are_not_finite_are_no_warning(cores: int) -> None:
    """A warning would be an error here; after the pieces it is one again."""
    found = list(on_all_cores(lambda i: np.log(np.array(i)), [0.0, 1.0], cores))
    assert found == [-np.inf, 0]
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        np.log(np.array(0.0))


def test_pieces_run_at_the_same_time() -> None:
    meeting = threading.Barrier(3, timeout=60)
    assert len(list(on_all_cores(lambda _: meeting.wait(), range(6), 3))) == 6


def test_few_pieces_are_in_memory_at_a_time() -> None:
    taken = []

    def pieces():
        for i in range(100):
            taken.append(i)
            yield i

    results = on_all_cores(lambda i: i, pieces(), 2)
    assert next(results) == 0
    assert len(taken) == 4


def test_an_error_in_a_thread_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        list(on_all_cores(lambda i: 1 // i, range(3), 2))
