"""Does going on after a click depend on the item that was clicked?

Right below a click, in a model in which going on depends on the position only, an item is clicked
with the product of its relevance and an effect of the position, whichever item was clicked above
it. How much is clicked below an item, and both effects, are learned on one half of the pages and
tested on the other. The other way round would give the same products of clicks on both halves, and
no more information.
"""

import numpy as np

from epiclick.click_models.click_model import SATISFACTION, ClickModel
from epiclick.diagnostics.clustered_score import two_way_score
from epiclick.diagnostics.diagnostic import Diagnostic, Tested, more_or_less
from epiclick.diagnostics.page_displays import PageDisplays
from epiclick.diagnostics.product_of_effects import product_of_effects
from epiclick.diagnostics.skipped_items import knows_last_click

PRIOR_CLICKS = 1.0  # expected below a clicked item, that pull its effect to 0


def satisfies(model: ClickModel) -> bool:
    """Whether going on after a click depends on the item."""
    return SATISFACTION in model.channels


def allows_satisfaction(model: ClickModel, rises: bool) -> bool:
    """The same, for a score that can only rise."""
    return satisfies(model)


def goes_on_by_position(model: ClickModel) -> bool:
    """Whether clicks below a click depend on positions, but not on the clicked item."""
    return knows_last_click(model) or (model.has_latent_state and not satisfies(model))


def clicked_items(displays: PageDisplays) -> Tested | None:
    """Whether clicks right below a click depend on what was clicked, given item and context."""
    below = displays.below_click & (displays.pair[np.maximum(displays.last, 0)] >= 0)
    own = displays.where(displays.examined & (below | (displays.above == 0)))
    is_below = own.above > 0
    if not is_below.any():
        return None
    effect, learned = 2 * own.context + is_below, own.half == 0
    size = int(effect.max()) + 1, int(displays.pair.max()) + 1
    theta, relevance = product_of_effects(
        effect[learned], own.pair[learned], own.clicked[learned], size
    )
    expected = theta[effect] * relevance[own.pair]
    above = np.where(is_below, displays.pair[own.last], 0)
    clicks, usual = (
        np.bincount(above, np.where(learned & is_below, amount, 0), size[1])
        for amount in (own.clicked, expected)
    )
    tendency = (clicks - usual) / (usual + PRIOR_CLICKS)
    tested = ~learned & is_below
    score = two_way_score(
        own.pair[tested],
        effect[tested],
        own.cluster[tested],
        own.clicked[tested].astype(np.float64),
        expected[tested],
        tendency[above[tested]],
    )
    if score is None:
        return None
    return Tested(
        score,
        "going on after a click depends on the item that was clicked: right below a click, the "
        f"same item in the same place is clicked {more_or_less(score.effect)} if more was "
        "clicked below that item on other pages, by a standard deviation",
    )


CLICKED_ITEMS = Diagnostic(
    "clicked_items",
    "which item was clicked right above",
    goes_on_by_position,
    allows_satisfaction,
    clicked_items,
    is_positive=True,
)
