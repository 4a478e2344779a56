"""The methods that are compared, each with its options, and the experiments that use them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from epiclick.errors import InputError, did_you_mean
from epiclick.estimators.names import POINTWISE

ENTROPIES = (0.0001, 0.001, 0.01, 0.25)
STARTS = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Variant:
    """A method with its options.

    Attributes:
        key: its name in tables and files.
        label: its name in figures, that of the paper where there is one.
        estimator: a key of `ESTIMATORS`, or `POINTWISE`.
        tuned: key of the method whose learning rate it uses.
        baseline: leave-one-out baselines.
        literal: the paper's formula as written: no offset for the naive estimator, a further
            1/S for the self-normalised ones.
        entropy: weight of the modified entropy.
        start: initial position bias and mean relevance.
        frozen: whether confidences stay at their initial values.
        plain_rate: whether the lookup has the network's learning rate.
        small_batches: whether a pointwise model has the batch size of epistemic ones.
        ranker: whether rankers are evaluated (paper, section 7.5).
        posterior: whether training is followed by the posterior of position bias and last layer, as
            in fits of this library; position bias is then its mean, and values of rankers are
            drawn from it.
        same_as: key of the variant that this is an alias of.
    """

    key: str
    label: str
    estimator: str
    tuned: str
    baseline: bool = False
    literal: bool = False
    entropy: float = 0.0
    start: float = 0.5
    frozen: bool = False
    plain_rate: bool = False
    small_batches: bool = False
    ranker: bool = False
    posterior: bool = False
    same_as: str = ""

    @property
    def pointwise(self) -> bool:
        """Whether all parameters are point estimates."""
        return self.estimator == POINTWISE

    @property
    def kind(self) -> str:
        """Name of the model class it fits."""
        return "PointwisePBM" if self.pointwise else "EpistemicPBM"

    @property
    def folder(self) -> str:
        """The key as a folder name."""
        return self.key.replace("/", "_")


def _method(
    key: str, label: str, estimator: str, *, tuned: str | None = None, ranker: bool = False
) -> list[Variant]:
    """A method without and with baselines; rankers are evaluated by the former."""
    tuned = tuned or key
    plain = Variant(key, label, estimator, tuned, ranker=ranker)
    corrected = replace(
        plain,
        key=f"{key}+baseline",
        label=f"{label} + b.c.",
        tuned=f"{tuned}+baseline",
        baseline=True,
        ranker=False,
    )
    return [plain, corrected]


def _literal(variant: Variant) -> Variant:
    return replace(variant, literal=True)


_POINTWISE = Variant(POINTWISE, "Pointwise", POINTWISE, POINTWISE, ranker=True)
_CONDITIONED = _method("conditioned", "Self-norm. + cond.", "conditioned", ranker=True)
_EXACT = Variant("exact", "Exact (ours)", "exact", "exact", ranker=True)
_MARGINAL = Variant(
    "marginal", "Marginal (ours)", "marginal", "marginal", ranker=True, posterior=True
)

_METHODS = [
    _POINTWISE,
    *map(_literal, _method("naive-literal", "Naïve (literal)", "naive", tuned="naive")),
    *_method("naive", "Naïve", "naive"),
    *_method("self_normalized", "Self-norm.", "self_normalized"),
    *_CONDITIONED,
    _EXACT,
    _MARGINAL,
]

_ENTROPY = [
    replace(
        base,
        key=f"{base.key}{mark}@{weight:g}",
        label=f"{base.label}{', 1/S' if mark else ''}, λ = {weight:g}",
        entropy=weight,
        literal=bool(mark),
        ranker=False,
    )
    for base, mark in ((_CONDITIONED[0], ""), (_EXACT, ""), (_CONDITIONED[0], "/S"))
    for weight in ENTROPIES
]

_WHY = [
    *(
        replace(
            _POINTWISE,
            key=f"pointwise~start={start:g}",
            label=f"Pointwise from {start:g}",
            start=start,
            ranker=False,
            same_as="pointwise" if start == _POINTWISE.start else "",
        )
        for start in STARTS
    ),
    replace(
        _POINTWISE,
        key="pointwise~lookup=1",
        label="Pointwise, plain rate of lookup",
        plain_rate=True,
        ranker=False,
    ),
    replace(
        _POINTWISE,
        key="pointwise~batches",
        label="Pointwise, batches of epistemic models",
        small_batches=True,
        ranker=False,
    ),
    replace(_EXACT, key="exact~nu-frozen", label="Exact, ν frozen", frozen=True, ranker=False),
    replace(
        _EXACT,
        key="exact~lookup=1",
        label="Exact, plain rate of lookup",
        plain_rate=True,
        ranker=False,
    ),
]

VARIANTS: dict[str, Variant] = {each.key: each for each in (*_METHODS, *_ENTROPY, *_WHY)}

_FIGURE_3 = ("pointwise", "naive+baseline", "self_normalized", "conditioned", "exact")

EXPERIMENTS: dict[str, tuple[str, ...]] = {
    "a": tuple(each.key for each in _METHODS),
    "b": _FIGURE_3,
    "c": (*_FIGURE_3, "self_normalized+baseline"),
    "d": ("conditioned", "exact", *(each.key for each in _ENTROPY)),
    "e": tuple(each.key for each in _METHODS if each.ranker),
    "why": (
        "pointwise",
        "naive-literal",  # whose gradient is always 0
        "exact",
        "conditioned",
        *(each.key for each in _WHY),
    ),
}
"""Methods of each experiment: of figures 2, 3, 4, 5 with 6, 7, and of the page on RQ2."""

ALIASES = {
    **{"figure2": "a", "figure3": "b", "figure4": "c"},
    **{"figure5": "d", "figure6": "d", "figure7": "e"},
}


def choose_methods(
    methods: Sequence[str] | None = None, only: Sequence[str] | None = None
) -> tuple[str, ...]:
    """Keys of the selected variants, in the order of `VARIANTS`; all by default.

    Args:
        methods: keys.
        only: experiments, whose methods are selected; with both, those that are in both.
    """
    experiments = [ALIASES.get(name, name) for name in only or EXPERIMENTS]
    for names, known, what in (
        (experiments, EXPERIMENTS, "experiment"),
        (methods or (), VARIANTS, "method"),
    ):
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known)
                raise InputError(
                    f"there is no {what} '{name}'{hint}; choose from {', '.join(known)}",
                    code=f"unknown-{what}",
                )
    selected = {key for name in experiments for key in EXPERIMENTS[name]}
    if methods is not None:
        selected &= set(methods)
    if not selected:
        raise InputError(
            "none of the methods belongs to these experiments; omit --methods or --only",
            code="no-methods-selected",
        )
    return tuple(key for key in VARIANTS if key in selected)
