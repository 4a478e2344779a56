"""Whether a fit can be trusted: fit of the click model, randomised pages, prior contraction."""
