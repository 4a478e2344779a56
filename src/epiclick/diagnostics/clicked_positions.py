r"""Does going on after a click depend on the position, given the item that was clicked?

Where a click satisfies with a probability of the item's own, the item right below it is clicked
with the product of two effects, whatever the position:

.. math:: P(y = 1) = (1 - s_{above})\, \zeta_{item}
"""

import numpy as np

from epiclick.click_models.click_model import ClickModel
from epiclick.data.robots import shrunk_ratio
from epiclick.diagnostics.clicked_items import satisfies
from epiclick.diagnostics.clustered_score import two_way_score
from epiclick.diagnostics.diagnostic import Diagnostic, Tested, more_or_less
from epiclick.diagnostics.page_displays import PageDisplays


def stops_by_position(model: ClickModel, rises: bool) -> bool:
    """Whether users may stop after a click with a probability of the position, in any way."""
    return model.has_latent_state and not satisfies(model)


def clicked_positions(displays: PageDisplays) -> Tested | None:
    """The trend in the position of clicks right below a click, given both items."""
    pairs = int(displays.pair.max()) + 1
    clicked_pair = displays.pair[np.maximum(displays.last, 0)]
    below = displays.below_click & (clicked_pair >= 0)
    first = displays.where(displays.above == 0)  # which were certainly read
    own, above = displays.where(below), clicked_pair[below & (displays.pair >= 0)]
    expected = np.zeros(len(own))
    halves = zip(first.crossed(), own.crossed(), strict=True)
    for (read, _), (learned, tested) in halves:
        clicks, looks = (
            np.bincount(first.pair[read], amount, pairs) for amount in (first.clicked[read], None)
        )
        attraction = shrunk_ratio(clicks, looks)
        went_on, chances = (
            np.bincount(above[learned], amount, pairs)
            for amount in (own.clicked[learned], attraction[own.pair[learned]])
        )
        going_on = shrunk_ratio(went_on, chances)
        expected[tested] = (attraction[own.pair] * going_on[above])[tested]
    score = two_way_score(
        2 * own.pair + own.half,
        2 * above + own.half,
        own.cluster,
        own.clicked.astype(np.float64),
        expected,
        own.position.astype(np.float64),
    )
    if score is None:
        return None
    return Tested(
        score,
        "going on after a click depends on the position: right below a click on the same item, "
        f"the same next item is clicked {more_or_less(score.change)} for each position further "
        "down",
    )


CLICKED_POSITIONS = Diagnostic(
    "clicked_positions",
    "where the click right above is",
    satisfies,
    stops_by_position,
    clicked_positions,
)
