"""The click models by name."""

from collections.abc import Mapping

from epiclick.click_models.base import ClickModel
from epiclick.click_models.pbm import PositionBased
from epiclick.click_models.ubm import UserBrowsing
from epiclick.errors import InputError, did_you_mean

_ALL: tuple[ClickModel, ...] = (PositionBased(), UserBrowsing())

CLICK_MODELS: Mapping[str, ClickModel] = {model.name: model for model in _ALL}


def click_model(name: str) -> ClickModel:
    """The click model of a name; InputError where there is none."""
    if name not in CLICK_MODELS:
        raise InputError(
            f"click_model must be one of {', '.join(CLICK_MODELS)}, not {name!r}"
            f"{did_you_mean(str(name), CLICK_MODELS)}"
        )
    return CLICK_MODELS[name]
