"""Packages that only some verbs need."""

from collections.abc import Sequence

from epiclick.errors import InputError


def check_extra(verb: str, packages: Sequence[str], extra: str) -> None:
    """Refuse to start without packages that a verb needs; says what installs them."""
    from importlib.util import find_spec

    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise InputError(
            f"{verb} needs {' and '.join(missing)}, which {'are' if missing[1:] else 'is'} not "
            f"installed; pip install 'epiclick[{extra}]' brings what it needs"
        )
