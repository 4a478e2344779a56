"""Training that begins where another model ended, on a log with perhaps other contexts."""

from typing import Any

import jax
import numpy as np
import pyarrow as pa

from epiclick.data.counts import ClickCounts
from epiclick.data.matching import locate_rows
from epiclick.errors import InputError
from epiclick.models.fitted import FittedModel, given_of
from epiclick.models.parameters import Parameters
from epiclick.models.prediction import columns_of


def warm_start(init: FittedModel, start: Parameters, train: ClickCounts) -> Parameters:
    """The parameters of a fitted model, for the contexts of another log."""
    if (init.features is None) != (train.features is None):
        has, lacks = ("the log", "the model") if init.features is None else ("the model", "the log")
        raise InputError(f"{has} has features and {lacks} has none; a start needs both or neither")
    if train.features is not None and columns_of(init, train.features) is not None:
        raise InputError(
            "the model to start from was trained on features in another order; give them in its own"
        )
    alike = init.features is None or _shapes(init.parameters) == _shapes(start)
    if not alike or init.parameters.position.is_point != start.position.is_point:
        raise InputError(
            "the model to start from has other hidden layers or another kind of estimator; use its "
            f"settings: {dict(init.settings)}"
        )
    names, before = train.contexts.column_names, init.options.click_model
    if before != train.options.click_model:
        raise InputError(
            f"the model to start from is a {before}, and the log was counted for a "
            f"{train.options.click_model}; a start needs one click model"
        )
    if init.contexts.column_names != names:
        raise InputError(
            f"the model to start from knows contexts by {', '.join(init.contexts.column_names)}, "
            f"the log by {', '.join(names)}"
        )

    def moved(old: Any, new: Any, row: np.ndarray) -> np.ndarray:
        """Values by context of the old model where it knows them."""
        known = (row >= 0).reshape(-1, *[1] * (np.ndim(new) - 1))
        return np.where(known, np.asarray(old)[row], new)

    row = _located(train.contexts, init.contexts)
    values = zip(init.parameters.position, start.position, strict=True)
    position = type(start.position)(*(moved(old, new, row) for old, new in values))
    # the posterior of a model is of a last layer in float64
    layers = tuple(
        (np.asarray(weight, np.float32), np.asarray(bias, np.float32))
        for weight, bias in init.parameters.layers
    )
    if init.features is None:
        ((weight, bias),), ((first, _),) = layers, start.layers
        given = _located(train.given[0], given_of(init)[0])
        layers = ((moved(weight, first, given), bias),)
    return Parameters(layers, position)


def _located(contexts: pa.Table, among: pa.Table) -> np.ndarray:
    """(contexts,) row of each context in another table, -1 where it has none."""
    names = contexts.column_names
    return locate_rows(*({name: table[name] for name in names} for table in (contexts, among)))


def _shapes(parameters: Parameters) -> list[tuple[int, ...]]:
    return [np.shape(leaf) for leaf in jax.tree.leaves(parameters.layers)]
