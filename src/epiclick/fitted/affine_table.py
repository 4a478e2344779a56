r"""The parameters of a click model under which unattractive items are clicked too, as a table.

In each context the probability of a click is a line in reported relevance (`relevance.reported`),

.. math:: P(\text{click}) = O_k + S_k\, c, \qquad S_k = \frac{A_k - B_k}{A_1 - B_1}, \quad
          O_k = B_k - S_k B_1,

with 1 the anchor, or without one the first context. Clicks identify slopes and offsets; A and B
themselves rest in part on the prior, and `rests_on_prior` names those of which it is all there is.
"""

import numpy as np
import pandas as pd

from epiclick.click_models.click_model import Emission
from epiclick.fitted.state import FittedModel


def affine_table(fitted: FittedModel, drawn: np.ndarray, level: float) -> pd.DataFrame:
    """Slopes under the names of position bias, A, B, offsets, and what rests on the prior.

    Args:
        fitted: the model.
        drawn: (draws, parameters) of the click model; a single draw for a point estimate.
        level: probability of the intervals, which a point estimate does not have.
    """
    emission = emission_of(fitted, drawn)
    slope, offset = lines_of(emission, fitted.anchor or 0)
    table = fitted.contexts.to_pandas()
    ends = np.array([(1 - level) / 2, (1 + level) / 2])
    for name, values in (
        ("", slope),
        ("relative", slope),
        ("attractive", emission.attractive),
        ("unattractive", emission.unattractive),
        ("offset", offset),
    ):
        low, high = np.quantile(values, ends, axis=0)
        if len(values) == 1:
            low = high = np.full(len(table), np.nan)
        table[name or "mean"] = values.mean(axis=0)
        prefix = f"{name}_" if name else ""
        table[f"{prefix}low"], table[f"{prefix}high"] = low, high
    table["rests_on_prior"] = _resting(fitted)
    return table


def emission_of(fitted: FittedModel, drawn: np.ndarray) -> Emission:
    """(draws, contexts) each, from draws of the parameters; the anchor's is not used."""
    finite = np.where(np.isfinite(drawn), drawn, 0)
    return fitted.clicks.emission(finite, fitted.anchor, np)


def lines_of(emission: Emission, reference: int) -> tuple[np.ndarray, np.ndarray]:
    """Slopes and offsets relative to a context, (draws, contexts) each."""
    rise = emission.attractive - emission.unattractive
    slope = rise / rise[:, [reference]]
    return slope, emission.unattractive - slope * emission.unattractive[:, [reference]]


def _resting(fitted: FittedModel) -> list[str]:
    """For each context, which of A and B the clicks leave at the prior; "" for none."""
    contexts = len(fitted.contexts)
    if fitted.posterior is None:
        return [""] * contexts
    # which needs scipy
    from epiclick.fitted.prior_share import NOTHING, parameter_sds, unattractive_sds

    attractive = [each[:contexts] for each in parameter_sds(fitted)]
    # NaN is not larger: what is fixed does not rest on the prior
    rests = np.array(
        [after / before >= NOTHING for before, after in (attractive, unattractive_sds(fitted))]
    )
    names = np.array(["attractive", "unattractive"])
    return [", ".join(names[rests[:, k]]) for k in range(contexts)]
