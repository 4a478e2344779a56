"""Click models: contexts, examination, priors, and how a user goes through a page."""
