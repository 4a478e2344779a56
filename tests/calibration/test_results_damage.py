"""A damaged result is refused, or read unchanged."""

from pathlib import Path

import numpy as np

from epiclick.calibration.answers import Answers
from epiclick.calibration.runner import PARTS, load_answers, save_answers
from epiclick.data.checksums import without_trailer

from ..damaging import assert_damage_is_found


def assert_same(first: dict[str, Answers], second: dict[str, Answers]) -> None:
    assert first.keys() == second.keys()
    for name in first:
        for part in PARTS:
            np.testing.assert_array_equal(getattr(first[name], part), getattr(second[name], part))


def test_damage_is_refused_or_harmless(right_answers, tmp_path: Path) -> None:
    file = tmp_path / "00000-0.npz"
    save_answers({"seen_relevance": right_answers(np.random.default_rng(0), values=3)}, file)
    kept = load_answers(file)
    refused, same = assert_damage_is_found(file, lambda: assert_same(load_answers(file), kept))
    assert refused > 250
    assert same < 30  # in the mark of the digest, or where nothing but the digest is cut off


def test_worlds_that_were_kept_without_a_digest_are_read(right_answers, tmp_path: Path) -> None:
    file = tmp_path / "00000-0.npz"
    save_answers({"seen_relevance": right_answers(np.random.default_rng(0), values=3)}, file)
    kept = load_answers(file)
    file.write_bytes(without_trailer(file.read_bytes()))
    assert_same(load_answers(file), kept)
