"""Calibration of the uncertainty, measured by fits in worlds with known truth."""
