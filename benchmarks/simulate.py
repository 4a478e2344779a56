"""Time of simulating a world by stage, by default in the paper's setting; prints JSON."""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from epiclick.simulate import world, world_items

STAGES = {  # functions that `simulate` calls, in order, by the module where it looks them up
    "rankings": (world_items, "make_items"),
    "relevance": (world, "draw_relevance"),
    "policy": (world, "logging_scores"),
    "clicks": (world, "show_pages"),
}


def timed(
    function: Callable[..., Any], stage: str, seconds: dict[str, float]
) -> Callable[..., Any]:
    """The function, wrapped to record its seconds."""

    def measured(*args: Any, **options: Any) -> Any:
        start = time.perf_counter()
        result = function(*args, **options)
        seconds[stage] = time.perf_counter() - start
        return result

    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--docs", type=int, default=100)
    parser.add_argument("--features", type=int, default=136)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--positions", type=int, default=5)
    parser.add_argument("--relevance", default="label")
    parser.add_argument("--users", default="pbm")
    settings = vars(parser.parse_args())

    seconds: dict[str, float] = {}
    start = time.perf_counter()
    for stage, (module, name) in STAGES.items():
        setattr(module, name, timed(getattr(module, name), stage, seconds))
    simulated = world.simulate(**settings)
    with tempfile.TemporaryDirectory() as folder:
        timed(simulated.save, "save", seconds)(Path(folder) / "world")
        megabytes = sum(f.stat().st_size for f in Path(folder).rglob("*.*")) / 1e6
    seconds["total"] = time.perf_counter() - start
    print(
        json.dumps(
            {
                "settings": settings,
                "seconds": {stage: round(value, 2) for stage, value in seconds.items()},
                "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                "files_mb": round(megabytes, 1),
                "displays": simulated.log.num_rows,
            }
        )
    )


if __name__ == "__main__":
    main()
