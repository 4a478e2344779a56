"""Every claim of the paper's section 7, decided by what was measured.

Claims of one research question stand together in a file of their own, each with the rule that
decides it. Where a claim is about the paper's best estimator (self-normalised + conditioning), the
same rule is asked of ours in its place: the id then ends in the method's key. Intervals are at 95 %
each; see `paper.checks.combined` on claims of several numbers.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from epiclick.data.atomic import written_aside
from epiclick.paper import (
    claims_entropy,
    claims_estimators,
    claims_pointwise,
    claims_position_bias,
    claims_rankers,
    claims_relevance,
)
from epiclick.paper.results import Results
from epiclick.paper.statement import Claim, Statement

STATEMENTS: tuple[Statement, ...] = (
    *claims_estimators.STATEMENTS,
    *claims_pointwise.STATEMENTS,
    *claims_position_bias.STATEMENTS,
    *claims_relevance.STATEMENTS,
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
