"""A log that changes while it is read is refused, whenever the change happens."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from epiclick.data import by_column, page_weights, readers
from epiclick.data.by_column import marked_and_rest
from epiclick.data.features import read_features
from epiclick.data.files import unchanged
from epiclick.data.readers import count_log, read_log
from epiclick.data.schema import LogOptions

from ..raising import raises_code

KINDS = ["csv", "parquet", "jsonl"]


def write(log: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".csv":
        log.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        log.to_parquet(path)
    else:
        log.to_json(path, orient="records", lines=True)
    return path


def grow(path: Path, log: pd.DataFrame) -> None:
    """Append one valid page; Parquet is rewritten."""
    more = log[log.page_id == 1].assign(page_id=99)
    if path.suffix == ".parquet":
        write(pd.concat([log, more]), path)
    elif path.suffix == ".csv":
        with path.open("a") as file:
            file.write(more.to_csv(index=False, header=False))
    else:
        with path.open("a") as file:
            file.write(more.to_json(orient="records", lines=True))


def truncate(path: Path, log: pd.DataFrame) -> None:
    write(log[log.page_id <= 3], path)


def replace(path: Path, log: pd.DataFrame) -> None:
    """Replace it by another file of the same size and time."""
    before = path.stat()
    write(log.assign(click=1 - log.click), path.with_name(f"other{path.suffix}"))
    os.replace(path.with_name(f"other{path.suffix}"), path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def remove(path: Path, log: pd.DataFrame) -> None:
    path.unlink()


CHANGES = [grow, truncate, replace, remove]


def before_pass(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, change: Callable[[], None]
) -> None:
    """Make a change just before the first run of a pass over the log."""
    whole, left = getattr(module, name), [change]

    def changed_first(*args: Any, **settings: Any) -> Any:
        if left:
            left.pop()()
        return whole(*args, **settings)

    monkeypatch.setattr(module, name, changed_first)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_two_passes_of_counting_is_refused(
    kind: str,
    change: Callable[[Path, pd.DataFrame], None],
    small_log: pd.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = write(small_log, tmp_path / f"log.{kind}")
    before_pass(monkeypatch, readers, "count_pages", lambda: change(path, small_log))
    with raises_code("changed-while-reading") as caught:
        count_log(path, LogOptions())
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unchanged_log_is_counted(
    kind: str, small_log: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(small_log, tmp_path / f"log.{kind}")
    seen = []
    before_pass(monkeypatch, readers, "count_pages", lambda: seen.append(path.read_bytes()))
    counts = count_log(tmp_path, LogOptions())[0]
    assert (counts.total_displays, counts.pages, len(seen)) == (18, 6, 1)


@pytest.mark.parametrize("named", ["", "*.csv"])
def test_a_folder_or_glob_that_gains_a_file_is_refused(
    named: str, small_log: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(small_log, tmp_path / "a.csv")
    before_pass(
        *(monkeypatch, readers, "count_pages"), lambda: shutil.copy(path, tmp_path / "b.csv")
    )
    with raises_code("changed-while-reading") as caught:
        count_log(str(tmp_path / named), LogOptions())
    assert f"{tmp_path / 'b.csv'} (it is new)" in str(caught.value)


def test_a_file_that_goes_between_listing_and_reading_is_refused(
    small_log: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.csv", "b.csv"):
        write(small_log, tmp_path / name)
    from epiclick.data import formats

    before_pass(monkeypatch, formats, "damage", (tmp_path / "b.csv").unlink)
    with raises_code("changed-while-reading") as caught:
        read_log(tmp_path)
    assert f"{tmp_path / 'b.csv'} (it is gone)" in str(caught.value)


def test_errors_of_an_unchanged_log_are_kept(small_log: pd.DataFrame, tmp_path: Path) -> None:
    path = write(small_log.assign(click=7), tmp_path / "log.csv")
    with raises_code("click-not-binary"):
        read_log(path)
    with pytest.raises(ZeroDivisionError), unchanged(path):
        _ = 1 / 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_reader_that_opens_a_log_again_refuses_a_change(
    kind: str, small_log: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = small_log.assign(device=small_log.page_id % 2, random=small_log.page_id % 2)
    path, options = tmp_path / f"log.{kind}", LogOptions()
    write(log, path)
    counts = read_log(path)

    def refused(module: Any, name: str, read: Callable[[], object]) -> None:
        with monkeypatch.context() as patch:
            before_pass(patch, module, name, lambda: grow(path, log))
            with raises_code("changed-while-reading"):
                read()
        write(log, path)

    refused(*(by_column, "_pages"), lambda: by_column.count_by(path, options, counts, ["device"]))
    refused(
        *(page_weights, "count_by_length"), lambda: page_weights.page_weights(path, options, counts)
    )
    refused(by_column, "open_rows", lambda: marked_and_rest(path, options, "random"))


def test_counts_by_a_column_of_another_log_are_refused(
    small_log: pd.DataFrame, tmp_path: Path
) -> None:
    log = small_log.assign(device=small_log.page_id % 2)
    path = write(log, tmp_path / "log.csv")
    counts = read_log(path)
    grow(path, log)
    with raises_code("counts-differ-from-log") as caught:
        by_column.count_by(path, LogOptions(), counts, ["device"])
    assert f"3 of {len(counts.pair)} entries" in str(caught.value)


def test_a_folder_of_features_that_gains_a_file_is_refused(
    small_log: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = small_log[["query_id", "doc_id"]].drop_duplicates().assign(x=1.0)
    pairs[:3].to_csv(tmp_path / "a.csv", index=False)
    from epiclick.data import sources

    more = pairs[3:]
    before_pass(
        *(monkeypatch, sources, "open_source"),
        lambda: more.to_csv(tmp_path / "b.csv", index=False),
    )
    with raises_code("changed-while-reading") as caught:
        read_features(tmp_path)
    assert f"{tmp_path / 'b.csv'} (it is new)" in str(caught.value)
    assert len(read_features(tmp_path)) == len(pairs)
