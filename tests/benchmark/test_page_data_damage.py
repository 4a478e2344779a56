"""Damaged pages of a benchmark are refused with a message, or read as the same."""

from pathlib import Path

import numpy as np

from epiclick.benchmark.page_data import BenchmarkData

from ..damaging import assert_damage_is_found
from .small_data import small_data


def test_damage_is_refused_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "pages.npz"
    small_data("pbm", pages=40).save(path)
    digest = BenchmarkData.load(path).digest

    def check() -> None:
        found = BenchmarkData.load(path)
        assert found.digest == digest
        assert found.settings == {"name": "pbm", "title": "pbm users"}

    refused, _ = assert_damage_is_found(path, check, flips=1_000)
    assert refused > 900


def test_pages_that_were_kept_without_a_digest_are_read(tmp_path: Path) -> None:
    data = small_data("pbm", pages=40)
    settings = np.frombuffer(b'{"name": "pbm", "title": "pbm users"}', np.uint8)
    np.savez_compressed(tmp_path / "pages.npz", settings=settings, **data._arrays())
    assert BenchmarkData.load(tmp_path / "pages.npz").digest == data.digest
