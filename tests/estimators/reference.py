"""The estimators once more, by loops over samples and pairs, and the likelihood they estimate."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from scipy import special

from .problems import Problem


def by_loops(
    name: str, problem: Problem, draws: Any, baseline: bool = False, literal: bool = False
) -> tuple[float, np.ndarray]:
    """Log-likelihood and gradient of a sampling estimator of the paper, to the letter."""
    log_zeta, log_other = (np.asarray(each, float) for each in draws.relevance)
    log_j = likelihoods_by_loops(problem, draws)
    samples = len(log_j)
    of_pairs = _scores(problem.alpha[:, None], problem.beta[:, None], log_zeta, log_other)
    of_contexts = position_scores(problem, draws)
    weight = problem.weights
    if name == "conditioned":
        inner = special.softmax(log_j, axis=2)
        log_likelihoods = (special.logsumexp(log_j, axis=2) - np.log(log_j.shape[2])) @ weight
    else:  # the i-th relevance goes with the i-th bias
        log_likelihoods = np.array([weight @ log_j[i, :, i] for i in range(samples)])
    if name == "naive":
        outer = np.exp(log_likelihoods) / samples
    else:
        outer = special.softmax(log_likelihoods)
    plain = outer
    if baseline:
        outer = without_others(outer)
    factor = 1 / samples if literal and name != "naive" else 1.0
    for_position = [np.einsum("i,ik->k", outer, score) for score in of_contexts]
    if name == "conditioned":
        if baseline:
            inner = without_others(inner)
        for_relevance = [
            np.einsum("i,ipj,pj->p", plain, inner, score) * weight for score in of_pairs
        ]
    else:
        for_relevance = [np.einsum("i,pi->p", outer, score) * weight for score in of_pairs]
    value = special.logsumexp(log_likelihoods) - np.log(samples)
    return value, factor * np.concatenate([*for_relevance, *for_position])


def likelihoods_by_loops(problem: Problem, draws: Any) -> np.ndarray:
    """log J under each bias, for each pair, at each of its samples."""
    log_zeta, log_other = (np.asarray(each, float) for each in draws.relevance)
    return np.array(
        [
            [
                _log_j(problem, p, log_theta, log_rest, log_zeta[p], log_other[p])
                for p in range(len(log_zeta))
            ]
            for log_theta, log_rest in zip(draws.log_theta, draws.log_rest, strict=True)
        ]
    )


def true_log_likelihood(problem: Problem, nodes: int = 8) -> float:
    """log E[likelihood] by Gauss rules of all Betas, exact as the likelihood is a polynomial."""
    rules = [
        _rule(a, b, nodes)
        for a, b in zip(problem.alpha_position, problem.beta_position, strict=True)
    ]
    total = 0.0
    for chosen in product(range(nodes), repeat=len(rules)):
        theta = np.array([x[i] for (x, _), i in zip(rules, chosen, strict=True)])
        mass = np.prod([w[i] for (_, w), i in zip(rules, chosen, strict=True)])
        total += mass * np.prod(given_position(problem, theta, nodes) ** problem.weights)
    return float(np.log(total))


def given_position(problem: Problem, theta: np.ndarray, nodes: int = 8) -> np.ndarray:
    """The likelihood of each pair at a position bias, relevance integrated out: (pairs,)."""
    values = []
    for p, (a, b) in enumerate(zip(problem.alpha, problem.beta, strict=True)):
        zeta, mass = _rule(a, b, nodes)
        seen = zeta[:, None] * theta
        likely = seen ** problem.clicks[p] * (1 - seen) ** problem.unclicked[p]
        values.append(mass @ likely.prod(axis=1))
    return np.array(values)


def numeric_gradient(
    function: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-4
) -> np.ndarray:
    """Central differences; for likelihoods of this size exact to about 1e-8."""
    moves = step * np.eye(len(at))
    return np.array([(function(at + m) - function(at - m)) / (2 * step) for m in moves])


def true_gradient(problem: Problem) -> np.ndarray:
    """Gradient of the true log-likelihood for all parameters."""
    return numeric_gradient(
        lambda values: true_log_likelihood(problem.with_parameters(values)), problem.parameters
    )


def position_scores(problem: Problem, draws: Any) -> tuple[np.ndarray, np.ndarray]:
    """Scores of the sampled biases for alpha and beta: (samples, contexts) each."""
    alpha, beta = problem.alpha_position, problem.beta_position
    return _scores(alpha, beta, draws.log_theta, draws.log_rest)


def without_others(weights: np.ndarray) -> np.ndarray:
    """Each weight minus the mean of the others along the last axis, one after the other."""
    size = weights.shape[-1]
    means = [np.delete(weights, i, axis=-1).mean(axis=-1) for i in range(size)]
    return weights - np.stack(means, axis=-1)


def _log_j(
    problem: Problem,
    p: int,
    log_theta: np.ndarray,
    log_rest: np.ndarray,
    log_zeta: np.ndarray,
    log_other: np.ndarray,
) -> np.ndarray:
    """log J of one pair at each of its samples."""
    total = np.zeros_like(log_zeta)
    for k in range(len(log_theta)):
        total += problem.clicks[p, k] * (log_theta[k] + log_zeta)
        total += problem.unclicked[p, k] * np.logaddexp(log_other, log_rest[k] + log_zeta)
    return total


def _scores(
    alpha: np.ndarray, beta: np.ndarray, log_x: np.ndarray, log_rest: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives of the log-density for alpha and beta."""
    both = special.digamma(alpha + beta)
    return (
        log_x - special.digamma(alpha) + both,
        log_rest - special.digamma(beta) + both,
    )


def _rule(a: float, b: float, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss rule of Beta(a, b)."""
    x, w = special.roots_jacobi(nodes, b - 1, a - 1)
    return (x + 1) / 2, w / w.sum()
