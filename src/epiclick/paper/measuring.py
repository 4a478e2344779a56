"""What is measured of a model while it is trained; one way for all methods."""

from dataclasses import dataclass, replace

import numpy as np

from epiclick.click_models.base import Emission
from epiclick.evaluating import SAMPLES
from epiclick.evaluation.clicks import score_clicks
from epiclick.evaluation.joint import JointScores, joint_log_likelihood
from epiclick.models.averaging import relevance_by
from epiclick.models.fitted import FittedModel
from epiclick.models.parameters import Parameters
from epiclick.models.prediction import bias_at, bias_betas, draw_bias
from epiclick.paper.worlds import RunData
from epiclick.training.batches import Batches
from epiclick.training.objective import Diverged

CHUNK = 65_536  # pairs at once


@dataclass(frozen=True, eq=False)
class Measure:
    """Test likelihood, relevance and position bias of parameters.

    Attributes:
        fitted: a model of the kind that is trained, with any parameters.
        data: the run's clicks.
        batches: how the pairs that are scored are dealt to batches.
        seed: of the biases drawn to score them. Each run has its own, so that intervals over runs
            hold the error of the draws; its methods and epochs share it.
    """

    fitted: FittedModel
    data: RunData
    batches: Batches
    seed: int

    def __call__(self, parameters: Parameters) -> dict[str, np.ndarray]:
        """Values by quantity, (indices,) each; see `paper.results`. Diverged if there are none."""
        fitted = replace(self.fitted, parameters=parameters)
        with np.errstate(over="ignore", invalid="ignore"):
            alpha, beta = self._relevance(fitted)
            nu = alpha + beta
            mu = alpha / nu
        if not np.isfinite(mu).all():
            raise Diverged("the network's outputs are beyond what numbers can hold")
        found = {"mu_mean": mu.mean(), "mu_sd": mu.std(ddof=1)}
        if fitted.relevance_head.has_uncertainty:
            found |= {"nu_mean": nu.mean(), "nu_sd": nu.std(ddof=1)}
        betas = bias_betas(fitted)
        if betas is None:
            found["theta"] = bias_at(fitted, fitted.contexts)[0]
        else:
            found |= {"theta_alpha": betas.alpha, "theta_beta": betas.beta}
        where = self.data.where
        found |= self._likelihoods(fitted, alpha[where], beta[where])
        return {name: np.atleast_1d(np.asarray(value)) for name, value in found.items()}

    def _relevance(self, fitted: FittedModel) -> tuple[np.ndarray, np.ndarray]:
        """alpha and beta of all displayed pairs, or relevance and 1 - relevance, (pairs,) each."""
        inputs, networks = self.data.inputs, [fitted.parameters.layers]
        parts = [
            relevance_by(fitted, networks, inputs[start : start + CHUNK])
            for start in range(0, len(inputs), CHUNK)
        ]
        alpha, beta = (np.concatenate(part, axis=1)[0] for part in zip(*parts, strict=True))
        return alpha, beta

    def _likelihoods(
        self, fitted: FittedModel, alpha: np.ndarray, beta: np.ndarray
    ) -> dict[str, float]:
        """The three test log-likelihoods of scored pairs, whose alpha and beta are given."""
        counts = self.data.scored
        theta, _ = bias_at(fitted, counts.contexts)
        probability = theta[counts.context] * (alpha / (alpha + beta))[counts.pair]
        display = score_clicks(counts, probability).display_log_likelihood
        if fitted.relevance_head.has_uncertainty:
            biases = Emission(*draw_bias(fitted, counts.contexts, SAMPLES, self.seed))
            joint = joint_log_likelihood(counts, biases, alpha, beta, self.batches)
        else:
            # displays are independent for a model without uncertainty
            joint = JointScores(*[display * counts.total_displays] * 2)
        return {
            "per_display": display,
            "per_pair": joint.pair / len(counts),
            "whole_set": joint.whole / counts.total_displays,
        }
