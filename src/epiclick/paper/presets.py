"""Settings to begin with: the paper's, a tenth of them, and a quick look."""

import json
from dataclasses import replace
from pathlib import Path

from epiclick.errors import InputError, did_you_mean
from epiclick.paper.settings import Settings

GRID = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3)
"""Rates of the network that are tried."""

RATES: dict[str, float] = dict.fromkeys(
    (
        "pointwise",
        "naive",
        "naive+baseline",
        "self_normalized",
        "self_normalized+baseline",
        "conditioned",
        "conditioned+baseline",
        "exact",
        "marginal",
    ),
    1e-4,
)
"""Rates as `--tune` chose them in worlds of a tenth with 150 epochs: the same for every method. The
other presets take them over."""

PRESETS: dict[str, Settings] = {
    "paper": Settings(room=0.05, rates=RATES),
    # a tenth of queries, pages and batches: as many steps an epoch, and as many displays a pair; a
    # tenth of the epochs, since so few clicks are soon learned by heart
    "tenth": Settings(
        preset="tenth",
        queries=1_000,
        pages=10_000,
        epochs=150,
        batch_size=1_200,
        pointwise_batch_size=3_500,
        room=0.1,
        rates=RATES,
    ),
    # about as many steps an epoch, ten minutes on two cores
    "quick": Settings(
        preset="quick",
        queries=800,
        docs=40,
        pages=8_000,
        runs=3,
        epochs=100,
        samples=30,
        batch_size=1_200,
        pointwise_batch_size=3_500,
        room=0.15,
        rates=RATES,
    ),
}


def choose_preset(name: str) -> Settings:
    """The settings of a preset; InputError where it is unknown."""
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS)
        raise InputError(f"preset must be one of {', '.join(PRESETS)}; got '{name}'{hint}")
    return PRESETS[name]


def with_rates(settings: Settings, path: Path) -> Settings:
    """The settings with rates from a JSON file, as `--tune` writes it: method -> rate."""
    try:
        given = {str(k): float(v) for k, v in json.loads(path.read_text("utf-8")).items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read as rates ({error}); expected JSON such as "
            '{"exact": 0.001, "pointwise": 0.003}'
        ) from error
    unknown = sorted(set(given) - set(settings.rates))
    if unknown:
        raise InputError(
            f"{path} has rates of {', '.join(unknown)}; those that have one are "
            f"{', '.join(settings.rates)}"
        )
    return replace(settings, rates={**settings.rates, **given})
