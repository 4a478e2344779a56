"""Run campaigns: python -m torture --out FOLDER (resumes a run that is there)."""

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"  # threads do not survive a fork; set before numpy is loaded

from torture.campaign import Campaign, Run, Summary
from torture.campaigns import campaigns, quick_campaigns
from torture.program import forked, load_library
from torture.reliability import table


def main() -> int:
    """Run campaigns, or parts of them; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("torture-run"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="those of the tests")
    parser.add_argument("--cases", type=int, help="of each campaign, spread evenly; default all")
    parser.add_argument("--campaigns", default="", help="names, separated by commas")
    parser.add_argument("--case", type=int, help="run this one again, and print its result")
    parser.add_argument("--summary", action="store_true", help="print the table only")
    given = parser.parse_args()
    known = quick_campaigns() if given.quick else campaigns()
    chosen = [c for c in known if not given.campaigns or c.name in given.campaigns.split(",")]
    run = Run(given.out.absolute(), given.seed)
    if given.summary:
        return summarised(run, chosen)
    # Python warns of forks in a process with threads, which libraries may have started
    warnings.simplefilter("ignore", DeprecationWarning)
    load_library()
    if given.case is not None:
        print(run.run(chosen[0], given.case))
        return 0
    for campaign in chosen:
        print(f"== {campaign.name}", file=sys.stderr, flush=True)
        # before the cases, so that only one process makes what they share
        if not ended_well([forked(partial(prepare, run, campaign))]):
            sys.exit(f"the campaign {campaign.name} could not be prepared")
        numbers = spread(campaign.size(run.stock(campaign)), given.cases)
        shards = [
            forked(partial(run.finish, campaign, numbers[part :: given.jobs], f".{part}"))
            for part in range(given.jobs)
        ]
        if not ended_well(shards):
            return 1
    return summarised(run, chosen)


def prepare(run: Run, campaign: Campaign) -> None:
    """Make what the cases share."""
    run.stock(campaign)


def ended_well(processes: Sequence[int]) -> bool:
    """Wait for processes; whether all have done their work."""
    statuses = [os.waitpid(process, 0)[1] for process in processes]
    return not any(statuses)


def spread(size: int, wanted: int | None) -> list[int]:
    """Numbers of so many of the cases."""
    if wanted is None or wanted >= size:
        return list(range(size))
    return [number * size // wanted for number in range(wanted)]


def summarised(run: Run, chosen: list[Campaign]) -> int:
    """Print what was found."""
    sizes = [campaign.size(run.stock(campaign)) for campaign in chosen]
    summaries = [
        Summary.of(campaign, run.ledger(campaign), size)
        for campaign, size in zip(chosen, sizes, strict=True)
    ]
    print(table(summaries, run.seed))
    for summary in summaries:
        for number, result in summary.failures[:20]:
            print(
                f"{summary.name} {number}: {result.verb}, {result.what}: {result.why}",
                file=sys.stderr,
            )
        for verb, share in summary.outside.items():
            print(f"{summary.name}: {share:.0%} of {verb} were accepted", file=sys.stderr)
    return int(any(summary.failures or summary.outside for summary in summaries))


if __name__ == "__main__":
    sys.exit(main())
