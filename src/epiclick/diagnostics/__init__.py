"""Whether a fit can be trusted: goodness of fit, randomised pages, prior contraction."""
