"""All numbers and sentences of a report, before anything is drawn."""

from dataclasses import dataclass

from epiclick.report.facts.absent import Absent
from epiclick.report.facts.bias import Bias, bias
from epiclick.report.facts.curve import Curve, curve
from epiclick.report.facts.doubts import Doubt, doubts
from epiclick.report.facts.glance import Glance, glance
from epiclick.report.facts.items import ItemSample, item_sample
from epiclick.report.facts.opening import Opening, opening
from epiclick.report.facts.provenance import Provenance, provenance
from epiclick.report.facts.quality import Quality, quality
from epiclick.report.facts.rankers import Rankers, rankers
from epiclick.report.facts.sources import Sources


@dataclass(frozen=True, eq=False)
class Report:
    """What the page says; a part that cannot be told is `Absent`, with what would add it.

    Attributes:
        title: of the page.
        has_truth: whether a simulated world's truth was given.
        opening: three sentences.
        doubts: reasons not to believe it.
        glance: size of the data, click rates.
        bias: position bias.
        quality: how well clicks are foretold.
        items: relevance.
        rankers: which one to ship.
        curve: of training.
        provenance: settings and versions.
    """

    title: str
    has_truth: bool
    opening: Opening
    doubts: tuple[Doubt, ...]
    glance: Glance
    bias: Bias
    quality: Quality | Absent
    items: ItemSample | Absent
    rankers: Rankers | Absent
    curve: Curve
    provenance: Provenance


def gather(sources: Sources, title: str = "") -> Report:
    """Ask the model, the logs and the comparison for all that the page says."""
    found_bias, found_quality = bias(sources), quality(sources)
    found_items, found_rankers = item_sample(sources), rankers(sources, found_quality)
    found_doubts = doubts(sources, found_bias, found_quality, found_items, found_rankers)
    return Report(
        title=title or f"Click report: {sources.name}",
        has_truth=sources.truth is not None,
        opening=opening(found_bias, found_quality, found_rankers, found_doubts),
        doubts=found_doubts,
        glance=glance(sources),
        bias=found_bias,
        quality=found_quality,
        items=found_items,
        rankers=found_rankers,
        curve=curve(sources),
        provenance=provenance(sources),
    )
