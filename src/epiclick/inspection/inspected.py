"""The result of an inspection: what a log holds, what is wrong with it, what to do next."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from epiclick.errors import Problem
from epiclick.inspection.page_shapes import PageShapes, Users
from epiclick.inspection.telling_columns import Dates


@dataclass(frozen=True)
class LogColumn:
    """A column of a log.

    Attributes:
        name: in the log.
        kind: its type.
        role: what it is taken for: a canonical column, a context; None if it is not used.
        how: why: its own `name`, an `alias`, or an `option`; None if it is not used.
    """

    name: str
    kind: str
    role: str | None = None
    how: str | None = None


@dataclass(frozen=True, eq=False)
class Learnable:
    """What can be learned about position bias.

    Attributes:
        record: of `Identifiability.to_dict`.
        sentences: of `Identifiability.summary`.
        errors: context -> relative standard error of its bias that a fit can expect; None where it
            cannot be compared.
        reference: the context that others are compared with.
    """

    record: dict[str, Any]
    sentences: Sequence[str]
    errors: pd.DataFrame
    reference: str


@dataclass(frozen=True, eq=False)
class Inspection:
    """What a log holds; numbers are None where they cannot be determined.

    Attributes:
        source: what the log is called.
        columns: its columns, and what they are taken for.
        rows: of the log.
        pages: result pages counted.
        queries: distinct queries.
        pairs: distinct (query, document) pairs.
        displays: of documents.
        clicks: on them.
        by_position: displays, clicks and click rate by context.
        dates: the time it covers.
        shapes: of its pages.
        users: who saw them.
        learnable: about position bias.
        problems: what is wrong or suspicious.
        warnings: why results may mislead, and what was left out.
        advice: what to do, as sentences.
        command: that fits a model; None if the log cannot be fitted as it is.
        one_in: of a long log, all but `rows` are those of one in so many queries.
    """

    source: str
    columns: tuple[LogColumn, ...]
    rows: int
    pages: int | None = None
    queries: int | None = None
    pairs: int | None = None
    displays: int | None = None
    clicks: int | None = None
    by_position: pd.DataFrame | None = None
    dates: Dates | None = None
    shapes: PageShapes | None = None
    users: Users | None = None
    learnable: Learnable | None = None
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    command: str | None = None
    one_in: int = 1

    def to_dict(self) -> dict[str, Any]:
        """A record for JSON."""
        learnable = None
        if self.learnable is not None:
            errors = self.learnable.errors.to_dict("records")
            learnable = {**self.learnable.record, "expected_errors": errors}
        by_position = None if self.by_position is None else self.by_position.to_dict("records")
        return {
            "columns": [asdict(column) for column in self.columns],
            "rows": self.rows,
            "pages": self.pages,
            "queries": self.queries,
            "pairs": self.pairs,
            "displays": self.displays,
            "clicks": self.clicks,
            "one_in": self.one_in,
            "dates": None if self.dates is None else asdict(self.dates),
            "by_position": by_position,
            "page_shapes": None if self.shapes is None else asdict(self.shapes),
            "users": None if self.users is None else asdict(self.users),
            "learnable": learnable,
            "problems": [
                {
                    **{"code": each.code, "what": each.what, "count": each.count},
                    **{"unit": each.unit, "examples": list(each.examples), "remedy": each.remedy},
                }
                for each in self.problems
            ],
            "advice": list(self.advice),
            "command": self.command,
        }

    def overview(self) -> list[str]:
        """Sizes, dates, pages and users, a sentence each."""
        lines = [f"{self.source}: {self.rows:,} rows."]
        if self.one_in > 1:
            lines.append(
                f"It is long, so all that follows is of one in {self.one_in} queries (--where "
                "selects others)."
            )
        if self.displays is not None:
            pages = "" if self.pages is None else f"{self.pages:,} pages, "
            lines.append(
                f"{pages}{self.queries:,} queries, {self.pairs:,} pairs of query and document, "
                f"{self.displays:,} displays, {self.clicks:,} clicks."
            )
        if self.dates is not None:
            lines.append(f"{self.dates.column}: {self.dates.first} to {self.dates.last}.")
        if self.shapes is not None:
            lines.append(
                f"{self.shapes.mean_length:.1f} results per page, at most {self.shapes.longest}; "
                f"{self.shapes.without_click:.1%} of pages without a click."
            )
        if self.users is not None:
            lines.append(
                f"{self.users.users:,} users ({self.users.column}); the busiest 1 % saw "
                f"{self.users.busiest_share:.1%} of the displays."
            )
        return lines

    def __str__(self) -> str:
        """All of it as text."""
        roles = ", ".join(
            column.name if column.role is None else f"{column.name} as {column.role}"
            for column in self.columns
        )
        lines = [*self.overview(), f"Columns: {roles}."]
        if self.by_position is not None:
            lines += ["", self.by_position.to_string(index=False), ""]
        lines += [f"Problem: {problem}" for problem in self.problems]
        lines += [f"Warning: {warning}." for warning in self.warnings]
        if self.learnable is not None:
            lines += self.learnable.sentences
        lines += self.advice
        return "\n".join([*lines, f"Next: {self.command}"] if self.command else lines)
