"""The click models by name. A new one is a line here; it is loaded when it is first used."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from epiclick.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from epiclick.click_models.base import ClickModel


class Entry(NamedTuple):
    """Where a click model is found, and the public class that fits it."""

    home: str
    name: str
    public: str


CLICK_MODELS: Mapping[str, Entry] = {
    "pbm": Entry("epiclick.click_models.pbm", "PositionBased", "EpistemicPBM"),
    "ubm": Entry("epiclick.click_models.ubm", "UserBrowsing", "EpistemicUBM"),
}


@cache
def click_model(name: str) -> "ClickModel":
    """The click model of a name, always the same object; InputError where there is none."""
    if name not in CLICK_MODELS:
        raise InputError(
            f"click_model must be one of {', '.join(CLICK_MODELS)}, not {name!r}"
            f"{did_you_mean(str(name), CLICK_MODELS)}"
        )
    entry = CLICK_MODELS[name]
    found: ClickModel = getattr(import_module(entry.home), entry.name)()
    return found
