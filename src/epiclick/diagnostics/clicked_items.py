"""Does going on after a click depend on the item that was clicked?

Right below a click, in a model in which going on depends on the position only, an item is clicked
as often below one clicked item as below another. How much is clicked below an item is learned on
one half of the pages and tested on the other. The other way round would give the same products of
clicks on both halves, and no more information.
"""

import numpy as np

from epiclick.click_models.click_model import SATISFACTION, ClickModel
from epiclick.diagnostics.clustered_score import stratified_score
from epiclick.diagnostics.diagnostic import Diagnostic, Tested, more_or_less
from epiclick.diagnostics.page_displays import PageDisplays
from epiclick.diagnostics.skipped_items import knows_last_click

PRIOR_DISPLAYS = 5.0  # below a clicked item, that pull its effect to 0


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
    below = displays.below_click & displays.examined
    clicked_pair = displays.pair[np.maximum(displays.last, 0)]
    below &= clicked_pair >= 0
    own, above = displays.where(below), clicked_pair[below & (displays.pair >= 0)]
    if not len(own):
        return None
    learned, pairs = own.half == 0, int(above.max()) + 1
    _, number = np.unique(2 * own.stratum() + own.half, return_inverse=True)
    rest = own.clicked - (np.bincount(number, own.clicked) / np.bincount(number))[number]
    total = np.bincount(above[learned], rest[learned], pairs)
    often = np.bincount(above[learned], minlength=pairs)
    tendency = (total / (often + PRIOR_DISPLAYS))[above[~learned]]
    own = own.where(~learned)
    score = stratified_score(own.stratum(), own.cluster, own.clicked, tendency)
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
