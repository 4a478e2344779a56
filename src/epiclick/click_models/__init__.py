"""Click models: what decides whether a user looks, and how a page is gone through."""
