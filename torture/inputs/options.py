"""Campaign: options of every verb with odd values, and options that contradict each other."""

import gzip
import json
from pathlib import Path
from random import Random
from typing import ClassVar

from torture.campaign import Campaign, Case, Result
from torture.inputs import tiny_model
from torture.inputs.features import feature_rows
from torture.inputs.option_values import Attack
from torture.inputs.tiny_model import BIAS
from torture.inputs.verb_options import VERBS, VerbCalls
from torture.program import Ended, call

ACCEPTED = 0.1
"""Least share of accepted cases, of verbs that are fast enough for enough of them."""

GATES = ("--gate", "--fail-unless-better")


class Options(Campaign):
    """A call that works, with words added that must work, must be refused, or may do either."""

    name = "options"
    floors: ClassVar = {v: ACCEPTED for v, calls in VERBS.items() if not calls.is_slow}

    def __init__(self, cases: int) -> None:
        """Run this many cases."""
        self.cases = cases

    def prepare(self, stock: Path) -> None:
        """Write a log with columns for all options, models, rankings and features."""
        rng = Random(4)
        log = tiny_model.shown_log(rng, pages=60)
        for row in log:
            more = {"results_page": 1, "start": 0, "user_id": row["page_id"] // 9}
            more |= {"in_view": int(row["click"] or rng.random() < 0.8), "even": row["page_id"] % 2}
            more |= {"ad": int(rng.random() < 0.1)}
            more |= {"bought": int(row["click"] and rng.random() < 0.3)}
            row |= {**more, "revenue": 2.5 * more["bought"]}
        tiny_model.write_csv(log, stock / "log.csv")
        bias = [{"position": place, "mean": share} for place, share in enumerate(BIAS, 1)]
        tiny_model.write_csv(bias, stock / "bias.csv")
        tiny_model.write_csv(feature_rows(rng, "numbers"), stock / "features.csv")
        for name, order in (("new", (4, 3, 2)), ("old", (0, 1, 2))):
            rows = [
                {"query_id": f"query_{query}", "doc_id": doc, "position": place}
                for query in range(tiny_model.QUERIES)
                for place, doc in enumerate(order, 1)
            ]
            tiny_model.write_csv(rows, stock / f"{name}.csv")
        pages = b"q\ta b\ta\n" * 50
        packed = gzip.compress(pages, mtime=0)
        odd = {"truncated": packed[:20], "plain": pages, "bytes": gzip.compress(b"q\t\xff b\t\n")}
        for name, content in odd.items():
            (stock / name).mkdir()
            (stock / name / "train.tsv.gz").write_bytes(content)
            (stock / name / "test.tsv.gz").write_bytes(packed)
        tiny_model.fit(stock, "log.csv", "--out", "model")
        tiny_model.fit(stock, "log.csv", "--out", "other", "--where", "day > '2026-01-01'")
        tiny_model.fit(stock, "log.csv", "--out", "featured", "--features", "features.csv")

    def size(self, stock: Path) -> int:
        """As asked for."""
        return self.cases

    def run(self, case: Case) -> Result:
        """Call one verb."""
        rng = case.rng
        weights = [1 if calls.is_slow else 3 for calls in VERBS.values()]
        (verb,) = rng.choices(list(VERBS), weights)
        calls = VERBS[verb]
        attacks = chosen(rng, calls)
        words = [*calls.base, *(word for attack in attacks for word in attack.words)]
        added = [word for attack in attacks for word in attack.words]
        ended = call(
            *(word.format(case.stock) if "{}" in word else word for word in words),
            folder=case.folder,
        )
        must = "may"
        if any(attack.must == "fail" for attack in attacks):
            must = "fail"
        elif all(attack.must == "work" for attack in attacks):
            must = "work"
        outcome = judged(ended, case.folder, must, added)
        return Result(verb, f"{' '.join(added)!r}", *outcome)


def chosen(rng: Random, calls: VerbCalls) -> list[Attack]:
    """One thing to add, sometimes two of which at most one must work."""
    kinds = ["work"] * 2 + ["fail"] * 3 + ["may"] * 2
    if calls.is_slow:
        kinds = ["work"] + ["fail"] * 4
    by_kind = {kind: [a for a in calls.attacks if a.must == kind] for kind in set(kinds)}
    kind = rng.choice([kind for kind in kinds if by_kind[kind]])
    first = rng.choice(by_kind[kind])
    if kind == "work" or rng.random() < 0.8:
        return [first]
    names = {word for word in first.words if word.startswith("--")}
    others = [each for each in calls.attacks if each.must != "work" and not names & {*each.words}]
    return [first, rng.choice(others)] if others and not calls.is_slow else [first]


def judged(ended: Ended, folder: Path, must: str, added: list[str]) -> tuple[str, str]:
    """Outcome of a call, and why it failed."""
    if ended.fault:
        return "failed", ended.fault
    left = sorted(path.name for path in folder.iterdir())
    if ended.code == 2:
        if left:
            return "failed", f"refused, but these were left: {left}"
        if must == "work":
            return "failed", f"refused: {ended.err[-400:]}"
        return "refused", ""
    if ended.code == 1 and not any(word in GATES for word in added):
        return "failed", f"exit code 1: {ended.err[-400:]}"
    if must == "fail":
        return "failed", f"accepted, and printed {ended.out[:200]!r}"
    if any(name.startswith(".") and "epiclick" in name for name in left):
        return "failed", f"temporary files were left: {left}"
    if "--json" in added and ended.out:
        try:
            json.loads(ended.out)
        except ValueError:
            return "failed", f"not JSON: {ended.out[:300]!r}"
    return "accepted", ""
