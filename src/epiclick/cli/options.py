"""Options that several verbs share, above all how a log is read."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from epiclick.cli.console import note, print_text, progress
from epiclick.cli.help import Verb
from epiclick.click_models.registry import REGISTRY
from epiclick.data.schema import LogOptions
from epiclick.errors import InputError, InputWarning

if TYPE_CHECKING:
    from epiclick.data.counts import ClickCounts

Number = TypeVar("Number", int, float)


def names_in(text: str | None) -> list[str]:
    """Names between commas; none if nothing was given."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def numbers_in(
    text: str, option: str, write: str, kind: Callable[[str], Number]
) -> tuple[Number, ...]:
    """Numbers between commas; `write` says what is asked for, such as "numbers such as 1,.5"."""
    listed = text.strip().removesuffix(",")
    try:
        return tuple(kind(part) for part in listed.split(",")) if listed else ()
    except ValueError as error:
        raise InputError(f"{option} {text}: write {write}") from error


Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Folder that fit wrote.", show_default=False)
]
Features = Annotated[str | None, typer.Option(metavar="FILE", help="Features of the items.")]
OwnClicks = Annotated[
    list[str] | None,
    typer.Option(metavar="LOG", help="Log of the items' own clicks. May be repeated."),
]
Backtest = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LOG", help="A log held back, to check the model's clicks on. May be repeated."
    ),
]
ClickModel = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"How users look and click: one of {', '.join(REGISTRY)}.",
        show_default="pbm",
    ),
]
Depth = Annotated[int | None, typer.Option(help="Last position that counts.")]
Truth = Annotated[
    Path | None, typer.Option(help="Folder of the simulated world that the log comes from.")
]


USUAL = LogOptions()
MOST_NAMED = 3  # logs in a note


def _option(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Reading the log", **settings)


Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG...",
        help="Parquet, CSV or JSON-lines files, folders or globs.",
        show_default=False,
    ),
]
MissingFeatures = Annotated[
    Literal["error", "drop"], _option(help="Refuse pairs without features, or leave them out.")
]


@dataclass(frozen=True)
class GivenOptions:
    """What was said on the command line about reading the log; None or False for what was not.

    Every field is an option of the verbs that `reads_log` marks.
    """

    context: Annotated[
        str | None,
        _option(
            metavar="COLUMNS",
            help="Columns that decide whether an item is looked at.",
            show_default=",".join(USUAL.context),
        ),
    ] = None
    position_base: Annotated[
        int | None,
        _option(
            help="Number of the first position: 0 or 1.", show_default=str(USUAL.position_base)
        ),
    ] = None
    column: Annotated[
        list[str] | None,
        _option(
            metavar="NAME=COLUMN",
            help="Name a column: position=slot. May be repeated.",
            show_default=False,
        ),
    ] = None
    where: Annotated[
        str | None,
        _option(
            metavar="SQL",
            help="Count only rows that meet this SQL condition.",
            show_default="all rows",
        ),
    ] = None
    clip_clicks: Annotated[
        bool, _option("--clip-clicks", help="Cap counted clicks at the displays.")
    ] = False
    ids: Annotated[
        Literal["auto", "string", "integer"] | None,
        _option(help="Type of the ids.", show_default=USUAL.ids),
    ] = None
    on_bad: Annotated[
        Literal["error", "drop"] | None,
        _option(help="Refuse a log with bad rows, or drop them.", show_default=USUAL.on_bad),
    ] = None
    max_bad: Annotated[
        str | None,
        _option(
            metavar="SHARE",
            help="Largest share of rows to drop.",
            show_default=f"{USUAL.max_bad:.1%}",
        ),
    ] = None

    max_clicks_per_page: Annotated[
        int | None,
        _option(
            metavar="CLICKS",
            help="Leave out pages with more clicks, as robots make them; 0: none.",
            show_default="none",
        ),
    ] = None
    drop_busiest: Annotated[
        str | None,
        _option(
            metavar="SHARE",
            help="Leave out this share of users, those with the most displays.",
            show_default=f"{USUAL.drop_busiest:.0%}",
        ),
    ] = None

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
            given["where"] = self.where.strip() or None
        if self.max_bad is not None:
            given["max_bad"] = parse_share(self.max_bad, "--max-bad")
        if self.max_clicks_per_page is not None:
            given["max_clicks_per_page"] = self.max_clicks_per_page or None  # 0 lifts a saved one
        if self.drop_busiest is not None:
            given["drop_busiest"] = parse_share(self.drop_busiest, "--drop-busiest")
        return replace(base, **given)

    def over_saved(self, saved: LogOptions, logs: Sequence[str], *, quiet: bool) -> LogOptions:
        """The options saved in a model, with what was given in their place, to read other logs.

        What is unusual is noted. Rows are not selected as those of the model's own log were.
        """
        inherited = saved.for_another_log()
        chosen = self.over(inherited)
        before, usual = inherited.to_dict(), USUAL.to_dict()
        reused = {
            name: value
            for name, value in chosen.to_dict().items()
            if value != usual[name] and value == before[name]
        }
        if reused and logs:
            words = ", ".join(f"{name} {_words(value)}" for name, value in reused.items())
            note(f"the log is read as the model's own was: {words}", quiet=quiet)
        if saved.where is not None and self.where is None and logs and not _are_counts(logs):
            note(
                f"the model was fitted to rows where {saved.where}; all rows of {_named(logs)} "
                "are read. --where selects rows",
                quiet=quiet,
            )
        return chosen

    def over_own(self, saved: LogOptions, logs: Sequence[str], *, quiet: bool) -> LogOptions:
        """The same to read the log that the model was fitted to: the rows that it was fitted to.

        Another condition that is given is about other logs; an empty one asks for all rows.
        """
        lifted = self.where is not None and not self.where.strip()
        # which rows a file of counts holds was settled when it was counted
        where = None if lifted or _are_counts(logs) else saved.where
        if where is not None:
            note(f"--train: rows where {where}, which the model was fitted to", quiet=quiet)
        return replace(self.over(saved.for_another_log()), where=where)


NOTHING_GIVEN = GivenOptions()


def reads_log(verb: Callable[..., None]) -> Callable[..., None]:
    """Ask for the options of a verb's parameter `given` one by one."""
    signature = inspect.signature(verb)
    options = inspect.signature(GivenOptions).parameters

    @wraps(verb)
    def call(**values: Any) -> None:
        given = {name: values.pop(name) for name in options if name in values}
        verb(**values, given=GivenOptions(**given))

    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        parameters += options.values() if parameter.name == "given" else [parameter]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


class AsTheModel(Verb):
    """A verb that reads logs as a model's own was read, all rows of them."""

    @staticmethod
    def shown() -> Mapping[str, str]:
        """Defaults by option."""
        reused = (
            "context",
            "position_base",
            "ids",
            "on_bad",
            "max_bad",
            "max_clicks_per_page",
            "drop_busiest",
        )
        return dict.fromkeys(reused, "the model's")


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


def parse_share(text: str, option: str) -> float:
    """A share such as 0.1% or 0.001."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError as error:
        raise InputError(f"{option} {text}: write a share such as 0.1% or 0.001") from error
    return value / 100 if text.endswith("%") else value


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={own}" for name, own in value.items())
    return ",".join(value) if isinstance(value, list) else str(value)


def _are_counts(logs: Sequence[str]) -> bool:
    """Whether all files are counts of our own."""
    from epiclick.data.readers import counts_files

    return bool(counts_files(list(logs)))


def _named(logs: Sequence[str]) -> str:
    shown = ", ".join(logs[:MOST_NAMED])
    return shown if len(logs) <= MOST_NAMED else f"{shown} and {len(logs) - MOST_NAMED} more"


def read_counts(
    log: Sequence[str],
    options: LogOptions,
    features: str | None = None,
    missing_features: Literal["error", "drop"] = "error",
    *,
    robots: bool = True,
    quiet: bool,
) -> "ClickCounts":
    """Count a log and join features; columns found by another name are noted, doubts warned of.

    A fit looks for robots itself, by the position bias it learns: then `robots` is False here.
    """
    from epiclick.data.features import read_features
    from epiclick.data.readers import count_log

    with progress("counting", quiet=quiet):
        counts, report = count_log(list(log), options)
    if report.aliases:
        found = ", ".join(f"{name} from {own}" for name, own in report.aliases.items())
        note(f"columns: {found}", quiet=quiet)
    suspected = () if report.robots is None or not robots else (report.robots.message,)
    for message in (*report.warnings, *suspected):
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


def print_sizes(counts: "ClickCounts") -> None:
    """How much a log holds, in a sentence."""
    pages = "" if counts.pages is None else f"{counts.pages:,} pages, "
    print_text(
        f"{pages}{len(counts):,} pairs of {counts.num_queries:,} queries, "
        f"{counts.total_displays:,} displays, {counts.total_clicks:,} clicks"
    )
