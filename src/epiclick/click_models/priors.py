r"""Priors of a click model's parameters.

`UniformPrior`: every probability is uniform between 0 and 1; the log density in logits is
:math:`\log \sigma(x) + \log \sigma(-x)`.

`SomeGaussianPrior`: the same, but some parameters are Gaussian in logits by the model's choice.

`EffectsPrior`: contexts that share a property (a position, a distance) have similar parameters. In
logits, with an effect for every group of every kind,

.. math:: x_c = \mu + \sum_j e_{j, g_j(c)} + r_c, \qquad e_{jg} \sim N(0, s_j^2),
          \quad r_c \sim N(0, s_r^2), \quad \mu \sim N(0, s_\mu^2).

Effects are integrated out, which leaves a Gaussian with correlated parameters; its spreads are
learned (type-II maximum likelihood, under a weak hyperprior). A context that was never shown is
thus predicted from its position and distance, to the extent that other contexts share their
effects.

All accept external knowledge of some of the parameters, as a Gaussian in logits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import ModuleType
from typing import Any, Protocol, Self

import numpy as np
from scipy import special

FIXED_SD = 1e-4
"""Standard deviation, in logits, of a parameter that is fixed at a known value."""

NODES = 64  # Gauss-Hermite


class ParameterPrior(Protocol):
    """Log prior of the free parameters x, (free,), up to a constant."""

    @property
    def known_mean(self) -> np.ndarray:
        """(free,) externally known values, in logits; NaN for unknown ones."""
        ...

    @property
    def known_sd(self) -> np.ndarray:
        """(free,) their standard deviations."""
        ...

    def log_density(self, x: Any, xp: ModuleType = np) -> Any:
        """Logarithm of the density, up to a constant; traceable with jax.numpy."""
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
            x: (free,) mode of the posterior.
            slope: (free,) gradient of the log-likelihood there.
            information: (free, free) its negative second derivatives.
        """
        ...

    def given(self, mean: np.ndarray, sd: np.ndarray) -> Self:
        """The prior with externally known parameters, (free,) each; NaN for unknown ones."""
        ...

    def hyperparameters(self) -> dict[str, float]:
        """Learned hyperparameters by name, in logits; empty if there are none."""
        ...

    def probability_sd(self) -> np.ndarray:
        """(free,) prior standard deviation of each probability."""
        ...

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """(count, free) draws, including externally known parameters."""
        ...


def is_fixed(prior: ParameterPrior) -> np.ndarray:
    """(free,) whether a parameter is fixed at a known value."""
    return prior.known_sd <= FIXED_SD


def unknown(size: int) -> np.ndarray:
    """The value of `known_mean` and `known_sd` where no parameter is known."""
    return np.full(size, np.nan)


@dataclass(frozen=True, eq=False)
class UniformPrior:
    """Independent probabilities, uniform where they are not externally known.

    Attributes:
        known_mean: (free,) in logits; NaN where uniform.
        known_sd: (free,) their standard deviation.
    """

    known_mean: np.ndarray
    known_sd: np.ndarray

    @classmethod
    def of(cls, size: int) -> Self:
        """The prior of this number of parameters, none of them known."""
        return cls(unknown(size), unknown(size))

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
        """The prior with externally known parameters."""
        return replace(self, known_mean=mean, known_sd=sd)

    def hyperparameters(self) -> dict[str, float]:
        """Empty."""
        return {}

    def probability_sd(self) -> np.ndarray:
        """(free,) prior standard deviation of each probability."""
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
        """`known_mean` and `known_sd` without NaN: unselected branches need finite derivatives."""
        return np.where(self._known, self.known_mean, 0), np.where(self._known, self.known_sd, 1)


@dataclass(frozen=True, eq=False)
class SomeGaussianPrior:
    """Independent parameters, Gaussian in logits where the model says so, others uniform.

    Attributes:
        mean: (free,) of the Gaussians, in logits; NaN where the probability is uniform.
        sd: (free,) their standard deviations.
        known_mean: (free,) externally known values, in logits; NaN for unknown ones.
        known_sd: (free,) their standard deviations.
    """

    mean: np.ndarray
    sd: np.ndarray
    known_mean: np.ndarray
    known_sd: np.ndarray

    @classmethod
    def of(cls, mean: np.ndarray, sd: np.ndarray) -> Self:
        """The prior without external knowledge."""
        return cls(mean, sd, unknown(len(mean)), unknown(len(mean)))

    def log_density(self, x: Any, xp: ModuleType = np) -> Any:
        """Logarithm of the density, up to a constant."""
        return self._all.log_density(x, xp)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """(free,) first derivatives."""
        return self._all.gradient(x)

    def hessian(self, x: np.ndarray) -> np.ndarray:
        """(free, free) second derivatives."""
        return self._all.hessian(x)

    def learned(self, x: np.ndarray, slope: np.ndarray, information: np.ndarray) -> Self:
        """The same: it has no hyperparameters."""
        return self

    def given(self, mean: np.ndarray, sd: np.ndarray) -> Self:
        """The prior with externally known parameters."""
        return replace(self, known_mean=mean, known_sd=sd)

    def hyperparameters(self) -> dict[str, float]:
        """Empty."""
        return {}

    def probability_sd(self) -> np.ndarray:
        """(free,) prior standard deviation of each probability."""
        return self._all.probability_sd()

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """(count, free) draws."""
        return self._all.draw(rng, count)

    @cached_property
    def _all(self) -> UniformPrior:
        """The same density; external knowledge replaces the model's Gaussians."""
        given = np.isfinite(self.known_mean)
        return UniformPrior(
            np.where(given, self.known_mean, self.mean), np.where(given, self.known_sd, self.sd)
        )


LEVEL_SD = 2.0
"""Standard deviation of mu, in logits: nearly flat on probabilities."""

FIRST_SPREAD = 0.5
"""Initial spread of effects and remainders, in logits."""

SPREAD_SD = 1.0
"""Standard deviation of the logarithm of a spread under its hyperprior, around FIRST_SPREAD."""

LEAST_SPREAD, MOST_SPREAD = 1e-2, 5.0


@dataclass(frozen=True, eq=False)
class EffectsPrior:
    """Parameters that are similar in contexts that share a property.

    Attributes:
        groups: (kinds, free) group of each parameter, for every kind of effect.
        spreads: (kinds + 1,) standard deviation of the effects of each kind, and of the remainder.
        known_mean: (free,) in logits; NaN for unknown parameters.
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
        """The prior of groups, (free,) each, by the name of their kind, with initial spreads."""
        every = np.stack(list(groups.values()))
        kinds, size = every.shape
        first = np.full(kinds + 1, FIRST_SPREAD)
        return cls(every, first, unknown(size), unknown(size), tuple(groups))

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
        r"""The prior with the spreads of highest marginal likelihood.

        Around x the likelihood is Gaussian with information J and :math:`b = J x + g`; then, with
        P the prior's precision,

        .. math:: \log p(\text{clicks} \mid s) = \tfrac12 \log|P| - \tfrac12 \log|P + J|
                  + \tfrac12 b^\top (P + J)^{-1} b + \text{const}.
        """
        values, vectors = np.linalg.eigh((information + information.T) / 2)
        j = (vectors * np.maximum(values, 0)) @ vectors.T
        known = self._known_precision
        # external knowledge counts like clicks
        b = j @ x + slope + known * np.nan_to_num(self.known_mean)
        j = j + np.diag(known)

        def loss(log_spreads: np.ndarray) -> float:
            precision = replace(self, spreads=np.exp(log_spreads))._effects_precision
            both = precision + j
            (_, log_prior), (_, log_both) = map(np.linalg.slogdet, (precision, both))
            own = np.square((log_spreads - np.log(FIRST_SPREAD)) / SPREAD_SD).sum()
            return float(-0.5 * (log_prior - log_both + b @ np.linalg.solve(both, b) - own))

        from scipy.optimize import minimize  # slow to import, and needed to fit only

        bounds = [(np.log(LEAST_SPREAD), np.log(MOST_SPREAD))] * len(self.spreads)
        # one-sided differences would turn rounding of the last digit into one of the sixth
        found = minimize(
            loss,
            np.log(self.spreads),
            jac="3-point",
            method="L-BFGS-B",
            bounds=bounds,
            options={"ftol": 1e-9},
        )
        return replace(self, spreads=np.exp(found.x))

    def given(self, mean: np.ndarray, sd: np.ndarray) -> Self:
        """The prior with externally known parameters."""
        return replace(self, known_mean=mean, known_sd=sd)

    def hyperparameters(self) -> dict[str, float]:
        """Spread of the effects of each kind, and of the remainder."""
        return dict(zip((*self.names, "remainder"), self.spreads.tolist(), strict=True))

    def probability_sd(self) -> np.ndarray:
        """(free,) prior standard deviation of each probability."""
        return logit_normal_sd(self._centre, np.sqrt(np.diag(np.linalg.inv(self._precision))))

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """(count, free) draws."""
        factor = np.linalg.cholesky(np.linalg.inv(self._precision))
        return self._centre + rng.standard_normal((count, len(factor))) @ factor.T

    @cached_property
    def _precision(self) -> np.ndarray:
        """Inverse covariance, from the effects and from external knowledge."""
        return self._effects_precision + np.diag(self._known_precision)

    @cached_property
    def _effects_precision(self) -> np.ndarray:
        """Inverse covariance from the effects alone."""
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
        """Mean of the prior; 0 without external knowledge."""
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
