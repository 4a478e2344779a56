"""The settings of a simulated world, validated before anything is computed."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np

from epiclick.arguments import is_switch, shown
from epiclick.errors import InputError, Problem
from epiclick.simulate.users import USERS

DEFAULTS = {"queries": 2_000, "docs": 20, "features": 20}
DEFAULT_POSITIONS = 5
RELEVANCE = ("label", "beta")


@dataclass(frozen=True)
class WorldSettings:
    """All arguments of `simulate`, with defaults filled in.

    Attributes:
        queries: number of synthetic queries; None with a dataset.
        docs: documents of each synthetic query; None with a dataset.
        features: features of each synthetic document; None with a dataset.
        pages: result pages shown.
        positions: items per page.
        theta: position bias of each position.
        relevance: "label" or "beta".
        dataset: path of the LETOR data; None for synthetic data.
        users: name of the user model.
        policy_strength: factor on the logging policy's scores.
        taste_sd: standard deviation of a user's taste in logits (users="personal").
        seed: of everything random.
        conversions: whether clicks may lead to a purchase.
    """

    queries: int | None
    docs: int | None
    features: int | None
    pages: int
    positions: int
    theta: tuple[float, ...]
    relevance: str
    dataset: str | None
    users: str
    policy_strength: float
    taste_sd: float
    seed: int
    conversions: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The settings in JSON types."""
        record = {**asdict(self), "theta": list(self.theta)}
        if not self.conversions:  # earlier releases read worlds without
            del record["conversions"]
        return record

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "WorldSettings":
        """The inverse of `to_dict`."""
        return cls(**{**stored, "theta": tuple(stored["theta"])})


def resolve_settings(
    *,
    queries: int | None,
    docs: int | None,
    features: int | None,
    pages: int,
    positions: int | None,
    theta: Sequence[float] | None,
    relevance: str,
    dataset: str | None,
    users: str,
    policy_strength: float,
    taste_sd: float,
    seed: int,
    conversions: bool = False,
) -> WorldSettings:
    """Fill in defaults; one InputError reports all invalid arguments."""
    sizes = {"queries": queries, "docs": docs, "features": features}
    if dataset is None:
        sizes = {name: DEFAULTS[name] if v is None else v for name, v in sizes.items()}
        counts = {**sizes, "pages": pages}
        misplaced = {}
    else:
        counts = {"pages": pages}
        misplaced = {name: value for name, value in sizes.items() if value is not None}
    if not (
        theta is None or (isinstance(theta, Sequence | np.ndarray) and not isinstance(theta, str))
    ):
        raise InputError(
            f"theta must be a sequence of numbers, such as (1, 0.5, 0.3), not {shown(theta)}",
            code="not-a-sequence",
        )
    if positions is None:
        positions = DEFAULT_POSITIONS if theta is None else len(theta)
    numbers = {"policy_strength": policy_strength, "taste_sd": taste_sd}
    problems = [
        *(
            _problem(
                f"{name} applies to synthetic data only, not to a dataset",
                name,
                value,
                "option-does-not-apply",
                f"Leave out {name}, or leave out dataset.",
            )
            for name, value in misplaced.items()
        ),
        *(
            _problem(f"{name} must be a whole number above 0", name, value, "not-whole-number")
            for name, value in {**counts, "positions": positions}.items()
            if not _whole(value, at_least=1)
        ),
        *(
            _problem(f"{name} must be a finite number, 0 or above", name, value, "invalid-number")
            for name, value in numbers.items()
            if not (_number(value) and 0 <= value < math.inf)
        ),
        *(
            _problem(f"{name} must be one of {', '.join(known)}", name, value, "unknown-choice")
            for name, value, known in (("users", users, USERS), ("relevance", relevance, RELEVANCE))
            if not (isinstance(value, str) and value in known)
        ),
    ]
    if not _whole(seed, at_least=0):
        rule = "seed must be a whole number, 0 or above"
        problems.append(_problem(rule, "seed", seed, "not-whole-number"))
    if not is_switch(conversions):
        rule = "conversions must be True or False"
        problems.append(_problem(rule, "conversions", conversions, "not-a-switch"))
    if theta is not None:
        problems += _theta_problems(theta, positions, users)
    if problems:
        raise InputError.of("these arguments of simulate", problems)
    bias = theta if theta is not None else [1 / k for k in range(1, positions + 1)]
    return WorldSettings(
        **{name: None if value is None else int(value) for name, value in sizes.items()},
        pages=int(pages),
        positions=int(positions),
        theta=tuple(float(value) for value in bias),
        relevance=relevance,
        dataset=dataset,
        users=users,
        policy_strength=float(policy_strength),
        taste_sd=float(taste_sd),
        seed=int(seed),
        conversions=bool(conversions),
    )


def _theta_problems(theta: Sequence[float], positions: int, users: str) -> list[Problem]:
    """What is wrong with a given position bias."""
    problems = []
    if len(theta) != positions:
        problems.append(
            Problem(
                f"theta must have one value for each of the {positions} positions",
                len(theta),
                "value",
                remedy="Leave out positions to take their number from theta.",
                code="wrong-length",
            )
        )
    outside = [
        f"position {k}: {value!r}"
        for k, value in enumerate(theta, start=1)
        if not (_number(value) and 0 < value <= 1)
    ]
    if outside:
        rule = "theta must be probabilities above 0 and at most 1"
        problems.append(
            Problem(rule, len(outside), "value", outside[:3], code="probability-out-of-range")
        )
    elif users == "impatient" and any(below > above for above, below in pairwise(theta)):
        rule = "theta must not increase down the page for impatient users, who read from the top"
        problems.append(_problem(rule, "theta", list(theta), "theta-increases"))
    return problems


def _problem(rule: str, name: str, value: object, code: str, remedy: str = "") -> Problem:
    """The problem with one argument."""
    return Problem(rule, 1, "argument", (f"{name}={value!r}",), remedy, code=code)


def _whole(value: object, *, at_least: int) -> bool:
    """Whether the value is a whole number of at least this size."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= at_least


def _number(value: object) -> bool:
    """Whether the value is a real number."""
    return isinstance(value, Real) and not isinstance(value, bool)
