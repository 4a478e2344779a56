"""Faults of the system, and others at work at the same time."""
