"""Worlds whose truth is known: LTR data, a logging policy, users who click."""
