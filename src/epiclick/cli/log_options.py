"""How a log is to be read: options that several verbs share, and the reading itself."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from epiclick.cli.output import note, progress
from epiclick.cli.telling import WithDefaults
from epiclick.data.log import LogOptions
from epiclick.errors import InputError, InputWarning

if TYPE_CHECKING:
    from epiclick.data.counts import ClickCounts

USUAL = LogOptions()


def _option(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Reading the log", **settings)


Logs = Annotated[
    list[str],
    typer.Argument(help="Parquet, CSV or JSON-lines files, folders or globs.", show_default=False),
]
Context = Annotated[
    str | None,
    _option(
        help="Columns that decide whether an item is looked at.",
        show_default=",".join(USUAL.context),
    ),
]
PositionBase = Annotated[
    int | None,
    _option(help="Number of the first position: 0 or 1.", show_default=str(USUAL.position_base)),
]
Column = Annotated[
    list[str] | None,
    _option(help="Name a column: position=slot. May be repeated.", show_default=False),
]
Where = Annotated[str | None, _option(help="Count only rows that meet this SQL condition.")]
ClipClicks = Annotated[bool, _option("--clip-clicks", help="Cap counted clicks at the displays.")]
Ids = Annotated[
    Literal["auto", "string", "integer"] | None,
    _option(help="Type of the ids.", show_default=USUAL.ids),
]
OnBad = Annotated[
    Literal["error", "drop"] | None,
    _option(help="Refuse a log with bad rows, or drop them.", show_default=USUAL.on_bad),
]
MaxBad = Annotated[
    str | None,
    _option(help="Largest share of rows to drop.", show_default=f"{USUAL.max_bad:.1%}"),
]
MissingFeatures = Annotated[
    Literal["error", "drop"], _option(help="Refuse pairs without features, or leave them out.")
]


@dataclass(frozen=True)
class GivenOptions:
    """What was said on the command line about reading the log; None or False for what was not."""

    context: str | None
    position_base: int | None
    column: Sequence[str] | None
    where: str | None
    clip_clicks: bool
    ids: Literal["auto", "string", "integer"] | None
    on_bad: Literal["error", "drop"] | None
    max_bad: str | None

    def over(self, base: LogOptions) -> LogOptions:
        """Other options, with what was given in their place."""
        given: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("position_base", "ids", "on_bad")
            if getattr(self, name) is not None
        }
        if self.clip_clicks:
            given["clip_clicks"] = True
        if self.context is not None:
            given["context"] = tuple(name.strip() for name in self.context.split(","))
        if self.column:
            given["columns"] = {**base.columns, **parse_columns(self.column)}
        if self.where is not None:
            given["where"] = self.where.strip() or None  # an empty one lifts a saved condition
        if self.max_bad is not None:
            given["max_bad"] = parse_share(self.max_bad)
        return replace(base, **given)

    def over_saved(self, saved: LogOptions, *, quiet: bool) -> LogOptions:
        """The options saved in a model, with what was given in their place; tells the unusual.

        Parts are left out: they kept the days or folds of the training log apart.
        """
        chosen = self.over(replace(saved, part=None, page_parts=None))
        before, usual = saved.to_dict(), USUAL.to_dict()
        reused = {
            name: value
            for name, value in chosen.to_dict().items()
            if value != usual[name] and value == before[name]
        }
        if reused:
            words = ", ".join(f"{name} {_words(value)}" for name, value in reused.items())
            note(f"the log is read as the model's own was: {words}", quiet=quiet)
        return chosen


class AsTheModel(WithDefaults):
    """Help of a verb that reads logs as a model's own was read."""

    @staticmethod
    def shown() -> Mapping[str, str]:
        """Defaults by option."""
        reused = ("context", "position_base", "where", "ids", "on_bad", "max_bad")
        return dict.fromkeys(reused, "the model's")


def read_counts(
    log: Sequence[str],
    options: LogOptions,
    features: str | None = None,
    missing_features: Literal["error", "drop"] = "error",
    *,
    quiet: bool,
) -> "ClickCounts":
    """Count a log and join features; the names that were taken are told, doubts are warned of."""
    from epiclick.data.features import read_features
    from epiclick.data.readers import count_log

    with progress("counting", quiet=quiet):
        counts, report = count_log(list(log), options)
    if report.aliases:
        found = ", ".join(f"{name} from {own}" for name, own in report.aliases.items())
        note(f"columns: {found}", quiet=quiet)
    for message in report.warnings:
        warnings.warn(message, InputWarning, stacklevel=2)
    if features is None:
        return counts
    with progress("joining features", quiet=quiet):
        table = read_features(features, ids=counts.options.ids)
        joined = counts.with_features(table, missing=missing_features)
    if len(joined) < len(counts):
        missing = len(counts) - len(joined)
        warnings.warn(
            f"{missing:,} of {len(counts):,} pairs have no features and were left out",
            InputWarning,
            stacklevel=2,
        )
    return joined


def parse_columns(assignments: Sequence[str]) -> dict[str, str]:
    """`position=slot` and the like as a mapping."""
    parsed: dict[str, str] = {}
    for assignment in assignments:
        name, equals, own = assignment.partition("=")
        if not (name and equals and own):
            raise InputError(f"--column {assignment}: write it as position=slot")
        if name in parsed:
            raise InputError(f"--column {name} is given twice: {parsed[name]} and {own}")
        parsed[name] = own
    return parsed


def parse_share(text: str) -> float:
    """A share such as 0.1% or 0.001."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError as error:
        raise InputError(f"--max-bad {text}: write a share such as 0.1% or 0.001") from error
    return value / 100 if text.endswith("%") else value


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={own}" for name, own in value.items())
    return ",".join(value) if isinstance(value, list) else str(value)
