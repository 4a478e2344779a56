"""What `epiclick fit` says of the model it made."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from epiclick.cli.log_reading import print_sizes
from epiclick.cli.position_bias import bias_records, print_bias
from epiclick.cli.telling import known, number, print_text, tell_warning

if TYPE_CHECKING:
    from epiclick.api import BaseModel
    from epiclick.data.counts import ClickCounts


def fit_record(
    model: "BaseModel", counts: "ClickCounts", warnings: Sequence[str]
) -> dict[str, Any]:
    """For JSON: sizes are of the whole log, `trained_on` of what was not held out."""
    training = model.fitted_.training
    return {
        "pairs": len(counts),
        "displays": counts.total_displays,
        "clicks": counts.total_clicks,
        "trained_on": {
            "pairs": training.pairs,
            "displays": training.displays,
            "clicks": training.clicks,
        },
        "epochs": training.epochs,
        "best_epoch": training.best_epoch,
        "seconds": training.seconds,
        "log_likelihood": training.log_likelihood,
        "chi2_per_df": training.checks["chi2_per_df"],
        "click_model": model.click_model,
        "position_bias": bias_records(model),
        "parameters": known(model.click_table().to_dict("records")),
        "anchor": training.checks["anchor"],
        "at_bound": training.checks["at_bound"],
        "identifiability": training.checks["identifiability"],
        "posterior": training.checks.get("posterior"),
        "given_bias": training.checks.get("given_bias"),
        "words": training.checks["words"],
        "warnings": list(warnings),
    }


def print_fit(model: "BaseModel", counts: "ClickCounts", *, valid: bool, quiet: bool) -> None:
    """For people: sizes, time, likelihood, fit, position bias, and what the log can tell of it."""
    training = model.fitted_.training
    words = "\n".join(training.checks["words"])
    for warning in training.warnings:
        if warning not in words:
            tell_warning(warning, quiet=quiet)
    print_sizes(counts)
    print_text(
        f"{training.epochs} epochs in {training.seconds:.1f} s, the best was {training.best_epoch}"
    )
    of = "the pairs trained on"
    if valid:
        of = "the validation log"
    elif len(model.fitted_.queries.held_out):
        of = f"{len(model.fitted_.queries.held_out):,} queries held out"
    print_text(f"log-likelihood per display {number(training.log_likelihood)}, of {of}")
    ratio = training.checks["chi2_per_df"]
    if ratio is None:
        print_text("chi2/df unknown: too few items were shown often enough")
    else:
        df = training.checks["chi2_df"]
        title = model.fitted_.clicks.title
        print_text(f"chi2/df {ratio:.2f}, df {df:,} (1: clicks vary as a {title} says)")
    print_bias(model)
    print_text(words)
