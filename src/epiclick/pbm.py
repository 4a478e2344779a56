"""Position-based click models in scikit-learn's manners: what users fit, ask, save and load."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd

from epiclick.beta import Beta
from epiclick.data.counts import ClickCounts
from epiclick.data.features import read_features
from epiclick.errors import InputError
from epiclick.evaluation.clicks import ClickScores, score_clicks
from epiclick.manners import Parametrised
from epiclick.models.fitted import FittedPBM
from epiclick.models.prediction import (
    bias_at,
    click_probabilities,
    position_bias_table,
    relevance_frames,
    relevance_of,
)
from epiclick.models.storage import load_model, save_model

if TYPE_CHECKING:
    from epiclick.fitting import Plan

EstimatorName = Literal["naive", "self_normalized", "conditioned", "exact", "marginal"]


class PositionBasedModel(Parametrised, ABC):
    """What both models share: fitting, asking, files."""

    seed: int
    level: float
    fitted_: FittedPBM

    def fit(
        self,
        counts: ClickCounts,
        valid: ClickCounts | None = None,
        *,
        init: "PositionBasedModel | None" = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        progress: bool = True,
    ) -> Self:
        """Learn position bias and relevance from counts.

        Args:
            counts: the log, with features joined or without.
            valid: counts for early stopping; without it a share of the queries is held out.
            init: a fitted model to start from, such as last week's.
            checkpoint: file to keep the state of training in, every few seconds and when
                interrupted.
            resume: go on from that file, to the very result of an uninterrupted run.
            progress: show a progress bar, on a terminal.
        """
        from epiclick.fitting import fit_pbm

        self.fitted_ = fit_pbm(
            self._plan(counts),
            counts,
            valid,
            init=None if init is None else init._fitted,
            checkpoint=None if checkpoint is None else Path(checkpoint),
            resume=resume,
            progress=progress,
        )
        return self

    @abstractmethod
    def _plan(self, counts: ClickCounts) -> "Plan":
        """What is to be fitted to the counts, and how."""

    @property
    def _fitted(self) -> FittedPBM:
        if not hasattr(self, "fitted_"):
            raise InputError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self.fitted_

    @property
    def history_(self) -> pd.DataFrame:
        """One row per epoch: likelihoods per display, steps without a gradient, seconds."""
        return self._fitted.training.history

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features the model was trained on; none for a model without features."""
        features = self._fitted.features
        return np.array([] if features is None else features.names, dtype=object)

    def position_bias(self) -> pd.DataFrame:
        """Context columns, mean, low, high, and relative to the anchor, or else the first."""
        return position_bias_table(self._fitted, self.level)

    def relevance(self, features: Any = None) -> pd.DataFrame:
        """query_id, doc_id, mean, low, high, alpha, beta of items, from their features alone.

        A model without features tells of the items in its log, given their clicks there.
        """
        return pd.concat(list(self.relevance_chunks(features)), ignore_index=True)

    def relevance_chunks(self, features: Any = None) -> Iterator[pd.DataFrame]:
        """The same, some rows at a time: for more items than fit in memory."""
        items = self._fitted.items
        if features is not None:
            yield from relevance_frames(self._fitted, read_features(features), self.level)
        elif items is not None:
            yield pd.DataFrame(
                {
                    "query_id": items.query_id.to_pandas(),
                    "doc_id": items.doc_id.to_pandas(),
                    "mean": items.alpha / (items.alpha + items.beta),
                    "low": items.low,
                    "high": items.high,
                    "alpha": items.alpha,
                    "beta": items.beta,
                }
            )
        else:
            raise InputError("the model was trained with features; give those of the items")

    def predict_clicks(self, counts: ClickCounts) -> np.ndarray:
        """Probability of a click at each row of `counts.to_table()`."""
        return click_probabilities(self._fitted, counts)

    def score(self, counts: ClickCounts) -> float:
        """Mean log-likelihood a display."""
        return self.score_clicks(counts).display_log_likelihood

    def score_clicks(self, counts: ClickCounts, **options: Any) -> ClickScores:
        """Log-likelihood, perplexity, observed and predicted click rate by position."""
        return score_clicks(counts, self.predict_clicks(counts), **options)

    def save(self, path: str | Path) -> None:
        """Write the model to a folder of safetensors and JSON."""
        save_model(self._fitted, path)


class EpistemicPBM(PositionBasedModel):
    """Position-based model with a Beta distribution for every relevance.

    Args:
        estimator: how the gradient of the likelihood is found. `marginal`: position bias is a
            point while training, relevance is integrated exactly. The paper's: `naive`,
            `self_normalized`, `conditioned`; `exact` is the last with the closed form inside.
        baseline: subtract leave-one-out baselines in the paper's estimators.
        samples: samples of position bias, and of relevance where it is sampled.
        anchor: the context whose bias is 1, so that relevance means the probability of a click if
            shown there. "auto": the first position for `marginal`, None for the paper's.
            None leaves the scale free: absolute values then rest on the prior.
        hidden: units of the network's hidden layers.
        entropy: weight of the modified entropy.
        epochs: passes over the pairs, at most; unless told, 50 with features and 300 without.
        batch_size: pairs in a batch, at most.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        patience: epochs without a better validation likelihood before training stops; None for no
            early stopping. Without features there is too little to learn for any.
        holdout: share of queries held out for validation.
        literal: the paper's estimators to the letter: `naive` without a fixed offset (its weights
            underflow), the self-normalised ones with a further factor 1/samples.
        decay: let the learning rate fall along half a cosine.
        level: probability that the intervals hold.
        seed: of everything random.
    """

    def __init__(
        self,
        estimator: EstimatorName = "marginal",
        baseline: bool = False,
        samples: int = 60,
        anchor: Any = "auto",
        hidden: Sequence[int] = (64, 64, 32),
        entropy: float = 0.0,
        epochs: int | None = None,
        batch_size: int = 12_000,
        learning_rate: float = 1e-2,
        weight_decay: float = 1e-2,
        patience: int | None = 10,
        holdout: float = 0.1,
        literal: bool = False,
        decay: bool = True,
        level: float = 0.90,
        seed: int = 0,
    ) -> None:
        """Keep the parameters; they are checked when fitting."""
        self.estimator = estimator
        self.baseline = baseline
        self.samples = samples
        self.anchor = anchor
        self.hidden = hidden
        self.entropy = entropy
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.holdout = holdout
        self.literal = literal
        self.decay = decay
        self.level = level
        self.seed = seed

    def posterior(self, counts: ClickCounts) -> pd.DataFrame:
        """The columns of `relevance` for the pairs of counts, after their own clicks.

        Low and high are of the posterior itself, a mixture of Betas; alpha and beta are of the Beta
        with its mean and variance.
        """
        from epiclick.posterior.relevance import item_posterior

        fitted = self._fitted
        known = item_posterior(
            counts, *bias_at(fitted, counts.contexts), *relevance_of(fitted, counts), self.level
        )
        betas: Beta = known.betas
        return pd.DataFrame(
            {
                "query_id": counts.query_id.to_pandas(),
                "doc_id": counts.doc_id.to_pandas(),
                "mean": known.mean,
                "low": known.low,
                "high": known.high,
                "alpha": betas.alpha,
                "beta": betas.beta,
            }
        )

    def _plan(self, counts: ClickCounts) -> "Plan":
        from epiclick.plans import epistemic_plan

        return epistemic_plan(self, counts)


class PointwisePBM(PositionBasedModel):
    """The usual position-based model: one number for every relevance and position.

    Args:
        anchor: the context whose bias is 1; "auto" is the first position; None for a free scale.
        hidden: units of the network's hidden layers.
        epochs: passes over the pairs, at most; 50 unless told.
        batch_size: pairs in a batch, at most.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        patience: epochs without a better validation likelihood before training stops; None for no
            early stopping.
        holdout: share of queries held out for validation.
        decay: let the learning rate fall along half a cosine.
        level: kept for symmetry; a point has no interval.
        seed: of everything random.
    """

    def __init__(
        self,
        anchor: Any = "auto",
        hidden: Sequence[int] = (64, 64, 32),
        epochs: int | None = None,
        batch_size: int = 35_000,
        learning_rate: float = 1e-2,
        weight_decay: float = 1e-2,
        patience: int | None = 10,
        holdout: float = 0.1,
        decay: bool = True,
        level: float = 0.90,
        seed: int = 0,
    ) -> None:
        """Keep the parameters; they are checked when fitting."""
        self.anchor = anchor
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.holdout = holdout
        self.decay = decay
        self.level = level
        self.seed = seed

    def _plan(self, counts: ClickCounts) -> "Plan":
        from epiclick.plans import pointwise_plan

        return pointwise_plan(self, counts)


MODELS: dict[str, type[PositionBasedModel]] = {
    "EpistemicPBM": EpistemicPBM,
    "PointwisePBM": PointwisePBM,
}


def load(path: str | Path) -> PositionBasedModel:
    """A model written by `save`; needs numpy and scipy only, not jax."""
    fitted = load_model(path)
    kind = MODELS[fitted.kind]
    known = kind._parameter_names()
    model = kind(**{name: value for name, value in fitted.settings.items() if name in known})
    model.fitted_ = fitted
    return model
