"""The click models by name. A new one is a line in `HOMES`; it is loaded when it is first used."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from epiclick.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from epiclick.click_models.click_model import ClickModel


class Home(NamedTuple):
    """Where a click model is found, and the public class that fits it."""

    module: str
    name: str
    public: str


HOMES: Mapping[str, Home] = {
    "pbm": Home("epiclick.click_models.pbm", "PositionBased", "EpistemicPBM"),
    "ubm": Home("epiclick.click_models.ubm", "UserBrowsing", "EpistemicUBM"),
}


class _ClickModels(Mapping[str, "ClickModel"]):
    """The click models, each loaded when it is first asked for, and always the same object."""

    def __getitem__(self, name: str) -> "ClickModel":
        return _load(HOMES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


CLICK_MODELS: Mapping[str, "ClickModel"] = _ClickModels()


def click_model(name: str) -> "ClickModel":
    """The click model of a name; InputError where there is none."""
    if name not in HOMES:
        raise InputError(
            f"click_model must be one of {', '.join(HOMES)}, not {name!r}"
            f"{did_you_mean(str(name), HOMES)}"
        )
    return CLICK_MODELS[name]


@cache
def _load(home: Home) -> "ClickModel":
    found: ClickModel = getattr(import_module(home.module), home.name)()
    return found
