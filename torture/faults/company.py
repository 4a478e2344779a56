"""Campaign: others at work at the same time, on inputs, outputs, caches, and in one process."""

from pathlib import Path
from typing import ClassVar

from torture.campaign import Campaign, Case, Result
from torture.faults.changing import LOG_CHANGED, changed_input, changed_log, prepare_inputs
from torture.faults.faults import Faults
from torture.faults.python_use import USES, WAYS, in_python
from torture.faults.two_calls import (
    WRITERS,
    one_cache,
    one_checkpoint,
    one_folder,
    one_output,
    prepare_calls,
)

KINDS = {
    **dict.fromkeys(range(8), changed_log),
    **dict.fromkeys(range(8, 12), changed_input),
    **dict.fromkeys(range(12, 17), one_output),
    17: one_cache,
    18: one_checkpoint,
}
"""What cases do, by their number modulo the length."""


class Company(Campaign):
    """Changed inputs, two writers, threads and processes."""

    name = "company"
    floors: ClassVar = {
        **{verb.name: 0.2 for verb in WRITERS if not verb.slow},
        **{f"Python: {use}": 1.0 for use in USES},
    }
    ceilings: ClassVar = {LOG_CHANGED: 0.3}

    def __init__(self, cases: int) -> None:
        """Run this many cases of calls, and some more of folders and of Python."""
        self.cases = cases

    def prepare(self, stock: Path) -> None:
        """Inputs and answers of all verbs, as for faults."""
        Faults().prepare(stock)
        prepare_inputs(stock)
        prepare_calls(stock)

    def size(self, stock: Path) -> int:
        """Calls, every twentieth of which is followed by a case that takes longer."""
        return self.cases

    def run(self, case: Case) -> Result:
        """Run one case."""
        if case.number % 20 == 19:
            turn = case.number // 20
            return one_folder(case) if turn % 4 == 3 else in_python(case, turn - turn // 4)
        return KINDS[case.number % 20](case)


assert len(WAYS) == 32
