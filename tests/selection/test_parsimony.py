"""The rule that chooses a model, on made-up numbers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epiclick.selection.parsimony import (
    NEGLIGIBLE,
    ModelScores,
    best_of,
    chosen_of,
    reference_of,
)
from epiclick.selection.result_in_words import headline, verdict


def scores(name: str, parameters: int, loss: float = 0.0, half: float = 0.001) -> ModelScores:
    """A model that is worse than the best by a loss, with an interval of this half-width."""
    if loss == 0:
        half = 0.0
    return ModelScores(
        click_model=name,
        parameters=parameters,
        log_likelihood=-0.3 - loss,
        difference=-loss,
        low=-loss - half,
        high=-loss + half,
        marginal_difference=-loss / 2,
        marginal_low=-loss / 2 - half,
        marginal_high=-loss / 2 + half,
        relative_bias=0.2 + loss,
    )


def impossible(name: str) -> ModelScores:
    return ModelScores(name, 0, None, impossible=12, relative_bias=1.0)


@st.composite
def several(draw: st.DrawFn) -> list[ModelScores]:
    """The best model and others, none of which is better; perhaps one that cannot be scored."""
    number = draw(st.integers(1, 5))
    sizes = draw(st.lists(st.integers(0, 60), min_size=number, max_size=number))
    losses = draw(st.lists(st.floats(0, 0.01), min_size=number, max_size=number))
    halves = draw(st.lists(st.floats(0, 0.01), min_size=number, max_size=number))
    losses = [loss - min(losses) for loss in losses]
    found = [
        scores(f"m{i}", *each) for i, each in enumerate(zip(sizes, losses, halves, strict=True))
    ]
    return [*found, *([impossible("cascade")] if draw(st.booleans()) else [])]


@given(several(), st.randoms())
def test_the_order_of_models_never_matters(models: list[ModelScores], rng) -> None:
    shuffled = list(models)
    rng.shuffle(shuffled)
    assert best_of(shuffled) == best_of(models)
    assert chosen_of(shuffled) == chosen_of(models)
    assert verdict(shuffled, "position 5") == verdict(models, "position 5")


@given(several(), st.integers(1, 100))
def test_a_richer_duplicate_of_the_best_changes_nothing(
    models: list[ModelScores], more: int
) -> None:
    best = best_of(models)
    double = replace(best, click_model="zz", parameters=best.parameters + more)
    assert best_of([*models, double]) == best
    assert chosen_of([*models, double]) == chosen_of(models)
    if len([each for each in models if each.is_scored]) > 1:
        assert headline([*models, double]) == headline(models)


@given(several())
def test_no_simpler_model_than_the_chosen_one_predicts_as_well(models: list[ModelScores]) -> None:
    chosen = chosen_of(models)
    assert chosen.may_be_chance or chosen.is_negligible
    for each in models:
        if each.is_scored and each.parameters < chosen.parameters:
            assert not each.may_be_chance
            assert not each.is_negligible


@pytest.mark.parametrize(
    ("loss", "half", "chosen"),
    [
        (0.002, 0.001, "ubm"),  # a clear gain
        (0.002, 0.003, "pbm"),  # may be chance
        (0.9 * NEGLIGIBLE, 1e-6, "pbm"),  # certain, and too small to matter
        (1.1 * NEGLIGIBLE, 1e-6, "ubm"),
    ],
)
def test_the_richer_model_must_gain_more_than_chance(loss: float, half: float, chosen: str) -> None:
    models = [scores("pbm", 4, loss, half), scores("ubm", 14)]
    assert best_of(models).click_model == "ubm"
    assert chosen_of(models).click_model == chosen
    assert headline(models).startswith(f"Choose {chosen}: ")


def test_the_verdict_names_reasons_and_consequences() -> None:
    gain = verdict([scores("pbm", 4, 0.002), scores("ubm", 14)], "position 5")
    assert "by 0.00200 (0.00100 to 0.00300)" in gain
    assert "Not given the clicks above a display, it predicts no better" in gain
    assert "position 5 is 0.200 under ubm and 0.202 under pbm" in gain
    assert "clicks per page" in gain
    tie = verdict([scores("pbm", 4, 0.0005), scores("ubm", 14)], "position 5")
    assert "which may be chance" in tie
    assert "4 parameters, not 14" in tie
    small = verdict([scores("pbm", 4, 0.5 * NEGLIGIBLE, 1e-6), scores("ubm", 14)], "position 5")
    assert "which is negligible" in small
    assert "no scored model is simpler" in verdict(
        [scores("pbm", 4), scores("ubm", 14, 0.001)], "position 5"
    )


def test_a_model_of_probability_0_is_named_and_never_chosen() -> None:
    models = [impossible("cascade"), scores("pbm", 4)]
    assert chosen_of(models).click_model == "pbm"
    assert reference_of(models) is None
    assert "cascade gives 12 pages probability 0" in verdict(models, "position 5")
    assert "the only model that was scored" in headline(models)
    none = [impossible("cascade")]
    assert (best_of(none), chosen_of(none)) == (None, None)
    assert verdict(none, "position 5").startswith("No model could be scored")


def test_of_models_that_predict_alike_one_that_pages_contradict_is_not_chosen() -> None:
    tied = [scores("pbm", 4, 0.0005), scores("trust", 9), scores("ubm", 14, 0.0004)]
    assert chosen_of(tied).click_model == "pbm"
    tied[0] = replace(tied[0], is_contradicted=True)
    assert chosen_of(tied).click_model == "trust"
    said = verdict(tied, "position 5")
    assert "The pages contradict assumptions of pbm." in said
    assert "chosen model, too" not in said
    # a model that predicts worse is not chosen, whatever the pages say about the others
    tied[1:] = [replace(each, is_contradicted=True) for each in tied[1:]]
    worse = scores("dcm", 5, 0.01)
    assert chosen_of([*tied, worse]).click_model == "pbm"
    assert "They contradict the chosen model, too" in verdict([*tied, worse], "position 5")


def test_the_best_model_is_not_chosen_if_pages_contradict_it_alone() -> None:
    best, richer = replace(scores("pbm", 4), is_contradicted=True), scores("ubm", 14, 0.0005)
    assert best_of([best, richer]) is best
    assert chosen_of([best, richer]) is richer
    assert "may be chance, and the pages contradict pbm." in headline([best, richer])


def test_a_redundant_model_does_not_compete_and_is_named() -> None:
    better = replace(scores("trust", 9, -0.0004, 0.0001), is_redundant=True)
    models = [scores("pbm", 4), better]
    assert best_of(models).click_model == chosen_of(models).click_model == "pbm"
    assert reference_of(models) is None
    said = verdict(models, "position 5")
    assert (
        "trust is not chosen, although its log-likelihood per display is higher by 0.00040" in said
    )
    worse = replace(scores("trust", 9, 0.0004), is_redundant=True)
    assert "trust is not chosen: the pages show no sign" in verdict(
        [models[0], worse], "position 5"
    )
