"""Small files of every kind that epiclick writes, made by its own verbs."""

import gzip
import signal
from collections.abc import Iterable
from pathlib import Path
from random import Random

from torture.program import Ended, call

WORLD = "--queries 24 --docs 5 --features 3 --pages 500 --positions 3 --relevance beta"
FEATURED = "--features world/features.parquet --epochs 3 --hidden 4"
RANKERS = "--ranking a=world/features.parquet:f1 --ranking b=world/features.parquet:f2"

COMMANDS = (
    f"simulate --out world {WORLD}",
    f"simulate --out shop {WORLD} --users sdbn --conversions",
    "count world/clicks.parquet --out counts.parquet",
    "count shop/clicks.parquet --out parts.parquet --part purchase --cluster page",
    "fit counts.parquet --out model",
    f"fit counts.parquet --out featured {FEATURED}",
    f"fit counts.parquet --out pointwise {FEATURED} --estimator pointwise",
    "fit shop/clicks.parquet --out buying --conversion purchase --value revenue",
    "fit shop/clicks.parquet --out dcm --click-model dcm",
    "fit shop/clicks.parquet --out sdbn --click-model sdbn",
    "select world/clicks.parquet --models pbm,ubm --out selection.json",
    "relevance featured --features world/features.parquet --out relevance.parquet",
    f"interleave {RANKERS} --depth 3 --pages-per-query 4 --out pages.parquet",
)


def make(commands: Iterable[str], folder: Path) -> None:
    """Run commands in a folder; each must succeed."""
    for command in commands:
        succeeded(call(*command.split(), "--quiet", folder=folder), command)


def succeeded(ended: Ended, command: str) -> Ended:
    """How a call ended that must succeed."""
    assert ended.code == 0, f"{command}: {ended.err or ended.code}"
    return ended


def make_page_files(folder: Path, pages: int = 60) -> None:
    """Pages for `epiclick benchmark --data`."""
    folder.mkdir()
    rng = Random(0)
    for name in ("train", "test"):
        lines = []
        for _ in range(pages):
            shown = [str(each) for each in rng.sample(range(5), 3)]
            clicked = [each for at, each in enumerate(shown, 1) if rng.random() < 0.6 / at]
            lines.append(f"{rng.randrange(4)}\t{' '.join(shown)}\t{' '.join(clicked)}\n")
        (folder / f"{name}.tsv.gz").write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def make_letor(path: Path, queries: int = 12) -> None:
    """A LETOR file with a few features."""
    rng = Random(0)
    path.write_text(
        "".join(
            f"{rng.randrange(5)} qid:{query} 1:{rng.random():.4f} 2:{rng.random():.4f} "
            f"3:{rng.random():.4f}\n"
            for query in range(queries)
            for _ in range(4)
        )
    )


def stop_after_first_checkpoint() -> None:
    """Make a fit in this process be killed once it has written a checkpoint."""
    import os

    from epiclick.training.checkpoint import Checkpoint

    keep = Checkpoint.keep

    def kept(self: Checkpoint, *given: object) -> None:
        keep(self, *given)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)

    Checkpoint.keep = kept  # type: ignore[method-assign]
