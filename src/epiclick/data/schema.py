"""The columns of a log: their meaning, the names they may have, and the options for reading."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from epiclick.arguments import is_number, is_switch, is_whole, shown
from epiclick.click_models.registry import CLICK_MODELS, click_model
from epiclick.data.log_formats.log_format import AUTO, TITLES
from epiclick.errors import InputError, Problem, did_you_mean

ALIASES: Mapping[str, tuple[str, ...]] = {
    "page_id": (
        *("page_id", "impression_id", "search_id", "request_id", "serp_id"),
        "page_view_id",
    ),
    "query_id": ("query_id", "query", "user_query", "qid", "search_term"),
    "doc_id": ("doc_id", "item_id", "url", "object_id", "product_id", "item", "sku"),
    "position": ("position", "rank", "pos", "slot"),
    "click": ("click", "clicked"),
    "displays": ("displays", "impressions", "impression"),
    "clicks": ("clicks", "click"),
    "part": ("part",),
    "user_id": ("user_id", "user", "client_id", "visitor_id"),
}
"""Names under which each column is recognised, ignoring case."""

CLUSTER_WORDS: Mapping[str, str] = {"user": "user_id", "page": "page_id"}
"""Clusters that have a word, and their canonical columns; others are named by their column."""

REQUIRED = ("query_id", "doc_id")
OPTIONAL = ("page_id", "part", "user_id")


@dataclass(frozen=True)
class LogOptions:
    """How a log is read; saved with a model so that later logs are read the same way.

    Later logs reuse all but `where`, `part`, `page_parts` and `cluster` (`for_another_log`).

    Attributes:
        columns: canonical name -> the log's own name, where the aliases do not decide.
        context: what determines whether an item is examined: the position, or several columns.
        click_model: name of the click model that the counts are for; some also count by what
            happened above a display on its page (`ClickModel.history`).
        position_base: the number of the first position in the log, 1 or 0.
        clip_clicks: cap counted clicks at the displays instead of refusing the row.
        where: an SQL condition; only rows that meet it are counted.
        part: column by which counts are kept separate, such as a day (timestamps are truncated to
            days).
        page_parts: keep counts separate in this many folds by a hash of `page_id`.
        ids: `auto` keeps the type of the log (text files: integers if all ids are); or force a
            type.
        on_bad: refuse a log with bad rows, or drop them.
        max_bad: largest share of rows that may be dropped.
        max_clicks_per_page: leave out pages with more clicks, such as those of robots.
        drop_busiest: leave out the users with the most displays, this share of all users.
        conversion: column that is 1 where a click led to a conversion, such as a purchase; in
            counted logs, its number of conversions.
        value: column with the value of each conversion, such as its revenue.
        cluster: what robust intervals compare to estimate uncertainty: `query`, `user`, `page`, or
            any column, such as a day (timestamps are truncated to days). `auto`: queries, or users
            where there are few queries, or pages where there are next to none.
        page_number: column with the number of the results page, where positions start again on each
            page; a display's position is then counted from the first page on.
        page_size: results per page, with `page_number`.
        page_number_base: the number of the first page, 1 or 0.
        offset: column with the number of results before the page, instead of `page_number`.
        viewed: column that is 1 where a result came into view; others are no displays.
        sponsored: column that is 1 where a slot was paid for.
        sponsored_as: leave sponsored slots out (`drop`), or make `sponsored` (0 or 1) a `context`.
            Positions of the others stay those on the page.
        grid: results per row of a grid; `position` among the contexts becomes `row` and `column`.
        normalise_queries: count queries that differ only in case and spaces as one.
        format: what the log is written in, one of `log_format.TITLES`; `auto` recognises it.
        click_window: seconds after its display in which a click counts, where a format has the
            times of both.
        header: names of the columns of CSV and TSV files that have no header line, in order.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    context: tuple[str, ...] = ("position",)
    click_model: str = "pbm"
    position_base: int = 1
    clip_clicks: bool = False
    where: str | None = None
    part: str | None = None
    page_parts: int | None = None
    ids: Literal["auto", "string", "integer"] = "auto"
    on_bad: Literal["error", "drop"] = "error"
    max_bad: float = 0.001
    max_clicks_per_page: int | None = None
    drop_busiest: float = 0.0
    conversion: str | None = None
    value: str | None = None
    cluster: str = "auto"
    page_number: str | None = None
    page_size: int | None = None
    page_number_base: int = 1
    offset: str | None = None
    viewed: str | None = None
    sponsored: str | None = None
    sponsored_as: Literal["drop", "context"] = "drop"
    grid: int | None = None
    normalise_queries: bool = False
    format: str = AUTO
    click_window: float | None = None
    header: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse invalid and contradictory settings, all in one error."""
        problems = [*_value_problems(self)]
        if not {problem.code for problem in problems} & UNNAMED:
            object.__setattr__(self, "context", _displayed_contexts(self))
            problems += [*_name_problems(self), *_model_problems(self)]
            problems += _display_problems(self)
            problems += _conversion_problems(self)
        if self.part is not None and self.page_parts is not None:
            what = "part and page_parts: choose one of them"
            problems.append(Problem(what, code="part-and-page-parts"))
        if problems:
            raise InputError.of("options for reading the log", problems)

    def for_another_log(self) -> "LogOptions":
        """The options for another log, without those that select or divide the rows of this one.

        A model keeps the options of its own log. Columns, contexts, types and rules for bad rows
        apply to later logs as well; a condition such as `day <= 7` does not.
        """
        return replace(self, where=None, part=None, page_parts=None, cluster="auto")

    @property
    def names_cluster(self) -> bool:
        """Whether clusters are those of a column of the log, given by its own name."""
        return self.cluster not in ("auto", "query", *CLUSTER_WORDS)

    @property
    def cluster_column(self) -> str | None:
        """Canonical column of the clusters that were asked for; None for queries and `auto`."""
        return "cluster" if self.names_cluster else CLUSTER_WORDS.get(self.cluster)

    @property
    def slot(self) -> tuple[str, ...]:
        """The contexts that determine where on its page a display was."""
        apart = ("sponsored",) if self.sponsored and self.sponsored_as == "context" else ()
        return (*apart, *(("position",) if self.grid is None else GRID))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-serialisable record, read back by `from_dict`."""
        lists = {"context": list(self.context), "header": list(self.header)}
        return {**asdict(self), "columns": dict(self.columns), **lists}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "LogOptions":
        """The options recorded by `to_dict`."""
        lists = {"context": tuple(record["context"]), "header": tuple(record.get("header", ()))}
        return cls(**{**record, **lists})


def either(conditions: Sequence[str | None]) -> str | None:
    """The disjunction of SQL conditions; None stands for all rows.

    >>> either(["day = 1", "day = 2", "day = 1"])
    '(day = 1\\n) OR (day = 2\\n)'
    """
    distinct = list(dict.fromkeys(conditions))
    if len(distinct) == 1 or None in distinct:
        return distinct[0] if len(distinct) == 1 else None
    # the newline ends a comment at the end of a condition
    return " OR ".join(f"({each}\n)" for each in distinct)


def options_of(options: LogOptions | None, settings: Mapping[str, Any]) -> LogOptions:
    """Options overridden by single settings, which are named after its fields."""
    if not isinstance(options, LogOptions | None):
        raise InputError(
            f"options must be LogOptions(...), not {shown(options)}; single settings are given by "
            "name, as in read_log(source, position_base=0)",
            code="invalid-type",
        )
    known = list(LogOptions.__dataclass_fields__)
    if unknown := [name for name in settings if name not in known]:
        hints = ", ".join(f"'{name}'{did_you_mean(name, known)}" for name in unknown)
        raise InputError(
            f"read_log has no setting {hints}; it has {', '.join(known)}", code="unknown-setting"
        )
    return replace(options or LogOptions(), **settings)


UNNAMED = {
    *("invalid-columns", "invalid-context", "invalid-click-model"),
    *("invalid-conversion", "invalid-value"),
    *("invalid-grid", "invalid-sponsored", "invalid-sponsored-as"),
}
"""Codes of settings that should be names and are not, so that the names cannot be checked."""


def _value_problems(options: LogOptions) -> Iterator[Problem]:
    """Settings whose value has the wrong type or is out of range."""
    text = (str, type(None))
    o = options
    rules = {
        "columns": (
            isinstance(o.columns, Mapping)
            and all(isinstance(own, str) for own in o.columns.values()),
            "a mapping of names, as in {'position': 'slot'}",
        ),
        "context": (
            isinstance(o.context, tuple | list)
            and all(isinstance(name, str) for name in o.context),
            "several names, as in ('position',)",
        ),
        "header": (
            isinstance(o.header, tuple | list)
            and all(isinstance(name, str) and name.strip() for name in o.header),
            "several names (--columns), as in ('query_id', 'doc_id', 'position', 'click')",
        ),
        "click_model": (isinstance(o.click_model, str), "a name, as in 'pbm'"),
        "position_base": (is_whole(o.position_base) and o.position_base in (0, 1), "0 or 1"),
        "clip_clicks": (is_switch(o.clip_clicks), "True or False"),
        "where": (isinstance(o.where, text), "an SQL condition as text"),
        "part": (isinstance(o.part, text), "the name of a column"),
        "conversion": (isinstance(o.conversion, text), "the name of a column"),
        "value": (isinstance(o.value, text), "the name of a column"),
        "cluster": (
            isinstance(o.cluster, str) and bool(o.cluster.strip()),
            "auto, query, user, page or the name of a column",
        ),
        "page_parts": (
            o.page_parts is None or (is_whole(o.page_parts) and 2 <= o.page_parts <= 4096),
            "a whole number from 2 to 4096",
        ),
        "ids": (
            isinstance(o.ids, str) and o.ids in ("auto", "string", "integer"),
            "auto, string or integer",
        ),
        "on_bad": (isinstance(o.on_bad, str) and o.on_bad in ("error", "drop"), "error or drop"),
        "max_bad": (is_number(o.max_bad) and 0 <= o.max_bad <= 1, "a share from 0 to 1"),
        "max_clicks_per_page": (
            o.max_clicks_per_page is None
            or (is_whole(o.max_clicks_per_page) and o.max_clicks_per_page >= 1),
            "a whole number of 1 or more",
        ),
        "drop_busiest": (
            is_number(o.drop_busiest) and 0 <= o.drop_busiest < 1,
            "a share from 0 to below 1",
        ),
        **{
            name: (isinstance(getattr(o, name), text), "the name of a column")
            for name in DISPLAY_COLUMNS
        },
        **{
            name: (
                getattr(o, name) is None or (is_whole(getattr(o, name)) and getattr(o, name) >= 1),
                "a whole number of 1 or more",
            )
            for name in ("page_size", "grid")
        },
        "page_number_base": (
            is_whole(o.page_number_base) and o.page_number_base in (0, 1),
            "0 or 1",
        ),
        "sponsored_as": (
            isinstance(o.sponsored_as, str) and o.sponsored_as in ("drop", "context"),
            "drop or context",
        ),
        "normalise_queries": (is_switch(o.normalise_queries), "True or False"),
        "format": (
            isinstance(o.format, str) and o.format in (AUTO, *TITLES),
            f"{AUTO}, {', '.join(list(TITLES)[:-1])} or {list(TITLES)[-1]}",
        ),
        "click_window": (
            o.click_window is None or (is_number(o.click_window) and o.click_window > 0),
            "a number of seconds above 0",
        ),
    }
    for name, (valid, rule) in rules.items():
        if not valid:
            yield Problem(
                f"{name}: must be {rule}, not {shown(getattr(options, name))}",
                code=f"invalid-{name.replace('_', '-')}",
            )


def _name_problems(options: LogOptions) -> Iterator[Problem]:
    """Unknown, repeated and reserved columns."""
    if unknown := [name for name in options.columns if name not in ALIASES]:
        hints = ", ".join(f"'{name}'{did_you_mean(name, ALIASES)}" for name in unknown)
        yield Problem(
            f"columns: {hints} is not one of {', '.join(ALIASES)}", code="unknown-canonical-column"
        )
    if not options.context or len(set(options.context)) != len(options.context):
        yield Problem("context: name at least one column, each once", code="invalid-context")
    if clash := set(options.context) & (set(ALIASES) - {"position", "user_id"}):
        yield Problem(
            f"context: {', '.join(sorted(clash))} cannot be a context", code="reserved-column"
        )
    if options.names_cluster and "cluster" in options.context:
        yield Problem(
            "context: cluster cannot be a context where another column is given for clusters",
            code="reserved-column",
        )


OUTCOMES = ("conversion", "value")
DISPLAY_COLUMNS = ("page_number", "offset", "viewed", "sponsored")
"""Canonical columns that only an option names: there are no aliases for them."""

GRID = ("row", "column")
"""Contexts that take the place of the position in a grid."""


def _displayed_contexts(options: LogOptions) -> tuple[str, ...]:
    """The contexts: row and column in place of the position, sponsored slots apart, if asked for.

    >>> LogOptions(grid=4, sponsored="is_ad", sponsored_as="context").context
    ('sponsored', 'row', 'column')
    """
    context = list(options.context)
    if options.grid is not None and "position" in context:
        at = context.index("position")
        context[at : at + 1] = [name for name in GRID if name not in context]
    if options.sponsored is not None and options.sponsored_as == "context":
        context[:0] = [] if "sponsored" in context else ["sponsored"]
    return tuple(context)


def _display_problems(options: LogOptions) -> Iterator[Problem]:
    """Settings of displays that contradict or need one another."""
    o = options
    if (o.page_number is None) != (o.page_size is None):
        given, lacking = (
            ("page_number", "page_size") if o.page_number else ("page_size", "page_number")
        )
        yield Problem(
            f"{given} needs {lacking}: positions of page 2 start after all results of page 1",
            remedy="Give both --page-number COLUMN and --page-size N, or --offset COLUMN.",
            code="option-needs-another",
        )
    if o.page_number is not None and o.offset is not None:
        what = "page_number and offset: choose one of them"
        yield Problem(what, code="page-number-and-offset")
    if o.grid is not None and not set(GRID) <= set(o.context):
        yield Problem(
            f"grid: the contexts {', '.join(o.context)} have no position to turn into a row and a "
            "column",
            remedy="Name position, or row and column, among the contexts.",
            code="position-not-in-context",
        )
    own = [name for each in DISPLAY_COLUMNS if (name := getattr(o, each)) is not None]
    taken = {*own, *(each for each in DISPLAY_COLUMNS if getattr(o, each) is not None)}
    if o.sponsored_as == "context":
        taken.discard("sponsored")
    if clash := [name for name in o.context if name in taken]:
        yield Problem(
            f"context: {', '.join(clash)} cannot be a context, as it determines what a display is",
            remedy="Leave it out of the contexts; sponsored slots are kept apart by "
            "--sponsored-as context.",
            code="reserved-column",
        )
    if twice := sorted({name for name in own if own.count(name) > 1}):
        what = f"{', '.join(twice)} is named for several roles"
        yield Problem(what, remedy="Name each column once.", code="reserved-column")


def _conversion_problems(options: LogOptions) -> Iterator[Problem]:
    """A value of nothing, and columns that have two roles."""
    if options.value is not None and options.conversion is None:
        yield Problem(
            f"value: '{options.value}' is the value of conversions, and no conversion is named",
            remedy="Name the column of conversions with --conversion (in Python: conversion=...).",
            code="value-needs-conversion",
        )
    if options.conversion is None:
        return
    own = [name for name in (options.conversion, options.value) if name is not None]
    roles = [*own, *options.columns.values(), *([options.part] if options.part else [])]
    if twice := sorted({name for name in own if roles.count(name) > 1}):
        yield Problem(
            f"conversion and value: {', '.join(twice)} already has another role",
            remedy="Name a column of their own.",
            code="reserved-column",
        )
    taken = {*own, *OUTCOMES, "conversions"}
    if clash := [name for name in options.context if name in taken]:
        yield Problem(
            f"context: {', '.join(clash)} cannot be a context where conversions are counted",
            code="reserved-column",
        )


def _model_problems(options: LogOptions) -> Iterator[Problem]:
    """An unknown click model, or contexts that it cannot use."""
    if options.click_model not in CLICK_MODELS:
        yield Problem(
            f"click_model: must be one of {', '.join(CLICK_MODELS)}, not '{options.click_model}'"
            f"{did_you_mean(options.click_model, CLICK_MODELS)}",
            code="unknown-click-model",
        )
        return
    model = click_model(options.click_model)
    if twice := [name for name in options.context if name in model.history]:
        yield Problem(
            f"context: the {model.title} computes {', '.join(twice)} itself; leave it out",
            code="reserved-column",
        )
    elif (model.history or model.has_latent_state) and "position" not in options.context:
        yield Problem(
            f"context: the {model.title} needs the position among the contexts",
            code="position-not-in-context",
        )


@dataclass(frozen=True)
class LogColumns:
    """Where each canonical column is found in one log.

    Attributes:
        found: canonical name -> the log's own name.
        contexts: context column (`position` or a column of the log) -> the log's own name; given
            ones, then those of the history.
        counted: rows contain numbers of displays and clicks, not one display each.
        history: contexts that the click model computes from the clicks above a display.
        computed: given contexts that are computed from the column that `contexts` names.
        joined: clicks come from a join, and are thus 0 or 1.
    """

    found: Mapping[str, str]
    contexts: Mapping[str, str]
    counted: bool
    history: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()
    joined: bool = False

    @property
    def given(self) -> dict[str, str]:
        """The contexts that are known before a page is shown; the only ones with rules."""
        return {name: own for name, own in self.contexts.items() if name not in self.history}

    @property
    def aliases(self) -> dict[str, str]:
        """The columns found under another name than the canonical one."""
        return {name: own for name, own in self.found.items() if name != own}


def resolve_columns(names: Sequence[str], options: LogOptions, source: str = "log") -> LogColumns:
    """Find the canonical columns among a log's names; every ambiguity is an error, never a guess.

    >>> resolve_columns(["qid", "url", "pos", "clicked"], LogOptions()).aliases
    {'query_id': 'qid', 'doc_id': 'url', 'position': 'pos', 'click': 'clicked'}
    """
    problems: list[Problem] = []
    chosen = dict(options.columns)
    if options.part is not None:
        chosen["part"] = options.part
    named = {name: getattr(options, name) for name in (*OUTCOMES, *DISPLAY_COLUMNS)}
    chosen |= {name: own for name, own in named.items() if own is not None}
    for canonical, own in chosen.items():
        if own not in names:
            problems.append(unknown_column(f"column '{own}' (given for {canonical})", own, names))
    free = [name for name in names if name not in chosen.values()]

    def find(canonical: str) -> list[str]:
        if canonical in chosen:
            return [chosen[canonical]]
        return [name for name in free if name.lower() in ALIASES[canonical]]

    counted = bool(find("displays"))
    wanted = ["page_id", *REQUIRED]
    gridded = options.grid is not None and not set(GRID) <= set(names)
    if "position" in options.context or gridded:
        wanted.append("position")
    wanted += ["displays", "clicks"] if counted else ["click"]
    wanted += [name for name in (*OUTCOMES, *DISPLAY_COLUMNS) if name in chosen]
    if options.page_parts is None:
        wanted.append("part")
    # users are only checked, not counted by, so ambiguous columns for them are ignored
    if len(find("user_id")) == 1 or options.drop_busiest or options.cluster == "user":
        wanted.append("user_id")

    model = click_model(options.click_model)
    history = model.history
    found: dict[str, str] = {}
    for canonical in wanted:
        matches = find(canonical)
        if len(matches) > 1:
            problems.append(_ambiguous(canonical, matches))
        elif matches:
            found[canonical] = matches[0]
        elif canonical not in OPTIONAL and not (history and canonical == "position"):
            problems.append(_missing(canonical, names, counted))
    problems += _needed(options, found, counted)
    if history or model.has_latent_state:
        missing = [name for name in ("page_id", "position") if not find(name)]
        problems += _history_problems(options, names, missing, counted)

    contexts = {}
    computed = GRID if gridded else ()
    if options.sponsored is not None and options.sponsored_as == "context":
        computed = (*computed, "sponsored")
    for context in options.context:
        if context == "position":
            contexts[context] = found.get("position", "position")
        elif context in computed:
            contexts[context] = found.get("sponsored" if context == "sponsored" else "position", "")
        elif context in names:
            contexts[context] = context
        else:
            problems.append(unknown_column(f"context column '{context}'", context, names))
    if options.names_cluster:
        if options.cluster in names:
            found["cluster"] = options.cluster
        else:
            what = f"column '{options.cluster}' (given for clusters)"
            problems.append(unknown_column(what, options.cluster, names))
    if problems:
        raise InputError.of(source, problems)
    contexts |= {name: name for name in history}
    return LogColumns(found, contexts, counted, history, tuple(computed))


def _needed(options: LogOptions, found: Mapping[str, str], counted: bool) -> Iterator[Problem]:
    """Columns that an option needs and the log lacks."""
    asked = {
        "--page-parts": ("page_id", options.page_parts is not None),
        "--max-clicks-per-page": ("page_id", options.max_clicks_per_page is not None),
        "--drop-busiest": ("user_id", options.drop_busiest > 0),
        **{
            f"--cluster {word}": (own, options.cluster == word)
            for word, own in CLUSTER_WORDS.items()
        },
    }
    for what, (column, is_asked) in asked.items():
        if is_asked and column not in found:
            yield Problem(
                f"{what} needs a column for {column}",
                remedy=f"Name it with --column {column}=NAME.",
                code="missing-column",
            )
        elif is_asked and counted and what in ("--max-clicks-per-page", "--drop-busiest"):
            yield Problem(
                f"{what} needs rows of single displays, and these are already counted",
                code="needs-single-displays",
            )


def _history_problems(
    options: LogOptions, names: Sequence[str], missing: Sequence[str], counted: bool
) -> Iterator[Problem]:
    """Why the clicks above a display cannot be determined from a log."""
    model = click_model(options.click_model)
    reads = f"the {model.title} depends on earlier clicks on the page"
    other = '--click-model pbm (in Python: click_model="pbm")'
    if counted:
        yield Problem(
            f"{reads}, which counted rows (displays, clicks) do not contain",
            remedy=f"Give rows of single displays, or use {other}.",
            code="needs-single-displays",
        )
    elif missing:
        naming = " and ".join(f"--column {name}=NAME" for name in missing)
        yield Problem(
            f"{reads}, and the log has no column for {' and '.join(missing)}",
            remedy=f"The log has {', '.join(names)}; name it with {naming}, or use {other}.",
            code="missing-column",
        )
    if taken := [name for name in names if name.lower() in model.history]:
        yield Problem(
            f"the {model.title} computes {', '.join(model.history)} itself, and the log has a "
            f"column {', '.join(taken)}",
            remedy=f"Rename the log's own column, or use {other}.",
            code="reserved-column",
        )


def unknown_column(what: str, name: str, names: Sequence[str]) -> Problem:
    """The problem that a column given by the user is not among those of the log."""
    return Problem(
        f"{what} is not in the log{did_you_mean(name, names)}",
        remedy=f"The log has {', '.join(names)}.",
        code="unknown-column",
    )


def headerless_hint(names: Sequence[str]) -> str:
    """What to do if a text file has no header line, where its first line looks like a row."""
    numbers = any(name.replace(".", "", 1).lstrip("-").isdigit() for name in names)
    return " If there is no header line, name the columns with --columns." if numbers else ""


def _ambiguous(canonical: str, matches: Sequence[str]) -> Problem:
    return Problem(
        f"{' and '.join(matches)} could each be {canonical}",
        remedy=f"Decide with --column {canonical}={matches[0]} (in Python: "
        f'columns={{"{canonical}": "{matches[0]}"}}).',
        code="ambiguous-column",
    )


def _missing(canonical: str, names: Sequence[str], counted: bool) -> Problem:
    known = ", ".join(ALIASES[canonical])
    remedy = f"The log has {', '.join(names)}; name it with --column {canonical}=NAME."
    if canonical == "click" and any(name.lower() == "clicks" for name in names):
        remedy = "The log has clicks but no displays: counted logs need both columns."
    elif canonical == "clicks" and counted:
        remedy = f"The log has displays, so it needs clicks as well. {remedy}"
    what = f"no column for {canonical} (known names: {known})"
    return Problem(what, remedy=remedy + headerless_hint(names), code="missing-column")
