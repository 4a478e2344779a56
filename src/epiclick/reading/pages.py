r"""Probabilities of clicks on pages whose users may stop after a click.

The probability of all clicks of a page is multilinear in the relevances of its items and in the
probabilities of going on. So, given the parameters, its expectation over independent items is its
value at their means, and these functions are exact at means.
"""

import numpy as np

from epiclick.data.page_lists import PageLists


def still_reading(lists: PageLists, relevance: np.ndarray, going_on: np.ndarray) -> np.ndarray:
    r"""Probability that users read each place, given the clicks above it: (lists, depth).

    .. math:: r_1 = 1, \qquad r_{k+1} = c_k \text{ after a click}, \qquad
              r_{k+1} = \frac{r_k (1 - \zeta_k)}{1 - r_k \zeta_k} \text{ after a skip}

    Args:
        lists: pages with their clicks.
        relevance: (pairs,).
        going_on: (lists, depth) probability of going on after a click.
    """
    zeta = _on_pages(lists, relevance)
    found = np.empty(zeta.shape)
    reading = np.ones(len(zeta))
    for k in range(zeta.shape[1]):
        found[:, k] = reading
        skipped, click = reading * (1 - zeta[:, k]), reading * zeta[:, k]
        rest = 1 - click
        after_skip = np.divide(skipped, rest, out=np.zeros_like(rest), where=rest > 0)
        reading = np.where(lists.clicked[:, k], going_on[:, k], after_skip)
    return np.where(lists.shown, found, 0.0)


def reading_on_average(lists: PageLists, relevance: np.ndarray, going_on: np.ndarray) -> np.ndarray:
    """Probability that users read each place, whatever they click: (lists, depth)."""
    leaving = _on_pages(lists, relevance) * (1 - going_on)
    stay = np.cumprod(1 - leaving, axis=1)
    before = np.concatenate([np.ones((len(stay), 1)), stay[:, :-1]], axis=1)
    return np.where(lists.shown, before, 0.0)


def page_log_likelihood(
    lists: PageLists, relevance: np.ndarray, going_on: np.ndarray
) -> np.ndarray:
    """(lists,) log-probability of the clicks of each list."""
    chance = still_reading(lists, relevance, going_on) * _on_pages(lists, relevance)
    outcome = np.where(lists.clicked, chance, 1 - chance)
    with np.errstate(divide="ignore"):
        return np.where(lists.shown, np.log(np.where(lists.shown, outcome, 1.0)), 0.0).sum(axis=1)


def _on_pages(lists: PageLists, of_pairs: np.ndarray) -> np.ndarray:
    """(lists, depth) values of pairs; 0 past the end of a list."""
    return np.where(lists.shown, of_pairs[lists.pair], 0.0)
