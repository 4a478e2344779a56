"""Attacks on the command line: mutated inputs, damaged files, kills, faults of the system.

`make torture` runs all campaigns (`python -m torture`), the tests a part of each. A case is decided
by its campaign, its number and the seed, so that a stopped run goes on where it stopped, and a
failure can be repeated alone.
"""
