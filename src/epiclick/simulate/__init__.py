"""Simulated worlds with known truth: LTR data, a logging policy, users who click."""
