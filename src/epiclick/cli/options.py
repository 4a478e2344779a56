"""Options that several verbs share, what they mean, and how a log is read with them."""

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from typer import Argument, Option

from epiclick.cli import console
from epiclick.cli.given_features import NO_FEATURES, GivenFeatures
from epiclick.cli.help import Verb
from epiclick.click_models.registry import REGISTRY
from epiclick.data.log_formats.log_format import AUTO, ROWS, TITLES
from epiclick.data.schema import DISPLAY_COLUMNS, LogOptions
from epiclick.data.two_sources import ROLES, with_roles
from epiclick.errors import InputError, InputWarning

if TYPE_CHECKING:
    from epiclick.api import BaseModel
    from epiclick.data.counts import ClickCounts

Number = TypeVar("Number", int, float)


AsJson = Annotated[bool, Option("--json", help="Print one JSON object instead of tables.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print results only, no notes.")]
Model = Annotated[
    Path, Argument(metavar="MODEL", help="Folder written by fit.", show_default=False)
]
Logs = Annotated[
    list[str],
    Argument(
        metavar="LOG...",
        help="Parquet, CSV or JSON-lines files, folders or globs; FILE:TABLE of a .duckdb or "
        ".sqlite file; with --connect, tables.",
        show_default=False,
    ),
]
OutFolder = Annotated[Path, Option(help="Folder to write.", show_default=False)]
Clicks = Annotated[
    list[str] | None,
    Option(metavar="LOG", help="Log with clicks on the items. May be repeated."),
]
Backtest = Annotated[
    list[str] | None,
    Option(metavar="LOG", help="Held-out log to test predicted clicks on. May be repeated."),
]
ExposureFrom = Annotated[
    list[str] | None,
    Option(
        metavar="LOG",
        help="Earlier log that tells where the ranker placed items, for rankers that learn from "
        "clicks. Default: the log itself. May be repeated.",
    ),
]
OtherModels = Annotated[
    list[Path] | None,
    Option(metavar="MODEL", help="Another model to score on the log. May be repeated."),
]
ClickModel = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help=f"Model of how users examine and click: one of {', '.join(REGISTRY)}.",
        show_default="pbm",
    ),
]
Depth = Annotated[
    int | None, Option(help="Last position that counts.", show_default="all positions")
]
Extrapolate = Annotated[
    bool,
    Option(
        "--extrapolate",
        help="Assume that positions below the model's last are examined as often as that one.",
    ),
]
Ranking = Annotated[
    list[str],
    Option(
        metavar="NAME=FILE",
        help="Ranking to compare: a table with query_id, doc_id, and position or score, or a "
        "TREC run. FILE:COLUMN names the column of scores. May be repeated.",
        show_default=False,
    ),
]
Traffic = Annotated[
    list[str] | None,
    Option(metavar="LOG", help="Log: clicks on items, traffic of queries. May be repeated."),
]
Weights = Annotated[Literal["traffic", "uniform"], Option(help="Weights of the queries.")]
Level = Annotated[
    float | None, Option(help="Nominal coverage of intervals.", show_default="the model's")
]
Overlap = Annotated[
    str,
    Option(
        metavar="SHARE",
        help="Share of the log's displays that the previous model was fitted to, too: 27/28.",
    ),
]
Truth = Annotated[
    Path | None, Option(help="Folder of the simulated world that the log comes from.")
]


DEFAULTS = LogOptions()
MOST_NAMED = 3  # logs in a note


def _log_option(*names: str, **settings: Any) -> Any:
    return Option(*names, rich_help_panel="Reading the log", **settings)


Cluster = Annotated[
    str | None,
    _log_option(
        metavar="COLUMN",
        help="Robust intervals come from the differences between: query, user, page, or any "
        "column, such as a day.",
        show_default="query; user or page if there are few queries",
    ),
]
MissingFeatures = Annotated[
    Literal["error", "drop"], _log_option(help="Reject pairs without features, or leave them out.")
]


ImpressionsTable = Annotated[
    list[str] | None,
    _log_option(
        metavar="FILE",
        help="Impressions without clicks, in place of LOG. May be repeated.",
        show_default=False,
    ),
]
ClicksTable = Annotated[
    list[str] | None,
    _log_option(
        metavar="FILE",
        help="Clicks on the impressions, joined on page and item. May be repeated.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class GivenOptions:
    """Options given on the command line for reading the log; None or False for the others.

    Every field is an option of the verbs marked with `reads_log`.
    """

    context: Annotated[
        str | None,
        _log_option(
            metavar="COLUMNS",
            help="Columns that determine how likely an item is examined.",
            show_default=",".join(DEFAULTS.context),
        ),
    ] = None
    position_base: Annotated[
        int | None,
        _log_option(
            help="Number of the first position: 0 or 1.", show_default=str(DEFAULTS.position_base)
        ),
    ] = None
    column: Annotated[
        list[str] | None,
        _log_option(
            metavar="NAME=COLUMN",
            help="Column to use, such as position=slot. May be repeated.",
            show_default=False,
        ),
    ] = None
    where: Annotated[
        str | None,
        _log_option(
            metavar="SQL",
            help="Count only rows that satisfy this SQL condition.",
            show_default="all rows",
        ),
    ] = None
    clip_clicks: Annotated[
        bool, _log_option("--clip-clicks", help="Cap the clicks of a counted log at its displays.")
    ] = False
    ids: Annotated[
        Literal["auto", "string", "integer"] | None,
        _log_option(help="Type of query and document ids.", show_default=DEFAULTS.ids),
    ] = None
    on_bad: Annotated[
        Literal["error", "drop"] | None,
        _log_option(help="Reject a log with bad rows, or drop them.", show_default=DEFAULTS.on_bad),
    ] = None
    max_bad: Annotated[
        str | None,
        _log_option(
            metavar="SHARE",
            help="Largest share of rows that may be dropped.",
            show_default=f"{DEFAULTS.max_bad:.1%}",
        ),
    ] = None
    max_clicks_per_page: Annotated[
        int | None,
        _log_option(
            metavar="CLICKS",
            help="Leave out pages with more clicks, as robots produce; 0: no limit.",
            show_default="no limit",
        ),
    ] = None
    drop_busiest: Annotated[
        str | None,
        _log_option(
            metavar="SHARE",
            help="Leave out this share of users: those with the most displays.",
            show_default=f"{DEFAULTS.drop_busiest:.0%}",
        ),
    ] = None
    conversion: Annotated[
        str | None,
        _log_option(
            metavar="COLUMN",
            help="Column that is 1 where a click led to a conversion, such as a purchase; none: "
            "read the log without.",
            show_default="none",
        ),
    ] = None
    value: Annotated[
        str | None,
        _log_option(
            metavar="COLUMN",
            help="Column with the value of each conversion, such as its revenue.",
            show_default="none",
        ),
    ] = None
    page_number: Annotated[
        str | None,
        _log_option(
            metavar="COLUMN",
            help="Column with the number of the results page, if positions start again on each.",
            show_default="none",
        ),
    ] = None
    page_size: Annotated[
        int | None,
        _log_option(metavar="N", help="Results per page, with --page-number.", show_default="none"),
    ] = None
    page_number_base: Annotated[
        int | None,
        _log_option(
            help="Number of the first page: 0 or 1.", show_default=str(DEFAULTS.page_number_base)
        ),
    ] = None
    offset: Annotated[
        str | None,
        _log_option(
            metavar="COLUMN",
            help="Column with the number of results before the page, instead of --page-number.",
            show_default="none",
        ),
    ] = None
    viewed: Annotated[
        str | None,
        _log_option(
            metavar="COLUMN",
            help="Column that is 1 where a result came into view; others are not counted.",
            show_default="none",
        ),
    ] = None
    sponsored: Annotated[
        str | None,
        _log_option(
            metavar="COLUMN",
            help="Column that is 1 where a slot was paid for.",
            show_default="none",
        ),
    ] = None
    sponsored_as: Annotated[
        Literal["drop", "context"] | None,
        _log_option(
            help="Leave sponsored slots out, or give them a bias of their own.",
            show_default=DEFAULTS.sponsored_as,
        ),
    ] = None
    grid: Annotated[
        int | None,
        _log_option(
            metavar="N",
            help="Results per row of a grid: row and column take the place of the position.",
            show_default="a list",
        ),
    ] = None
    normalise_queries: Annotated[
        bool,
        _log_option(
            "--normalise-queries",
            help="Count queries that differ only in case and spaces as one.",
        ),
    ] = False
    format: Annotated[
        str | None,
        _log_option(
            metavar="NAME",
            help=f"What the log is written in: {AUTO}, {', '.join(TITLES)}.",
            show_default=DEFAULTS.format,
        ),
    ] = None
    click_window: Annotated[
        str | None,
        _log_option(
            metavar="TIME",
            help="Count clicks up to this long after the display, such as 30m, where times of both "
            "are logged; none: any time.",
            show_default="any time",
        ),
    ] = None
    columns: Annotated[
        str | None,
        _log_option(
            metavar="NAMES",
            help="Names of all columns, in order, of a CSV or TSV file without a header line.",
            show_default="the first line",
        ),
    ] = None
    connect: Annotated[
        str | None,
        _log_option(
            metavar="URL",
            help="Engine whose tables are the logs, such as postgres://user@host/database; "
            "env:NAME takes the URL from an environment variable.",
            show_default="logs are files",
        ),
    ] = None

    def over(self, base: LogOptions) -> LogOptions:
        """The base with the given options in place of its own."""
        given: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                *("position_base", "ids", "on_bad", "format"),
                *("page_size", "page_number_base", "sponsored_as", "grid"),
            )
            if getattr(self, name) is not None
        }
        given |= {
            name: _unless_none(own) for name in DISPLAY_COLUMNS if (own := getattr(self, name))
        }
        if "page_number" in given and given["page_number"] is None:
            given["page_size"] = None
        for switch in ("clip_clicks", "normalise_queries"):
            if getattr(self, switch):
                given[switch] = True
        if self.context is not None:
            given["context"] = tuple(name.strip() for name in self.context.split(","))
        if self.column:
            given["columns"] = {**base.columns, **parse_columns(self.column)}
        if self.columns is not None:
            given["header"] = tuple(name.strip() for name in self.columns.split(","))
        if self.where is not None:
            given["where"] = self.where.strip() or None
        if self.max_bad is not None:
            given["max_bad"] = parse_share(self.max_bad, "--max-bad")
        if self.max_clicks_per_page is not None:
            given["max_clicks_per_page"] = (
                self.max_clicks_per_page or None
            )  # 0 removes a saved limit
        if self.drop_busiest is not None:
            given["drop_busiest"] = parse_share(self.drop_busiest, "--drop-busiest")
        if self.conversion is not None:
            given["conversion"] = _unless_none(self.conversion)
            if given["conversion"] is None:
                given["value"] = None
        if self.value is not None:
            given["value"] = _unless_none(self.value)
        if self.click_window is not None:
            given["click_window"] = parse_time(self.click_window, "--click-window")
        return replace(base, **given)

    def over_saved(self, saved: LogOptions, logs: Sequence[str], *, quiet: bool) -> LogOptions:
        """Options to read another log: those saved in a model unless given; notes reused ones.

        The rows of the model's own log were selected by its `where`, which is not reused.
        """
        inherited = saved.for_another_log()
        chosen = self.over(inherited)
        before, defaults = inherited.to_dict(), DEFAULTS.to_dict()
        reused = {
            name: value
            for name, value in chosen.to_dict().items()
            if value != defaults[name] and value == before[name]
        }
        if reused and logs:
            listed = ", ".join(f"{name} {_text(value)}" for name, value in reused.items())
            console.note(f"the log is read with the model's options: {listed}", quiet=quiet)
        if saved.where is not None and self.where is None and logs and not _are_counts(logs):
            console.note(
                f"the model was fitted to rows where {saved.where}; all rows of {_named(logs)} "
                "are read. Use --where to select rows",
                quiet=quiet,
            )
        return chosen

    def over_own(self, saved: LogOptions, logs: Sequence[str], *, quiet: bool) -> LogOptions:
        """Options to read the log that the model was fitted to: the same rows.

        A condition that was given applies to other logs; an empty one selects all rows.
        """
        lifted = self.where is not None and not self.where.strip()
        # the rows of a counts file were selected when it was counted
        where = None if lifted or _are_counts(logs) else saved.where
        if where is not None:
            console.note(f"--train: rows where {where}, as in the fit", quiet=quiet)
        return replace(self.over(saved.for_another_log()), where=where)


NOTHING_GIVEN = GivenOptions()
EXPANDED: Mapping[str, type[GivenOptions] | type[GivenFeatures]] = {
    "given": GivenOptions,
    "features": GivenFeatures,
}
"""Parameters of verbs that stand for several options."""


def _unless_none(column: str) -> str | None:
    """A column, or None for "none", which reads a log without what the model was fitted with."""
    return None if column.strip().lower() == "none" else column


def _log_of(
    verb: Callable[..., None],
    log: Sequence[str],
    impressions: Sequence[str],
    clicks: Sequence[str],
) -> list[str]:
    """The log of a verb: the given one, or its two tables."""
    if impressions or clicks:
        return [*log, *with_roles(impressions, clicks)]  # whatever is missing is reported later
    if not log:
        _, _, example = (verb.__doc__ or "").partition("Example: ")
        raise InputError(
            f"{verb.__name__} needs LOG, as in: {' '.join(example.split())}; or --impressions and "
            "--clicks",
            code="missing-log",
        )
    return list(log)


def reads_log(verb: Callable[..., None]) -> Callable[..., None]:
    """Expand a verb's parameters `given` and `features` into one option per field of theirs."""
    signature = inspect.signature(verb)
    kinds = {n: kind for n, kind in EXPANDED.items() if n in signature.parameters}
    options = {n: inspect.signature(kind).parameters for n, kind in kinds.items()}
    logs = [name for name, each in signature.parameters.items() if _takes_logs(each)]
    log = signature.parameters.get("log")
    needs_log = log is not None and log.default is inspect.Parameter.empty

    @wraps(verb)
    def call(**values: Any) -> None:
        found = {}
        for parameter, kind in kinds.items():
            own = {name: values.pop(name) for name in options[parameter] if name in values}
            found[parameter] = kind(**own)
        url = getattr(found.get("given"), "connect", None)
        if "log" in values:
            tables = [values.pop(role, None) or [] for role in ROLES]
            if url and any(tables):
                raise InputError(
                    "--connect reads a log from one table; join impressions and clicks in a view "
                    "of the engine, and name that",
                    code="option-does-not-apply",
                )
            if needs_log or any(tables):
                values["log"] = _log_of(verb, values["log"] or [], *tables)
        if url:
            values |= _at_connection(url, {n: values.get(n) for n in logs})
        verb(**values, **found)

    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        parameters += options.get(parameter.name, {parameter.name: parameter}).values()
    if "log" in signature.parameters:
        parameters += [
            inspect.Parameter(role, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=each)
            for role, each in (("impressions", ImpressionsTable), ("clicks", ClicksTable))
        ]
        parameters = [
            each.replace(default=None) if each.name == "log" else each for each in parameters
        ]
    # in any order, since a log may be left out where its two tables are given
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def _takes_logs(parameter: inspect.Parameter) -> bool:
    """Whether a verb's parameter is a log or several."""
    described = getattr(parameter.annotation, "__metadata__", ())
    return any((getattr(each, "metavar", None) or "").startswith("LOG") for each in described)


def _at_connection(url: str, logs: Mapping[str, Any]) -> dict[str, Any]:
    """The logs as tables of the engine at a URL."""
    from epiclick.data.connections import connected_tables

    return {name: connected_tables(url, named) for name, named in logs.items() if named}


class ModelVerb(Verb):
    """A verb that reads logs with the options saved in a model, by default."""

    @staticmethod
    def defaults() -> Mapping[str, str]:
        """Defaults by option."""
        reused = (
            "context",
            "position_base",
            "ids",
            "on_bad",
            "max_bad",
            "max_clicks_per_page",
            "drop_busiest",
            "conversion",
            "value",
            *("page_number", "page_size", "page_number_base", "offset"),
            *("viewed", "sponsored", "sponsored_as", "grid"),
            "format",
            "click_window",
            "columns",
        )
        return dict.fromkeys(reused, "the model's")


def flag(name: str) -> str:
    """The option of a parameter: `--batch-size` for `batch_size`."""
    return f"--{name.replace('_', '-')}"


def names_in(text: str | None) -> list[str]:
    """Comma-separated names; none if nothing was given."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def numbers_in(
    text: str, option: str, expected: str, kind: Callable[[str], Number]
) -> tuple[Number, ...]:
    """Comma-separated numbers; `expected` describes them, such as "numbers such as 1,.5"."""
    listed = text.strip().removesuffix(",")
    try:
        return tuple(kind(part) for part in listed.split(",")) if listed else ()
    except ValueError as error:
        raise InputError(f"{option} {text}: write {expected}", code="not-a-number") from error


def parse_columns(assignments: Sequence[str]) -> dict[str, str]:
    """Assignments such as `position=slot` as a mapping."""
    parsed: dict[str, str] = {}
    for assignment in assignments:
        name, equals, own = assignment.partition("=")
        if not (name and equals and own):
            raise InputError(
                f"--column {assignment}: write it as position=slot", code="malformed-option"
            )
        if name in parsed:
            raise InputError(
                f"--column {name} is given twice: {parsed[name]} and {own}",
                code="column-given-twice",
            )
        parsed[name] = own
    return parsed


def parse_share(text: str, option: str) -> float:
    """A share such as 0.1% or 0.001."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError as error:
        raise InputError(
            f"{option} {text}: write a share such as 0.1% or 0.001", code="not-a-number"
        ) from error
    return value / 100 if text.endswith("%") else value


SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def parse_time(text: str, option: str) -> float | None:
    """A time such as 30m, 45s, 2h or 1d in seconds; None for "none"."""
    written = text.strip().lower()
    if written == "none":
        return None
    try:
        return float(written.rstrip("smhd")) * SECONDS[written[-1:]]
    except (ValueError, KeyError) as error:
        raise InputError(
            f"{option} {text}: write a time such as 45s, 30m, 2h or 1d", code="not-a-time"
        ) from error


def named_rankings(given: Sequence[str]) -> dict[str, str | tuple[str, str]]:
    """Rankings given as NAME=FILE, by name; the default name is that of the file or column.

    FILE:COLUMN becomes the file and its column of scores.
    """
    rankings: dict[str, str | tuple[str, str]] = {}
    files: dict[str, str] = {}
    for each in given:
        name, equals, file = each.partition("=")
        # a path may contain an equals sign, as in day=1/new.parquet
        if not equals or Path(each).exists():
            name, file = _score_column(each) or Path(each.removesuffix(".gz")).stem, each
        if not (name.strip() and file):
            raise InputError(
                f"--ranking {each}: write it as new=new.parquet", code="malformed-option"
            )
        if name in rankings:
            raise InputError(
                f"--ranking: two rankers are called '{name}' ({files[name]} and {file}); give "
                "each its own name, as in new=new.parquet",
                code="duplicate-ranker-name",
            )
        files[name] = file
        column = _score_column(file)
        rankings[name] = (file.removesuffix(f":{column}"), column) if column else file
    return rankings


def _score_column(file: str) -> str:
    """The column of FILE:COLUMN; empty if there is none or the colon is part of the path."""
    from epiclick.data.files import split_table

    path, _, column = file.rpartition(":")
    database, table = split_table(file)
    if table and Path(database).is_file():
        return table.rpartition(":")[2] if ":" in table else ""  # FILE:TABLE:COLUMN
    return column if path and Path(path).is_file() and not Path(file).exists() else ""


def chosen_click_model(given: str | None, init: Path | None = None) -> str:
    """Name of the click model: the given one, else that of the model to start from, else pbm."""
    from epiclick.api import load
    from epiclick.click_models.registry import click_model

    if given is None:
        return "pbm" if init is None else load(init).click_model
    try:
        return click_model(given).name
    except InputError as error:
        message = str(error).replace("click_model", "--click-model", 1)
        raise error.with_message(message) from error


def check_features(model: "BaseModel", features: GivenFeatures, option: str = "") -> None:
    """Refuse a model trained on features if none are given, before a log is read.

    `option` is the one that needs them, if only one does.
    """
    spec = model.fitted_.features
    if spec is not None and not features:
        raise InputError(
            f"{option and option + ': '}the model was trained on {len(spec.columns)} features; "
            "give those of the items with --features",
            code="features-needed",
        )


def used_features(
    models: "Iterable[BaseModel]", features: GivenFeatures, *, quiet: bool
) -> GivenFeatures:
    """The features as the models read them; none if no model was trained on any, with a note."""
    models = list(models)
    if not features or any(model.fitted_.features is not None for model in models):
        return features.for_models(models)
    console.note("no model was trained on features, so --features is not used", quiet=quiet)
    return NO_FEATURES


def warn_of_same_files(backtest: Sequence[str], clicks: Sequence[str]) -> None:
    """Warn if a log is given twice: a backtest needs pages that the model was not trained on."""
    from epiclick.data.files import find_files, paths_in

    both = {file.resolve() for file in find_files(paths_in(clicks))}
    same = [file for file in find_files(paths_in(backtest)) if file.resolve() in both]
    if same:
        warnings.warn(
            f"{same[0]} is in both --backtest and the other log; a backtest is informative only on "
            "pages that the model was not trained on",
            InputWarning,
            stacklevel=2,
        )


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={own}" for name, own in value.items())
    return ",".join(value) if isinstance(value, list) else str(value)


def _are_counts(logs: Sequence[str]) -> bool:
    """Whether files were written by epiclick count, whose rows are selected already."""
    from epiclick.data.readers import counts_files

    return bool(counts_files(list(logs)))


def _named(logs: Sequence[str]) -> str:
    shown = ", ".join(map(str, logs[:MOST_NAMED]))
    return shown if len(logs) <= MOST_NAMED else f"{shown} and {len(logs) - MOST_NAMED} more"


def read_counts(
    log: Sequence[str],
    options: LogOptions,
    features: GivenFeatures = NO_FEATURES,
    missing_features: Literal["error", "drop"] = "error",
    *,
    robots: bool = True,
    quiet: bool,
) -> "ClickCounts":
    """Count a log and join features; notes columns found by an alias, warns of problems.

    `robots` is False for a fit, which looks for robots with the position bias it learns.
    """
    from epiclick.data.readers import count_log, warn_of_later_snapshots

    with console.progress("counting", quiet=quiet):
        counts, report = count_log(list(log), options)
    if report.aliases:
        found = ", ".join(f"{name} from {own}" for name, own in report.aliases.items())
        console.note(f"columns: {found}", quiet=quiet)
    if report.reused:
        listed = ", ".join(f"{name} {_text(value)}" for name, value in report.reused.items())
        console.note(f"the log is read as the counts were: {listed}", quiet=quiet)
    if report.format != ROWS:
        named = f"{TITLES[report.format]} (--format {report.format})"
        console.note(f"format: {named}", quiet=quiet)
    suspected = () if report.robots is None or not robots else (report.robots.message,)
    for message in (*report.warnings, *suspected):
        warnings.warn(message, InputWarning, stacklevel=2)
    if not features:
        return counts
    with console.progress("joining features", quiet=quiet):
        table = features.read(counts.options.ids, quiet=quiet)
        warn_of_later_snapshots(table, counts, list(log))
        joined = counts.with_features(table, missing=missing_features)
    if len(joined) < len(counts):
        missing = len(counts) - len(joined)
        warnings.warn(
            f"{missing:,} of {len(counts):,} pairs have no features and were left out",
            InputWarning,
            stacklevel=2,
        )
    return joined
