"""The results of `natural_changes.py` as tables of the documentation."""

from collections.abc import Callable, Mapping
from typing import Any

LABELS = {
    "position": "by position",
    "item": "by item",
    "item-position": "by item and position",
    "drift": "same list, earlier pages",
    "control": "`pbm`, simulated users",
}
"""Of rows that are no click models fitted to the real clicks."""

PAIRS = {
    "later_both_new": "two new, later",
    "later_one_new": "new and logged, later",
    "same_both_new": "two new, same period",
}
"""Kinds of differences."""

SURE = -1  # number of the bin

Scores = Mapping[str, Any]


def tables(results: Scores) -> dict[str, str]:
    """All tables, by name."""
    found = {}
    for depth in results["settings"]["depths"]:
        key = f"depth_{depth}"
        rows = {name: row[key] for name, row in results["rows"].items()}
        drift = results["drift"][key]
        rows["drift"] = {"later": drift["later"], "later_both_new": drift["later_pairs"]}
        if "control" in results:
            rows["control"] = results["control"][key]
        found[f"values, {depth}"] = _table(_value_columns(), rows)
        found[f"differences, {depth}"] = _table(_difference_columns(), rows)
        found[f"verdicts, {depth}"] = _table(_verdict_columns(), rows)
    found["probabilities"] = _table(_bin_columns(), _whole_pages(results))
    return found


def _whole_pages(results: Scores) -> dict[str, Scores]:
    key = f"depth_{results['settings']['depths'][0]}"
    rows = {name: row[key] for name, row in results["rows"].items() if name != "position"}
    return rows | ({"control": results["control"][key]} if "control" in results else {})


Column = tuple[str, Callable[[Scores], str]]


def _table(columns: list[Column], rows: Mapping[str, Scores]) -> str:
    lines = [
        "| | " + " | ".join(title for title, _ in columns) + " |",
        "|---|" + "--:|" * len(columns),
    ]
    for name, row in rows.items():
        cells = " | ".join(cell(row) for _, cell in columns)
        lines.append(f"| {LABELS.get(name, f'`{name}`')} | {cells} |")
    return "\n".join(lines)


def _value_columns() -> list[Column]:
    columns: list[Column] = []
    for period, title in (("later", "later"), ("same", "same period")):
        columns += [
            (f"{title}: coverage, %", _of(period, _coverage)),
            ("errors / predicted", _of(period, lambda x: f"{x['dispersion']:.2f}")),
            ("bias", _of(period, lambda x: f"{x['bias']:+.2f}")),
            ("error", _of(period, lambda x: f"{x['error']:.2f}")),
            ("r", _of(period, _correlation)),
        ]
    return columns


def _difference_columns() -> list[Column]:
    columns: list[Column] = []
    for kind, title in PAIRS.items():
        columns += [
            (f"{title}: coverage, %", _of(kind, _coverage)),
            ("errors / predicted", _of(kind, lambda x: f"{x['dispersion']:.2f}")),
            ("r", _of(kind, _correlation)),
        ]
    return columns


def _verdict_columns() -> list[Column]:
    columns: list[Column] = []
    for kind, title in PAIRS.items():
        columns += [
            (f"{title}: sure, %", _of(kind, _sure_share)),
            ("right sign, %", _of(kind, lambda x: _agree(x["orders"][SURE]))),
            ("expected, %", _of(kind, lambda x: _expected(x["orders"][SURE]))),
        ]
    return columns


def _bin_columns() -> list[Column]:
    columns: list[Column] = []
    for number, title in enumerate(("50 to 70 %", "70 to 95 %", "95 % or more")):
        columns += [
            (f"P(better) {title}: pairs", _of_bin(number, lambda x: f"{x['pairs']:,}")),
            ("right sign, %", _of_bin(number, _agree)),
            ("expected, %", _of_bin(number, _expected)),
        ]
    return columns


def _of(kind: str, cell: Callable[[Scores], str]) -> Callable[[Scores], str]:
    return lambda row: cell(row[kind]) if kind in row else ""


def _of_bin(number: int, cell: Callable[[Scores], str]) -> Callable[[Scores], str]:
    return _of("later_one_new", lambda scores: cell(scores["orders"][number]))


def _coverage(scores: Scores) -> str:
    share = scores["coverage_90"]
    actual, low, high = (f"{100 * share[name]:.0f}" for name in ("actual", "low", "high"))
    return f"{actual} ({low} to {high})"


def _correlation(scores: Scores) -> str:
    return "-" if scores["correlation"] is None else f"{scores['correlation']:.2f}"


def _sure_share(scores: Scores) -> str:
    return f"{100 * scores['orders'][SURE]['pairs'] / scores['predictions']:.0f}"


def _agree(order: Scores) -> str:
    return f"{100 * order['agree']:.0f}" if order["pairs"] else "-"


def _expected(order: Scores) -> str:
    return f"{100 * order['expected']:.0f}" if order["pairs"] else "-"
