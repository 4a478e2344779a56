"""Rankers that were never shown, compared by the clicks they would get."""
