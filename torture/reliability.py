"""The table of results on docs/reliability.md."""

from collections.abc import Sequence

from torture.campaign import Summary


def table(summaries: Sequence[Summary], seed: int) -> str:
    """Cases tried, accepted, refused and failed, by campaign and verb."""
    lines = [
        "| campaign | verb | tried | accepted | refused | failed |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for summary in summaries:
        for verb, count in summary.verbs.items():
            lines.append(_line(summary.name, f"`{verb}`", count))
        lines.append(_line(f"**{summary.name}**", "all", summary.total))
    return "\n".join([*lines, "", f"Seed {seed}."])


def _line(name: str, verb: str, count: "dict[str, int]") -> str:
    tried = sum(count.values())
    numbers = [tried, *(count.get(outcome, 0) for outcome in ("accepted", "refused", "failed"))]
    return f"| {name} | {verb} | {' | '.join(f'{number:,}' for number in numbers)} |"
