"""The public models: fit, predict, save and load, with scikit-learn's API."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, get_args

import numpy as np
import pandas as pd

from epiclick.arguments import (
    BiasKind,
    Parametrised,
    ThetaPosterior,
    check_choice,
    check_level,
    check_path,
    check_whole,
    named_arguments,
    shown,
)
from epiclick.click_models.registry import REGISTRY, click_model
from epiclick.collective import ALONE, Collective
from epiclick.data.counts import ClickCounts, check_counts, counts_of
from epiclick.data.features import read_features
from epiclick.errors import InputError
from epiclick.estimators.names import EstimatorName
from epiclick.evaluation.click_scores import ClickScores, score_clicks
from epiclick.fitted.prediction import click_probabilities
from epiclick.fitted.state import FittedModel, conversion_of_items
from epiclick.fitted.storage import load_model, save_model
from epiclick.fitted.tables import (
    SCORES,
    click_table,
    draws_to_rank_by,
    item_frame,
    position_bias_table,
    ranked,
    relevance_frames,
    relevance_of_array,
)
from epiclick.posterior.items import judged_items
from epiclick.processes import one_blas_thread
from epiclick.spelling import spelled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from epiclick.data.page_weights import PageWeights
    from epiclick.evaluation.log_scores import Evaluation
    from epiclick.export.lightgbm import LightGBMData
    from epiclick.fitting import Plan
    from epiclick.views.summaries import Summary


LOGGER = logging.getLogger("epiclick")
"""Gets the caveats of each fit, which Python prints unless logging is configured otherwise."""


@contextmanager
def without_caveats() -> Iterator[None]:
    """Log no caveats of the fits inside, for a caller who answers for all of them."""

    def is_no_caveat(record: logging.LogRecord) -> bool:
        return record.levelno < logging.WARNING

    LOGGER.addFilter(is_no_caveat)
    try:
        yield
    finally:
        LOGGER.removeFilter(is_no_caveat)


class BaseModel(Parametrised, ABC):
    """Base class of all models.

    Attributes:
        click_model: name of the click model, such as "pbm".
        fitted_: everything that was learned; set by `fit`.
    """

    click_model: ClassVar[str] = "pbm"
    seed: int
    level: float
    fitted_: FittedModel

    @named_arguments
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
        processes: Collective = ALONE,
    ) -> Self:
        """Fit the model to click counts.

        Args:
            counts: click counts, with or without features; or a log in any form that `read_log`
                accepts, which is then read with its default options. Conversions, if they were
                counted, are fitted as well.
            valid: counts for early stopping. Default: a share of the queries of `counts`, set by
                `holdout`.
            position_bias: position bias known from elsewhere, relative to the anchor: a DataFrame,
                or a CSV, Parquet or JSON file, with the context columns and `mean`. Rows that also
                have `low` and `high` are a prior; all others are fixed at their mean.
            randomised: counts of pages with a random ranking, none of which are in `counts`. The
                fitted position bias is compared with theirs, which needs no model.
            init: a fitted model to start from, such as last week's.
            checkpoint: file for the state of training, written every few seconds and when
                training is interrupted.
            resume: continue from the checkpoint, with the same result as an uninterrupted run.
            progress: show a progress bar, on a terminal.
            processes: those that fit the model together: `distributed()`. Each calls `fit` with
                the same arguments, and gets the same model; the first writes the checkpoint.

        Returns:
            The fitted model itself. What speaks against it, such as clicks that contradict its
            assumptions, is logged as a warning, and part of `summary`.
        """
        from epiclick.conversion_fit import fit_outcomes
        from epiclick.plans import check_parameters, with_known_bias

        check_parameters(self)  # type: ignore[arg-type]
        for name, other in {"valid": valid, "randomised": randomised}.items():
            if other is not None:
                check_counts(name, other)
        if not isinstance(init, BaseModel | None):
            raise InputError(
                f"init must be a fitted model, not {shown(init)}; load(path) reads one from a "
                "folder",
                code="init-not-a-model",
            )
        path = None if checkpoint is None else check_path("checkpoint", checkpoint)
        counts = self._to_counts(counts)
        valid = None if valid is None else self._to_counts(valid, "valid")
        plan = self._plan(counts)
        if position_bias is not None:
            plan = with_known_bias(plan, counts, position_bias)
        self.fitted_ = fit_outcomes(
            plan,
            counts,
            valid,
            randomised=randomised,
            init=None if init is None else init._fitted,
            checkpoint=path,
            resume=resume,
            progress=progress,
            processes=processes,
        )
        for message in self.fitted_.training.warnings:
            LOGGER.warning("%s", spelled(message))
        return self

    def _to_counts(self, given: Any, name: str = "counts") -> ClickCounts:
        """Counts by the contexts of this click model; a log is read and counted."""
        counts = counts_of(given, click_model=self.click_model, name=name)
        own = click_model(self.click_model)
        if own.has_latent_state and counts.lists is None:
            raise InputError(
                f"{type(self).__name__} needs the whole pages of {name}, which only the log has; "
                f"read it with read_log(..., click_model={self.click_model!r})",
                code="pages-needed",
            )
        if counts.history == own.history:
            return counts.completed()
        if not own.history:
            return counts.by_given()
        raise InputError(
            f"{type(self).__name__} needs {name} by {', '.join(own.history)} as well, which only "
            f"the log has; read it with read_log(..., click_model={self.click_model!r})",
            code="context-mismatch",
        )

    @abstractmethod
    def _plan(self, counts: ClickCounts) -> "Plan":
        """The plan of a fit to these counts."""

    @property
    def _fitted(self) -> FittedModel:
        if not hasattr(self, "fitted_"):
            message = f"this {type(self).__name__} is not fitted yet; call fit first"
            raise InputError(message, code="not-fitted")
        return self.fitted_

    @property
    def history_(self) -> pd.DataFrame:
        """Training history, one row per epoch; log-likelihoods are per display."""
        return self._fitted.training.history

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features that the model was trained on; empty without features."""
        features = self._fitted.features
        return np.array([] if features is None else features.columns, dtype=object)

    def position_bias(
        self, kind: BiasKind | None = None, *, level: float | None = None
    ) -> pd.DataFrame:
        """Position bias: the probability that a user examines an item shown in each context.

        Where examination depends on clicks higher up the page, it is averaged over the displays of
        the training log; `click_table` has all contexts. Where unattractive items are clicked too
        (trust), it is how much the probability of a click rises with relevance, compared with the
        anchor: the slope (A_k - B_k) / (A_1 - B_1), whose absolute and relative values are the
        same.

        Args:
            kind: how intervals are computed. "robust": from the differences between queries, or
                other clusters (`LogOptions.cluster`), which is valid even if clicks are
                overdispersed. "bayes": assuming that clicks follow the
                model. "evidential": from the Betas of the paper's estimators. Default: the first
                of these that the model has.
            level: probability of the intervals. Default: the model's `level`.

        Returns:
            A table with the context columns, `mean`, `low`, `high`, and `relative`,
            `relative_low`, `relative_high`, which are relative to the anchor, or to the first
            context without one. The ends of an interval are NaN where bias is at its bound:
            without the bound it would be as high as the anchor's or higher.
        """
        return position_bias_table(self._fitted, *self._interval_options(kind, level))

    def click_table(
        self, kind: BiasKind | None = None, *, level: float | None = None
    ) -> pd.DataFrame:
        """The click model's parameter in every context.

        Arguments and columns are those of `position_bias`, which it equals for the PBM. Where
        unattractive items are clicked too (trust), these columns are slopes, and further ones have
        the probability of a click on attractive and on unattractive items (`attractive`,
        `unattractive`) and the `offset` O_k of the line P(click) = O_k + S_k relevance, each with
        `_low` and `_high`, and `rests_on_prior`, which names those of the first two that the
        clicks leave at the prior.
        """
        return click_table(self._fitted, *self._interval_options(kind, level))

    def _interval_options(
        self, kind: BiasKind | None, level: float | None
    ) -> tuple[float, BiasKind | None]:
        if kind is not None:
            check_choice("kind", kind, get_args(BiasKind))
        if level is not None:
            check_level("level", level)
        return self.level if level is None else level, kind

    def relevance(self, features: Any = None, *, above: float | None = None) -> pd.DataFrame:
        """Relevance of items predicted from their features, without their own clicks.

        Relevance is the probability of a click on an item shown at the anchor position. It is
        averaged over the uncertainty of the model's parameters. For items with clicks, see
        `posterior`.

        Args:
            features: a table of features, as `read_features` accepts it; or, to score some items
                in milliseconds, an array (items, features) in the order of `feature_names_in_`,
                whose items have no ids. A model without features takes none, and returns the items
                of its training log given their clicks there.
            above: a threshold; adds the column `prob_above`, the probability of a relevance above
                it.

        Returns:
            A table with `query_id`, `doc_id`, `mean`, `low`, `high`, `alpha` and `beta`, one row
            per item. `low` and `high` are the ends of the central interval of the model's `level`;
            `alpha` and `beta` are those of the Beta with the same mean and variance. If the log was
            read with conversions, `conversion`, `conversion_low` and `conversion_high` are those of
            the probability that a click on the item leads to one.
        """
        return pd.concat(list(self.relevance_chunks(features, above=above)), ignore_index=True)

    def relevance_chunks(
        self, features: Any = None, *, above: float | None = None
    ) -> Iterator[pd.DataFrame]:
        """`relevance` in chunks of rows, for more items than fit in memory."""
        items = self._fitted.items
        if isinstance(features, np.ndarray):
            yield relevance_of_array(self._fitted, features, self.level, above=above)
        elif features is not None:
            table = read_features(features, like=self._fitted)
            yield from relevance_frames(self._fitted, table, self.level, above=above)
        elif items is not None:
            converted = conversion_of_items(self._fitted)
            yield item_frame(items, above=above, level=self.level, conversion=converted)
        else:
            message = "the model was trained with features; give those of the items"
            raise InputError(message, code="features-needed")

    def rank(
        self,
        features: Any = None,
        how: str = "mean",
        counts: ClickCounts | None = None,
        seed: int | None = None,
    ) -> pd.DataFrame:
        """Rank the items of each query.

        Args:
            features: features of the items, as for `relevance`. With neither features nor counts, a
                model without features ranks the items of its training log.
            how: the score to rank by. "mean": expected relevance. "lower" and "upper": the ends of
                its interval. "thompson": a draw of each relevance, under one draw of the
                parameters.
            counts: clicks on the items; items in it are ranked by their posterior, all others by
                their features alone.
            seed: of "thompson"; None for a different ranking at every call.

        Returns:
            A table with `query_id`, `doc_id`, `position` (1 is best) and `score`.
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
        """Probability of a click for each row of `counts.to_table()`.

        It is averaged over the uncertainty of the model's parameters.
        """
        return click_probabilities(self._fitted, check_counts("counts", counts))

    def score(self, counts: ClickCounts) -> float:
        """Mean log-likelihood per display."""
        return self.score_clicks(counts).display_log_likelihood

    def score_clicks(
        self,
        counts: ClickCounts,
        page_weights: "PageWeights | None" = None,
        *,
        pair_log_likelihood: float | None = None,
    ) -> ClickScores:
        """Log-likelihood, perplexity, and observed and predicted click rates by position.

        Args:
            counts: the clicks to score.
            page_weights: weights of rows on their pages; without them there is no page score.
            pair_log_likelihood: mean joint log-likelihood per pair, if computed elsewhere; default
                the product over displays.
        """
        from epiclick.evaluation.log_scores import scored_displays

        scored = scored_displays(self._fitted, check_counts("counts", counts))
        return score_clicks(
            scored.counts,
            scored.probability,
            page_weights if scored.pages is None else scored.pages,
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
        """Training data for a LightGBM ranker: X, y, weight and group; see `lightgbm_data`."""
        from epiclick.export.lightgbm import lightgbm_data

        if counts is not None:
            check_counts("counts", counts)
        return lightgbm_data(self._fitted, counts, features, how=how, cuts=cuts, clip=clip)

    def summary(self) -> "Summary":
        """What the model was fitted to, its position bias, and warnings: print it."""
        from epiclick.views.summaries import model_summary

        return model_summary(self._fitted, repr(self), self.level)

    def _repr_html_(self) -> str:
        """For notebooks: the summary of a fitted model, or the constructor call."""
        if hasattr(self, "fitted_"):
            return self.summary()._repr_html_()
        return f"<code>{escape(repr(self))}</code>"

    def plot_position_bias(self, ax: "Axes | None" = None, *, level: float | None = None) -> "Axes":
        """Draw position bias with its intervals; needs matplotlib.

        Args:
            ax: axes to draw on; default, those of a new figure.
            level: probability of the intervals. Default: the model's `level`.
        """
        from epiclick.views.figures import plot_bias

        table = self.position_bias(level=level)
        columns = [name for name in self._fitted.contexts.column_names if name in table]
        return plot_bias(table, columns, self.level if level is None else level, ax)

    def plot_relevance(
        self, features: Any = None, query: Any = None, ax: "Axes | None" = None
    ) -> "Axes":
        """Draw the relevance of items with its intervals, the best 30 on top; needs matplotlib.

        Args:
            features: of the items, as for `relevance`.
            query: id of the query whose items are drawn; default, those of all queries.
            ax: axes to draw on; default, those of a new figure.
        """
        from epiclick.views.figures import plot_items

        table = self.relevance(features)
        if query is not None:
            table = table[table["query_id"] == query]
            if not len(table):
                raise InputError(
                    f"there are no items of the query {shown(query)}", code="unknown-query"
                )
        return plot_items(table, self.level, ax)

    def save(self, path: str | Path) -> None:
        """Write the model to a folder, as safetensors and JSON; `load` reads it."""
        save_model(self._fitted, check_path("path", path))


@dataclass(eq=False, repr=False)
class EpistemicModel(BaseModel):
    """A click model with a Beta distribution for every relevance.

    Parameters are documented in `EpistemicPBM`, and the same for all click models. They are checked
    by `fit`.
    """

    estimator: EstimatorName = "marginal"
    baseline: bool = False
    samples: int = 60
    anchor: Any = "auto"
    members: int = 1
    bootstrap: bool = True
    hidden: Sequence[int] = (64, 64, 32)
    entropy: float = 0.0
    epochs: int | None = None
    batch_size: int = 12_000
    learning_rate: float = 1e-2
    weight_decay: float = 1.0
    patience: int | None = 10
    holdout: float = 0.1
    literal: bool = False
    decay: bool = True
    theta_posterior: ThetaPosterior = "laplace"
    level: float = 0.90
    seed: int = 0

    def posterior(self, counts: ClickCounts, *, above: float | None = None) -> pd.DataFrame:
        """Relevance of items given their own clicks.

        Args:
            counts: clicks on the items, with features if the model was trained with some.
            above: a threshold; adds the column `prob_above`, the probability of a relevance above
                it.

        Returns:
            A table with the columns of `relevance`, one row per pair of `counts`. `low` and `high`
            are quantiles of the exact posterior, a mixture of Betas averaged over the uncertainty
            of the parameters; `alpha` and `beta` are those of the Beta with its mean and variance.
            Conversions are judged by those of `counts`, or without any from the features alone.
        """
        return pd.concat(list(self.posterior_chunks(counts, above=above)), ignore_index=True)

    def posterior_chunks(
        self, counts: ClickCounts, *, above: float | None = None
    ) -> Iterator[pd.DataFrame]:
        """`posterior` in chunks of pairs, for more pairs than fit in memory."""
        from epiclick.posterior.items import posterior_frames

        yield from posterior_frames(
            self._fitted, check_counts("counts", counts), self.level, above=above
        )

    def _plan(self, counts: ClickCounts) -> "Plan":
        from epiclick.plans import epistemic_plan

        return epistemic_plan(self, counts)


@dataclass(eq=False, repr=False)
class PointwisePBM(BaseModel):
    """Position-based model with point estimates of relevance and position bias.

    Args:
        anchor: the context whose bias is 1. "auto": the first position, or a context that is
            examined significantly more often. None: a free scale.
        members: number of networks in an ensemble, each trained on a bootstrap of the queries
            besides the model's own network; predictions are averaged over them. 1: no ensemble.
        bootstrap: False to train members on all queries, so that they differ only in their initial
            weights.
        hidden: units of the network's hidden layers.
        epochs: maximum number of passes over the pairs; default 50.
        batch_size: maximum number of pairs in a batch.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        patience: epochs without a better validation likelihood before training stops; None for no
            early stopping.
        holdout: share of queries held out for validation.
        decay: whether the learning rate falls to 0 along half a cosine.
        level: probability of intervals, which need `members` above 1.
        seed: of everything random.
    """

    anchor: Any = "auto"
    members: int = 1
    bootstrap: bool = True
    hidden: Sequence[int] = (64, 64, 32)
    epochs: int | None = None
    batch_size: int = 35_000
    learning_rate: float = 1e-2
    weight_decay: float = 1.0
    patience: int | None = 10
    holdout: float = 0.1
    decay: bool = True
    level: float = 0.90
    seed: int = 0

    def _plan(self, counts: ClickCounts) -> "Plan":
        from epiclick.plans import pointwise_plan

        return pointwise_plan(self, counts)


class EpistemicPBM(EpistemicModel):
    """Position-based model with a Beta distribution for every relevance.

    Args:
        estimator: estimator of the likelihood's gradient. `marginal`: position bias is a point
            during training, and relevance is integrated out exactly. Those of the paper: `naive`,
            `self_normalized`, `conditioned`; `exact` is `conditioned` with its inner expectation in
            closed form.
        baseline: subtract leave-one-out baselines in the paper's estimators.
        samples: samples of position bias, and of relevance where it is sampled.
        anchor: the context whose bias is 1, so that relevance is the probability of a click on an
            item shown there. "auto": for `marginal`, the first position, or a context that is
            examined significantly more often; for the paper's estimators None. None: a free scale,
            on which absolute values depend on the prior.
        members: number of networks in an ensemble, each trained on a bootstrap of the queries
            besides the model's own network; predictions are averaged over them. 1: no ensemble.
        bootstrap: False to train members on all queries, so that they differ only in their initial
            weights.
        hidden: units of the network's hidden layers.
        entropy: weight of the modified entropy.
        epochs: maximum number of passes over the pairs. Default: 50 with features. Without, 10 if
            the mode of the posterior is computed after training, else 300.
        batch_size: maximum number of pairs in a batch.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        patience: epochs without a better validation likelihood before training stops; None for no
            early stopping. Ignored without features, where there are too few parameters to overfit.
        holdout: share of queries held out for validation.
        literal: use the paper's estimators exactly as published: `naive` without a constant offset
            (its weights underflow), the self-normalised ones with an additional factor 1/samples.
        decay: whether the learning rate falls to 0 along half a cosine.
        theta_posterior: method for the posterior of position bias after a `marginal` fit.
            "laplace": a Gaussian around its mode. "nuts": Markov chains (needs numpyro).
        level: probability of the intervals.
        seed: of everything random.
    """

    click_model = "pbm"


class EpistemicUBM(EpistemicModel):
    """User browsing model: examination of a position depends on the last click above it.

    Counts must include that click: `read_log(..., click_model="ubm")`. Parameters are those of
    `EpistemicPBM`; `click_table` has the examination by position and last click.
    """

    click_model = "ubm"


class EpistemicTrustPBM(EpistemicModel):
    """Position-based model with trust bias: unattractive items are clicked for their position.

    The probability of a click is A_k zeta + B_k (1 - zeta) at position k. Attraction zeta is not
    identified, so relevance is reported as the probability of a click at the anchor, and
    `position_bias` as the slope of clicks in it; `click_table` has A, B, slopes and offsets.
    Parameters are those of `EpistemicPBM`; `estimator` must be "marginal".
    """

    click_model = "trust"


class EpistemicCascade(EpistemicModel):
    """Cascade model: users read from the top and leave at their first click.

    Counts must include whether there is a click above: `read_log(..., click_model="cascade")`.
    Parameters are those of `EpistemicPBM`. A page with two clicks has probability 0.
    """

    click_model = "cascade"


class EpistemicDCM(EpistemicModel):
    """Dependent click model: users read from the top, and go on after a click or stop.

    How likely they go on depends on the position of the click: `click_table`. `position_bias` is
    the share of users who read as far as a position, on the pages of the log. Counts must include
    the pages: `read_log(..., click_model="dcm")`. Parameters are those of `EpistemicPBM`; it is
    fitted with `estimator="marginal"`, `members=1` and `theta_posterior="laplace"`.
    """

    click_model = "dcm"


class EpistemicSDBN(EpistemicModel):
    """Simplified dynamic Bayesian network: users read from the top until a click satisfies them.

    How likely a click satisfies depends on the item: `relevance` and `posterior` have the columns
    `satisfaction`, `satisfaction_low` and `satisfaction_high`. Otherwise it is like `EpistemicDCM`.
    Counts must include the pages: `read_log(..., click_model="sdbn")`.
    """

    click_model = "sdbn"


def _class_of(name: str, public: str) -> type[EpistemicModel]:
    """The public class of a click model, created here if it is not defined above."""
    if public not in globals():
        doc = f"{click_model(name).title.capitalize()}; parameters are those of `EpistemicPBM`."
        namespace = {"click_model": name, "__doc__": doc, "__module__": __name__}
        globals()[public] = type(public, (EpistemicModel,), namespace)
    own: type[EpistemicModel] = globals()[public]
    assert own.click_model == name
    return own


EPISTEMIC: dict[str, type[EpistemicModel]] = {
    name: _class_of(name, entry.public) for name, entry in REGISTRY.items()
}
"""The public classes by the name of their click model."""

MODELS: dict[str, type[BaseModel]] = {
    **{cls.__name__: cls for cls in EPISTEMIC.values()},
    "PointwisePBM": PointwisePBM,
}


@one_blas_thread()
def load(path: str | Path) -> BaseModel:
    """Read a model that `save` wrote; does not need jax.

    Args:
        path: the model's folder.
    """
    fitted = load_model(check_path("path", path))
    kind = MODELS[fitted.kind]
    known = kind._parameter_names()
    model = kind(**{name: value for name, value in fitted.settings.items() if name in known})
    model.fitted_ = fitted
    return model


@named_arguments
def evaluate(model: BaseModel, counts: Any, *, train: ClickCounts | None = None) -> "Evaluation":
    """Score a fitted model on a log that it was not fitted to: print the result.

    Args:
        model: a fitted model.
        counts: the log, as counts with the features of the model, or in any form that `read_log`
            accepts.
        train: counts of the training log, for the baselines; without it, only those whose rates the
            model keeps are scored.
    """
    from epiclick.evaluation.log_scores import evaluate as scores_of

    check_model("model", model)
    if train is not None:
        check_counts("train", train)
    return scores_of(model._fitted, model._to_counts(counts), train=train)


def check_model(name: str, given: Any) -> BaseModel:
    """The model; refuses anything else, such as the path of one."""
    if isinstance(given, BaseModel):
        return given
    raise InputError(
        f"{name} must be a fitted model, not {shown(given)}; load(path) reads one from a folder",
        code="not-a-model",
    )
