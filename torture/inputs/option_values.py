"""Options of every verb, with values that must work, that must not, and that may."""

from collections.abc import Iterable
from dataclasses import dataclass

Words = tuple[str, ...]

NOT_WHOLE = ("x", "1.5", "", "nan", "1e3", "0x10", "²x", "\x1b[31m", "a" * 500)
NOT_NUMBER = ("x", "", "1,5", "..", "1 2", "\u202e1", "[bold]1[/bold]", "--")
NAMES = ("x", "", "pbm,", ",", "PBM;", "../..", "\x1b[2J", "ünï", "a" * 300)
HUGE = ("99999999999999999999", "9223372036854775808")


@dataclass(frozen=True)
class Attack:
    """Words to add to a call of a verb.

    Attributes:
        words: an option, or several, with their values.
        must: whether the call must then work, must be refused, or may do either.
    """

    words: Words
    must: str


def works(*words: str) -> list[Attack]:
    """Words with which a call must work."""
    return [Attack(words, "work")]


def fails(*words: str) -> list[Attack]:
    """Words with which a call must be refused."""
    return [Attack(words, "fail")]


def may(*words: str) -> list[Attack]:
    """Words with which a call may do either."""
    return [Attack(words, "may")]


def among(
    option: str, *, good: Iterable[str], bad: Iterable[str], odd: Iterable[str] = ()
) -> list[Attack]:
    """An option with each of some values."""
    return [
        *(Attack((option, value), "work") for value in good),
        *(Attack((option, value), "fail") for value in bad),
        *(Attack((option, value), "may") for value in odd),
    ]


def whole(option: str, *good: str, least: int = 1) -> list[Attack]:
    """An option whose value is a whole number."""
    return among(option, good=good, bad=(*NOT_WHOLE, str(least - 1), "-7"), odd=("1_0", " 2", "+3"))


def share(option: str, *good: str) -> list[Attack]:
    """An option whose value lies strictly between 0 and 1."""
    return among(option, good=good, bad=(*NOT_NUMBER, "0", "1", "-0.1", "nan", "inf", "1e400"))


def choice(option: str, *good: str) -> list[Attack]:
    """An option with few values."""
    return among(option, good=good, bad=NAMES)


def seeds(option: str = "--seed") -> list[Attack]:
    """An option whose value is a seed."""
    return among(option, good=("1", "0", "4294967295"), bad=NOT_WHOLE, odd=("-1", *HUGE))


LOG: list[Attack] = [
    *among(
        "--context",
        good=("device,position", "position", "device"),
        bad=("query_id", "nothing", "", ","),
    ),
    *among("--position-base", good=("1",), bad=(*NOT_WHOLE, "2", "-1")),
    *among(
        "--column",
        good=("position=position", "click=click"),
        bad=("x", "=", "position=", "x=y", "position=no", "\x1b=x"),
    ),
    *fails("--column", "click=click", "--column", "click=ad"),
    *among(
        "--where",
        good=("position <= 2", "device = 'phone'", "", "1 = 1"),
        bad=("nothing = 1", "position <", "1; DROP TABLE log", "click = 7", "(select 1)x", "'"),
    ),
    *among(
        "--where",
        good=(),
        bad=(),
        odd=(
            "sum(click) > 1",
            "position",
            "true OR",
            "read_csv('/etc/passwd')",
            "random() < 2",
            "ünï = 1",
        ),
    ),
    *works("--clip-clicks"),
    *choice("--ids", "string", "auto"),
    *choice("--on-bad", "drop", "error"),
    *among(
        "--max-bad",
        good=("0.1%", "0.5", "100%"),
        bad=("x", "", "-1", "200%", "2", "nan", "%", "1%%"),
    ),
    *among("--max-clicks-per-page", good=("2", "9", "0"), bad=(*NOT_WHOLE, "-1")),
    *among("--drop-busiest", good=("0", "0%"), bad=("x", "nan", "-1", "100%", "1.5")),
    *among("--conversion", good=("bought", "none"), bad=("nothing", "", "query_id", "position")),
    *fails("--value", "revenue"),
    *works("--conversion", "bought", "--value", "revenue"),
    *works("--page-number", "results_page", "--page-size", "3"),
    *fails("--page-number", "results_page"),
    *fails("--page-size", "3"),
    *fails("--page-number", "nothing", "--page-size", "3"),
    *fails("--page-number", "results_page", "--page-size", "2"),
    *fails("--page-number", "results_page", "--page-size", "0"),
    *fails("--page-number", "results_page", "--page-size", "3", "--offset", "start"),
    *among("--offset", good=("start", "none"), bad=("nothing", "device")),
    *among("--viewed", good=("in_view", "none"), bad=("nothing", "position", "device")),
    *works("--sponsored", "ad", "--sponsored-as", "context"),
    *works("--sponsored", "ad"),
    *fails("--sponsored", "nothing"),
    *fails("--sponsored", "ad", "--sponsored-as", "x"),
    *fails("--sponsored", "ad", "--context", "ad,position"),
    *among("--grid", good=("2",), bad=(*NOT_WHOLE, "0", "-1")),
    *fails("--grid", "2", "--context", "device"),
    *works("--normalise-queries"),
    *among(
        "--format",
        good=("rows", "auto"),
        bad=("x", "", "ga4", "ubi", "snowplow", "metarank", "page-lines", "two-tables", "ROWS"),
    ),
    *among("--click-window", good=("none",), bad=("30m", "x", "", "m", "-1s", "nan s", "0s")),
    *among("--columns", good=(), bad=("a,b", "", ",", "query_id,doc_id")),
    *among(
        "--connect",
        good=(),
        bad=(
            "",
            "x",
            "postgres://",
            "env:",
            "env:NOTHING_LIKE_THIS",
            "nothing://user:secret@host/x",
        ),
    ),
]
"""Options of reading a log, for the log of the campaign."""

FEATURES: list[Attack] = [
    *choice("--missing-values", "error", "impute"),
    *among("--max-categories", good=("50", "0"), bad=(*NOT_WHOLE, "-1")),
    *among("--ignore-feature", good=(), bad=(), odd=("nothing", "", "f1", "query_id")),
    *among(
        "--features-as-of",
        good=(),
        bad=("yesterday", "2026-13-01", ""),
        odd=("latest", "2026-01-01", "3"),
    ),
    *fails("--features", "nothing.csv"),
    *fails("--features", "."),
]
"""Options of reading features, for a call that has them."""

LEVEL = share("--level", "0.8", "0.5", ".99")
OUTPUT: list[Attack] = [
    *works("--quiet"),
    *works("--json"),
    *fails("--nothing"),
    *fails("--json", "x.csv"),
    *fails("--jsn"),
]
