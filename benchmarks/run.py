"""Run every benchmark, or those named, and print one JSON object; `make bench`.

Those that take long, much disk or extra data run only with --full, or by name.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = (
    "waiting",
    "counting",
    "two_tables",
    "letor",
    "simulate",
    "estimators",
    "training",
    "posterior",
    "comparison",
    "click_models",
)
FULL = ("training",)  # those that accept --full
LONG = (
    "distributed",
    "streaming",
    "engines",
    "peers",
    "real_pages",
    "selection",
    "misfit",
)  # run only with --full, or by name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        help=f"some of {', '.join((*BENCHMARKS, *LONG))}; default: all but {', '.join(LONG)}",
    )
    parser.add_argument(
        "--full", action="store_true", help="include those that take long or much disk"
    )
    given = parser.parse_args()
    known = (*BENCHMARKS, *LONG)
    unknown = set(given.names) - set(known)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(known)}")
    results: dict[str, object] = {}
    for name in given.names or (known if given.full else BENCHMARKS):
        print(f"== {name}", file=sys.stderr)
        command = [sys.executable, str(Path(__file__).with_name(f"{name}.py"))]
        if given.full and name in FULL:
            command.append("--full")
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        results[name] = json.loads(done.stdout)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
