"""Rankers named on the command line, and what cannot be asked of them."""

import warnings
from collections.abc import Sequence
from pathlib import Path

from epiclick.errors import InputError, InputWarning, did_you_mean


def named_rankings(given: Sequence[str]) -> dict[str, str | tuple[str, str]]:
    """NAME=FILE as a mapping; a file without a name is called by its own.

    FILE:COLUMN is the file and its column of scores.
    """
    rankings: dict[str, str | tuple[str, str]] = {}
    files: dict[str, str] = {}
    for each in given:
        name, equals, file = each.partition("=")
        # a path may hold an equals sign itself, as in day=1/new.parquet
        if not equals or Path(each).exists():
            name, file = _column(each) or Path(each.removesuffix(".gz")).stem, each
        if not (name.strip() and file):
            raise InputError(f"--ranking {each}: write it as new=new.parquet")
        if name in rankings:
            raise InputError(
                f"--ranking: two rankers are called '{name}' ({files[name]} and {file}); give "
                "each a name of its own, as in new=new.parquet"
            )
        files[name] = file
        column = _column(file)
        rankings[name] = (file.removesuffix(f":{column}"), column) if column else file
    return rankings


def _column(file: str) -> str:
    """The column of FILE:COLUMN; empty where the colon is the path's own, or there is none."""
    path, _, column = file.rpartition(":")
    return column if path and Path(path).is_file() and not Path(file).exists() else ""


def warn_of_same_files(backtest: Sequence[str], clicks: Sequence[str]) -> None:
    """Tell if a log is given twice: a backtest needs pages that the model has not learned from."""
    from epiclick.data.files import find_files

    both = {file.resolve() for file in find_files(clicks)}
    same = [file for file in find_files(backtest) if file.resolve() in both]
    if same:
        warnings.warn(
            f"--backtest and --clicks both name {same[0]}; a backtest tells something only of "
            "pages that the model was not trained on",
            InputWarning,
            stacklevel=2,
        )


def check_names(names: Sequence[str], against: str | None, sure: float | None) -> None:
    """Refuse what cannot be asked of these rankers, before anything is read."""
    if against is not None and against not in names:
        raise InputError(
            f"--against {against}: there is no such ranker{did_you_mean(against, names)}; there "
            f"are {', '.join(names)}"
        )
    if sure is None:
        return
    if len(names) < 2:
        raise InputError("--fail-unless-better needs another ranker to be better than")
    if not 0 < sure < 1:
        raise InputError(
            f"--fail-unless-better must lie strictly between 0 and 1, not {sure}; write 0.95"
        )
