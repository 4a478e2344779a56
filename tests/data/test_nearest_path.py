"""Paths that were mistyped."""

from pathlib import Path

import pytest

from epiclick.data.files import did_you_mean_path


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("world/click.parquet", "world/clicks.parquet"),
        ("World/Clicks.parquet", "world/clicks.parquet"),
        ("wrld/clicks.parquet", "world/clicks.parquet"),
        ("wrld/click.parquet", "world/clicks.parquet"),
        ("wold", "world"),
        ("world/clicks.parquet", None),  # it exists
        ("world/*.csv", None),
        ("nowhere/at/all", None),
        ("world/.hiden", None),
    ],
)
def test_every_missing_part_is_replaced_by_the_nearest(
    typed: str, meant: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "world").mkdir()
    (tmp_path / "world" / "clicks.parquet").touch()
    (tmp_path / "world" / ".hidden").touch()
    monkeypatch.chdir(tmp_path)
    relative = "" if meant is None else f" (did you mean '{meant}'?)"
    assert did_you_mean_path(Path(typed)) == relative
    absolute = "" if meant is None else f" (did you mean '{tmp_path / meant}'?)"
    assert did_you_mean_path(tmp_path / typed) == absolute
