"""Every claim of the paper's section 7, decided by what was measured.

Claims of one research question stand together in a file of their own, each with the rule that
decides it. Where a claim is about the paper's best estimator (self-normalised + conditioning), the
same rule is asked of ours in its place: the id then ends in the method's key. Intervals are at 95 %
each; see `paper.statement.combined` on claims of several numbers.
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
    """All claims, in the paper's order, with what the results say of each."""
    return [statement.of(results) for statement in STATEMENTS]


def write_claims(claims: Sequence[Claim], path: str | Path) -> None:
    """Write claims as JSON."""
    whole = {"schema_version": 1, "claims": [claim.to_dict() for claim in claims]}
    with written_aside(path) as aside:
        aside.write_text(json.dumps(whole, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def write_claims_table(claims: Sequence[Claim], path: str | Path) -> None:
    """Write a table for each question: claim, the number that decides it, outcome."""
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
    """The first number with the outcome of the claim, and of how many that decide it together."""
    deciding = [check for check in claim.checks if check.decides]
    if not deciding:
        return claim.reason
    unfit = [check for check in deciding if check.unfit]
    if unfit and claim.outcome == OPEN:
        return "; ".join(_told(check) for check in unfit) + f". {_escaped(unfit[0].unfit)}"
    shown = next((each for each in deciding if each.outcome == claim.outcome), None)
    others = f" [one of {len(deciding)}]" if len(deciding) > 1 else ""
    if shown is None:  # numbers disagree
        return _told(deciding[0]) + others + f". {_escaped(claim.reason)}"
    return _told(shown) + others


def _told(check: Check) -> str:
    """A number with its interval and rule."""
    found, quantity = check.interval, _escaped(check.quantity)
    return f"{quantity}: {found.mean:.4g} ({found.low:.4g} to {found.high:.4g}; {check.rule})"


def _escaped(text: str) -> str:
    """A bar would end the cell of the table."""
    return text.replace("|", r"\|")
