"""Users who click: how a page's items and their positions turn into clicks.

Every click model defines users who follow it; the other users violate all click models.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from epiclick.click_models.click_model import SATISFACTION, ClickModel, Emission, given_names
from epiclick.click_models.recursion import click_chances, draw_clicks
from epiclick.click_models.registry import CLICK_MODELS

THETA, UNATTRACTIVE = "theta", "unattractive"  # columns of tables of examination
SATISFIED = 0.5  # probability that a click ends an impatient user's search


@dataclass(frozen=True)
class UserModel:
    """One kind of user.

    Attributes:
        draw: (relevance (pages, K), position_bias (K,), rng) -> clicks (pages, K) bool.
        probability: (relevance (..., K), position_bias (K,)) -> (..., K), the probability of a
            click on each item, averaged over what happens on the rest of the page. Both take the
            `satisfaction` of the items as a further argument if `can_be_satisfied`.
        has_taste: whether each page's user adds a taste of their own to relevance, which the
            logging policy knows.
        click_model: the one that they follow, if any.
    """

    draw: Callable[..., np.ndarray]
    probability: Callable[..., np.ndarray]
    has_taste: bool = False
    click_model: ClickModel | None = None

    @property
    def can_be_satisfied(self) -> bool:
        """Whether a click ends the page with a probability of the item's own."""
        return self.click_model is not None and SATISFACTION in self.click_model.channels


def pbm_probability(relevance: np.ndarray, position_bias: np.ndarray) -> np.ndarray:
    """Position-based model: P(click) = theta_k zeta."""
    return position_bias * relevance


def impatient_probability(relevance: np.ndarray, position_bias: np.ndarray) -> np.ndarray:
    """Impatient users: P(click at k) = theta_k zeta_k prod_{j<k} (1 - 0.5 zeta_j)."""
    not_satisfied = np.cumprod(1 - SATISFIED * relevance, axis=-1)
    before = np.concatenate([np.ones_like(relevance[..., :1]), not_satisfied[..., :-1]], axis=-1)
    return position_bias * relevance * before


def draw_independent(
    probability: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]:
    """Clicks that are independent given their probabilities."""

    def draw(
        relevance: np.ndarray, position_bias: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        return rng.random(relevance.shape) < probability(relevance, position_bias)

    return draw


def draw_impatient(
    relevance: np.ndarray, position_bias: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Users who read from the top and stop after a click that satisfies them.

    A user has the patience to read down to position k with probability theta_k (so theta must not
    increase), clicks what is read with probability zeta, and after each click stops, satisfied,
    with probability 0.5. Clicks thus lower the examination of everything below them.
    """
    patient = rng.random((len(relevance), 1)) < position_bias
    attracted = rng.random(relevance.shape) < relevance
    satisfied = attracted & (rng.random(relevance.shape) < SATISFIED)
    # Patience ends only once, so a user who reads k has read, and may have clicked, all above it.
    satisfied_above = np.cumsum(satisfied, axis=1) - satisfied > 0
    return patient & attracted & ~satisfied_above


def users_of(model: ClickModel) -> UserModel:
    """Users who follow a click model, with the parameters of its `world`."""

    def going_on(
        relevance: np.ndarray, position_bias: np.ndarray, satisfaction: np.ndarray | None
    ) -> np.ndarray | None:
        if satisfaction is not None:
            return 1 - satisfaction
        by_position = model.world_going_on(position_bias)
        return None if by_position is None else np.broadcast_to(by_position, relevance.shape)

    def draw(
        relevance: np.ndarray,
        position_bias: np.ndarray,
        rng: np.random.Generator,
        satisfaction: np.ndarray | None = None,
    ) -> np.ndarray:
        contexts, emission = model.world(position_bias)
        slots = np.broadcast_to(np.arange(relevance.shape[1]), relevance.shape)
        stay = going_on(relevance, position_bias, satisfaction)
        return draw_clicks(model.states(contexts), emission, slots, relevance, rng, stay)

    def probability(
        relevance: np.ndarray, position_bias: np.ndarray, satisfaction: np.ndarray | None = None
    ) -> np.ndarray:
        contexts, emission = model.world(position_bias)
        stay = going_on(relevance, position_bias, satisfaction)
        depth = relevance.shape[-1]
        # all pages have the same slots, so they can be treated as draws of one page
        pages = relevance.reshape(-1, 1, depth)
        one = Emission(*(None if part is None else part[None] for part in emission))
        stay = None if stay is None else stay.reshape(-1, 1, depth)
        chances = click_chances(model.states(contexts), one, np.arange(depth)[None], pages, stay)
        return chances.reshape(relevance.shape)

    return UserModel(draw, probability, click_model=model)


USERS: dict[str, UserModel] = {
    **{name: users_of(model) for name, model in CLICK_MODELS.items()},
    "impatient": UserModel(draw_impatient, impatient_probability),
    "personal": UserModel(draw_independent(pbm_probability), pbm_probability, has_taste=True),
}


def examination_table(users: str, position_bias: np.ndarray) -> pa.Table:
    """Contexts of the users' click model, and `theta` in each.

    theta is how much the probability of a click rises with relevance, A - B: the position bias
    where items without relevance are not clicked. Where they are, `unattractive` is B, how often.
    Users who follow no click model have position bias alone; of users who may stop reading, NaN.
    """
    model = USERS[users].click_model or CLICK_MODELS["pbm"]
    contexts, emission = model.world(position_bias)
    if model.has_latent_state:  # it depends on the items above
        return contexts.append_column(THETA, pa.array(np.full(len(contexts), np.nan)))
    if not emission.is_affine:
        return contexts.append_column(THETA, pa.array(emission.attractive))
    slope = emission.attractive - emission.unattractive
    table = contexts.append_column(THETA, pa.array(slope))
    return table.append_column(UNATTRACTIVE, pa.array(emission.unattractive))


def examination_at(examination: pa.Table, contexts: pa.Table) -> np.ndarray:
    """(contexts,) true theta in the contexts of a fitted model, whichever click model it has.

    NaN where this world has no such context, or several that differ: if examination depends on
    earlier clicks, no single position bias is valid for all pages.
    """
    return _found(examination, contexts, THETA)


def unattractive_at(examination: pa.Table, contexts: pa.Table) -> np.ndarray:
    """(contexts,) true probability of a click without relevance; NaN as for theta."""
    if UNATTRACTIVE in examination.column_names:
        return _found(examination, contexts, UNATTRACTIVE)
    return np.where(np.isnan(examination_at(examination, contexts)), np.nan, 0.0)


def _found(examination: pa.Table, contexts: pa.Table, column: str) -> np.ndarray:
    """(contexts,) values of a column in the contexts of a fitted model; NaN where there are none"""
    if not has_positions_alone(contexts):
        return np.full(len(contexts), np.nan)
    shared = [name for name in examination.column_names if name in contexts.column_names]
    known: dict[tuple[int, ...], set[float]] = {}
    for key, value in zip(_rows(examination, shared), examination[column].to_pylist(), strict=True):
        known.setdefault(key, set()).add(value)
    found = [known.get(key, set()) for key in _rows(contexts, shared)]
    return np.array([next(iter(each)) if len(each) == 1 else np.nan for each in found], float)


def has_positions_alone(contexts: pa.Table) -> bool:
    """Whether integer positions are the only given context, as in simulated worlds."""
    history = [name for model in CLICK_MODELS.values() for name in model.history]
    given = given_names(contexts, history)
    return given == ["position"] and pa.types.is_integer(contexts["position"].type)


def _rows(table: pa.Table, names: list[str]) -> list[tuple[int, ...]]:
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))
