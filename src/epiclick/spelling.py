"""Options in messages, as their reader writes them: flags on the command line, keywords in Python.

Messages are written with flags, such as `--position-base 0`, and in Python say `position_base=0`.
Where the keyword does not follow from the flag they give both: `--depth 3 (in Python: depth=3)`.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

SWITCHES = frozenset({"clip-clicks", "extrapolate", "normalise-queries", "resume"})
"""Flags without a value: True in Python."""

RENAMED = {"column": "columns", "columns": "header", "ignore-feature": "ignore"}
RENAMED |= {"features-as-of": "as_of", "ranking": "rankings"}
"""Flags whose keyword has another name."""

KEYWORDS = frozenset(
    {
        *SWITCHES,
        *RENAMED,
        *("anchor", "backtest", "click-model", "click-window", "cluster", "context", "conversion"),
        *("depth", "drop-busiest", "estimator", "features", "format", "grid", "holdout", "ids"),
        *("max-bad", "max-categories", "max-clicks-per-page", "missing-values", "models", "offset"),
        *("on-bad", "page-number", "page-number-base", "page-parts", "page-size", "part"),
        *("position-base", "position-bias", "randomised", "sponsored-as", "theta-posterior"),
        *("value", "viewed", "weights", "where"),
    }
)
"""Flags that are keywords in Python, too; all others are left as they are."""

NOT_VALUES = frozenset(
    {"and", "as", "for", "has", "is", "leaves", "needs", "or", "takes", "to", "uses", "with"}
    | {"chooses", "decides", "gives", "keeps", "where", "writes", "in", "on", "at", "if", "the"}
)
"""Words that may follow a flag in a sentence."""

_IN_PYTHON = re.compile(r" \(in Python: ((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)")
_BOTH = re.compile(r"(?:--[a-z][a-z-]*(?: [^\s()]+)?|epiclick [a-z-]+)" + _IN_PYTHON.pattern)
_ON_COMMAND_LINE = re.compile(r" \(on the command line: [^()]*\)")
_FLAG = re.compile(r"--([a-z][a-z-]*[a-z])(?: ([\w%,.=-]*[\w%]))?")
_COMMANDS = re.compile(r"(`[^`]*`)")

_flags = False


@contextmanager
def as_flags() -> Iterator[None]:
    """Spell options as flags in this context: that of the command line."""
    global _flags
    before, _flags = _flags, True
    try:
        yield
    finally:
        _flags = before


def spelled(message: str) -> str:
    """A message with its options as its reader writes them.

    >>> spelled("If positions count from 0, use --position-base 0.")
    'If positions count from 0, use position_base=0.'
    >>> with as_flags():
    ...     spelled("Cut them with --depth 3 (in Python: depth=3).")
    'Cut them with --depth 3.'
    """
    if _flags:
        return _IN_PYTHON.sub("", message)
    # commands in backticks stay commands
    parts = _COMMANDS.split(_ON_COMMAND_LINE.sub("", message))
    return "".join(part if part.startswith("`") else in_python(part) for part in parts)


def in_python(message: str) -> str:
    """A message with keywords in place of flags.

    >>> in_python("name it with --column position=NAME, or use --on-bad drop")
    'name it with columns={"position": "NAME"}, or use on_bad="drop"'
    >>> in_python("Use --clip-clicks to cap them, or --where to leave them out.")
    'Use clip_clicks=True to cap them, or `where` to leave them out.'
    """
    return _FLAG.sub(_keyword, _BOTH.sub(r"\1", message))


def _keyword(found: re.Match[str]) -> str:
    flag, word = found[1], found[2]
    if flag not in KEYWORDS:
        return found[0]
    name = RENAMED.get(flag, flag.replace("-", "_"))
    after = "" if word is None else f" {word}"
    if flag in SWITCHES:
        return f"{name}=True{after}"
    if word is None or word in NOT_VALUES:
        return f"`{name}`{after}"
    if flag == "column" and "=" in word:
        key, _, value = word.partition("=")
        return f'{name}={{"{key}": "{value}"}}'
    return f"{name}={_literal(word)}"


def _literal(word: str) -> str:
    """A value in Python: numbers and placeholders such as COLUMN as they are, lists of words."""
    if word.isupper() or re.fullmatch(r"-?[\d.]+", word):
        return word
    if "," in word:
        return "[" + ", ".join(f'"{each}"' for each in word.split(",")) + "]"
    return f'"{word}"'
