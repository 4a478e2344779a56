"""What a model knows about items of a log before their clicks: features and placement."""

import pandas as pd

import epiclick as ec
from epiclick.fitted.prediction import relevance_of
from epiclick.fitted.state import FittedModel


def before_clicks(fitted: FittedModel, counts: ec.ClickCounts) -> pd.DataFrame:
    """query_id, doc_id, alpha, beta and mean of the pairs of counts, by the model's parameters."""
    alpha, beta = relevance_of(fitted, counts)
    keys = {name: getattr(counts, name).to_pandas() for name in ("query_id", "doc_id")}
    return pd.DataFrame({**keys, "alpha": alpha, "beta": beta, "mean": alpha / (alpha + beta)})
