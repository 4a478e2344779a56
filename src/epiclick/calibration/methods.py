"""The methods whose calibration is measured: each learns from a world and predicts the rest.

Estimators that sample run compiled programs. For these, all worlds of a family are padded to common
shapes, so that programs are compiled once. A few pilot worlds show how many pairs of each kind
there are; the others get that capacity with a margin, or the next larger one of a few if needed.
Padding has weight 0.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from epiclick.arguments import BiasKind
from epiclick.beta import Beta
from epiclick.calibration.answers import DRAWS, LEVELS, VALUES, Answers
from epiclick.calibration.families import Case, Family, display_contexts, display_rows, make_case
from epiclick.calibration.quantities import Questions
from epiclick.click_models.click_model import Emission
from epiclick.click_models.registry import click_model
from epiclick.data.counts import ClickCounts
from epiclick.errors import InputError, did_you_mean
from epiclick.fitted.parameters import without_uncertainty
from epiclick.simulate.users import THETA, UNATTRACTIVE, examination_at, unattractive_at

if TYPE_CHECKING:
    from epiclick.api import BaseModel
    from epiclick.batching.batches import Shapes
    from epiclick.fitting import Plan


MEMBERS = 6  # of ensembles
CONTROL_SD = 0.02  # error of the control's estimates of examination

MARGINS = (1.4, 2.0, 3.0, 5.0, 10.0, 100.0)
"""Capacity as a multiple of what the pilot worlds need."""

EXTRA = 10
"""Pairs per batch that are added to that need, as some kinds of pairs are rare."""

PILOTS = 3
"""Number of pilot worlds."""

PILOT_SEED = 2**40
"""Seed of the pilot worlds, which are not part of any run."""


def fit_padded(model: "BaseModel", case: Case) -> "BaseModel":
    """Fit the model to a case's counts, padded to the shapes of its family if that saves time."""
    from epiclick.conversion_fit import fit_outcomes

    counts = model._to_counts(case.train)
    plan = model._plan(counts)
    plan = replace(plan, shapes=_shapes(plan, case.family, counts))
    model.fitted_ = fit_outcomes(plan, counts, progress=False)
    return model


def _shapes(
    plan: "Plan", family: Family, counts: ClickCounts
) -> tuple["Shapes", "Shapes | None"] | None:
    """Shapes of the training and the held-out counts; None if nothing is compiled or held out."""
    if plan.objective.is_point or not plan.holdout:
        return None
    shares = (1 - plan.holdout, plan.holdout)
    parts = counts.split(*shares, by="query", seed=plan.training.seed)
    # a fixed split of the pilot worlds, or there would be as many shapes as seeds
    pilots = zip(*(c.split(*shares, by="query", seed=0) for c in _pilots(family)), strict=True)
    train, held_out = (
        _common(pilot, own, batches, affine=click_model(plan.click_model).is_affine)
        for pilot, own, batches in zip(pilots, parts, _batches(plan, parts), strict=True)
    )
    return train, held_out


def _batches(plan: "Plan", parts: tuple[ClickCounts, ...]) -> list[int]:
    """Number of batches of each part, as in a fit without common shapes."""
    from epiclick.fitting import pairs_per_batch

    size = pairs_per_batch(plan, len(parts[0]))
    return [-(-len(part) // size) for part in parts]


def _common(
    pilots: Sequence[ClickCounts], own: ClickCounts, batches: int, *, affine: bool = False
) -> "Shapes":
    """The shapes of the smallest of `MARGINS` that suffices."""
    from epiclick.batching.batches import Shapes

    usual, need = (Shapes.common(each, batches, affine=affine) for each in (pilots, [own]))
    for margin in MARGINS:
        # kinds of pairs that no pilot world has take time to compile; leave them out if possible
        spare = [EXTRA if size or margin > MARGINS[0] else 0 for size in usual.capacity]
        capacity = tuple(
            int(margin * (size + more)) for size, more in zip(usual.capacity, spare, strict=True)
        )
        if all(a >= b for a, b in zip(capacity, need.capacity, strict=True)):
            return Shapes(batches, capacity)
    return need


@cache
def _pilots(family: Family) -> tuple[ClickCounts, ...]:
    """Training counts of the pilot worlds of a family."""
    return tuple(make_case(family, PILOT_SEED, index).train for index in range(PILOTS))


@dataclass(frozen=True)
class Method:
    """A way to quantify uncertainty.

    Attributes:
        name: its name in the table.
        description: what it is.
        answer: its answers in a world, by names of `QUANTITIES`, not necessarily all. The world is
            a `Case`, or for worlds of the model's own prior an `OwnWorld`.
    """

    name: str
    description: str
    answer: Callable[[Any], dict[str, Answers]]


def fit_and_ask(
    case: Case,
    *,
    model: str = "Epistemic",
    kind: BiasKind = "robust",
    certain: bool = False,
    **parameters: Any,
) -> dict[str, Answers]:
    """Fit a model of the library to the world's counts and return its answers.

    Empty where the library has no such model of the family's click model.

    Args:
        case: the world.
        model: "Epistemic" or "Pointwise"; the family determines the click model.
        kind: which uncertainty of position bias is used.
        certain: treat the parameters as known.
        parameters: of the model.
    """
    from epiclick.api import EPISTEMIC, PointwisePBM

    kinds: Mapping[str, Mapping[str, type[BaseModel]]] = {
        "Epistemic": EPISTEMIC,
        "Pointwise": {"pbm": PointwisePBM},
    }
    kind_of = kinds[model].get(case.family.click_model)
    estimator = parameters.get("estimator", "marginal")
    affine = click_model(case.family.click_model).is_affine
    if kind_of is None or (affine and estimator != "marginal"):
        return {}
    unfitted = kind_of().set_params(**parameters, seed=case.seed % 2**31)
    fitted = fit_padded(unfitted, case)
    if certain:
        fitted.fitted_ = without_uncertainty(fitted.fitted_)
    return Questions(fitted, case, kind).answers()


def know(case: Case) -> dict[str, Answers]:
    """Answers given the truth of the world: calibrated by construction.

    The Betas of relevance and examination are known; relative examination is estimated with an
    error of known size.
    """
    from epiclick.posterior.item_posterior import item_posterior

    world, model = case.world, click_model(case.family.click_model)
    theta = world.examination[THETA].to_numpy()  # the first position comes first
    floor = np.zeros(len(theta))
    if UNATTRACTIVE in world.examination.column_names:
        floor = world.examination[UNATTRACTIVE].to_numpy()
    rng = np.random.default_rng([case.seed, 8])
    relative = theta[1:] / theta[0]
    estimate = relative + CONTROL_SD * rng.standard_normal(len(relative))
    reach = np.array([[norm.isf((1 - level) / 2)] for level in LEVELS]) * CONTROL_SD
    noise = CONTROL_SD * rng.standard_normal((len(relative), DRAWS))
    answers = {
        "position_bias": Answers(
            relative, estimate, estimate - reach, estimate + reach, estimate[:, None] + noise
        )
    }
    follows = world.settings.users == model.name and case.family.change != "daily"
    if world.prior is None or not follows:
        return answers
    rows = rng.permutation(case.rows(case.unseen))[:VALUES]
    prior = Beta(world.prior.alpha[rows], world.prior.beta[rows])
    at_first = (theta[0], floor[0])
    answers["unseen_relevance"] = _of_betas(world.relevance[rows], prior, at_first, rng)

    seen = case.train.subset(rng.permutation(len(case.train))[:VALUES])
    rows = case.rows(seen)
    alpha, beta = world.prior.alpha[rows], world.prior.beta[rows]
    own = examination_at(world.examination, seen.contexts)
    emission = Emission(own, 1 - own)
    if model.is_affine:
        b = unattractive_at(world.examination, seen.contexts)
        emission = Emission(own + b, 1 - own - b, b, 1 - b)
    posterior = [item_posterior(seen, emission, alpha, beta, level) for level in LEVELS]
    betas = posterior[0].betas
    answers["seen_relevance"] = Answers(
        floor[0] + theta[0] * world.relevance[rows],
        floor[0] + theta[0] * betas.quantile(0.5),
        floor[0] + theta[0] * np.stack([each.low for each in posterior]),
        floor[0] + theta[0] * np.stack([each.high for each in posterior]),
        floor[0] + theta[0] * betas.sample(rng, DRAWS).T,
    )
    row = display_rows(world)
    shown = rng.permutation(np.flatnonzero(np.isin(row, case.rows(case.unseen))))[:VALUES]
    contexts, _ = model.world(world.position_bias)
    context = display_contexts(world, model, contexts)[shown]
    prior = Beta(world.prior.alpha[row[shown]], world.prior.beta[row[shown]])
    line = (theta[context], floor[context])
    answers["click_probability"] = _of_betas(world.relevance[row[shown]], prior, line, rng)
    return answers


def _of_betas(
    relevance: np.ndarray,
    betas: Beta,
    line: tuple[np.ndarray | float, np.ndarray | float],
    rng: np.random.Generator,
) -> Answers:
    """Answers on a line (slope, offset) in relevance, which is known to follow the Betas."""
    factor, offset = line
    ends = [betas.interval(level) for level in LEVELS]
    return Answers(
        offset + factor * relevance,
        offset + factor * betas.quantile(0.5),
        offset + factor * np.stack([low for low, _ in ends]),
        offset + factor * np.stack([high for _, high in ends]),
        (offset + factor * betas.sample(rng, DRAWS)).T,
    )


def _fitted(name: str, description: str, **options: Any) -> Method:
    return Method(name, description, partial(fit_and_ask, **options))


def _paper(estimator: str) -> Method:
    description = f"the paper's estimator {estimator}"
    return _fitted(estimator, description, kind="evidential", estimator=estimator, baseline=True)


_ALL = (
    _fitted("marginal", "the default: posterior robust to differences between queries"),
    _fitted("marginal-bayes", "the same, trusting the model", kind="bayes"),
    _fitted("independent", "the default as if its parameters were known", certain=True),
    _fitted("ensemble", "six networks, each on a bootstrap of the queries", members=MEMBERS),
    _fitted("deep-ensemble", "six networks, all on all queries", members=MEMBERS, bootstrap=False),
    _fitted(
        "pointwise-bootstrap",
        "six pointwise models, each on a bootstrap of the queries",
        model="Pointwise",
        members=MEMBERS,
    ),
    _paper("exact"),
    _paper("conditioned"),
    _paper("self_normalized"),
    _paper("naive"),
    Method("control", "given the truth of each world: must pass", know),
)

METHODS: Mapping[str, Method] = {method.name: method for method in _ALL}


def find_methods(names: Sequence[str | Method]) -> tuple[Method, ...]:
    """The methods of the given names, each once; methods are kept as they are."""
    for name in names:
        if isinstance(name, str) and name not in METHODS:
            raise InputError(
                f"there is no method '{name}'{did_you_mean(name, METHODS)}; "
                f"there are {', '.join(METHODS)}",
                code="unknown-method",
            )
    return tuple(METHODS[name] if isinstance(name, str) else name for name in dict.fromkeys(names))
