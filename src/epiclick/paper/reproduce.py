"""The paper's experiments, cell by cell, on one process or several, to a table of results."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from epiclick.errors import InputError
from epiclick.paper.cells import Cell, Share, all_cells, claim_folder, merge, share_of
from epiclick.paper.progress import Watcher, watcher
from epiclick.paper.results import Results
from epiclick.paper.settings import Settings
from epiclick.paper.variants import choose_methods
from epiclick.paper.workers import run_apart
from epiclick.processes import available_cores

RESULTS = "results.parquet"


def reproduce(
    settings: Settings,
    folder: str | Path,
    path: str | Path | None = None,
    *,
    share: Share | None = None,
    jobs: int | None = None,
    progress: bool = True,
) -> Results | None:
    """Do all cells that are not done yet; results are the same however often that was stopped.

    Args:
        settings: what is measured; all methods unless it names some.
        folder: where cells are kept; one that was begun with the same settings is gone on with.
        path: LETOR data, unless they are synthetic.
        share: the part of the cells to do; all unless told.
        jobs: processes; as many as cores, or as cells if they are fewer, unless told. Numbers
            may differ in their last digits with the cores that a process has.
        progress: show a table of the cells under way, on a terminal.

    Returns:
        What was measured, or None where cells of other shares are not done yet.
    """
    folder = Path(folder)
    settings = replace(settings, methods=settings.methods or choose_methods())
    settings.check()
    settings = with_data(settings, path)
    claim_folder(folder, settings)
    cells = all_cells(settings)
    mine = share_of(cells, share or Share())
    left = [cell for cell in mine if not cell.files(folder).done]
    # by all cells of the share, not those left: a run that goes on must have the same cores
    jobs = jobs or max(1, min(len(available_cores()), len(mine)))
    with watcher(left, settings.epochs, shown=progress) as told:
        if jobs > 1:
            run_apart(left, settings, None if path is None else str(path), folder, jobs, told)
        elif left:
            _run_here(left, settings, path, folder, told)
    if any(not cell.files(folder).done for cell in cells):
        return None
    results = merge(folder, settings)
    results.save(folder / RESULTS)
    return results


def with_data(settings: Settings, path: str | Path | None) -> Settings:
    """The settings with a digest of the data that lie at a path."""
    if settings.dataset == "synthetic":
        if path is not None:
            raise InputError(
                "synthetic data have no path; name the dataset, mslr, istella or letor"
            )
        return settings
    if path is None:
        raise InputError(f"where are the data of {settings.dataset}? Give their folder with --path")
    from epiclick.paper.worlds import digest_items, read_items

    digest = digest_items(read_items(path))
    return replace(settings, data=digest, queries=None, docs=None, features=None)


def _run_here(
    cells: list[Cell],
    settings: Settings,
    path: str | Path | None,
    folder: Path,
    told: Watcher,
) -> None:
    """Do cells in this process, one after the other."""
    from epiclick.paper.cell import run_cell
    from epiclick.paper.worlds import make_bench

    bench = make_bench(settings, path)
    for cell in cells:
        run_cell(bench, cell.variant, cell.run, folder, partial(told.epoch, cell))
        told.done(cell)
