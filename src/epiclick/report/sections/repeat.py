"""What is needed to repeat it, and what words mean."""

from html import escape

from epiclick.report.gather import Report
from epiclick.report.markup import folded, section, table

WORDS = (
    ("display", "an item shown at a place of a result page, once"),
    ("item", "a document (product, page, ...) as an answer to one query"),
    ("position bias", "how often a place is looked at, whatever stands there"),
    ("relevance", "how often an item is clicked by those who look at it"),
    ("interval", "a range that should hold the true value as often as it promises"),
    ("ranker", "a program that decides which items are shown where"),
    ("log-likelihood", "how well clicks were foretold; 0 would be perfect, lower is worse"),
    ("backtest", "clicks foretold for pages that the model never saw, against those that came"),
)


def repeat_section(report: Report) -> str:
    """The command, settings, versions, and a glossary."""
    found = report.provenance
    command = f"<pre>{escape(found.command)}</pre>" if found.command else ""
    return section(
        "repeat",
        "To repeat it",
        command,
        folded("Settings of the model", table(("setting", "value"), found.model, texts=2)),
        folded("How the model's log was read", table(("option", "value"), found.reading, texts=2)),
        folded("Which rows this page is about", table(("log", "rows"), found.logs, texts=2))
        if found.logs
        else "",
        folded("Versions", table(("program", "version"), found.versions, texts=2)),
        folded("What words mean on this page", table(("word", "meaning"), WORDS, texts=2)),
    )
