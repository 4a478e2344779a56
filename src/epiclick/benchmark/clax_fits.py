"""CLAX's click models in a benchmark, fitted by a Python in whose environment CLAX is installed."""

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from epiclick.benchmark.benchmark_cells import CellResult
from epiclick.benchmark.cell_scores import displays_of, score_cell
from epiclick.benchmark.page_data import BenchmarkData
from epiclick.evaluation.page_chances import PageChances

CLAX = "clax"
MODELS = ("pbm", "ubm", "cascade", "dcm", "sdbn", "dbn", "ccm")
SIDE = Path(__file__).with_name("clax_side.py")
RELEASE = "from importlib.metadata import version; import clax; print(version('clax-models'))"
SECONDS = 1_800

FLOOR = 1e-7
"""CLAX gives clicks that a model rules out a probability of 1e-8; here they are impossible."""


class PeerError(Exception):
    """CLAX is not available, or a fit failed; with the reason."""


@dataclass(frozen=True)
class Clax:
    """An environment of CLAX.

    Attributes:
        python: its interpreter.
        release: of CLAX.
    """

    python: Path
    release: str

    @classmethod
    def at(cls, python: Path) -> "Clax":
        """The environment of an interpreter; PeerError if CLAX cannot be imported in it."""
        return cls(python, _run([str(python), "-c", RELEASE]).split()[-1])

    def measure(self, path: Path, model: str) -> CellResult:
        """Fit one of its models to the data in a file, in a process of its own, and score it."""
        data = BenchmarkData.load(path)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "predicted.npz"
            # -P: modules next to the script must not hide those of the environment
            printed = _run([str(self.python), "-P", str(SIDE), str(path), model, str(out)])
            with np.load(out, allow_pickle=False) as found:
                given, marginal = (found[name].astype(float) for name in ("given", "marginal"))
                relevance = found["relevance"].astype(float)
        record = json.loads(printed.splitlines()[-1])
        chances = PageChances(*(np.where(p <= FLOOR, 0.0, p) for p in (given, marginal)))
        scores = score_cell(data, displays_of(data, chances), relevance)
        return CellResult(
            scores,
            record["processor_seconds"],
            record["process_seconds"],
            record["peak_memory"],
            (f"{record['epochs']} epochs",),
        )


def _run(command: list[str]) -> str:
    """What a command prints; PeerError with the last line of its errors if it fails."""
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
    except OSError as error:
        raise PeerError(str(error)) from error
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"it took more than {SECONDS} seconds") from error
    except subprocess.CalledProcessError as error:
        lines = [line.strip() for line in error.stderr.splitlines() if line.strip()]
        raise PeerError(lines[-1] if lines else f"exit code {error.returncode}") from error
    return done.stdout
