"""Trust bias: items that do not attract are clicked too, because of where they are shown."""

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from epiclick.click_models.click_model import CLICK, Channel, Emission
from epiclick.click_models.examination import (
    examined,
    free_contexts,
    probability,
    start_logits,
)
from epiclick.click_models.page_effects import NobodyStops, WithoutHistory

if TYPE_CHECKING:
    import pyarrow as pa

    from epiclick.click_models.priors import ParameterPrior

SHARE_MEAN, SHARE_SD = -2.0, 1.5
"""Prior of y, in logits: an unattractive item is clicked 1 to 61 % as often as an attractive one
(90 % of the prior), most likely about an eighth."""

MOST_ATTRACTIVE = 1 - 1e-6
"""Largest A of a draw: where moves would lead beyond, the line ends at 1."""

WORLD_FLOOR = 0.8  # share of the clicks on attractive items that remain at any depth
WORLD_NOISE = 0.3  # probability that an unattractive item at the first position is clicked


@dataclass(frozen=True)
class TrustBased(WithoutHistory, NobodyStops):
    r"""P(click) = A_c zeta + B_c (1 - zeta), affine in attraction (Agarwal et al. 2019).

    .. math:: A_c = \sigma(x_c), \qquad B_c = A_c\, \sigma(y_c), \qquad A_{\text{anchor}} = 1

    An unattractive item is thus never clicked more often than an attractive one. Parameters are x
    of all contexts, then y of all contexts.

    Clicks do not identify attraction: for any t, B_c + t (A_c - B_c) and (zeta - t) / (1 - t) give
    the same clicks. Relevance is therefore reported as the probability of a click at the anchor,
    c = B_1 + (1 - B_1) zeta, in which the probability of a click elsewhere is a line,

    .. math:: P(\text{click} \mid c) = O_c + S_c\, c, \qquad S_c = \frac{A_c - B_c}{1 - B_1},
              \quad O_c = B_c - S_c B_1.

    Slopes S and offsets O do not change with t; B_1 is only bounded by the clicks (all B_c are at
    least 0, no item is clicked less often than B_1), and rests on the prior and on the shape of the
    Betas of zeta.
    """

    name: ClassVar[str] = "trust"
    title: ClassVar[str] = "trust model"
    parameter: ClassVar[str] = "slope of clicks in relevance"
    channels: ClassVar[tuple[Channel, ...]] = (CLICK,)
    is_affine: ClassVar[bool] = True
    knows_examination: ClassVar[bool] = False

    def size(self, contexts: int) -> int:
        """Two for each context."""
        return 2 * contexts

    def free(self, contexts: int, anchor: int | None) -> np.ndarray:
        """All parameters but the anchor's x."""
        own = free_contexts(contexts, anchor)
        return np.concatenate([own, np.arange(contexts, 2 * contexts)])

    def emission(self, parameters: Any, anchor: int | None, xp: ModuleType) -> Emission:
        """A, 1 - A, B and 1 - B."""
        contexts = parameters.shape[-1] // 2
        a, a_rest = examined(parameters[..., :contexts], anchor, xp)[:2]
        y = parameters[..., contexts:]
        return Emission(a, a_rest, a * probability(y, xp), a_rest + a * probability(-y, xp))

    def logit_jacobian(self, parameters: np.ndarray, anchor: int | None) -> np.ndarray:
        r"""With s = sigma(y), logit(B) rises by (1 - A) / (1 - B) in x and (1 - s) / (1 - B) in y.

        By the product rule: B = A s, so B rises by B (1 - A) and B (1 - s).
        """
        contexts = len(parameters) // 2
        a_rest, s_rest, b_rest = self._rests(parameters, anchor)
        by_x = np.ones(contexts)
        if anchor is not None:
            by_x[anchor] = 0
        return np.block(
            [
                [np.diag(by_x), np.zeros((contexts, contexts))],
                [np.diag(a_rest / b_rest), np.diag(s_rest / b_rest)],
            ]
        )

    def logit_bend(
        self, parameters: np.ndarray, anchor: int | None, slope: np.ndarray
    ) -> np.ndarray:
        r"""logit(A) is linear. The second derivatives of logit(B) are, over (1 - B)^2,

        (1 - A)(B - A) in x, (1 - s)(B - s) in y, and B (1 - A)(1 - s) in x and y.
        """
        contexts = len(parameters) // 2
        a_rest, s_rest, b_rest = self._rests(parameters, anchor)
        over = slope[contexts:] / b_rest**2
        in_x = np.diag(over * a_rest * (a_rest - b_rest))
        in_y = np.diag(over * s_rest * (s_rest - b_rest))
        in_both = np.diag(over * (1 - b_rest) * a_rest * s_rest)
        return np.block([[in_x, in_both], [in_both, in_y]])

    def _rests(self, parameters: np.ndarray, anchor: int | None) -> tuple[np.ndarray, ...]:
        """1 - A, 1 - s and 1 - B; (contexts,) each."""
        emission = self.emission(parameters, anchor, np)
        share_rest = probability(-parameters[len(parameters) // 2 :], np)
        return emission.attractive_rest, share_rest, emission.unattractive_rest

    def moved(
        self, parameters: np.ndarray, moves: np.ndarray, covariance: np.ndarray
    ) -> np.ndarray:
        r"""Parameters (draws, parameters) after moves, so that well-known clicks stay well known.

        Clicks determine A_c m + B_c (1 - m) best at some attraction m, and A and B themselves less
        well: if one rises, the other falls. In logits that is a curve. So that probability is moved
        in proportion to the moves, and B / A by its own; A follows from both.

        Args:
            parameters: (draws, parameters) where the moves begin.
            moves: (draws, parameters) steps, the anchor's x being 0.
            covariance: (parameters, parameters) of the moves, from which m follows.
        """
        contexts = parameters.shape[1] // 2
        x, y = parameters[:, :contexts], parameters[:, contexts:]
        a, a_rest, s, s_rest = (probability(each, np) for each in (x, -x, y, -y))
        rise_a, fall_b, rise_b = a * a_rest, a * s * a_rest, a * s * s_rest
        k = np.arange(contexts)
        v_x, v_y = covariance[k, k], covariance[k + contexts, k + contexts]
        v_xy = covariance[k, k + contexts]
        v_a = rise_a**2 * v_x
        v_b = fall_b**2 * v_x + rise_b**2 * v_y + 2 * fall_b * rise_b * v_xy
        v_ab = rise_a * (fall_b * v_x + rise_b * v_xy)
        spread = v_a + v_b - 2 * v_ab
        m = np.divide(v_b - v_ab, spread, out=np.full_like(a, 0.5), where=spread > 0)
        m = np.clip(m, 0.0, 1.0)
        p = m * a + (1 - m) * a * s
        d_x, d_y = moves[:, :contexts], moves[:, contexts:]
        d_p = m * rise_a * d_x + (1 - m) * (fall_b * d_x + rise_b * d_y)
        logit = np.log(p / (1 - p)) + d_p / (p * (1 - p))
        new_y = y + d_y
        new_a = probability(logit, np) / (m + (1 - m) * probability(new_y, np))
        new_a = np.minimum(new_a, MOST_ATTRACTIVE)
        new_x = np.where(v_x > 0, np.log(new_a / (1 - new_a)), x + d_x)
        return np.concatenate([new_x, new_y], axis=1)

    def start(self, click_rate: np.ndarray, anchor: int | None) -> np.ndarray:
        """Click rates relative to the anchor's, and the prior's mean of y."""
        x = start_logits(click_rate, anchor)
        return np.concatenate([x, np.full(len(x), SHARE_MEAN)])

    def prior(self, contexts: "pa.Table", anchor: int | None) -> "ParameterPrior":
        """A is uniform as in a position-based model; y is Gaussian."""
        from epiclick.click_models.priors import SomeGaussianPrior  # loading must not need scipy

        free = self.free(len(contexts), anchor)
        is_share = free >= len(contexts)
        return SomeGaussianPrior.of(
            np.where(is_share, SHARE_MEAN, np.nan), np.where(is_share, SHARE_SD, np.nan)
        )

    def anchors(self, contexts: "pa.Table") -> np.ndarray:
        """Any context."""
        return np.arange(len(contexts))

    def world(self, theta: np.ndarray) -> tuple["pa.Table", Emission]:
        r"""Users who trust the top of a page.

        .. math:: A_k = \theta_k \Big(0.8 + \frac{0.2}{k}\Big), \qquad
                  B_k = \theta_k \frac{0.3}{k}

        Attractive items lower down are recognised less often; unattractive ones near the top are
        clicked for their position.
        """
        import pyarrow as pa

        k = np.arange(1, len(theta) + 1)
        attractive = theta * (WORLD_FLOOR + (1 - WORLD_FLOOR) / k)
        unattractive = theta * (WORLD_NOISE / k)
        emission = Emission(attractive, 1 - attractive, unattractive, 1 - unattractive)
        return pa.table({"position": k}), emission
