"""Campaign: every verb under every fault of the machine, the streams and the surroundings.

It answers as it does undisturbed, or says with one message what failed; an earlier output stays as
it was, and nothing is left.
"""

import shutil
import sys
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from torture.campaign import Campaign, Case, Result
from torture.faults import machine_faults, output_names, signal_faults, stream_faults, surroundings
from torture.faults.attack import Attack
from torture.faults.fault import Fault
from torture.faults.signal_faults import EVENTS
from torture.faults.verbs import (
    VERBS,
    Answer,
    Verb,
    contents,
    copied,
    make_inputs,
    printed_by,
    tiny_preset,
)
from torture.program import call

FAULTS: list[Fault] = [
    fault
    for module in (machine_faults, output_names, signal_faults, stream_faults, surroundings)
    for fault in module.FAULTS
]


class Faults(Campaign):
    """The table of all verbs and faults."""

    name = "faults"
    floors: ClassVar = {verb.name: 0.2 for verb in VERBS}

    def __init__(self, verbs: Sequence[Verb] = VERBS) -> None:
        """Attack these verbs."""
        self.verbs = verbs

    def prepare(self, stock: Path) -> None:
        """Inputs, and of each verb its answer and an earlier output."""
        make_inputs(stock)
        (stock / "earlier").mkdir()
        for verb in self.verbs:
            self._answer(stock, verb).write(stock / f"{verb.name}.json")

    def size(self, stock: Path) -> int:
        """Cells of the table."""
        return len(self.cells)

    @cached_property
    def cells(self) -> list[tuple[Verb, Fault, int]]:
        """The cases: verb, fault, and a number if a verb gets the fault several times."""
        cells = [
            (verb, fault, turn)
            for fault in FAULTS
            for verb in self.verbs
            if (verb.out is not None or not fault.of_output) and (verb.reads or not fault.of_input)
            for turn in range(1 if verb.slow else fault.times)
        ]
        assert len(cells) % STEP
        # a share of the cases, which is spread evenly, has all verbs and kinds of faults
        return [cells[at * STEP % len(cells)] for at in range(len(cells))]

    def run(self, case: Case) -> Result:
        """Call a verb under a fault."""
        verb, fault, turn = self.cells[case.number]
        (case.folder / "in").symlink_to(case.stock / "in")
        answer = Answer.read(case.stock / f"{verb.name}.json")
        place = None if verb.out is None else case.folder / verb.out
        places = case.folder, case.stock
        attack = Attack(verb, answer, case.rng, *places, [*verb.words], verb.out, place)
        attack.alike = not verb.in_parts  # a new run has another hour than the one of the answer
        if fault.earlier and (turn % 2 or verb.slow or case.rng.random() < 0.3):
            attack.put_earlier()
        fault.apply(attack)
        return Result(verb.name, fault.name, *attack.run())

    def _answer(self, stock: Path, verb: Verb) -> Answer:
        """What a verb answers undisturbed; twice, as all that is compared must not vary."""
        answers = []
        for _ in range(2):
            place = stock / "place"
            place.mkdir()
            (place / "in").symlink_to(stock / "in")
            earlier = stock / "earlier" / verb.name
            if answers and verb.out and not verb.earlier:
                copied(earlier, place / verb.out)
            answer = self._undisturbed(place, verb)
            if verb.out is not None and not answers:
                if verb.earlier:
                    words = verb.arguments(words=verb.earlier)
                    shutil.rmtree(earlier_place := stock / "earlier-place", ignore_errors=True)
                    earlier_place.mkdir()
                    (earlier_place / "in").symlink_to(stock / "in")
                    assert call(*words, folder=earlier_place).code == 0, words
                    (earlier_place / verb.out).rename(earlier)
                    shutil.rmtree(earlier_place)
                else:
                    (place / verb.out).rename(earlier)
            shutil.rmtree(place)
            answers.append(answer)
        first, again = answers
        assert first.out == again.out, (verb.name, first.out, again.out)
        assert first.files == again.files, verb.name
        return again

    def _undisturbed(self, place: Path, verb: Verb) -> Answer:
        log = place.with_name("events")

        def before() -> None:
            tiny_preset()
            file = log.open("wb", buffering=0)
            sys.addaudithook(lambda name, _: name.startswith(EVENTS) and file.write(b".") and None)

        begin = time.monotonic()
        ended = call(*verb.arguments(), folder=place, before=before)
        assert ended.code == 0, (verb.name, ended.err)
        seconds, events = time.monotonic() - begin, log.stat().st_size
        files = {} if verb.out is None else contents(place / verb.out)
        return Answer(printed_by(ended), files, seconds, events)


STEP = 1_009
"""A prime number, so that the order is a permutation for any smaller table."""
