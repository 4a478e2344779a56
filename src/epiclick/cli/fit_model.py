"""The model that `epiclick fit` is asked for, before it is fitted."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from epiclick.cli.help import Verb
from epiclick.errors import InputError
from epiclick.estimators.names import POINTWISE, EstimatorName

if TYPE_CHECKING:
    from epiclick.api import BaseModel
    from epiclick.data.counts import ClickCounts

Estimator = Literal[EstimatorName, "pointwise"]


class FitCommand(Verb):
    """A verb whose help shows the defaults of the models."""

    @staticmethod
    def shown() -> Mapping[str, str]:
        """Defaults by option."""
        from epiclick.api import EpistemicPBM, PointwisePBM
        from epiclick.plans import EPOCHS, EPOCHS_TO_MODE, EPOCHS_WITHOUT_FEATURES

        pointwise = PointwisePBM().get_params()
        bare = f"{EPOCHS_TO_MODE} (the paper's estimators {EPOCHS_WITHOUT_FEATURES})"
        defaults = {"epochs": f"{EPOCHS}, without features {bare}"}
        for name, value in EpistemicPBM().get_params().items():
            if value is False or name in defaults:
                continue  # a switch, or told
            words = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            if pointwise.get(name, value) != value:
                words += f", pointwise {pointwise[name]}"
            defaults[name] = words
        return defaults


def chosen_click_model(given: str | None, init: Path | None) -> str:
    """Name of the click model: as given, or that of the model to start from, or the usual one."""
    from epiclick.api import load
    from epiclick.click_models.registry import click_model

    if given is None:
        return "pbm" if init is None else load(init).click_model
    try:
        return click_model(given).name
    except InputError as error:
        raise InputError(str(error).replace("click_model", "--click-model", 1)) from error


def make_model(
    estimator: Estimator | None, settings: Mapping[str, Any], click_model: str = "pbm"
) -> "BaseModel":
    """A model that is not fitted yet; what is not given is left to its class.

    Settings that cannot be meant are refused here, before a log is read.
    """
    from epiclick.api import EPISTEMIC, PointwisePBM
    from epiclick.plans import check_parameters

    model: BaseModel
    if estimator == POINTWISE:
        if foreign := [name for name in settings if name not in PointwisePBM().get_params()]:
            options = ", ".join(map(_option, foreign))
            raise InputError(f"{options} cannot be used with --estimator {POINTWISE}; leave it out")
        if click_model != PointwisePBM.click_model:
            raise InputError(
                f"--estimator {POINTWISE} is for --click-model {PointwisePBM.click_model} alone; "
                f"leave it out for {click_model}"
            )
        model = PointwisePBM(**settings)
    else:
        own: dict[str, Any] = {} if estimator is None else {"estimator": estimator}
        model = EPISTEMIC[click_model](**own, **settings)
    try:
        check_parameters(model)
    except InputError as error:
        # the message names the class and its parameters, which nobody typed
        wrong = str(error).removeprefix(f"{type(model).__name__}: ").split("; ")
        named = (rule.split(" ", 1) for rule in wrong)
        raise InputError("; ".join(f"{_option(name)} {rule}" for name, rule in named)) from error
    return model


def parse_anchor(text: str, counts: "ClickCounts") -> Any:
    """A context as the log has it: 1 is a number where positions are; "none" is None."""
    import pyarrow as pa

    if text.lower() in ("auto", "none"):
        return "auto" if text.lower() == "auto" else None
    columns = counts.contexts.columns
    values = [text] if len(columns) == 1 else [value.strip() for value in text.split(",")]
    try:
        typed = [
            pa.array([value]).cast(column.type)[0].as_py()
            for value, column in zip(values, columns, strict=True)
        ]
    except ValueError:
        return text  # whoever looks it up among the contexts names those there are
    return typed[0] if len(typed) == 1 else tuple(typed)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
