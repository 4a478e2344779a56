"""The rule by which a click model is chosen: the simplest that predicts as well as the best.

The best model has the highest log-likelihood of held-out displays, each given the clicks above it
on its page. The chosen one is the simplest, by its number of free parameters, whose difference to
the best has an interval that contains 0, or is negligible. Of these, a model that the training
pages contradict (`diagnostics/assumptions.py`) is chosen only if they contradict all: that held-out
likelihood cannot tell two models apart does not make the simpler one right.

A model with clicks on unattractive items competes only where the pages show that clicks are not in
proportion to relevance. Its affine map also gives relevance a least value, which fits some logs
better whatever their users do: in worlds of position-based users with five values of relevance, of
which 0.1 is the least, it gains about 0.0004 per display.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

NEGLIGIBLE = 1e-4
"""Loss of log-likelihood per display that does not justify more parameters.

It changes perplexity by 0.01 %. For comparison, pbm and ubm differ by 0.017 on the real pages of
`yandex-pages`, and by about 0.003 in simulated worlds of ubm users."""

RULE = (
    "the simplest model, by its number of parameters, whose log-likelihood per display is within "
    f"{NEGLIGIBLE:g} of the best one's, or differs from it by no more than chance; of these, one "
    "whose assumptions the pages do not contradict, if there is one"
)

IN_PROPORTION = 0.05
"""p-value of the test of clicks in proportion to relevance, from which on nothing speaks against
them."""


@dataclass(frozen=True)
class ModelScores:
    """One model's scores on held-out pages; None where it has none.

    Attributes:
        click_model: its name.
        parameters: free parameters of the click model, besides the relevance of items.
        log_likelihood: per display, given the clicks above it; None if some pages have
            probability 0, so that the model cannot be scored.
        difference: from the best model, per display; 0 for the best itself.
        low: lower end of its interval.
        high: upper end.
        perplexity: marginal, not given the clicks above a display; mean over positions.
        marginal_log_likelihood: per display, not given the clicks above it.
        marginal_difference: from the best model (by `log_likelihood`), per display.
        marginal_low: lower end of its interval.
        marginal_high: upper end.
        pair_log_likelihood: mean joint log-likelihood per pair.
        chi2_per_df: of the fit; None if unknown.
        relative_bias: position bias at the last position, relative to the anchor.
        seconds: duration of the fit.
        impossible: pages (or displays, see `unit`) of probability 0.
        unit: "page", or "display" where pages are unknown.
        is_redundant: whether it adds clicks on unattractive items to another scored model, though
            the pages show no sign of them; then it does not compete.
        is_contradicted: whether the training pages contradict one of its assumptions.
    """

    click_model: str
    parameters: int
    log_likelihood: float | None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    perplexity: float | None = None
    marginal_log_likelihood: float | None = None
    marginal_difference: float | None = None
    marginal_low: float | None = None
    marginal_high: float | None = None
    pair_log_likelihood: float | None = None
    chi2_per_df: float | None = None
    relative_bias: float | None = None
    seconds: float = 0.0
    impossible: int = 0
    unit: str = "page"
    is_redundant: bool = False
    is_contradicted: bool = False

    @property
    def competes(self) -> bool:
        """Whether it may be the best, or be chosen."""
        return self.is_scored and not self.is_redundant

    @property
    def is_scored(self) -> bool:
        """Whether all held-out pages have a positive probability."""
        return self.log_likelihood is not None

    @property
    def may_be_chance(self) -> bool:
        """Whether the interval of the difference from the best model contains 0."""
        assert self.high is not None
        return self.high >= 0

    @property
    def is_negligible(self) -> bool:
        """Whether the difference from the best model is too small to matter."""
        assert self.difference is not None
        return -self.difference < NEGLIGIBLE

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        return asdict(self)


def best_of(models: Sequence[ModelScores]) -> ModelScores | None:
    """The competing model with the highest log-likelihood, of equal ones the simplest."""
    return min((each for each in models if each.competes), key=_by_likelihood, default=None)


def chosen_of(models: Sequence[ModelScores]) -> ModelScores | None:
    """The model that the rule chooses, given differences from the best; None without any."""
    equal = (
        each for each in models if each.competes and (each.may_be_chance or each.is_negligible)
    )
    return min(equal, key=lambda each: (each.is_contradicted, _by_size(each)), default=None)


def reference_of(models: Sequence[ModelScores]) -> ModelScores | None:
    """The model that the chosen one is compared with; None if no other was scored.

    The best one, if that is not chosen; else the best of those that are simpler; else, where the
    best is also the simplest, the next simplest.
    """
    best, chosen = best_of(models), chosen_of(models)
    if best is None or chosen is None or chosen is not best:
        return best
    others = [each for each in models if each.competes and each is not chosen]
    simpler = [each for each in others if _by_size(each) < _by_size(chosen)]
    return min(simpler, key=_by_likelihood, default=min(others, key=_by_size, default=None))


def _by_likelihood(model: ModelScores) -> tuple[float, int, str]:
    assert model.log_likelihood is not None
    return -model.log_likelihood, model.parameters, model.click_model


def _by_size(model: ModelScores) -> tuple[int, float, str]:
    assert model.log_likelihood is not None
    return model.parameters, -model.log_likelihood, model.click_model
