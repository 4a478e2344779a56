r"""Does the effect of the position depend on relevance?

Under the examination hypothesis a click has the probability of a product, theta_c zeta, so that
relevant and irrelevant items lose the same share of their clicks further down. Where users trust
the top of a page, irrelevant items lose more. The test is for the interaction

.. math:: \log P(y = 1) = \log\theta_c + \log\zeta_j - \beta\, w_c \log\hat\zeta_j,
          \qquad w_c = 1 / \text{rank of the position},

with the relevance of items from the other half of the pages, so that chance in an item's clicks at
one position is not taken for its relevance.
"""

import numpy as np

from epiclick.click_models.click_model import ClickModel
from epiclick.diagnostics.clustered_score import two_way_score
from epiclick.diagnostics.diagnostic import Diagnostic, Tested
from epiclick.diagnostics.page_displays import PageDisplays
from epiclick.diagnostics.product_of_effects import product_of_effects


def is_product(model: ClickModel) -> bool:
    """Whether clicks need examination, which is learned, and relevance."""
    return not model.knows_examination and not model.is_affine


def is_affine(model: ClickModel, rises: bool) -> bool:
    """Whether irrelevant items are clicked too, at every position as often as it takes."""
    return model.is_affine


def relevance_slopes(displays: PageDisplays) -> Tested | None:
    """Whether irrelevant items lose more clicks than relevant ones further down."""
    own = displays.where(displays.examined)
    pairs, contexts = int(own.pair.max()) + 1, int(own.context.max()) + 1
    _, rank = np.unique(own.position, return_inverse=True)
    expected, property_ = np.zeros((2, len(own)))
    for learned, tested in own.crossed():
        theta, relevance = product_of_effects(
            own.context[learned], own.pair[learned], own.clicked[learned], (contexts, pairs)
        )
        expected[tested] = (theta[own.context] * relevance[own.pair])[tested]
        property_[tested] = (-np.log(relevance[own.pair]) / (1 + rank))[tested]
    score = two_way_score(
        2 * own.pair + own.half,
        2 * own.context + own.half,
        own.cluster,
        own.clicked.astype(np.float64),
        expected,
        property_,
    )
    if score is None:
        return None
    where = "more" if score.change > 0 else "fewer"
    return Tested(
        score,
        "the effect of the position depends on relevance: compared with others, items of low "
        f"relevance get {abs(score.effect):.0%} {where} of their clicks at the top of a page, for "
        "a standard deviation",
    )


RELEVANCE_SLOPES = Diagnostic(
    "relevance_slopes",
    "the position in a way that differs with relevance",
    is_product,
    is_affine,
    relevance_slopes,
)
