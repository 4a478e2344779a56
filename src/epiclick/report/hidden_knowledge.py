"""Did the ranker of the log know more than the model? A slope, and two contrasts of biases."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from epiclick.diagnostics.confounding import CONTRASTS, LEVEL
from epiclick.report.markup import Absent, missing, number, paragraph, section, table
from epiclick.report.overview import context_labels
from epiclick.report.report_sources import Sources

if TYPE_CHECKING:
    from epiclick.report.page import Report

MEANING = (
    "Clicks on the same item at several positions compare it with itself, whatever the ranker of "
    "the log knew about it; the model also compares it with items of the same features. If the two "
    "disagree, items were placed for reasons that the model does not know. If they agree, that "
    "proves nothing about items never shown."
)


@dataclass(frozen=True)
class ContrastRow:
    """Both biases at a context: by the first estimate and the second, and the error of their ratio.

    Attributes:
        label: of the context.
        first: bias relative to the reference's.
        second: the same by the other estimate.
        error: standard error of the logarithm of their ratio.
    """

    label: str
    first: float
    second: float
    error: float


@dataclass(frozen=True)
class ContrastTable:
    """One contrast.

    Attributes:
        words: names of both estimates.
        reason: why they were not compared, as a clause; empty where they were.
        p_value: probability of differences as large, if both estimate the same.
        is_finding: whether they differ.
        rows: of the contexts.
    """

    words: tuple[str, str]
    reason: str
    p_value: float
    is_finding: bool
    rows: tuple[ContrastRow, ...]


@dataclass(frozen=True)
class HiddenKnowledge:
    """Both contrasts, and what they found, in sentences.

    Attributes:
        tables: one for each contrast.
        warnings: of the contrasts.
        placement: how relevance depends on where items were placed; empty if it cannot.
    """

    tables: tuple[ContrastTable, ...]
    warnings: tuple[str, ...]
    placement: str = ""


def hidden_knowledge(sources: Sources) -> HiddenKnowledge | Absent:
    """Read it from the checks of the fit."""
    checks = sources.fitted.training.checks
    record, placement = checks.get("confounding"), (checks.get("placement") or {}).get("words", "")
    if not record and placement:  # clicks are not in proportion to one bias of each position
        return HiddenKnowledge((), (), placement)
    if not record:
        return Absent(
            "This was not checked: the model was fitted by an earlier version, or its clicks are "
            "not in proportion to one bias of each position."
        )
    names = sources.fitted.contexts.column_names
    places = [tuple(row.values()) for row in sources.fitted.contexts.to_pylist()]
    labels = dict(zip(places, context_labels(sources.fitted.contexts), strict=True))
    tables = tuple(_tables(record, names, labels))
    return HiddenKnowledge(tables, tuple(record["warnings"]), placement)


def _tables(
    record: dict[str, Any], names: list[str], labels: dict[tuple[Any, ...], str]
) -> Iterator[ContrastTable]:
    for about in CONTRASTS:
        own = record[about.name]
        yield ContrastTable(
            words=about.words,
            reason=own.get("reason", ""),
            p_value=own.get("p_value", float("nan")),
            is_finding=own.get("found", False),
            rows=tuple(
                ContrastRow(
                    labels[tuple(row[name] for name in names)],
                    *(row[key] for key in (*about.estimates, "error")),
                )
                for row in own.get("by_position", ())
            ),
        )


def knowledge_section(report: "Report") -> str:
    """Both tables."""
    found = report.knowledge
    title = "Did the ranker of the log know more than the model?"
    if isinstance(found, Absent):
        return section("confounding", title, missing(found))
    warned = [paragraph(f"Warning: {each}.") for each in found.warnings]
    parts = [part for each in found.tables for part in _parts(each)]
    meaning = [paragraph(MEANING)] if found.tables else []
    placed = [paragraph(found.placement)] if found.placement else []
    return section("confounding", title, *placed, *meaning, *warned, *parts)


def _parts(found: ContrastTable) -> Iterator[str]:
    both = " and ".join(found.words)
    if found.reason:
        yield paragraph(f"Not compared, as {found.reason}: position bias {both}.")
        return
    outcome = "differ" if found.is_finding else "do not differ by more than chance or by enough"
    yield paragraph(
        f"Position bias {both} {outcome} (p = {found.p_value:.2g}; a finding needs less than "
        f"{LEVEL})."
    )
    columns = ("context", *found.words, "standard error of the log ratio")
    yield table(
        columns,
        (
            (row.label, number(row.first), number(row.second), number(row.error))
            for row in found.rows
        ),
    )
