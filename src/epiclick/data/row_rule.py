"""The rules that every row of a log must follow, and values of any type as numbers."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import ibis.expr.types as ir


@dataclass(frozen=True)
class RowRule:
    """A rule that each row must follow, and how to report rows that break it.

    Attributes:
        what: the rule, or how it is broken.
        broken: true where a row breaks it.
        value: the column whose value is at fault.
        remedy: what to do about it.
        code: the rule's stable name.
    """

    what: str
    broken: "Callable[[ir.Table], ir.BooleanValue]"
    value: str
    remedy: str = ""
    code: str = field(kw_only=True)

    @classmethod
    def present(cls, column: str) -> Self:
        """The rule that a column has a value."""
        return cls(
            f"{column} is missing", lambda log: log[column].isnull(), column, code="missing-value"
        )


def number(value: "ir.Value") -> "ir.NumericValue":
    """A column as numbers: text is parsed (NULL where invalid), true and false are 1 and 0."""
    if value.type().is_boolean():
        return value.cast("int8")
    if value.type().is_string() or value.type().is_json():
        import ibis  # slow to import

        written = value.cast("string")
        text = written.strip().lower()
        others = text.cases(("true", "1"), ("false", "0"), else_=text).try_cast("float64")
        # nearly all values are plain numbers, for which trimming takes longer than all else
        parsed = ibis.coalesce(written.try_cast("float64"), others)
        # SQL reads 1_000 as a thousand; in a log it is a mistake
        return ibis.ifelse(written.contains("_"), ibis.null("float64"), parsed)
    return value


def whole(value: "ir.Value") -> "ir.IntegerValue":
    """A column as integers; only for rows that follow the rules."""
    as_number = number(value)
    return as_number if as_number.type().is_integer() else as_number.try_cast("int64")


def not_binary(value: "ir.Value") -> "ir.BooleanValue":
    """Whether a value is present, but not 0 or 1.

    This runs over every row, so integers are compared by their range, which is the fastest way.
    """
    as_number = number(value)
    if as_number.type().is_integer():
        return ~as_number.between(0, 1)
    return value.notnull() & ~as_number.isin([0, 1]).fill_null(False)


def is_whole(value: "ir.NumericValue") -> "ir.BooleanValue":
    """Whether a number is a 64-bit integer; false for NULL."""
    return (value.try_cast("int64") == value).fill_null(False)


def number_rules(log: "ir.Table", name: str, called: str | None = None) -> list[RowRule]:
    """The rules for a column of whole numbers that its type does not already guarantee.

    `called` is the name in messages, by default that of the column.
    """
    called = called or name
    rules = [replace(RowRule.present(name), what=f"{called} is missing")]
    kind = log[name].type()
    if kind.is_string() or kind.is_json():
        rules.append(
            RowRule(
                f"{called} must be a number, not text",
                lambda t: t[name].notnull() & number(t[name]).isnull(),
                name,
                code="not-a-number",
            )
        )
    if not (kind.is_integer() or kind.is_boolean()):
        rules.append(
            RowRule(
                f"{called} must be a whole number",
                # also broken by NaN, and by values beyond 64 bits
                lambda t: number(t[name]).notnull() & ~is_whole(number(t[name])),
                name,
                code="not-whole-number",
            )
        )
    return rules
