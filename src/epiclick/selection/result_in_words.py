"""A selection in words: which model, by how much, and what the choice changes."""

from collections.abc import Iterator, Sequence

from epiclick.selection.parsimony import ModelScores, best_of, chosen_of, reference_of

COMPARE = (
    "In a comparison of rankers, clicks per page follow from the chosen model; the click rate of "
    "the first result and discounted relevance depend on it only through the relevance of items."
)


def verdict(models: Sequence[ModelScores], last: str) -> str:
    """The verdict on some models.

    Args:
        models: their scores, with differences from the best.
        last: the position of `ModelScores.relative_bias`, such as "position 10".
    """
    sentences = [headline(models), *_marginal(models)]
    chosen, other = chosen_of(models), reference_of(models)
    if chosen is not None and other is not None:
        sentences += [*_bias(chosen, other, last), COMPARE]
    sentences += [
        f"{each.click_model} gives {_number(each.impossible, each.unit)} probability 0, so it is "
        "not scored."
        for each in sorted(models, key=lambda each: each.click_model)
        if not each.is_scored
    ]
    sentences += _contradicted(models)
    sentences += [_redundant(each) for each in models if each.is_scored and each.is_redundant]
    return " ".join(sentences)


def _contradicted(models: Sequence[ModelScores]) -> Iterator[str]:
    """Which models the pages contradict; a warning if the chosen one is among them."""
    chosen = chosen_of(models)
    names = sorted(each.click_model for each in models if each.is_contradicted)
    if not names or chosen is None:
        return
    yield f"The pages contradict assumptions of {', '.join(names)}."
    if chosen.is_contradicted:
        yield "They contradict the chosen model, too: see the warnings of its fit."


def _redundant(model: ModelScores) -> str:
    """Why a model does not compete, and by how much it seems better."""
    assert model.difference is not None
    assert model.low is not None
    assert model.high is not None
    better = ""
    if model.difference > 0:
        gain = _interval(model.difference, model.low, model.high)
        better = f", although its log-likelihood per display is higher by {gain}"
    return (
        f"{model.click_model} is not chosen{better}: the pages show no sign that clicks are not in "
        "proportion to relevance, so that it only fits the distribution of relevance."
    )


def headline(models: Sequence[ModelScores]) -> str:
    """Which model to choose, as a sentence; does not depend on richer models that gain nothing."""
    best, chosen, other = best_of(models), chosen_of(models), reference_of(models)
    if best is None or chosen is None:
        return "No model could be scored: each gives some of the held-out pages probability 0."
    if other is None:
        return f"Choose {chosen.click_model}: it is the only model that was scored."
    if chosen is not best:
        reason = "which may be chance" if chosen.may_be_chance else "which is negligible"
        why = (
            f"{chosen.click_model} is simpler ({_number(chosen.parameters, 'parameter')}, not "
            f"{best.parameters:,})"
        )
        if chosen.parameters >= best.parameters:
            why = f"the pages contradict {best.click_model}"
        return (
            f"Choose {chosen.click_model}: {best.click_model} predicts held-out pages better by "
            f"{gain_of(chosen)} in log-likelihood per display, {reason}, and {why}."
        )
    if other.parameters > chosen.parameters:
        return (
            f"Choose {chosen.click_model}: it predicts held-out pages best, and no scored model "
            f"is simpler ({_number(chosen.parameters, 'parameter')})."
        )
    return (
        f"Choose {chosen.click_model}: it predicts held-out pages best, by {gain_of(other)} in "
        f"log-likelihood per display compared with {other.click_model}."
    )


def gain_of(model: ModelScores) -> str:
    """What the best model gains over this one, with its interval."""
    assert model.difference is not None
    assert model.low is not None
    assert model.high is not None
    return _interval(-model.difference, -model.high, -model.low)


def _marginal(models: Sequence[ModelScores]) -> Iterator[str]:
    """Whether a better prediction given the clicks above is also one of clicks per page."""
    chosen, other = chosen_of(models), reference_of(models)
    if chosen is None or other is None or chosen is not best_of(models):
        return
    if other.parameters >= chosen.parameters or other.marginal_difference is None:
        return
    assert other.marginal_low is not None
    assert other.marginal_high is not None
    gain = _interval(-other.marginal_difference, -other.marginal_high, -other.marginal_low)
    if other.marginal_high >= 0:
        yield (
            f"Not given the clicks above a display, it predicts no better ({gain}): forecasts of "
            "clicks per page gain nothing."
        )
    else:
        yield f"Not given the clicks above a display, it is better by {gain}."


def _bias(chosen: ModelScores, other: ModelScores, last: str) -> Iterator[str]:
    if chosen.relative_bias is not None and other.relative_bias is not None:
        yield (
            f"Relative position bias at {last} is {chosen.relative_bias:.3f} under "
            f"{chosen.click_model} and {other.relative_bias:.3f} under {other.click_model}."
        )


def _interval(middle: float, low: float, high: float) -> str:
    return f"{middle:.5f} ({low:.5f} to {high:.5f})"


def _number(count: int, unit: str) -> str:
    return f"{count:,} {unit}{'' if count == 1 else 's'}"
