r"""Joint samples of rankers' values.

A value is a sum over items, V = sum_i c_i zeta_i, whose factors c_i depend on the click model's
parameters (see `factors.py`). Parameters are drawn first; given them, relevance is independent
between items. The items with the largest factors are drawn one by one. The many others together are
a Gaussian with exactly their mean and covariance (between rankers, which show the same items), so
neither time nor memory grows with samples times items. Where clicks on a page depend on those
above, that Gaussian has the covariance of products of relevances, too.

Independent draws of relevance alone, with the parameters fixed, would leave out the uncertainty
that all items share, and give values whose intervals are far too narrow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from epiclick.comparison.factors import Factors, Moments
from epiclick.relevance.average import matched_beta

DRAWN = 512
"""Items that are drawn one by one."""


@dataclass(frozen=True, eq=False)
class ValueSamples:
    """Values of rankers under some measures.

    Attributes:
        samples: (measures, rankers, samples).
        expected: (measures, rankers, draws) expected value under each draw of the parameters.
        by_bias: the same with relevance at its mean, so that only position bias varies.
        seen: (measures, rankers, rankers) covariance given the parameters, from items with clicks.
        unseen: the same from all other items.
        never_shown: (measures, rankers, draws) what items that the log never showed add to the
            expected value.
        members: whether the draws of the parameters are members of an ensemble.
    """

    samples: np.ndarray
    expected: np.ndarray
    by_bias: np.ndarray
    seen: np.ndarray
    unseen: np.ndarray
    never_shown: np.ndarray
    members: bool = False

    def in_units(self, units: Sequence[float]) -> "ValueSamples":
        """The same with values of each measure multiplied by its unit."""
        scale = np.array(units)[:, None, None]
        names = ("samples", "expected", "by_bias", "never_shown")
        means = {name: scale * getattr(self, name) for name in names}
        return replace(self, **means, seen=scale**2 * self.seen, unseen=scale**2 * self.unseen)

    def discounted(self, measure: int, share: float) -> np.ndarray:
        """(rankers, samples) values if items never shown are worse than predicted by a share.

        To first order, where clicks on a page depend on those above.
        """
        samples, never = self.samples[measure], self.never_shown[measure]
        if self.members:  # samples belong to no draw
            return samples - share * never.mean(axis=1, keepdims=True)
        number = np.arange(samples.shape[1]) % never.shape[1]
        return samples - share * never[:, number]


def sample_values(
    factors: Factors,
    was_seen: np.ndarray,
    moments: Moments,
    shape: tuple[int, int],
    samples: int,
    rng: np.random.Generator,
    *,
    never_shown: np.ndarray | None = None,
    members: bool = False,
) -> ValueSamples:
    """Draw the values of all rankers.

    Args:
        factors: how values depend on the relevance of the items.
        was_seen: (items,) whether relevance is estimated from an item's own clicks.
        moments: mean and variance of relevance, (draws, items) each, in chunks of items.
        shape: number of measures and of rankers.
        samples: number of samples; draws of the parameters take turns.
        rng: generator of the samples.
        never_shown: (items,) whether the log shows an item nowhere; default none.
        members: whether the draws are members of an ensemble. As these are few, expected values
            are drawn from the Gaussian with the members' mean and covariance.
    """
    outputs = factors.outputs
    largest = _largest(factors.typical(), DRAWN)
    expected: np.ndarray | float = 0.0
    by_clicks: np.ndarray | float = 0.0
    spread: np.ndarray | float = 0.0  # (draws, outputs, outputs) of items not drawn one by one
    by_kind = np.zeros((2, outputs, outputs))  # unseen, seen
    apart: list[tuple[np.ndarray, ...]] = []
    products = np.zeros((outputs, outputs))
    never: np.ndarray | float = 0.0
    hidden = np.zeros(len(was_seen), bool)
    if never_shown is not None:
        hidden[: len(never_shown)] = never_shown
    done = 0
    for part in factors.parts(moments, rng.spawn(1)[0]):
        done += len(part.items)
        c, mean, variance = part.factors, part.mean, part.variance
        if part.products is not None:
            products += part.products
        expected, by_clicks = expected + part.expected, by_clicks + part.by_clicks
        spread = spread + np.zeros((len(c), outputs, outputs))
        never = never + np.zeros((len(c), outputs))
        if np.any(left_out := hidden[part.items]):
            never += (c @ (mean * left_out)[:, :, None])[:, :, 0]
        one = largest[part.items]
        for kind in (0, 1):
            own = was_seen[part.items] == kind
            if np.any(own & ~one):
                # weights of 0 take less time than to copy the factors of all others
                more = (c * (variance * (own & ~one))[:, None]) @ c.swapaxes(1, 2)
                by_kind[kind] += more.mean(axis=0)
                spread += more
            if np.any(own & one):
                few = c[:, :, own & one]
                more = (few * variance[:, None, own & one]) @ few.swapaxes(1, 2)
                by_kind[kind] += more.mean(axis=0)
        if one.any():
            apart.append((c[:, :, one], mean[:, one], variance[:, one]))
    assert done <= len(was_seen)  # items in no slot add nothing
    assert isinstance(expected, np.ndarray)
    assert isinstance(by_clicks, np.ndarray)
    assert isinstance(spread, np.ndarray)
    assert isinstance(never, np.ndarray)
    spread = spread + products
    # items with clicks and others share what products of them add as they share the rest
    totals = np.trace(by_kind, axis1=1, axis2=2)
    by_kind += (totals / max(totals.sum(), np.finfo(float).tiny))[:, None, None] * products
    draws = len(expected)
    within = -(-samples // draws)
    common = _spanned(expected, within, rng) if members and draws > 1 else expected
    values = common + _gaussian(spread, within, rng)  # (within, draws, outputs)
    for c, mean, variance in apart:
        if np.any(variance > 0):
            drawn = matched_beta(mean, variance).sample(rng, within)  # (within, draws, items)
            values += (c @ (drawn - mean)[..., None])[..., 0]
    # rankers that show the same items have the same value, whatever rounding does
    same = factors.same()
    values, expected, by_clicks, never = (
        each[..., same] for each in (values, expected, by_clicks, never)
    )
    by_kind = by_kind[:, same][:, :, same]
    return ValueSamples(
        samples=values.reshape(-1, outputs)[:samples].T.reshape(*shape, samples),
        expected=expected.T.reshape(*shape, draws),
        by_bias=by_clicks.T.reshape(*shape, draws),
        seen=_blocks(by_kind[1], *shape),
        unseen=_blocks(by_kind[0], *shape),
        never_shown=never.T.reshape(*shape, draws),
        members=members and draws > 1,
    )


def _largest(typical: np.ndarray, count: int) -> np.ndarray:
    """(items,) whether an item's factors are among the largest, relative to the others."""
    total = np.sqrt((typical**2).sum(axis=0))
    share = (typical / np.where(total > 0, total, 1)).max(axis=1)
    chosen = np.zeros(len(share), bool)
    chosen[np.argsort(-share, kind="stable")[:count]] = True
    return chosen & (share > 0)


def _spanned(expected: np.ndarray, within: int, rng: np.random.Generator) -> np.ndarray:
    """(within, members, outputs) of the Gaussian with the members' mean and covariance."""
    members, mean = len(expected), expected.mean(axis=0)
    noise = rng.standard_normal((within, members, members))
    return mean + noise @ (expected - mean) / np.sqrt(members - 1)


def _gaussian(covariance: np.ndarray, within: int, rng: np.random.Generator) -> np.ndarray:
    """(within, draws, outputs) of Gaussians of mean 0 and (draws, outputs, outputs) covariance."""
    # rankers that show the same items have a singular covariance, so no Cholesky factor
    variance, axes = np.linalg.eigh(covariance)
    factor = axes * np.sqrt(np.maximum(variance, 0))[:, None, :]
    noise = rng.standard_normal((within, *covariance.shape[:2]))
    return (factor @ noise[..., None])[..., 0]


def _blocks(covariance: np.ndarray, measures: int, rankers: int) -> np.ndarray:
    """(measures, rankers, rankers) covariance between rankers under each measure."""
    apart = covariance.reshape(measures, rankers, measures, rankers)
    return np.stack([apart[m, :, m] for m in range(measures)])
