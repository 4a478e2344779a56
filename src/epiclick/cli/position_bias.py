"""`epiclick position-bias`: the position bias of a fitted model."""

from typing import Annotated, Any, get_args

from typer import Option

from epiclick.arguments import BiasKind, check_level
from epiclick.cli import console, options


def position_bias(
    model: options.Model,
    kind: Annotated[
        BiasKind | None,
        Option(
            metavar="KIND",
            help=f"Kind of intervals: {', '.join(get_args(BiasKind))}.",
            show_default="the first that the model has",
        ),
    ] = None,
    level: options.Level = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Show the position bias of a fitted model.

    robust intervals are valid even where clicks are overdispersed, bayes intervals trust the model,
    evidential intervals are those of the Betas of the paper's estimators.

    Example: epiclick position-bias model --kind bayes --level 0.5
    """
    from epiclick.api import load
    from epiclick.data.checksums import with_digest

    if level is not None:
        check_level("--level", level)
    fitted = load(model)
    warnings = list(fitted.fitted_.training.warnings)
    if as_json:
        bias = fitted.position_bias(kind, level=level)
        record: dict[str, Any] = {"position_bias": bias.to_dict("records")}
        if fitted.fitted_.clicks.history or fitted.fitted_.clicks.is_affine:
            record["parameters"] = fitted.click_table(kind, level=level).to_dict("records")
        for name in ("given_bias", "at_bound"):
            if found := fitted.fitted_.training.checks.get(name):
                record[name] = found
        record = console.with_version(console.json_safe({**record, "warnings": warnings}))
        # kept in a file, it may be given to a fit
        console.print_json(with_digest(record))
        return
    for warning in warnings:
        console.print_warning(warning, quiet=quiet)
    console.print_bias(fitted, kind, level)
