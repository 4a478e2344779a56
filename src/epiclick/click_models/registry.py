"""The click models by name. A new one is a line in `REGISTRY`; each is loaded on first use."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from epiclick.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from epiclick.click_models.click_model import ClickModel


class Entry(NamedTuple):
    """Module and class of a click model, and the public class that fits it."""

    module: str
    name: str
    public: str


REGISTRY: Mapping[str, Entry] = {
    "pbm": Entry("epiclick.click_models.pbm", "PositionBased", "EpistemicPBM"),
    "ubm": Entry("epiclick.click_models.ubm", "UserBrowsing", "EpistemicUBM"),
    "trust": Entry("epiclick.click_models.trust", "TrustBased", "EpistemicTrustPBM"),
    "cascade": Entry("epiclick.click_models.cascade", "Cascade", "EpistemicCascade"),
    "dcm": Entry("epiclick.click_models.reading", "DependentClicks", "EpistemicDCM"),
    "sdbn": Entry("epiclick.click_models.reading", "SimplifiedDBN", "EpistemicSDBN"),
}


class _ClickModels(Mapping[str, "ClickModel"]):
    """The click models by name, each a single object that is loaded on first use."""

    def __getitem__(self, name: str) -> "ClickModel":
        return _load(REGISTRY[name])

    def __iter__(self) -> Iterator[str]:
        return iter(REGISTRY)

    def __len__(self) -> int:
        return len(REGISTRY)


CLICK_MODELS: Mapping[str, "ClickModel"] = _ClickModels()


def click_model(name: str) -> "ClickModel":
    """The click model of this name; InputError if there is none."""
    if name not in REGISTRY:
        raise InputError(
            f"click_model must be one of {', '.join(REGISTRY)}, not {name!r}"
            f"{did_you_mean(str(name), REGISTRY)}",
            code="unknown-click-model",
        )
    return CLICK_MODELS[name]


@cache
def _load(entry: Entry) -> "ClickModel":
    model: ClickModel = getattr(import_module(entry.module), entry.name)()
    return model
