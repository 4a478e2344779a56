"""The command to run next, and its call in Python, with all options that a log needs."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epiclick.data.files import paths_in
from epiclick.data.schema import LogOptions
from epiclick.data.two_sources import without_role

FLAGS = ("clip_clicks", "normalise_queries")


def changed(options: LogOptions) -> dict[str, Any]:
    """The options that differ from the defaults, by the fields of `LogOptions`."""
    base = LogOptions()
    given = {
        name: value
        for name in LogOptions.__dataclass_fields__
        if (value := getattr(options, name)) != getattr(base, name)
    }
    # contexts that follow from other options need not be named
    follows = {n: v for n, v in given.items() if n in ("grid", "sponsored", "sponsored_as")}
    if "context" in given and LogOptions(**follows).context == given["context"]:
        del given["context"]
    return given


def fit_command(source: Any, options: LogOptions) -> str:
    """The command that fits a model to the files of a source; a call in Python for any other."""
    if not paths_in(source):
        return f"ec.EpistemicPBM().fit(ec.read_log(log{_arguments(changed(options))}))"
    words = ["epiclick", "fit"]
    for path in source if isinstance(source, list | tuple) else [source]:
        role, own = without_role(path)
        words += [f"--{role}", own] if role else [own]
    for name, value in changed(options).items():
        words += _words(name, value)
    return shlex.join([*words, "--out", _free_folder()])


def _words(name: str, value: Any) -> list[str]:
    """An option as words of a command line."""
    if name == "columns":
        return [word for own in value.items() for word in ("--column", "=".join(own))]
    option = f"--{name.replace('_', '-')}"
    if name in FLAGS:
        return [option]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [option, ",".join(value)]
    if name in ("max_bad", "drop_busiest"):
        return [option, f"{100 * value:.12g}%"]
    if name == "click_window":
        return [option, f"{value / 60:g}m" if value % 60 == 0 else f"{value:g}s"]
    return [option, str(value)]


def _arguments(given: Mapping[str, Any]) -> str:
    return "".join(f", {name}={value!r}" for name, value in given.items())


def _free_folder() -> str:
    """A name for the model that does not exist yet."""
    names = ("model", *(f"model-{i}" for i in range(2, 1_000)))
    return next(name for name in names if not Path(name).exists())
