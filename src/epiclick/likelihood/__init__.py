"""The likelihood of a pair's clicks given position bias, relevance integrated out."""
