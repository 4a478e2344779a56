"""Every claim of the paper's section 7, decided by the results.

The claims of each research question are in a file of their own, with the rules that decide them.
Where a claim is about the paper's best estimator (self-normalised + conditioning), the same rule is
applied to ours as well: the id then ends in the method's key. Intervals are at 95 % each; see
`paper.statement.combined` for claims of several numbers.
"""

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from epiclick.data.writing import written_aside
from epiclick.paper import (
    claims_distributions,
    claims_entropy,
    claims_estimators,
    claims_pointwise,
    claims_rankers,
)
from epiclick.paper.results import Results
from epiclick.paper.statement import OPEN, Check, Claim, Statement

STATEMENTS: tuple[Statement, ...] = (
    *claims_estimators.STATEMENTS,
    *claims_pointwise.STATEMENTS,
    *claims_distributions.BIAS_STATEMENTS,
    *claims_distributions.RELEVANCE_STATEMENTS,
    *claims_entropy.STATEMENTS,
    *claims_rankers.STATEMENTS,
)


def make_claims(results: Results) -> list[Claim]:
    """All claims, in the paper's order, with their outcomes."""
    return [statement.of(results) for statement in STATEMENTS]


def write_claims(claims: Sequence[Claim], path: str | Path) -> None:
    """Write claims as JSON."""
    whole = {"schema_version": 1, "claims": [claim.to_dict() for claim in claims]}
    with written_aside(path) as aside:
        aside.write_text(json.dumps(whole, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def write_claims_table(claims: Sequence[Claim], path: str | Path) -> None:
    """Write a Markdown table per question: claim, the number that decides it, outcome."""
    parts = []
    for question, group in groupby(claims, key=lambda claim: claim.question):
        rows = ["| | claim | measured (95 % interval; rule) | outcome |", "|---|---|---|---|"]
        rows += [
            f"| {claim.id} | {claim.claim} | {_number_of(claim)} | **{claim.outcome}** |"
            for claim in group
        ]
        parts.append("\n".join([f"### {question}", "", *rows, ""]))
    with written_aside(path) as aside:
        aside.write_text("\n".join(parts), encoding="utf-8")


def _number_of(claim: Claim) -> str:
    """The first number with the outcome of the claim, and how many decide it together."""
    deciding = [check for check in claim.checks if check.decides]
    if not deciding:
        return claim.reason
    unfit = [check for check in deciding if check.unfit]
    if unfit and claim.outcome == OPEN:
        return "; ".join(_describe(check) for check in unfit) + f". {_escaped(unfit[0].unfit)}"
    shown = next((each for each in deciding if each.outcome == claim.outcome), None)
    others = f" [one of {len(deciding)}]" if len(deciding) > 1 else ""
    if shown is None:  # the numbers disagree
        return _describe(deciding[0]) + others + f". {_escaped(claim.reason)}"
    return _describe(shown) + others


def _describe(check: Check) -> str:
    """A number with its interval and rule."""
    found, quantity = check.interval, _escaped(check.quantity)
    return f"{quantity}: {found.mean:.4g} ({found.low:.4g} to {found.high:.4g}; {check.rule})"


def _escaped(text: str) -> str:
    """The text without bars, which would end the cell of the table."""
    return text.replace("|", r"\|")
