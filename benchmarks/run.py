"""Run every benchmark and print one JSON object; `make bench`."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = ("counting", "letor", "simulate")


def main() -> None:
    results: dict[str, object] = {}
    for name in BENCHMARKS:
        print(f"== {name}", file=sys.stderr)
        script = Path(__file__).with_name(f"{name}.py")
        done = subprocess.run(
            [sys.executable, script], check=True, stdout=subprocess.PIPE, text=True
        )
        results[name] = json.loads(done.stdout)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
