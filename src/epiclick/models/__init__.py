"""From parameters to Betas: relevance by a network on features, position bias by a lookup."""
