"""Epistemic click models: from click logs to distributions of relevance and position bias.

Public names are loaded when first used, so that `import epiclick` stays fast.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from epiclick.click_models.registry import REGISTRY

if TYPE_CHECKING:
    from epiclick.api import EpistemicCascade as EpistemicCascade
    from epiclick.api import EpistemicDCM as EpistemicDCM
    from epiclick.api import EpistemicPBM as EpistemicPBM
    from epiclick.api import EpistemicSDBN as EpistemicSDBN
    from epiclick.api import EpistemicTrustPBM as EpistemicTrustPBM
    from epiclick.api import EpistemicUBM as EpistemicUBM
    from epiclick.api import PointwisePBM as PointwisePBM
    from epiclick.api import evaluate as evaluate
    from epiclick.api import load as load
    from epiclick.beta import Beta as Beta
    from epiclick.comparison.compare_rankers import compare as compare
    from epiclick.comparison.drift import drift as drift
    from epiclick.comparison.several_models import compare_models as compare_models
    from epiclick.data.counts import ClickCounts as ClickCounts
    from epiclick.data.features import FeatureScaler as FeatureScaler
    from epiclick.data.features import FeatureTable as FeatureTable
    from epiclick.data.features import read_features as read_features
    from epiclick.data.letor import read_letor as read_letor
    from epiclick.data.readers import read_log as read_log
    from epiclick.data.schema import LogOptions as LogOptions
    from epiclick.distributed import distributed as distributed
    from epiclick.errors import InputError as InputError
    from epiclick.errors import InputWarning as InputWarning
    from epiclick.experiments.interleave_rankings import interleave as interleave
    from epiclick.experiments.interleaving_analysis import (
        analyse_interleaving as analyse_interleaving,
    )
    from epiclick.experiments.plan_experiment import plan as plan
    from epiclick.inspection.inspect_log import inspect as inspect
    from epiclick.report.report_model import report as report
    from epiclick.selection.select_model import select as select
    from epiclick.simulate.world import World as World
    from epiclick.simulate.world import simulate as simulate

_MODULES = {
    "Beta": "epiclick.beta",
    "compare": "epiclick.comparison.compare_rankers",
    "compare_models": "epiclick.comparison.several_models",
    "drift": "epiclick.comparison.drift",
    "ClickCounts": "epiclick.data.counts",
    "FeatureScaler": "epiclick.data.features",
    "FeatureTable": "epiclick.data.features",
    "read_features": "epiclick.data.features",
    "read_letor": "epiclick.data.letor",
    "analyse_interleaving": "epiclick.experiments.interleaving_analysis",
    "interleave": "epiclick.experiments.interleave_rankings",
    "plan": "epiclick.experiments.plan_experiment",
    "inspect": "epiclick.inspection.inspect_log",
    "LogOptions": "epiclick.data.schema",
    "distributed": "epiclick.distributed",
    "read_log": "epiclick.data.readers",
    "InputError": "epiclick.errors",
    "InputWarning": "epiclick.errors",
    **{entry.public: "epiclick.api" for entry in REGISTRY.values()},
    "PointwisePBM": "epiclick.api",
    "evaluate": "epiclick.api",
    "load": "epiclick.api",
    "report": "epiclick.report.report_model",
    "select": "epiclick.selection.select_model",
    "World": "epiclick.simulate.world",
    "simulate": "epiclick.simulate.world",
}

__all__ = [*_MODULES, "__version__"]


def __getattr__(name: str) -> Any:
    """Load a public name from its module when it is first used."""
    if name == "__version__":
        from importlib.metadata import version

        return version("epiclick")
    if name not in _MODULES:
        raise AttributeError(f"module 'epiclick' has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted(__all__)


class _Package(ModuleType):
    """Keeps `ec.simulate` the function: importing the subpackage must not replace it."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
