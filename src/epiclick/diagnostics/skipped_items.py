"""After a click, do clicks depend on what was skipped since?

In a user browsing model only the place of the last click matters. If users may stop after a click,
those who skipped attractive items have probably stopped, and the same item in the same context is
clicked less often below them. How attractive items are is learned on the other half of the pages.
"""

import numpy as np

from epiclick.click_models.click_model import ClickModel
from epiclick.diagnostics.clustered_score import two_way_score
from epiclick.diagnostics.diagnostic import Diagnostic, Tested, more_or_less
from epiclick.diagnostics.page_displays import PageDisplays
from epiclick.diagnostics.product_of_effects import product_of_effects


def knows_last_click(model: ClickModel) -> bool:
    """Whether examination is learned for every place of the last click."""
    return bool(model.history) and not model.knows_examination


def may_stop(model: ClickModel, rises: bool) -> bool:
    """Whether users may stop after a click, so that skips of attractive items mean fewer clicks."""
    return model.has_latent_state and not rises


def skipped_items(displays: PageDisplays) -> Tested | None:
    """Whether clicks below a click depend on the attractiveness of the items in between."""
    known = displays.examined & (displays.pair >= 0)
    size = int(displays.context.max()) + 1, int(displays.pair.max()) + 1
    attraction, expected = np.zeros((2, len(displays)))
    for learned, tested in displays.crossed():
        learned, tested = learned & known, tested & (displays.pair >= 0)
        theta, relevance = product_of_effects(
            displays.context[learned], displays.pair[learned], displays.clicked[learned], size
        )
        attraction[tested] = relevance[displays.pair[tested]]
        expected[tested] = attraction[tested] * theta[displays.context[tested]]
    before = np.cumsum(attraction) - attraction
    skipped = before - (before + attraction)[displays.last]  # after the last click, above this item
    chosen = known & (displays.last >= 0)
    own = displays.where(chosen)
    score = two_way_score(
        2 * own.pair + own.half,
        2 * own.context + own.half,
        own.cluster,
        own.clicked.astype(np.float64),
        expected[chosen],
        skipped[chosen],
    )
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
