"""Before the first click of a page, do clicks depend on the position?

Users who read from the top have seen everything down to their first click, so that an item is
clicked there with its relevance, wherever it stands. Displays of one item without a click above
are compared between positions.
"""

import numpy as np

from epiclick.click_models.click_model import ClickModel
from epiclick.diagnostics.clustered_score import stratified_score
from epiclick.diagnostics.diagnostic import Diagnostic, Tested, more_or_less
from epiclick.diagnostics.page_displays import PageDisplays


def reads_from_the_top(model: ClickModel) -> bool:
    """Whether nothing is skipped unseen."""
    return model.knows_examination


def skips_unseen(model: ClickModel, rises: bool) -> bool:
    """Whether examination depends on the position, in any way."""
    return not model.knows_examination


def first_clicks(displays: PageDisplays) -> Tested | None:
    """The trend of an item's clicks in its position, without a click above."""
    own = displays.where(displays.examined & (displays.above == 0))
    score = stratified_score(own.pair, own.cluster, own.clicked, own.position.astype(np.float64))
    if score is None:
        return None
    return Tested(
        score,
        "before the first click of a page, the same item is clicked "
        f"{more_or_less(score.change)} for each position further down, so that not everything is "
        "read from the top",
    )


FIRST_CLICKS = Diagnostic(
    "first_clicks",
    "the position before the first click",
    reads_from_the_top,
    skips_unseen,
    first_clicks,
)
