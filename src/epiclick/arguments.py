"""Validation of arguments of the public functions, with one-sentence messages."""

import inspect
import math
import os
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib.util import find_spec
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np

from epiclick.errors import InputError, did_you_mean

BiasKind = Literal["robust", "bayes", "evidential"]
"""Kinds of intervals of position bias; see `fitted.tables.click_table`."""

ThetaPosterior = Literal["laplace", "nuts"]
"""Methods for the posterior of position bias and last layer after a `marginal` fit."""

LONGEST = 60  # characters of a value in a message


def is_whole(value: object) -> bool:
    """Whether a value is a whole number; booleans are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether a value is a finite number; booleans are not."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def is_switch(value: object) -> bool:
    """Whether a value is True or False."""
    return isinstance(value, bool | np.bool_)


def shown(value: object) -> str:
    """A value for a message; long ones, such as tables, as their type.

    >>> shown("0.9"), shown(np.zeros((5, 5)))
    ("'0.9'", 'ndarray')
    """
    plain = isinstance(value, str | bytes | Real | list | tuple | None)
    text = repr(value) if plain else type(value).__name__
    return text if len(text) <= LONGEST else type(value).__name__


def check_whole(name: str, value: object, least: int = 0) -> None:
    """Require a whole number of at least `least`."""
    if not (is_whole(value) and int(value) >= least):  # type: ignore[call-overload]
        raise InputError(
            f"{name} must be a whole number of at least {least}, not {shown(value)}",
            code="not-whole-number",
        )


def check_level(name: str, value: Any) -> None:
    """Require a number strictly between 0 and 1."""
    if not (is_number(value) and 0 < value < 1):
        raise InputError(
            f"{name} must lie strictly between 0 and 1, not {shown(value)}; for example 0.9",
            code="level-out-of-range",
        )


def check_choice(name: str, value: object, known: Iterable[str]) -> None:
    """Require one of the known names."""
    names = list(known)
    if not (isinstance(value, str) and value in names):
        near = did_you_mean(value, names) if isinstance(value, str) else ""
        raise InputError(
            f"{name} must be one of {', '.join(names)}, not {shown(value)}{near}",
            code="unknown-choice",
        )


def check_path(name: str, value: Any) -> Path:
    """The value as a path; InputError if it is none."""
    if not isinstance(value, str | os.PathLike) or isinstance(value, bytes):
        message = f"{name} must be a path, such as 'model', not {shown(value)}"
        raise InputError(message, code="invalid-path")
    path = os.fspath(value)
    if not str(path):
        raise InputError(f"{name} must be a path, and is empty", code="invalid-path")
    if "\0" in str(path):
        message = f"{name} must be a path, and holds a NUL character: {path!r}"
        raise InputError(message, code="invalid-path")
    return Path(path)


def as_numbers(name: str, values: Any) -> np.ndarray:
    """The values as float64; InputError if they are not numbers."""
    try:
        if values is None:
            raise TypeError
        return np.asarray(values, float)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} must be a number or an array of numbers, not {shown(values)}",
            code="not-a-number",
        ) from error


def require_extra(what: str, packages: Sequence[str], extra: str, otherwise: str = "") -> None:
    """Require optional packages to be installed; to be called before anything slow.

    Args:
        what: what needs them, as the subject of the message.
        packages: their import names.
        extra: extra of epiclick that includes them.
        otherwise: an alternative without them, to follow ", or".
    """
    missing = [name for name in packages if not _is_installed(name)]
    if missing:
        raise InputError(
            f"{what} needs {' and '.join(missing)}, which {'are' if missing[1:] else 'is'} not "
            f'installed; install with `pip install "epiclick[{extra}]"`'
            + (f", or {otherwise}" if otherwise else ""),
            code="missing-extra",
        )


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # a module whose __spec__ is None
        return False


Function = TypeVar("Function", bound=Callable[..., Any])


def named_arguments(function: Function) -> Function:
    """Let a public function refuse unknown keywords with a sentence that says which it has.

    >>> @named_arguments
    ... def count(log, position_base=1): ...
    >>> count("clicks.csv", positionbase=0)
    Traceback (most recent call last):
    TypeError: count has no argument 'positionbase' (did you mean 'position_base'?); it has log, \
position_base
    """
    known = [name for name in inspect.signature(function).parameters if name != "self"]

    @wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        for name in named:
            if name not in known:
                raise TypeError(_unknown_argument(function.__name__, name, known, arguments[:1]))
        return function(*arguments, **named)

    return checked  # type: ignore[return-value]


def _unknown_argument(
    function: str, name: str, known: Sequence[str], first: Sequence[object]
) -> str:
    """A message, which says where a model's own parameter belongs."""
    own = first[0] if first and isinstance(first[0], Parametrised) else None
    if own is not None and name in own._parameter_names():
        kind = type(own).__name__
        return f"{name} is a parameter of the model, not of {function}: {kind}({name}=...)"
    near = did_you_mean(name, known)
    return f"{function} has no argument '{name}'{near}; it has {', '.join(known)}"


class Parametrised:
    """scikit-learn's parameter API: constructor parameters are attributes, unchanged by `fit`."""

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        """Refuse unknown parameters with a sentence that says which there are."""
        known = cls._parameter_names()
        for name in named:
            if name not in known:
                raise TypeError(
                    f"{cls.__name__} has no parameter '{name}'{did_you_mean(name, known)}; "
                    f"it has {', '.join(known)}"
                )
        return super().__new__(cls)

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor parameters by name.

        Args:
            deep: for compatibility with scikit-learn; has no effect.
        """
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters, which take effect at the next `fit`."""
        known = self._parameter_names()
        for name, value in parameters.items():
            if name not in known:
                raise InputError(
                    f"{type(self).__name__} has no parameter '{name}'{did_you_mean(name, known)}; "
                    f"it has {', '.join(known)}",
                    code="unknown-parameter",
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """The constructor call, without default parameters."""
        signature = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value != signature[name].default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"
