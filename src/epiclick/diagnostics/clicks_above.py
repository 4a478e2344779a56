"""Do clicks depend on clicks above them that the context does not show?

In a position-based model a click does not depend on other clicks of its page, in a user browsing
model only on the last one above it. Displays of one item in one context are compared, with and
without a (further) click above.
"""

import numpy as np

from epiclick.click_models.click_model import ClickModel
from epiclick.diagnostics.clustered_score import stratified_score
from epiclick.diagnostics.diagnostic import Diagnostic, Tested, more_or_less
from epiclick.diagnostics.page_displays import PageDisplays


def is_free_of_clicks_above(model: ClickModel) -> bool:
    """Whether clicks depend on no others, given the context."""
    return not model.knows_examination


def depends_on_clicks(model: ClickModel, rises: bool) -> bool:
    """Whether clicks make further ones more likely, or less: they never do if users may stop."""
    stops = model.has_latent_state or model.knows_examination
    return not rises if stops else bool(model.history)


def clicks_above(displays: PageDisplays) -> Tested | None:
    """Compare displays with a click above with those of the same item and context without one."""
    least = np.full(int(displays.context.max()) + 1, len(displays))
    np.minimum.at(least, displays.context, displays.above)
    own = displays.where(displays.examined)
    further = own.above > least[own.context]
    score = stratified_score(own.stratum(), own.cluster, own.clicked, further.astype(np.float64))
    if score is None:
        return None
    ratio = mantel_haenszel_ratio(own.stratum(), own.clicked, further)
    another = "another click" if least.any() else "a click"
    return Tested(
        score,
        f"clicks depend on the clicks above them: with {another} above it on its page, the same "
        f"item in the same place is clicked {more_or_less(ratio - 1)}",
    )


def mantel_haenszel_ratio(stratum: np.ndarray, clicked: np.ndarray, exposed: np.ndarray) -> float:
    r"""Common ratio of two click rates over strata, that of `exposed` displays above.

    .. math:: \frac{\sum_s M_{1s} N_{0s} / N_s}{\sum_s M_{0s} N_{1s} / N_s}
    """
    _, own = np.unique(stratum, return_inverse=True)
    size = np.bincount(own)
    number = [np.bincount(own, exposed == side) for side in (False, True)]
    clicks = [np.bincount(own, clicked & (exposed == side)) for side in (False, True)]
    below = float((clicks[0] * number[1] / size).sum())
    return float((clicks[1] * number[0] / size).sum()) / below if below else float("inf")


CLICKS_ABOVE = Diagnostic(
    "clicks_above",
    "other clicks above them",
    is_free_of_clicks_above,
    depends_on_clicks,
    clicks_above,
)
