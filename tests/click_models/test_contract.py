"""All click models satisfy the contract, and wrong ones do not."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pytest

from epiclick.click_models.click_model import ClickModel, Emission, PageStates
from epiclick.click_models.priors import EffectsPrior, ParameterPrior
from epiclick.click_models.registry import CLICK_MODELS, click_model
from epiclick.click_models.trust import TrustBased
from epiclick.click_models.ubm import UserBrowsing

from .contract import (
    ClickModelContract,
    check_contexts,
    check_counts,
    check_draws,
    check_emission,
    check_enumeration,
    check_histories,
    check_identified,
    check_logits,
    check_prior,
    check_world,
    setting,
)

pytestmark = pytest.mark.slow


class TestPBM(ClickModelContract):
    model = click_model("pbm")


class TestUBM(ClickModelContract):
    model = click_model("ubm")


class TestTrust(ClickModelContract):
    model = click_model("trust")


class TestCascade(ClickModelContract):
    model = click_model("cascade")


class TestDCM(ClickModelContract):
    model = click_model("dcm")


class TestSDBN(ClickModelContract):
    model = click_model("sdbn")


def test_every_click_model_is_held_to_it() -> None:
    held = {each.model.name for each in ClickModelContract.__subclasses__()}
    assert held == set(CLICK_MODELS)


class Forgetful(UserBrowsing):
    """Forgets the last click at the first item that is not clicked."""

    def states(self, contexts: pa.Table) -> PageStates:
        right = super().states(contexts)
        return right._replace(skipped=np.zeros_like(right.skipped))


class SeesItself(UserBrowsing):
    """Counts a display's own click as one above it."""

    def history_columns(self, log: ir.Table) -> Mapping[str, ir.Value]:
        above = ibis.window(
            group_by=log.page_id, order_by=log.position, preceding=None, following=0
        )
        clicked_at = ibis.ifelse(log.clicked, log.position, ibis.null(log.position.type()))
        return {"last_click": clicked_at.max().over(above).fill_null(0).cast("int64")}


class Unordered(UserBrowsing):
    """Counts clicks below a display as clicks above it."""

    def history_columns(self, log: ir.Table) -> Mapping[str, ir.Value]:
        page = ibis.window(group_by=log.page_id)
        clicked_at = ibis.ifelse(log.clicked, log.position, ibis.null(log.position.type()))
        return {"last_click": clicked_at.max().over(page).fill_null(0).cast("int64")}


class Incomplete(UserBrowsing):
    """Leaves out the last context."""

    def complete(self, contexts: pa.Table) -> pa.Table:
        every = super().complete(contexts)
        return every.slice(0, len(every) - 1)


class FivePercentOff(UserBrowsing):
    """Probabilities that do not add up to 1."""

    def emission(self, parameters: Any, anchor: int | None, xp: ModuleType) -> Emission:
        right = super().emission(parameters, anchor, xp)
        return right._replace(attractive=0.95 * right.attractive)


class Subtracts(UserBrowsing):
    """Computes 1 - theta by subtraction."""

    def emission(self, parameters: Any, anchor: int | None, xp: ModuleType) -> Emission:
        right = super().emission(parameters, anchor, xp)
        return right._replace(attractive_rest=1 - right.attractive)


class FreeAnchor(UserBrowsing):
    """Lists the anchor's parameter as free."""

    def free(self, contexts: int, anchor: int | None) -> np.ndarray:
        return np.arange(contexts)


class SharedParameter(UserBrowsing):
    """Two contexts of which only the sum of parameters is identified."""

    def emission(self, parameters: Any, anchor: int | None, xp: ModuleType) -> Emission:
        last = len(parameters) - 1
        both = (parameters[last] + parameters[last - 1]) / 2
        mixed = xp.where(xp.arange(len(parameters)) >= last - 1, both, parameters)
        return super().emission(mixed, anchor, xp)


class MovingAnchor(UserBrowsing):
    """Differentiates the anchor, which is fixed."""

    def logit_jacobian(self, parameters: np.ndarray, anchor: int | None) -> np.ndarray:
        return np.eye(len(parameters))


class Curved(UserBrowsing):
    """Logits that bend; a right model."""

    def emission(self, parameters: Any, anchor: int | None, xp: ModuleType) -> Emission:
        right = super().emission(parameters + 0.1 * parameters**2, anchor, xp)
        # clicks on unattractive items, as often as on attractive ones of another context
        other = super().emission(parameters[::-1] - 3, None, xp)
        return Emission(*right[:2], *other[:2])

    def logit_jacobian(self, parameters: np.ndarray, anchor: int | None) -> np.ndarray:
        own = super().logit_jacobian(parameters, anchor) * (1 + 0.2 * parameters)
        return np.concatenate([own, np.eye(len(parameters))[::-1]])

    def logit_bend(
        self, parameters: np.ndarray, anchor: int | None, slope: np.ndarray
    ) -> np.ndarray:
        free = np.diag(super().logit_jacobian(parameters, anchor))
        return np.diag(0.2 * free * slope[: len(parameters)])


class Straightened(Curved):
    """Leaves out that its logits bend, in first derivatives."""

    def logit_jacobian(self, parameters: np.ndarray, anchor: int | None) -> np.ndarray:
        return super().logit_jacobian(0 * parameters, anchor)


class Unbent(Curved):
    """Leaves it out in second derivatives."""

    def logit_bend(
        self, parameters: np.ndarray, anchor: int | None, slope: np.ndarray
    ) -> np.ndarray:
        return np.zeros((len(parameters), len(parameters)))


class WidePrior(EffectsPrior):
    """Draws are twice as wide as the density."""

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        return 2 * super().draw(rng, count)


class Overdrawn(UserBrowsing):
    """Has such a prior."""

    def prior(self, contexts: pa.Table, anchor: int | None) -> ParameterPrior:
        right = super().prior(contexts, anchor)
        assert isinstance(right, EffectsPrior)
        given = (right.known_mean, right.known_sd)
        return WidePrior(right.groups, right.spreads, *given, right.names)


class OtherWorld(UserBrowsing):
    """Worlds with another position bias than requested."""

    def world(self, theta: np.ndarray) -> tuple[pa.Table, Emission]:
        return super().world(theta**2)


class BeyondAttraction(TrustBased):
    """Clicks on unattractive items have no bound: B = sigma(y)."""

    def emission(self, parameters: Any, anchor: int | None, xp: ModuleType) -> Emission:
        right = super().emission(parameters, anchor, xp)
        y = parameters[len(parameters) // 2 :]
        return Emission(*right[:2], 1 / (1 + xp.exp(-y)), 1 / (1 + xp.exp(y)))


class WithoutProductRule(TrustBased):
    """Forgets that B moves with A, in first derivatives."""

    def logit_jacobian(self, parameters: np.ndarray, anchor: int | None) -> np.ndarray:
        right, contexts = super().logit_jacobian(parameters, anchor), len(parameters) // 2
        right[contexts:, :contexts] = 0
        return right


class WithoutMixedBend(TrustBased):
    """Forgets it in second derivatives."""

    def logit_bend(
        self, parameters: np.ndarray, anchor: int | None, slope: np.ndarray
    ) -> np.ndarray:
        right, contexts = super().logit_bend(parameters, anchor, slope), len(parameters) // 2
        right[contexts:, :contexts] = 0
        return right


class CommonFloor(TrustBased):
    """Clicks on unattractive items that are the same everywhere, in spite of as many parameters."""

    def emission(self, parameters: Any, anchor: int | None, xp: ModuleType) -> Emission:
        contexts = len(parameters) // 2
        common = 0 * parameters[contexts:] + parameters[contexts:].mean()
        return super().emission(xp.concatenate([parameters[:contexts], common]), anchor, xp)


class NoFloor(TrustBased):
    """Says that unattractive items can be clicked, and has none of it."""

    def emission(self, parameters: Any, anchor: int | None, xp: ModuleType) -> Emission:
        return Emission(*super().emission(parameters, anchor, xp)[:2])


WRONG: list[tuple[ClickModel, Callable[..., None]]] = [
    (Forgetful(), check_histories),
    (Forgetful(), check_enumeration),
    (SeesItself(), check_contexts),
    (Unordered(), check_histories),
    (Unordered(), check_enumeration),
    (Incomplete(), check_contexts),
    (FivePercentOff(), check_emission),
    (FivePercentOff(), check_enumeration),
    (Subtracts(), check_emission),
    (FreeAnchor(), check_emission),
    (MovingAnchor(), check_logits),
    (Straightened(), check_logits),
    (Unbent(), check_logits),
    (SharedParameter(), check_identified),
    (Overdrawn(), check_prior),
    (BeyondAttraction(), check_emission),
    (WithoutProductRule(), check_logits),
    (WithoutMixedBend(), check_logits),
    (CommonFloor(), check_identified),
    (NoFloor(), check_emission),
]


@pytest.mark.parametrize(
    ("model", "check"), WRONG, ids=[f"{type(m).__name__}-{c.__name__}" for m, c in WRONG]
)
def test_wrong_models_are_found_out(model: ClickModel, check: Callable[..., None]) -> None:
    with pytest.raises(AssertionError):
        check(model, "positions")


def test_logits_that_bend_are_no_mistake() -> None:
    """The control: it is the derivatives left out that are found."""
    check_logits(Curved(), "positions")


def test_wrong_worlds_are_found_out() -> None:
    with pytest.raises(AssertionError):
        check_world(OtherWorld())


def test_draws_and_counts_by_another_machine_are_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Samplers are shared code, not part of a model: a forgetful one is patched in."""
    from . import contract

    model = click_model("ubm")
    forgets = Forgetful().states(setting(model, "positions").contexts)
    right = contract.draw_clicks
    monkeypatch.setattr(contract, "draw_clicks", lambda _, *given: right(forgets, *given))
    with pytest.raises(AssertionError):
        check_draws(model, "positions")
    monkeypatch.undo()
    # contexts that are read with the page upside down have another likelihood
    read = contract.read_contexts

    def backwards(model: ClickModel, scene: contract.Scene, log: pa.Table) -> pa.Table:
        position = log["position"]
        upside_down = log.set_column(
            log.column_names.index("position"),
            "position",
            pa.array(5 - position.to_numpy()),
        )
        found = read(model, scene, upside_down)
        return found.set_column(0, "position", position)

    monkeypatch.setattr(contract, "read_contexts", backwards)
    with pytest.raises(AssertionError):
        check_counts(model, "positions")


def test_the_wrong_prior_is_wrong_in_its_draws_alone() -> None:
    prior = Overdrawn().prior(setting(click_model("ubm"), "positions").contexts, 0)
    assert isinstance(prior, EffectsPrior)
    right = EffectsPrior.of(dict(zip(prior.names, prior.groups, strict=True)))
    x = np.linspace(-1, 1, prior.groups.shape[1])
    assert prior.log_density(x) == right.log_density(x)
    assert np.array_equal(replace(prior).gradient(x), right.gradient(x))
