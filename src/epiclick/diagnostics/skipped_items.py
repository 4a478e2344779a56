"""After a click, do clicks depend on what was skipped since?

In a user browsing model only the place of the last click matters. If users may stop after a click,
those who skipped attractive items have probably stopped, and the same item in the same context is
clicked less often below them. How attractive items are is learned on the other half of the pages.
"""

import numpy as np

from epiclick.click_models.click_model import ClickModel
from epiclick.data.robots import shrunk_ratio
from epiclick.diagnostics.clustered_score import stratified_score
from epiclick.diagnostics.diagnostic import Diagnostic, Tested, more_or_less
from epiclick.diagnostics.page_displays import PageDisplays


def knows_last_click(model: ClickModel) -> bool:
    """Whether examination is learned for every place of the last click."""
    return bool(model.history) and not model.knows_examination


def may_stop(model: ClickModel, rises: bool) -> bool:
    """Whether users may stop after a click, so that skips of attractive items mean fewer clicks."""
    return model.has_latent_state and not rises


def skipped_items(displays: PageDisplays) -> Tested | None:
    """Whether clicks below a click depend on the attractiveness of the items in between."""
    attraction = np.zeros(len(displays))
    known, pairs = displays.pair >= 0, int(displays.pair.max()) + 1
    for learned, tested in displays.crossed():
        learned, tested = learned & known, tested & known
        clicks, looks = (
            np.bincount(displays.pair[learned], amount, pairs)
            for amount in (displays.clicked[learned], None)
        )
        attraction[tested] = shrunk_ratio(clicks, looks)[displays.pair[tested]]
    before = np.cumsum(attraction) - attraction
    skipped = before - (before + attraction)[displays.last]  # after the last click, above this item
    chosen = displays.examined & (displays.last >= 0)
    own, skipped = displays.where(chosen), skipped[chosen & known]
    score = stratified_score(2 * own.stratum() + own.half, own.cluster, own.clicked, skipped)
    if score is None:
        return None
    return Tested(
        score,
        "after a click, the same item in the same place is clicked "
        f"{more_or_less(score.effect)} if the items skipped since the click are more attractive by "
        "a standard deviation",
    )


SKIPPED_ITEMS = Diagnostic(
    "skipped_items",
    "items skipped since the last click",
    knows_last_click,
    may_stop,
    skipped_items,
)
