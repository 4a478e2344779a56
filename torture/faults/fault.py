"""What a fault is: something that is done to a call of any verb."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torture.faults.attack import Attack

Apply = Callable[[Attack], None]


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        name: in tables.
        apply: changes the attack.
        of_output: whether it concerns the output: for verbs that write one only.
        of_input: the same for inputs.
        times: how many cases each verb gets; more where chance decides what is hit.
        earlier: whether there may be an earlier output.
    """

    name: str
    apply: Apply
    of_output: bool = False
    of_input: bool = False
    times: int = 1
    earlier: bool = True


def each(apply: Callable[..., None], values: tuple, **options: object) -> list[Fault]:
    """A fault for each of some values of an argument."""
    name = apply.__name__.replace("_", " ")
    return [Fault(f"{name} {value}", partial(apply, value=value), **options) for value in values]
