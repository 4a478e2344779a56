"""The page of a benchmark, in Markdown: a table for each data set, and its reading in words."""

from collections.abc import Iterator

from epiclick.benchmark.benchmark_results import (
    BenchmarkDifference,
    BenchmarkResults,
    BenchmarkRow,
    DatasetResults,
)
from epiclick.benchmark.benchmark_words import dataset_sentences, overall_sentences
from epiclick.benchmark.cell_scores import METRICS
from epiclick.benchmark.clax_fits import CLAX
from epiclick.benchmark.versions import OURS, VERSIONS

COMPARED = ("log_likelihood", "ndcg")
"""Metrics whose differences have a column; all differences are in `results.json`."""


COMMAND = """```sh
epiclick benchmark --out B --data yandex-pages --mslr mslr --clax build/peers/clax/bin/python
```

`--data` and `--mslr` name folders, `--clax` a Python in whose environment CLAX is installed. It
needs versions of jax and flax that epiclick does not use, so it gets an environment of its own:
`python benchmarks/run.py peers` makes one, with exact versions. Without `--clax` it is left out.
Finished fits are kept in `B/cells` and reused by the next run with the same settings; after a
change of the code, start with a new folder. `B/results.json` has all numbers.

Simulated pages come from epiclick's simulator, on which its defaults were chosen: that favours
epiclick. Its ranker knows something of relevance, so that rarely shown items tend to be worse;
epiclick's prior of relevance learns that from the log, while a pseudo-click and a pseudo-skip pull
such items towards 0.5. CLAX's `cascade` multiplies the probability of a click by that of reaching
the display even where the clicks above it are given, so its likelihood is that of its own
definition."""


def benchmark_page(results: BenchmarkResults) -> str:
    """The whole page."""
    parts = ["# Benchmark of click models", *_introduction(results)]
    parts += ["## Over all data sets", _overview(results), _listed(overall_sentences(results))]
    for found in results.datasets:
        parts += [f"## {found.title}", _sizes(found), _table(found)]
        parts.append(_listed(dataset_sentences(found)))
    return "\n\n".join([*parts, "## How it is measured", *_method(results), COMMAND]) + "\n"


def _overview(results: BenchmarkResults) -> str:
    """The best fit to each data set, by the compared metrics."""
    head = ["data set", *(f"best by {METRICS[name].title}" for name in COMPARED)]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---|" * len(COMPARED)]
    for found in results.datasets:
        best = [found.best(name) for name in COMPARED]
        cells = ["" if row is None else f"`{row.model}` (`{row.version}`)" for row in best]
        lines.append("| " + " | ".join([found.title, *cells]) + " |")
    return "\n".join(lines)


def _introduction(results: BenchmarkResults) -> Iterator[str]:
    yield (
        "Made by `epiclick benchmark`. Every click model is fitted to the same training pages and "
        "scored on the same held-out pages of the same queries, in these versions:"
    )
    versions = [f"- `{name}`: {each.what}." for name, each in VERSIONS.items()]
    if results.clax is not None:
        versions.append(
            f"- `{CLAX}`: CLAX {results.clax}, by ids, with the learning rate and early stopping "
            "that its authors publish; a tenth of the training pages is for early stopping."
        )
    yield "\n".join(versions)


def _method(results: BenchmarkResults) -> Iterator[str]:
    yield (
        "Log-likelihood is per display, **given the clicks above it** on its page. Perplexity is "
        "marginal, not given them; conditional perplexity is given them; both are means over "
        "ranks. nDCG@5 is that of the items of a query that training pages show, ranked by "
        "estimated relevance, against true relevance (or labels, gain 2^label - 1). Differences "
        f"are `{OURS}` minus the version of the row, with {results.level:.0%} intervals clustered "
        "by query; they do not include that other training pages would give other fits. Where the "
        "interval excludes 0, the difference is bold."
    )
    yield (
        "Every fit runs in a process of its own. Processor seconds count from training pages in "
        "memory to the fitted model, libraries loaded; memory is the largest resident size of the "
        "process (VmHWM), of which Python, libraries and data are a large part. Seconds vary with "
        "the load of the machine."
    )


def _sizes(found: DatasetResults) -> str:
    return ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in found.sizes.items()) + "."


def _table(found: DatasetResults) -> str:
    shown = [name for name in METRICS if any(row.scores[name] is not None for row in found.rows)]
    head = ["model", "version"]
    for name in shown:
        head += [METRICS[name].title, *([f"{OURS} minus this"] if name in COMPARED else [])]
    head += ["processor s", "peak MB"]
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "--:|" * (len(head) - 2)]
    lines += ["| " + " | ".join(_cells(found, row, shown)) + " |" for row in found.rows]
    return "\n".join(lines)


def _cells(found: DatasetResults, row: BenchmarkRow, shown: list[str]) -> list[str]:
    cells = [f"`{row.model}`", f"`{row.version}`"]
    for name in shown:
        metric, value = METRICS[name], row.scores[name]
        cells.append("-" if value is None else f"{value:.{metric.digits}f}")
        if name in COMPARED:
            cells.append(_difference(found.ours_minus(row.model, row.version, name), metric.digits))
    return [*cells, f"{row.processor_seconds:.2f}", f"{row.peak_mb:.0f}"]


def _difference(found: BenchmarkDifference | None, digits: int) -> str:
    if found is None:
        return ""
    mean, low, high = (f"{x:+.{digits}f}" for x in (found.difference, found.low, found.high))
    text = f"{mean} ({low} to {high})"
    return f"**{text}**" if found.better else text


def _listed(sentences: list[str]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)
