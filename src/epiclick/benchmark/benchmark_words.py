"""A benchmark in words, made from its numbers: who wins, and where that may be chance."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from epiclick.benchmark.benchmark_results import (
    BenchmarkDifference,
    BenchmarkResults,
    BenchmarkRow,
    DatasetResults,
    Place,
)
from epiclick.benchmark.cell_scores import METRICS
from epiclick.benchmark.versions import OURS

OUTCOMES = {1: "better", 0: "not distinguishable", -1: "worse"}
JUDGED = ("log_likelihood", "ndcg")
"""Metrics that are put in words; tables have all of them."""

REFERENCE = "pbm"  # whose time other models are compared with


def dataset_sentences(found: DatasetResults) -> list[str]:
    """The reading of one data set."""
    return [
        *(sentence for metric in JUDGED for sentence in _winner(found, metric)),
        *(sentence for metric in JUDGED for sentence in _against_others(found, metric)),
        *_impossible(found.rows),
        *_times(found.rows),
    ]


def overall_sentences(results: BenchmarkResults) -> list[str]:
    """Our fits against each other version, over all data sets."""
    sentences = []
    for metric in JUDGED:
        versions = dict.fromkeys(each.other[1] for d in results.datasets for each in d.from_ours)
        for version in versions:
            judged = [
                (found.name, each)
                for found in results.datasets
                for each in found.from_ours
                if (each.metric, each.other[1]) == (metric, version)
            ]
            if judged:
                sentences.append(_overall(METRICS[metric].title, version, judged))
    return sentences


def _overall(title: str, version: str, judged: Sequence[tuple[str, BenchmarkDifference]]) -> str:
    numbers = {sign: sum(each.better == sign for _, each in judged) for sign in OUTCOMES}
    worse = [f"{each.one[0]} on {name}" for name, each in judged if each.better < 0]
    listed = f" ({', '.join(worse)})" if worse else ""
    return (
        f"{OURS} against {version}, by {title}: better in {numbers[1]} of {len(judged)} "
        f"comparisons, not distinguishable in {numbers[0]}, worse in {numbers[-1]}{listed}."
    )


def _winner(found: DatasetResults, metric: str) -> Iterator[str]:
    best = found.best(metric)
    if best is None:
        return
    own = METRICS[metric]
    place = (best.model, best.version)
    equal = [each.one for each in found.from_best if each.metric == metric and each.better == 0]
    value = best.scores[metric]
    assert value is not None
    also = (
        f" Not distinguishable from it: {_places(equal)}."
        if equal
        else " All others that were scored are worse."
    )
    yield f"Best by {own.title}: {_places([place])}, {value:.{own.digits}f}.{also}"


def _against_others(found: DatasetResults, metric: str) -> Iterator[str]:
    for version in dict.fromkeys(each.other[1] for each in found.from_ours):
        by_outcome: dict[int, list[str]] = {}
        for each in found.from_ours:
            if (each.metric, each.other[1]) == (metric, version):
                by_outcome.setdefault(each.better, []).append(each.one[0])
        if by_outcome:
            parts = [
                f"{OUTCOMES[s]} for {', '.join(by_outcome[s])}" for s in OUTCOMES if s in by_outcome
            ]
            yield f"{OURS} against {version}, by {METRICS[metric].title}: {'; '.join(parts)}."


def _impossible(rows: Iterable[BenchmarkRow]) -> Iterator[str]:
    ruled_out: dict[tuple[str, int], list[str]] = {}
    for row in rows:
        if row.impossible:
            ruled_out.setdefault((row.model, row.impossible), []).append(row.version)
    for (model, pages), versions in ruled_out.items():
        yield (
            f"{model} ({', '.join(versions)}) gives {pages:,} held-out "
            f"page{'' if pages == 1 else 's'} probability 0, so their clicks are not scored."
        )


def _times(rows: Iterable[BenchmarkRow]) -> Iterator[str]:
    own: Mapping[str, BenchmarkRow] = {row.model: row for row in rows if row.version == OURS}
    if REFERENCE not in own or len(own) < 2:
        return
    base = own[REFERENCE]
    ratios = [
        f"{row.model} {row.processor_seconds / base.processor_seconds:.1f} "
        f"({row.process_seconds / base.process_seconds:.1f})"
        for row in own.values()
        if row is not base
    ]
    yield (
        f"Processor seconds of {OURS} as a multiple of its {REFERENCE} "
        f"({base.processor_seconds:.2f} s; in brackets of whole processes, "
        f"{base.process_seconds:.1f} s): {', '.join(ratios)}."
    )


def _places(places: Iterable[Place]) -> str:
    return ", ".join(f"{model} ({version})" for model, version in places)
