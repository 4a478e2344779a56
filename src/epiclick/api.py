"""Click models with scikit-learn's API: what users fit, ask, save and load."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

import numpy as np
import pandas as pd

from epiclick.arguments import check_choice, check_level, check_path, check_whole, shown
from epiclick.click_models.click_model import CLICK
from epiclick.click_models.registry import REGISTRY, click_model
from epiclick.data.counts import ClickCounts
from epiclick.data.features import read_features
from epiclick.data.readers import check_counts, counts_of
from epiclick.errors import InputError
from epiclick.estimators.names import EstimatorName
from epiclick.evaluation.click_scores import ClickScores, score_clicks
from epiclick.fitted.prediction import click_probabilities
from epiclick.fitted.state import BiasKind, FittedModel, ThetaPosterior
from epiclick.fitted.storage import load_model, save_model
from epiclick.fitted.tables import (
    SCORES,
    click_table,
    draws_to_rank_by,
    item_frame,
    position_bias_table,
    ranked,
    relevance_frames,
)
from epiclick.plans import Parametrised
from epiclick.posterior.items import judged_items

if TYPE_CHECKING:
    from epiclick.data.page_weights import PageWeights
    from epiclick.export.lightgbm import LightGBMData
    from epiclick.fitting import Plan


class BaseModel(Parametrised, ABC):
    """What all models share: fitting, asking, files.

    Attributes:
        click_model: name of the click model that is fitted, in `click_models.registry`.
    """

    click_model: ClassVar[str] = "pbm"
    seed: int
    level: float
    fitted_: FittedModel

    def fit(
        self,
        counts: Any,
        valid: ClickCounts | None = None,
        *,
        position_bias: Any = None,
        randomised: ClickCounts | None = None,
        init: "BaseModel | None" = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        progress: bool = True,
    ) -> Self:
        """Learn position bias and relevance from counts.

        Args:
            counts: the log, with features joined or without; or a log as `read_log` takes it, which
                is then read with its default options.
            valid: counts for early stopping; without it a share of the queries is held out.
            position_bias: what is known of it from elsewhere: a DataFrame, or a CSV, Parquet or
                JSON file, with the context columns and `mean`, relative to the anchor. Rows with
                `low` and `high` too are a prior, others are held as they are.
            randomised: counts of pages whose ranking was random, not among those above: position
                bias is compared with theirs, which needs no model.
            init: a fitted model to start from, such as last week's.
            checkpoint: file to keep the state of training in, every few seconds and when
                interrupted.
            resume: go on from that file, to the very result of an uninterrupted run.
            progress: show a progress bar, on a terminal.
        """
        from epiclick.fitting import fit_model
        from epiclick.plans import check_parameters, with_known_bias

        check_parameters(self)  # type: ignore[arg-type]
        for name, other in {"valid": valid, "randomised": randomised}.items():
            if other is not None:
                check_counts(name, other)
        if not isinstance(init, BaseModel | None):
            raise InputError(
                f"init must be a fitted model, not {shown(init)}; load(path) reads one from a "
                "folder"
            )
        keep = None if checkpoint is None else check_path("checkpoint", checkpoint)
        counts = self._counted(counts)
        valid = None if valid is None else self._counted(valid, "valid")
        plan = self._plan(counts)
        if position_bias is not None:
            plan = with_known_bias(plan, counts, position_bias)
        self.fitted_ = fit_model(
            plan,
            counts,
            valid,
            randomised=randomised,
            init=None if init is None else init._fitted,
            checkpoint=keep,
            resume=resume,
            progress=progress,
        )
        return self

    def _counted(self, given: Any, name: str = "counts") -> ClickCounts:
        """The counts by the contexts of this click model; a log is read."""
        counts = counts_of(given, click_model=self.click_model, name=name)
        own = click_model(self.click_model)
        assert own.channels == (CLICK,), "one outcome is all that can be fitted yet"
        assert not own.has_latent_state, "no inference for latent states of a page yet"
        if counts.history == own.history:
            return counts.completed()
        if not own.history:
            return counts.by_given()
        raise InputError(
            f"{type(self).__name__} needs {name} by {', '.join(own.history)} as well, which only "
            f"the log has; read it with read_log(..., click_model={self.click_model!r})"
        )

    @abstractmethod
    def _plan(self, counts: ClickCounts) -> "Plan":
        """What is to be fitted to the counts, and how."""

    @property
    def _fitted(self) -> FittedModel:
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

    def position_bias(
        self, kind: BiasKind | None = None, *, level: float | None = None
    ) -> pd.DataFrame:
        """Given context columns, mean, low, high, and relative to the anchor, or else the first.

        Where examination depends on what happened above on the page, it is the average over the
        displays of the training log; `click_table` has all contexts. The ends of intervals are NaN
        for a bias that is at its bound: without the bound it would be that of the anchor or more.

        Args:
            kind: "robust": intervals from the differences between queries, which hold even where
                clicks vary more than the model allows. "bayes": as if clicks followed the model.
                "evidential": the Betas of the paper's estimators. Unless told, the first of these
                that the model has.
            level: probability that the intervals hold; the model's own unless told.
        """
        return position_bias_table(self._fitted, *self._asked(kind, level))

    def click_table(
        self, kind: BiasKind | None = None, *, level: float | None = None
    ) -> pd.DataFrame:
        """The click model's parameter in each context, with the columns of `position_bias`."""
        return click_table(self._fitted, *self._asked(kind, level))

    def _asked(self, kind: BiasKind | None, level: float | None) -> tuple[float, BiasKind | None]:
        if kind is not None:
            check_choice("kind", kind, get_args(BiasKind))
        if level is not None:
            check_level("level", level)
        return self.level if level is None else level, kind

    def relevance(self, features: Any = None, *, above: float | None = None) -> pd.DataFrame:
        """query_id, doc_id, mean, low, high, alpha, beta of items, from their features alone.

        All are averaged over what is not known of the model's parameters. Low and high end the
        central interval; alpha and beta are of the Beta with the same mean and variance. With
        `above` a column `prob_above` is added: the probability of a relevance above it. A model
        without features tells of the items in its log, given their clicks there.
        """
        return pd.concat(list(self.relevance_chunks(features, above=above)), ignore_index=True)

    def relevance_chunks(
        self, features: Any = None, *, above: float | None = None
    ) -> Iterator[pd.DataFrame]:
        """The same, some rows at a time: for more items than fit in memory."""
        items = self._fitted.items
        if features is not None:
            table = read_features(features)
            yield from relevance_frames(self._fitted, table, self.level, above=above)
        elif items is not None:
            yield item_frame(items, above=above)
        else:
            raise InputError("the model was trained with features; give those of the items")

    def rank(
        self,
        features: Any = None,
        how: str = "mean",
        counts: ClickCounts | None = None,
        seed: int | None = None,
    ) -> pd.DataFrame:
        """query_id, doc_id, position (1 is best) and score of items, query by query.

        Args:
            features: of the items, read as `relevance` does. Without features or counts, a model
                without features ranks the items of its log.
            how: the score. "mean"; "lower" or "upper" end of the interval; "thompson": one draw of
                the parameters, and of each item's relevance given them.
            counts: clicks; the items in it are judged by their own, all others by features alone.
            seed: of "thompson"; None draws anew with every call.
        """
        check_choice("how", how, SCORES)
        if seed is not None:
            check_whole("seed", seed)
        if counts is not None:
            check_counts("counts", counts)
        rng = np.random.default_rng(seed)
        draws = draws_to_rank_by(self._fitted, how, rng)
        items = judged_items(self._fitted, features, counts, self.level, draws=draws)
        return ranked(items, how, rng)

    def predict_clicks(self, counts: ClickCounts) -> np.ndarray:
        """Probability of a click at each row of `counts.to_table()`, over all draws together."""
        return click_probabilities(self._fitted, check_counts("counts", counts))

    def score(self, counts: ClickCounts) -> float:
        """Mean log-likelihood a display."""
        return self.score_clicks(counts).display_log_likelihood

    def score_clicks(
        self,
        counts: ClickCounts,
        page_weights: "PageWeights | None" = None,
        *,
        pair_log_likelihood: float | None = None,
    ) -> ClickScores:
        """Log-likelihood, perplexity, observed and predicted click rate by position."""
        return score_clicks(
            counts,
            self.predict_clicks(counts),
            page_weights,
            pair_log_likelihood=pair_log_likelihood,
        )

    def to_lightgbm(
        self,
        counts: ClickCounts | None = None,
        features: Any = None,
        *,
        how: str = "posterior",
        cuts: Sequence[float] | None = None,
        clip: float | None = None,
    ) -> "LightGBMData":
        """What a LightGBM ranker is trained on: X, y, weight, group; see `lightgbm_data`."""
        from epiclick.export.lightgbm import lightgbm_data

        if counts is not None:
            check_counts("counts", counts)
        return lightgbm_data(self._fitted, counts, features, how=how, cuts=cuts, clip=clip)

    def save(self, path: str | Path) -> None:
        """Write the model to a folder of safetensors and JSON."""
        save_model(self._fitted, check_path("path", path))


class EpistemicModel(BaseModel):
    """A click model with a Beta distribution for every relevance.

    Parameters are explained at `EpistemicPBM`; they mean the same for all click models.
    """

    def __init__(
        self,
        estimator: EstimatorName = "marginal",
        baseline: bool = False,
        samples: int = 60,
        anchor: Any = "auto",
        members: int = 1,
        bootstrap: bool = True,
        hidden: Sequence[int] = (64, 64, 32),
        entropy: float = 0.0,
        epochs: int | None = None,
        batch_size: int = 12_000,
        learning_rate: float = 1e-2,
        weight_decay: float = 1.0,
        patience: int | None = 10,
        holdout: float = 0.1,
        literal: bool = False,
        decay: bool = True,
        theta_posterior: ThetaPosterior = "laplace",
        level: float = 0.90,
        seed: int = 0,
    ) -> None:
        """Keep the parameters; they are checked when fitting."""
        self.estimator = estimator
        self.baseline = baseline
        self.samples = samples
        self.anchor = anchor
        self.members = members
        self.bootstrap = bootstrap
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
        self.theta_posterior = theta_posterior
        self.level = level
        self.seed = seed

    def posterior(self, counts: ClickCounts, *, above: float | None = None) -> pd.DataFrame:
        """The columns of `relevance` for the pairs of counts, after their own clicks.

        Low and high are of the posterior itself, a mixture of Betas averaged over what is not known
        of the parameters; alpha and beta are of the Beta with its mean and variance.
        """
        return pd.concat(list(self.posterior_chunks(counts, above=above)), ignore_index=True)

    def posterior_chunks(
        self, counts: ClickCounts, *, above: float | None = None
    ) -> Iterator[pd.DataFrame]:
        """The same, some pairs at a time: for more of them than fit in memory."""
        from epiclick.posterior.items import posterior_frames

        yield from posterior_frames(
            self._fitted, check_counts("counts", counts), self.level, above=above
        )

    def _plan(self, counts: ClickCounts) -> "Plan":
        from epiclick.plans import epistemic_plan

        return epistemic_plan(self, counts)


class PointwisePBM(BaseModel):
    """The usual position-based model: one number for every relevance and position.

    Args:
        anchor: the context whose bias is 1; "auto" is the first position, or a context that is
            looked at more than it by more than noise explains; None for a free scale.
        members: networks of an ensemble, each trained on a bootstrap of the queries, all in one
            program beside the model's own; answers then average over them. 1: no ensemble.
        bootstrap: False for members that see all queries and differ in their first weights alone.
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
        members: int = 1,
        bootstrap: bool = True,
        hidden: Sequence[int] = (64, 64, 32),
        epochs: int | None = None,
        batch_size: int = 35_000,
        learning_rate: float = 1e-2,
        weight_decay: float = 1.0,
        patience: int | None = 10,
        holdout: float = 0.1,
        decay: bool = True,
        level: float = 0.90,
        seed: int = 0,
    ) -> None:
        """Keep the parameters; they are checked when fitting."""
        self.anchor = anchor
        self.members = members
        self.bootstrap = bootstrap
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


class EpistemicPBM(EpistemicModel):
    """Position-based model with a Beta distribution for every relevance.

    Args:
        estimator: how the gradient of the likelihood is found. `marginal`: position bias is a
            point while training, relevance is integrated exactly. The paper's: `naive`,
            `self_normalized`, `conditioned`; `exact` is the last with the closed form inside.
        baseline: subtract leave-one-out baselines in the paper's estimators.
        samples: samples of position bias, and of relevance where it is sampled.
        anchor: the context whose bias is 1, so that relevance means the probability of a click if
            shown there. "auto": for `marginal` the first position, or a context that is looked at
            more than it by more than noise explains; None for the paper's.
            None leaves the scale free: absolute values then rest on the prior.
        members: networks of an ensemble, each trained on a bootstrap of the queries, all in one
            program beside the model's own; answers then average over them. 1: no ensemble.
        bootstrap: False for members that see all queries and differ in their first weights alone.
        hidden: units of the network's hidden layers.
        entropy: weight of the modified entropy.
        epochs: passes over the pairs, at most; default 50 with features. Without, 10, as what
            training leaves undone the way to the posterior's mode does; 300 where there is none.
        batch_size: pairs in a batch, at most.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        patience: epochs without a better validation likelihood before training stops; None for no
            early stopping. Without features there is too little to learn for any.
        holdout: share of queries held out for validation.
        literal: the paper's estimators to the letter: `naive` without a fixed offset (its weights
            underflow), the self-normalised ones with a further factor 1/samples.
        decay: let the learning rate fall along half a cosine.
        theta_posterior: how the posterior of position bias is found after a `marginal` fit:
            "laplace", a Gaussian around its mode, or "nuts", by Markov chains (numpyro).
        level: probability that the intervals hold.
        seed: of everything random.
    """

    click_model = "pbm"


class EpistemicUBM(EpistemicModel):
    """User browsing model: how likely a place is looked at depends on the last click above it.

    Counts must know that click: `read_log(..., click_model="ubm")`. Parameters are those of
    `EpistemicPBM`; `click_table` shows examination by position and last click.
    """

    click_model = "ubm"


def _class_of(name: str, public: str) -> type[EpistemicModel]:
    """The public class of a click model, made here where it is not written out above."""
    if public not in globals():
        words = f"{click_model(name).title.capitalize()}; parameters are those of `EpistemicPBM`."
        space = {"click_model": name, "__doc__": words, "__module__": __name__}
        globals()[public] = type(public, (EpistemicModel,), space)
    own: type[EpistemicModel] = globals()[public]
    assert own.click_model == name
    return own


EPISTEMIC: dict[str, type[EpistemicModel]] = {
    name: _class_of(name, home.public) for name, home in REGISTRY.items()
}
"""The public classes by click model."""

MODELS: dict[str, type[BaseModel]] = {
    **{cls.__name__: cls for cls in EPISTEMIC.values()},
    "PointwisePBM": PointwisePBM,
}


def load(path: str | Path) -> BaseModel:
    """A model written by `save`; needs numpy and scipy only, not jax."""
    fitted = load_model(check_path("path", path))
    kind = MODELS[fitted.kind]
    known = kind._parameter_names()
    model = kind(**{name: value for name, value in fitted.settings.items() if name in known})
    model.fitted_ = fitted
    return model
