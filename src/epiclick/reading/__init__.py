"""Inference for users who may stop reading after a click, which the log does not show."""
