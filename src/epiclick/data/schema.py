"""The log's columns: what each means, under which names it may come, how a log is to be read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from epiclick.arguments import is_number, is_switch, is_whole, shown
from epiclick.click_models.registry import CLICK_MODELS, click_model
from epiclick.errors import InputError, Problem, did_you_mean

ALIASES: Mapping[str, tuple[str, ...]] = {
    "page_id": ("page_id", "impression_id", "search_id", "request_id", "serp_id"),
    "query_id": ("query_id", "query", "user_query", "qid"),
    "doc_id": ("doc_id", "item_id", "url", "object_id", "product_id"),
    "position": ("position", "rank", "pos", "slot"),
    "click": ("click", "clicked"),
    "displays": ("displays", "impressions", "impression"),
    "clicks": ("clicks", "click"),
    "part": ("part",),
    "user_id": ("user_id", "user", "client_id", "visitor_id"),
}
"""Names under which each column is recognised, in any mixture of upper and lower case."""

REQUIRED = ("query_id", "doc_id")
OPTIONAL = ("page_id", "part", "user_id")


@dataclass(frozen=True)
class LogOptions:
    """How a log is read; saved with a model so that later logs are read the same way.

    Later logs take over all but `where`, `part` and `page_parts` (`for_another_log`).

    Attributes:
        columns: canonical name -> the log's own name, where the aliases do not settle it.
        context: what decides whether an item is looked at; the position, or several columns.
        click_model: name of the click model that the counts are for; some also count by what
            happened above a display on its page (`ClickModel.history`).
        position_base: the number of the first position in the log, 1 or 0.
        clip_clicks: cap counted clicks at the displays instead of refusing the row.
        where: an SQL condition; only rows that meet it are counted.
        part: column to keep counts apart by, such as a day (timestamps are cut to the day).
        page_parts: keep counts apart in this many folds by a hash of `page_id`.
        ids: `auto` keeps ids as they come (text files: integers where all are); or force a type.
        on_bad: refuse a log with bad rows, or drop them.
        max_bad: largest share of rows that may be dropped.
        max_clicks_per_page: leave out pages with more clicks, as robots make them.
        drop_busiest: leave out the users with the most displays, this share of all users.
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

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other, all at once."""
        if mistyped := _mistyped(self):
            raise InputError("options for reading the log: " + "; ".join(mistyped))
        wrong = []
        if unknown := [name for name in self.columns if name not in ALIASES]:
            hints = ", ".join(f"'{name}'{did_you_mean(name, ALIASES)}" for name in unknown)
            wrong.append(f"columns: {hints} is not one of {', '.join(ALIASES)}")
        if not self.context or len(set(self.context)) != len(self.context):
            wrong.append("context: name at least one column, each once")
        if clash := set(self.context) & (set(ALIASES) - {"position", "user_id"}):
            wrong.append(f"context: {', '.join(sorted(clash))} cannot be a context")
        wrong += _model_problems(self)
        if self.position_base not in (0, 1):
            wrong.append(f"position_base: must be 0 or 1, not {self.position_base}")
        if self.part is not None and self.page_parts is not None:
            wrong.append("part and page_parts: choose one of them")
        if self.page_parts is not None and not 2 <= self.page_parts <= 4096:
            wrong.append(f"page_parts: must be from 2 to 4096, not {self.page_parts}")
        if self.ids not in ("auto", "string", "integer"):
            wrong.append(f"ids: must be auto, string or integer, not '{self.ids}'")
        if self.on_bad not in ("error", "drop"):
            wrong.append(f"on_bad: must be error or drop, not '{self.on_bad}'")
        if not 0 <= self.max_bad <= 1:
            wrong.append(f"max_bad: must be a share from 0 to 1, not {self.max_bad}")
        if self.max_clicks_per_page is not None and self.max_clicks_per_page < 1:
            wrong.append(f"max_clicks_per_page: must be 1 or more, not {self.max_clicks_per_page}")
        if not 0 <= self.drop_busiest < 1:
            wrong.append(
                f"drop_busiest: must be a share from 0 to below 1, not {self.drop_busiest}"
            )
        if wrong:
            raise InputError(
                "options for reading the log:\n" + "\n".join(f"  - {w}" for w in wrong)
            )

    def for_another_log(self) -> "LogOptions":
        """How to read another log: what selects or divides the rows of this one is left out.

        A model keeps the options of its own log. Columns, contexts, types and rules for bad rows
        hold for later logs as well; a condition such as `day <= 7` does not.
        """
        return replace(self, where=None, part=None, page_parts=None)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able record, read back by `from_dict`."""
        return {**asdict(self), "columns": dict(self.columns), "context": list(self.context)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "LogOptions":
        """The options written by `to_dict`."""
        return cls(**{**record, "context": tuple(record["context"])})


def either(conditions: Sequence[str | None]) -> str | None:
    """The condition of rows that meet one of these or another; None, for all rows, meets any.

    >>> either(["day = 1", "day = 2", "day = 1"])
    '(day = 1\\n) OR (day = 2\\n)'
    """
    distinct = list(dict.fromkeys(conditions))
    if len(distinct) == 1 or None in distinct:
        return distinct[0] if len(distinct) == 1 else None
    # a comment in a condition ends with its line
    return " OR ".join(f"({each}\n)" for each in distinct)


def options_of(options: LogOptions | None, settings: Mapping[str, Any]) -> LogOptions:
    """Options with single settings over them, by the names of its fields."""
    if not isinstance(options, LogOptions | None):
        raise InputError(
            f"options must be LogOptions(...), not {shown(options)}; single settings are given by "
            "name, as in read_log(source, position_base=0)"
        )
    known = list(LogOptions.__dataclass_fields__)
    if unknown := [name for name in settings if name not in known]:
        hints = ", ".join(f"'{name}'{did_you_mean(name, known)}" for name in unknown)
        raise InputError(f"read_log has no setting {hints}; it has {', '.join(known)}")
    return replace(options or LogOptions(), **settings)


def _model_problems(options: LogOptions) -> list[str]:
    """What is wrong with the click model, or with contexts that it cannot use."""
    if options.click_model not in CLICK_MODELS:
        return [
            f"click_model: must be one of {', '.join(CLICK_MODELS)}, not '{options.click_model}'"
            f"{did_you_mean(options.click_model, CLICK_MODELS)}"
        ]
    model = click_model(options.click_model)
    if not model.history:
        return []
    if twice := [name for name in options.context if name in model.history]:
        return [f"context: the {model.title} computes {', '.join(twice)} itself; leave it out"]
    if "position" not in options.context:
        return [f"context: the {model.title} needs the position among the contexts"]
    return []


def _mistyped(options: LogOptions) -> list[str]:
    """What is of another kind than it must be."""
    text = (str, type(None))
    rules = {
        "columns": (
            isinstance(options.columns, Mapping)
            and all(isinstance(own, str) for own in options.columns.values()),
            "a mapping of names, as in {'position': 'slot'}",
        ),
        "context": (
            isinstance(options.context, tuple | list)
            and all(isinstance(name, str) for name in options.context),
            "several names, as in ('position',)",
        ),
        "click_model": (isinstance(options.click_model, str), "a name, as in 'pbm'"),
        "position_base": (is_whole(options.position_base), "0 or 1"),
        "clip_clicks": (is_switch(options.clip_clicks), "True or False"),
        "where": (isinstance(options.where, text), "an SQL condition in text"),
        "part": (isinstance(options.part, text), "the name of a column"),
        "page_parts": (
            options.page_parts is None or is_whole(options.page_parts),
            "a whole number from 2 to 4096",
        ),
        "ids": (isinstance(options.ids, str), "auto, string or integer"),
        "on_bad": (isinstance(options.on_bad, str), "error or drop"),
        "max_bad": (is_number(options.max_bad), "a share from 0 to 1"),
        "max_clicks_per_page": (
            options.max_clicks_per_page is None or is_whole(options.max_clicks_per_page),
            "a whole number above 0",
        ),
        "drop_busiest": (is_number(options.drop_busiest), "a share from 0 to below 1"),
    }
    return [
        f"{name} must be {rule}, not {shown(getattr(options, name))}"
        for name, (good, rule) in rules.items()
        if not good
    ]


@dataclass(frozen=True)
class LogColumns:
    """Where each canonical column is found in one log.

    Attributes:
        found: canonical name -> the log's own name.
        contexts: context column (`position` or a column of the log) -> the log's own name; given
            ones, then those of the history.
        counted: rows hold displays and clicks, not one display each.
        history: contexts that the click model computes from the clicks above a display.
    """

    found: Mapping[str, str]
    contexts: Mapping[str, str]
    counted: bool
    history: tuple[str, ...] = ()

    @property
    def given(self) -> dict[str, str]:
        """The contexts that are fixed when a page is made; all that rules may be about."""
        return {name: own for name, own in self.contexts.items() if name not in self.history}

    @property
    def aliases(self) -> dict[str, str]:
        """The columns found under another name than their own, to be told to the user."""
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
    for canonical, own in chosen.items():
        if own not in names:
            problems.append(_unknown(f"column '{own}' (given for {canonical})", own, names))
    free = [name for name in names if name not in chosen.values()]

    def find(canonical: str) -> list[str]:
        if canonical in chosen:
            return [chosen[canonical]]
        return [name for name in free if name.lower() in ALIASES[canonical]]

    counted = bool(find("displays"))
    wanted = ["page_id", *REQUIRED]
    if "position" in options.context:
        wanted.append("position")
    wanted += ["displays", "clicks"] if counted else ["click"]
    if options.page_parts is None:
        wanted.append("part")
    # users are looked at, never counted by: columns that could each be theirs are left alone
    if len(find("user_id")) == 1 or options.drop_busiest:
        wanted.append("user_id")

    history = click_model(options.click_model).history
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
    if history:
        missing = [name for name in ("page_id", "position") if not find(name)]
        problems += _history_problems(options, names, missing, counted)

    contexts = {}
    for context in options.context:
        if context == "position":
            contexts[context] = found.get("position", "position")
        elif context in names:
            contexts[context] = context
        else:
            problems.append(_unknown(f"context column '{context}'", context, names))
    if problems:
        raise InputError.of(source, problems)
    contexts |= {name: name for name in history}
    return LogColumns(found=found, contexts=contexts, counted=counted, history=history)


def _needed(options: LogOptions, found: Mapping[str, str], counted: bool) -> Iterator[Problem]:
    """Columns without which an option cannot be used."""
    asked = {
        "--page-parts": ("page_id", options.page_parts is not None),
        "--max-clicks-per-page": ("page_id", options.max_clicks_per_page is not None),
        "--drop-busiest": ("user_id", options.drop_busiest > 0),
    }
    for what, (column, is_asked) in asked.items():
        if is_asked and column not in found:
            remedy = f"Name it with --column {column}=NAME."
            yield Problem(f"{what} needs a column for {column}", remedy=remedy)
        elif is_asked and counted and what != "--page-parts":
            yield Problem(f"{what} needs rows of single displays, and these are counted already")


def _history_problems(
    options: LogOptions, names: Sequence[str], missing: Sequence[str], counted: bool
) -> Iterator[Problem]:
    """Why a log cannot say what happened above a display, if it cannot."""
    model = click_model(options.click_model)
    reads = f"the {model.title} reads where a page was clicked before"
    other = '--click-model pbm (in Python: click_model="pbm")'
    if counted:
        yield Problem(
            f"{reads}, and counted rows (displays, clicks) do not say it",
            remedy=f"Give rows of single displays, or use {other}.",
        )
    elif missing:
        naming = " and ".join(f"--column {name}=NAME" for name in missing)
        yield Problem(
            f"{reads}, and the log has no column for {' and '.join(missing)}",
            remedy=f"The log has {', '.join(names)}; name it with {naming}, or use {other}.",
        )
    if taken := [name for name in names if name.lower() in model.history]:
        yield Problem(
            f"the {model.title} computes {', '.join(model.history)} itself, and the log has a "
            f"column {', '.join(taken)}",
            remedy=f"Rename the log's own column, or use {other}.",
        )


def _unknown(what: str, name: str, names: Sequence[str]) -> Problem:
    remedy = f"The log has {', '.join(names)}."
    return Problem(f"{what} is not in the log{did_you_mean(name, names)}", remedy=remedy)


def _ambiguous(canonical: str, matches: Sequence[str]) -> Problem:
    return Problem(
        f"{' and '.join(matches)} could each be {canonical}",
        remedy=f"Decide with --column {canonical}={matches[0]} (in Python: "
        f'columns={{"{canonical}": "{matches[0]}"}}).',
    )


def _missing(canonical: str, names: Sequence[str], counted: bool) -> Problem:
    known = ", ".join(ALIASES[canonical])
    remedy = f"The log has {', '.join(names)}; name it with --column {canonical}=NAME."
    if canonical == "click" and any(name.lower() == "clicks" for name in names):
        remedy = "The log has clicks but no displays: counted logs need both columns."
    elif canonical == "clicks" and counted:
        remedy = f"The log has displays, so it needs clicks beside them. {remedy}"
    return Problem(f"no column for {canonical} (known names: {known})", remedy=remedy)
