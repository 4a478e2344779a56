"""Which experiment settles what a comparison cannot: its size, its pages, its analysis."""
