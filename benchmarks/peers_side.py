"""Shared code of all sides of the peer benchmark; needs only numpy.

A side is a script that fits one model to the pages of a folder in its own process and environment.
It writes a record (JSON) and the click probabilities of the test pages (npy).
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PARTS = ("train", "valid", "test")
HIDDEN = (64, 64, 32)


@dataclass(frozen=True, eq=False)
class Pages:
    """Result pages, all of one length.

    Attributes:
        pair: (pages, positions) row of the item shown, among all (query, doc) pairs.
        click: (pages, positions) 0 or 1.
    """

    pair: np.ndarray
    click: np.ndarray

    def __len__(self) -> int:
        """Number of pages."""
        return len(self.pair)

    @property
    def positions(self) -> np.ndarray:
        """(pages, positions) of each display, from 1."""
        return np.broadcast_to(np.arange(1, self.pair.shape[1] + 1), self.pair.shape)

    def save(self, path: Path) -> None:
        """Write the pages to a file."""
        np.savez(path, pair=self.pair, click=self.click)

    @classmethod
    def load(cls, path: Path) -> "Pages":
        """Read the pages written by `save`."""
        with np.load(path) as stored:
            return cls(stored["pair"], stored["click"])


@dataclass(frozen=True)
class Fit:
    """Arguments of a side.

    Attributes:
        folder: of the data: features.npy, scaled.npy, query.npy and the pages of PARTS.
        out: the record and the probabilities are written to this path with .json and .npy.
        model: name of the side's model.
        ids: identify items by their ids, without features.
        epochs: maximum; the side's own default if None.
        seed: for all randomness of the fit.
    """

    folder: Path
    out: Path
    model: str
    ids: bool
    epochs: int | None
    seed: int

    def pages(self, part: str) -> Pages:
        """The pages of one of PARTS."""
        return Pages.load(self.folder / f"{part}.npz")

    def features(self, *, scaled: bool = False) -> np.ndarray:
        """(pairs, features) float32, raw or scaled for a network."""
        return np.load(self.folder / ("scaled.npy" if scaled else "features.npy"))

    def query(self) -> np.ndarray:
        """(pairs,) query of each pair."""
        return np.load(self.folder / "query.npy")

    def command(self) -> list[str]:
        """The command-line arguments that `parse_fit` reads."""
        given = [str(self.folder), str(self.out), "--model", self.model, "--seed", str(self.seed)]
        if self.ids:
            given.append("--ids")
        return given if self.epochs is None else [*given, "--epochs", str(self.epochs)]

    def write(self, probability: np.ndarray | None, **record: Any) -> None:
        """Write the record, with the peak memory so far, and (pages, positions) probabilities."""
        if probability is not None:
            np.save(self.out.with_suffix(".npy"), probability)
        self.out.with_suffix(".json").write_text(json.dumps({**record, "peak_gb": peak_gb()}))


def parse_fit() -> Fit:
    """The fit described by the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--ids", action="store_true")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    return Fit(**vars(parser.parse_args()))


def peak_gb() -> float:
    """Largest resident size of this process in GB.

    `getrusage` would return that of the parent process, if it was larger.
    """
    status = Path("/proc/self/status").read_text()
    return int(next(row.split()[1] for row in status.splitlines() if "VmHWM" in row)) * 1024 / 1e9


def fitted_now() -> dict[str, float]:
    """Wall-clock time at the end of the fit, and its processor seconds."""
    return {"fitted_at": time.time(), "processor_seconds": time.process_time()}


def epoch_seconds_of(ends: list[float]) -> float | None:
    """Median seconds per epoch without the first, which compiles, from the times epochs ended."""
    return float(np.median(np.diff(ends))) if len(ends) > 1 else None
