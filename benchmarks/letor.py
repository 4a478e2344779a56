"""Time to read LETOR text, first and second start, against scikit-learn's parser in the same run.

The file repeats the MSLR sample (`../shared/data/mslr`, or synthetic rows of its shape) with fresh
query ids. Every measurement runs in its own process, imports included. Prints one JSON object.
"""

import argparse
import gzip
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

SAMPLE = Path(__file__).resolve().parents[2] / "shared" / "data" / "mslr" / "train.txt.gz"

SCIKIT_LEARN = """
from sklearn.datasets import load_svmlight_file
rows = load_svmlight_file({path!r}, query_id=True)[0].shape[0]
"""
WITHOUT_QUERIES = SCIKIT_LEARN.replace("True", "False")  # avoids its copy of all qids per row
EPICLICK = """
import epiclick
table = epiclick.read_letor({path!r})
rows = len(table) if float(table.matrix[len(table) // 2].sum()) else 0
"""
TIMED = """
import json, resource, sys, time
began = time.perf_counter()
{code}
seconds = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
sys.stdout.write(json.dumps([seconds, rows, peak]))
"""


def sample_text(seed: int = 0) -> tuple[str, bytes]:
    """The source of the rows, and the rows."""
    if SAMPLE.exists():
        return "MSLR sample", gzip.decompress(SAMPLE.read_bytes())
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((10_000, 136)) < 0.4, 0, rng.lognormal(2, 3, (10_000, 136)))
    lines = [
        f"{i % 5} qid:{i // 100 + 1} " + " ".join(f"{j}:{x:.6g}" for j, x in enumerate(row, 1))
        for i, row in enumerate(values)
    ]
    return "synthetic rows", ("\n".join(lines) + "\n").encode()


def write_repeated(path: Path, text: bytes, megabytes: int) -> None:
    """Repeat the rows, each time with new query ids."""
    fresh = max(int(query) for query in re.findall(rb"qid:(\d+)", text)) + 1
    with path.open("wb") as file:
        for times in range(-(-megabytes * 10**6 // len(text))):
            file.write(
                re.sub(rb"qid:(\d+)", lambda m, t=times: b"qid:%d" % (int(m[1]) + t * fresh), text)
            )


def measure(code: str, path: Path, cache: Path) -> tuple[float, int, float]:
    """Seconds, rows and peak memory (MB) of running some code in a new process."""
    program = TIMED.format(code=code.format(path=str(path)))
    environment = {"EPICLICK_CACHE": str(cache), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    seconds, rows, peak = json.loads(done.stdout)
    return seconds, rows, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=300, help="size of the file")
    parser.add_argument(
        "--repeats", type=int, default=1, help="alternating runs; medians are reported"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        rows_from, text = sample_text()
        write_repeated(path, text, arguments.mb)
        contenders = {
            "sklearn": SCIKIT_LEARN,
            "without_queries": WITHOUT_QUERIES,
            "first": EPICLICK,
            "second": EPICLICK,
        }
        runs: dict[str, list[tuple[float, int, float]]] = {name: [] for name in contenders}
        for i in range(arguments.repeats):
            for name, code in contenders.items():
                runs[name].append(measure(code, path, Path(folder) / f"cache{i}"))
        megabytes = path.stat().st_size / 10**6
    (rows,) = {rows for measured in runs.values() for _, rows, _ in measured}
    seconds = {name: statistics.median(run[0] for run in runs[name]) for name in runs}
    print(
        json.dumps(
            {
                "rows_from": rows_from,
                "mb": round(megabytes, 1),
                "rows": rows,
                "sklearn_seconds": round(seconds["sklearn"], 2),
                "sklearn_without_queries_seconds": round(seconds["without_queries"], 2),
                "first_start_seconds": round(seconds["first"], 2),
                "second_start_seconds": round(seconds["second"], 3),
                "speed_against_sklearn": round(seconds["sklearn"] / seconds["first"], 2),
                "speed_against_sklearn_without_queries": round(
                    seconds["without_queries"] / seconds["first"], 2
                ),
                "sklearn_peak_mb": round(max(run[2] for run in runs["sklearn"])),
                "first_start_peak_mb": round(max(run[2] for run in runs["first"])),
            }
        )
    )


if __name__ == "__main__":
    main()
