"""A run of `epiclick fit`: its place, and its checkpoint until the model is written there."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from epiclick.cli.out_file import check_writable
from epiclick.cli.output import note
from epiclick.cli.telling import Interrupted
from epiclick.errors import InputError

if TYPE_CHECKING:
    from epiclick.api import BaseModel


def check_model_out(
    out: Path, inputs: Sequence[str], init: Path | None, *, overwrite: bool
) -> None:
    """Refuse, before any work, a folder that cannot be written, or what is read there would harm.

    A model is replaced only where that is asked for, also by one that starts from it: the model to
    start from is read before, and replaced whole.
    """
    from epiclick.data.files import find_files
    from epiclick.models.storage import check_replaceable

    place = out.resolve()
    for file in map(Path.resolve, find_files(inputs)):
        if file.is_relative_to(place):
            raise InputError(f"--out {out} would replace {file}, which is read; name another")
    folders = [Path(path).resolve() for path in inputs if Path(path).is_dir()]
    if init is not None and init.resolve() != place:
        folders.append(init.resolve())
    for folder in folders:
        if place.is_relative_to(folder):
            raise InputError(f"--out {out} lies in {folder}, which is read; name another place")
    if check_replaceable(out) and not overwrite:
        raise InputError(
            f"--out {out} holds a model; give --overwrite to replace it, or name another folder"
        )
    check_writable(out)


def find_checkpoint(out: Path, *, resume: bool, quiet: bool) -> Path:
    """Where the run is kept until its model is written; tells of a run that was stopped."""
    from epiclick.training.checkpoint import unfinished

    checkpoint = unfinished(out.absolute())
    if resume and not checkpoint.exists():
        raise InputError(
            f"there is no checkpoint {checkpoint} to resume from; start anew without --resume"
        )
    if checkpoint.exists() and not resume:
        note(
            f"{checkpoint} is of a run that was stopped; this one starts anew and overwrites it "
            "(--resume would go on with it)",
            quiet=quiet,
        )
    return checkpoint


@contextmanager
def kept_for_resume(out: Path, checkpoint: Path, *, resume: bool) -> Iterator[None]:
    """Say at Ctrl-C how to go on, if a checkpoint of this run was written."""
    earlier = None if resume else _written(checkpoint)
    try:
        yield
    except KeyboardInterrupt as stop:
        if _written(checkpoint) in (None, earlier):
            raise
        raise Interrupted(
            f"{out} was not written, and the run is kept in {checkpoint}. "
            "To go on, give the same command again with --resume."
        ) from stop


def save(model: "BaseModel", out: Path, checkpoint: Path) -> None:
    """Write the model; if that fails, say that nothing needs to be learned again."""
    try:
        model.save(out)
    except InputError as error:
        raise InputError(
            f"{error}\nThe run is kept in {checkpoint}: the same command with --resume writes the "
            "model without training again."
        ) from error


def _written(file: Path) -> int | None:
    return file.stat().st_mtime_ns if file.exists() else None
