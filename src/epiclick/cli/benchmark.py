"""`epiclick benchmark`: click models, plain versions of them and peers on the same pages."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from epiclick.cli import console, options
from epiclick.click_models.registry import REGISTRY

if TYPE_CHECKING:
    from epiclick.benchmark.benchmark_results import BenchmarkResults, BenchmarkRow

PAGE, RESULTS = "README.md", "results.json"


def benchmark(
    out: Annotated[Path, Option(help="Folder for cells, page and results; runs resume from it.")],
    data: Annotated[
        list[Path] | None,
        Option(
            metavar="DIR",
            help="Folder with train.tsv.gz and test.tsv.gz, such as yandex-pages: query TAB ids "
            "TAB clicked ids. May be repeated.",
        ),
    ] = None,
    worlds: Annotated[
        str | None,
        Option(
            metavar="NAMES",
            help=f"Users of simulated worlds: some of {', '.join(REGISTRY)}; none for no world.",
            show_default="all",
        ),
    ] = None,
    mslr: Annotated[
        Path | None,
        Option(metavar="DIR", help="LETOR data with features and labels, for further worlds."),
    ] = None,
    models: Annotated[
        str | None,
        Option(
            metavar="NAMES",
            help=f"Click models: some of {', '.join(REGISTRY)}; with --clax also dbn, ccm.",
            show_default="all",
        ),
    ] = None,
    clax: Annotated[
        Path | None,
        Option(metavar="PYTHON", help="Python in whose environment CLAX is installed."),
    ] = None,
    level: Annotated[float, Option(help="Nominal coverage of intervals.")] = 0.9,
    seed: Annotated[int, Option(help="Random seed.")] = 0,
    quick: Annotated[bool, Option("--quick", help="Small worlds, for a first look.")] = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare click models with plain versions of them and with CLAX, on the same pages.

    Every fit runs in a process of its own. A run that was stopped resumes where it was.

    Example: epiclick benchmark --out B --data yandex-pages --worlds pbm,sdbn
    """
    console.check_folder(out)
    from epiclick.benchmark.benchmark_cells import CELLS
    from epiclick.benchmark.benchmark_worlds import FULL, QUICK, WORLDS
    from epiclick.benchmark.run_benchmark import DATA, MODELS, BenchmarkSettings, run_benchmark

    begun = (out / DATA).is_dir() and (out / CELLS).is_dir()
    console.check_own_files(out, (PAGE, RESULTS, CELLS, DATA), "benchmark", begun=begun)
    chosen = WORLDS if worlds is None else tuple(options.names_in(worlds))
    settings = BenchmarkSettings(
        worlds=() if chosen == ("none",) else chosen,
        data=tuple(data or ()),
        letor=mslr,
        models=MODELS if models is None else tuple(options.names_in(models)),
        size=QUICK if quick else FULL,
        clax=clax,
        level=level,
        seed=seed,
    )
    silent = quiet or as_json
    kept = f"Finished fits are kept in {out}. To resume, run the same command again."
    with console.keeps(kept, out), console.collect_warnings(quiet=silent) as warnings:
        results = run_benchmark(settings, out, progress=not silent)
        write(results, out)
    if as_json:
        console.print_json(console.json_safe({**results.to_dict(), "warnings": warnings}))
        return
    show(results)
    console.note(f"written to {out}: {PAGE}, {RESULTS}", quiet=quiet)


def write(results: "BenchmarkResults", out: Path) -> None:
    """Write the page and the results."""
    import json

    from epiclick.benchmark.benchmark_page import benchmark_page
    from epiclick.data.writing import written_aside

    record = {"schema_version": console.SCHEMA_VERSION, **console.json_safe(results.to_dict())}
    for name, text in (
        (RESULTS, json.dumps(record, indent=1) + "\n"),
        (PAGE, benchmark_page(results)),
    ):
        with written_aside(out / name) as aside:
            aside.write_text(text, encoding="utf-8")


def show(results: "BenchmarkResults") -> None:
    """Print a table for each data set, and the readings in words."""
    from epiclick.benchmark.benchmark_words import dataset_sentences, overall_sentences

    for found in results.datasets:
        console.print_table(
            found.title,
            ["model", "version", "log-likelihood", "perplexity", "nDCG@5", "seconds"],
            (_row(row) for row in found.rows),
            prose=["model", "version"],
        )
        console.print_text("\n".join(dataset_sentences(found)))
    console.print_text("\n".join(overall_sentences(results)))


def _row(row: "BenchmarkRow") -> list[str]:
    return [
        row.model,
        row.version,
        console.format_number(row.scores["log_likelihood"], 5),
        console.format_number(row.scores["perplexity"], 4),
        console.format_number(row.scores["ndcg"], 4),
        f"{row.processor_seconds:.2f}",
    ]
