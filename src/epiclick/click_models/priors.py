r"""What is assumed of a click model's parameters before any click.

`UniformPrior`: every probability is uniform between 0 and 1, in logits
:math:`\log \sigma(x) + \log \sigma(-x)`.

`EffectsPrior`: contexts that have something in common (a position, a distance) have parameters that
are alike. In logits, with an effect for every group of every kind,

.. math:: x_c = \mu + \sum_j e_{j, g_j(c)} + r_c, \qquad e_{jg} \sim N(0, s_j^2),
          \quad r_c \sim N(0, s_r^2), \quad \mu \sim N(0, s_\mu^2).

Effects are integrated out, which leaves a Gaussian whose covariance is not diagonal; its spreads
are learned (type-II maximum likelihood, under a weak prior of their own). A context that was never
shown is thus what its position and distance say, as far as the others agree on these.

Both give way to what is known from elsewhere: a Gaussian in logits for some of the parameters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any, Protocol, Self

import numpy as np
from scipy import optimize, special

HELD_SD = 1e-4
"""Standard deviation, in logits, of a parameter that is held as given."""

NODES = 64  # Gauss-Hermite


class ParameterPrior(Protocol):
    """Log prior of the free parameters x, (free,), up to a constant."""

    @property
    def known_mean(self) -> np.ndarray:
        """(free,) what is known from elsewhere, in logits; NaN where nothing is."""
        ...

    @property
    def known_sd(self) -> np.ndarray:
        """(free,) its standard deviation."""
        ...

    def log_density(self, x: Any, xp: ModuleType = np) -> Any:
        """Logarithm of the density, up to a constant; with jax.numpy it can be traced."""
        ...

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """(free,) first derivatives."""
        ...

    def hessian(self, x: np.ndarray) -> np.ndarray:
        """(free, free) second derivatives."""
        ...

    def learned(self, x: np.ndarray, slope: np.ndarray, information: np.ndarray) -> Self:
        """The prior with its hyperparameters learned from a log-likelihood around x.

        Args:
            x: (free,) where the posterior is highest.
            slope: (free,) the log-likelihood's there.
            information: (free, free) minus its second derivatives.
        """
        ...

    def given(self, mean: np.ndarray, sd: np.ndarray) -> Self:
        """The prior with parameters known from elsewhere, (free,) each; NaN where nothing is."""
        ...

    def hyperparameters(self) -> dict[str, float]:
        """Its own parameters by name, in logits; none where it has none."""
        ...

    def probability_sd(self) -> np.ndarray:
        """(free,) standard deviation of each probability before any click."""
        ...

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """(count, free) draws; contexts of which something is known included."""
        ...


def is_held(prior: ParameterPrior) -> np.ndarray:
    """(free,) whether a parameter was given as it is, not as a prior."""
    return prior.known_sd <= HELD_SD


def nothing(size: int) -> np.ndarray:
    """What is known of so many parameters of which nothing is."""
    return np.full(size, np.nan)


@dataclass(frozen=True, eq=False)
class UniformPrior:
    """Independent probabilities, uniform unless something is known of them.

    Attributes:
        known_mean: (free,) in logits; NaN where uniform.
        known_sd: (free,) their standard deviation.
    """

    known_mean: np.ndarray
    known_sd: np.ndarray

    @classmethod
    def of(cls, size: int) -> Self:
        """Of so many parameters of which nothing is known."""
        return cls(nothing(size), nothing(size))

    def log_density(self, x: Any, xp: ModuleType = np) -> Any:
        """Logarithm of the density, up to a constant."""
        known, mean, sd = self._known, *self._filled
        uniform = -xp.logaddexp(0.0, -x) - xp.logaddexp(0.0, x)
        return xp.where(known, -0.5 * ((x - mean) / sd) ** 2, uniform).sum()

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """(free,) first derivatives."""
        mean, sd = self._filled
        return np.where(self._known, (mean - x) / sd**2, 1 - 2 * special.expit(x))

    def hessian(self, x: np.ndarray) -> np.ndarray:
        """(free, free) second derivatives."""
        uniform = -2 * special.expit(x) * special.expit(-x)
        return np.diag(np.where(self._known, -1 / self._filled[1] ** 2, uniform))

    def learned(self, x: np.ndarray, slope: np.ndarray, information: np.ndarray) -> Self:
        """The same: it has no hyperparameters."""
        return self

    def given(self, mean: np.ndarray, sd: np.ndarray) -> Self:
        """The prior with parameters known from elsewhere."""
        return replace(self, known_mean=mean, known_sd=sd)

    def hyperparameters(self) -> dict[str, float]:
        """None."""
        return {}

    def probability_sd(self) -> np.ndarray:
        """(free,) of each probability before any click."""
        mean, sd = self._filled
        return np.where(self._known, logit_normal_sd(mean, sd), 12**-0.5)

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """(count, free) draws."""
        mean, sd = self._filled
        uniform = special.logit(rng.uniform(size=(count, len(mean))))
        return np.where(self._known, mean + sd * rng.standard_normal(uniform.shape), uniform)

    @property
    def _known(self) -> np.ndarray:
        return np.isfinite(self.known_mean)

    @property
    def _filled(self) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of what is not chosen must be finite too."""
        return np.where(self._known, self.known_mean, 0), np.where(self._known, self.known_sd, 1)


LEVEL_SD = 2.0
"""Standard deviation of mu, in logits: nearly flat on probabilities."""

FIRST_SPREAD = 0.5
"""Spread of effects and remainders, in logits, before any is learned."""

SPREAD_SD = 1.0
"""Standard deviation of the logarithm of a spread under its own prior, around FIRST_SPREAD."""

LEAST_SPREAD, MOST_SPREAD = 1e-2, 5.0


@dataclass(frozen=True, eq=False)
class EffectsPrior:
    """Parameters that are alike in contexts that have something in common.

    Attributes:
        groups: (kinds, free) group of each parameter, for every kind of effect.
        spreads: (kinds + 1,) standard deviation of the effects of each kind, and of the remainder.
        known_mean: (free,) in logits; NaN where nothing is known.
        known_sd: (free,) their standard deviation.
        names: of the kinds of effects.
    """

    groups: np.ndarray
    spreads: np.ndarray
    known_mean: np.ndarray
    known_sd: np.ndarray
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, groups: Mapping[str, np.ndarray]) -> Self:
        """Of groups by the name of their kind, each (free,), with spreads still to be learned."""
        every = np.stack(list(groups.values()))
        kinds, size = every.shape
        first = np.full(kinds + 1, FIRST_SPREAD)
        return cls(every, first, nothing(size), nothing(size), tuple(groups))

    def log_density(self, x: Any, xp: ModuleType = np) -> Any:
        """Logarithm of the density, up to a constant."""
        away = xp.asarray(x) - self._centre
        return -0.5 * away @ (self._precision @ away)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """(free,) first derivatives."""
        return -self._precision @ (x - self._centre)

    def hessian(self, x: np.ndarray) -> np.ndarray:
        """(free, free) second derivatives."""
        return -self._precision

    def learned(self, x: np.ndarray, slope: np.ndarray, information: np.ndarray) -> Self:
        r"""The prior with the spreads that the parameters speak for.

        Around x the likelihood is Gaussian with information J and :math:`b = J x + g`; then, with
        P the prior's precision,

        .. math:: \log p(\text{clicks} \mid s) = \tfrac12 \log|P| - \tfrac12 \log|P + J|
                  + \tfrac12 b^\top (P + J)^{-1} b + \text{const}.
        """
        values, vectors = np.linalg.eigh((information + information.T) / 2)
        j = (vectors * np.maximum(values, 0)) @ vectors.T
        known = self._known_precision
        # what is known from elsewhere is as good as clicks
        b = j @ x + slope + known * np.nan_to_num(self.known_mean)
        j = j + np.diag(known)

        def loss(log_spreads: np.ndarray) -> float:
            precision = replace(self, spreads=np.exp(log_spreads))._effects_precision
            both = precision + j
            (_, log_prior), (_, log_both) = map(np.linalg.slogdet, (precision, both))
            own = np.square((log_spreads - np.log(FIRST_SPREAD)) / SPREAD_SD).sum()
            return float(-0.5 * (log_prior - log_both + b @ np.linalg.solve(both, b) - own))

        bounds = [(np.log(LEAST_SPREAD), np.log(MOST_SPREAD))] * len(self.spreads)
        found = optimize.minimize(
            loss, np.log(self.spreads), method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-9}
        )
        return replace(self, spreads=np.exp(found.x))

    def given(self, mean: np.ndarray, sd: np.ndarray) -> Self:
        """The prior with parameters known from elsewhere."""
        return replace(self, known_mean=mean, known_sd=sd)

    def hyperparameters(self) -> dict[str, float]:
        """Spread of the effects of each kind, and of the remainder."""
        return dict(zip((*self.names, "remainder"), self.spreads.tolist(), strict=True))

    def probability_sd(self) -> np.ndarray:
        """(free,) of each probability before any click."""
        return logit_normal_sd(self._centre, np.sqrt(np.diag(np.linalg.inv(self._precision))))

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """(count, free) draws."""
        factor = np.linalg.cholesky(np.linalg.inv(self._precision))
        return self._centre + rng.standard_normal((count, len(factor))) @ factor.T

    @cached_property
    def _precision(self) -> np.ndarray:
        """Inverse covariance, of the effects and of what is known beside them."""
        return self._effects_precision + np.diag(self._known_precision)

    @cached_property
    def _effects_precision(self) -> np.ndarray:
        """Inverse covariance of the effects together."""
        size = self.groups.shape[1]
        covariance = np.full((size, size), LEVEL_SD**2) + self.spreads[-1] ** 2 * np.eye(size)
        for group, spread in zip(self.groups, self.spreads[:-1], strict=True):
            covariance += spread**2 * (group[:, None] == group)
        return np.linalg.inv(covariance)

    @property
    def _known_precision(self) -> np.ndarray:
        known = np.isfinite(self.known_mean)
        return np.where(known, 1 / np.where(known, self.known_sd, 1) ** 2, 0.0)

    @cached_property
    def _centre(self) -> np.ndarray:
        """Mean of the prior, 0 but for what is known from elsewhere."""
        known = np.isfinite(self.known_mean)
        if not known.any():
            return np.zeros(len(known))
        pull = self._known_precision * np.where(known, self.known_mean, 0)
        return np.linalg.solve(self._precision, pull)


def logit_normal_sd(centre: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Standard deviation of probabilities whose logits are Gaussian."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    values = special.expit(centre[..., None] + sd[..., None] * nodes)
    mean = values @ weights
    return np.sqrt(np.square(values - mean[..., None]) @ weights)
