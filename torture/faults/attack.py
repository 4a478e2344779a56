"""A call under a fault, and what must be true of it afterwards."""

import hashlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from torture.faults.verbs import Answer, Verb, contents, copied, printed_by, tiny_preset
from torture.program import Ended, call

STOPPED = (129, 130, 143)
NO_READER = 141
GAVE_UP = (-signal.SIGABRT, -signal.SIGSEGV)


@dataclass
class Attack:
    """A call that faults change.

    Attributes:
        verb: the call.
        answer: what it answers undisturbed.
        rng: random numbers.
        folder: the current one of the call.
        stock: what cases share.
        words: its arguments without the output.
        out: the output as it is named in the call; None for none.
        place: where the output is expected, if not there.
        codes: exit codes that are allowed.
        named: one of these is in a message of refusal; any message will do if there are none.
        sees: whether what is printed can be checked; False for streams that were broken.
        hears: the same for the messages.
        whole: whether the output of a call that succeeds must be complete: False for devices.
        alike: whether the output is compared with the undisturbed one; else only its files are.
        leaves: whether what is left after the fault cannot be removed, such as on a broken disk.
    """

    verb: Verb
    answer: Answer
    rng: Random
    folder: Path
    stock: Path
    words: list[str]
    out: str | None
    place: Path | None
    codes: tuple[int, ...] = (0, 1, 2)
    named: tuple[str, ...] = ()
    sees: bool = True
    hears: bool = True
    whole: bool = True
    alike: bool = True
    leaves: bool = False
    before: list[Callable[[], None]] = field(default_factory=list)
    during: Callable[[int], None] | None = None
    after: list[Callable[[], None]] = field(default_factory=list)
    environment: dict[str, str | None] = field(default_factory=dict)

    def put_earlier(self) -> None:
        """Put an earlier output where this one will be; the finished one of a slow verb."""
        if self.place is not None:
            self.alike = True
            copied(self.stock / "earlier" / self.verb.name, self.place)

    def move(self, out: str, place: Path | None) -> None:
        """Name another output; some outputs quote the name."""
        self.out, self.place = out, place
        if self.verb.in_parts or self.verb.name == "report":
            self.alike = self.sees = False

    def run(self) -> tuple[str, str]:
        """Call; the outcome, and why it failed."""
        inputs = (self.folder / "in").resolve()
        kept = {path: files_of(path) for path in (self.folder, inputs)}
        had = contents(self.place) if self.place is not None else {}
        try:
            ended = self._call()
            return self._judged(ended, kept, had)
        finally:
            for undo in reversed(self.after):
                undo()

    def _call(self) -> Ended:
        def before() -> None:
            tiny_preset()
            for each in self.before:
                each()

        temporary = Path(f"{self.folder}.tmp")
        temporary.mkdir(mode=0o777, exist_ok=True)
        environment = {"TMPDIR": str(temporary), **self.environment}
        arguments = self.verb.arguments(self.out, self.words)
        options = {"before": before, "environment": environment}
        return call(*arguments, folder=self.folder, during=self.during, **options)

    def _judged(
        self, ended: Ended, kept: dict[Path, dict[str, str]], had: dict[str, str]
    ) -> tuple[str, str]:
        fault = ended.fault or ""
        is_allowed = fault.startswith(("exit code", "killed")) and ended.code in self.codes
        is_unheard = fault.startswith("not one message") and not self.hears
        if fault and not is_allowed and not is_unheard:
            return "failed", fault
        if ended.code not in self.codes:
            return "failed", f"exit code {ended.code}: {ended.err[-300:]}"
        if ended.code < 0:
            self.hears = False
        if ended.code in GAVE_UP:  # a library did, without a chance to clean up
            self.leaves = True
        if lost := self._lost(kept):
            return "failed", lost
        has = contents(self.place) if self.place is not None else {}
        full, why = self._state(has, had)
        if why:
            return "failed", f"exit code {ended.code}, {why}"
        if ended.code == 0:
            if self.whole and not full:
                return "failed", f"success, but the output is {sorted(has)}"
            if self.sees and printed_by(ended) != self.answer.out:
                return "failed", f"printed something else: {ended.out[:300]}"
            return "accepted", ""
        if self.hears and ended.code != NO_READER:
            messages = ended.err.count("epiclick: ") - ended.err.count("epiclick: warning: ")
            if messages != 1:
                return "failed", f"{messages} messages with code {ended.code}: {ended.err[-400:]}"
            if self.named and not any(name in ended.err for name in self.named):
                return "failed", f"the message names none of {self.named}: {ended.err[-300:]}"
        return "refused", ""

    def _state(self, has: dict[str, str], had: dict[str, str]) -> tuple[bool, str]:
        """Whether the output is complete, and what is wrong with it."""
        expected = self.answer.files
        broken = [name for name, each in has.items() if each.startswith("damaged")]
        if has == expected or (not self.alike and not broken and has.keys() == expected.keys()):
            return True, ""
        if not self.alike and not broken and self.verb.in_parts:
            return False, ""
        if self.verb.in_parts:
            damaged = [n for n, each in has.items() if each not in (expected.get(n), had.get(n))]
            lost = [name for name in had if name not in has]
            return False, f"damaged: {damaged}, lost: {lost}" if damaged or lost else ""
        same = has == had
        return False, "" if same else f"the output was {sorted(had)} and is {sorted(has)}: damaged"

    def _lost(self, kept: dict[Path, dict[str, str]]) -> str:
        """Files that were changed or left, apart from the output."""
        for folder, before in kept.items():
            after = files_of(folder)
            own: set[str] = set()
            if self.place is not None:
                # also what a link at its place points to
                for place in (self.place, Path(os.path.realpath(self.place))):
                    own |= _names_of(place, folder, {**before, **after})
            for name in before.keys() | after.keys():
                if before.get(name) != after.get(name) and name not in own:
                    is_part = name not in before
                    if is_part and (self.leaves or (self.verb.in_parts and not _is_left(name))):
                        continue
                    return f"{'left' if is_part else 'changed or lost'}: {name}"
        for name in (".tmp", ".cache"):
            for left in files_of(Path(f"{self.folder}{name}")):
                # matplotlib removes its own at the exit of an interpreter, which a fork has not
                is_own = name == ".tmp" and not left.startswith("matplotlib-")
                if (is_own or _is_left(left)) and not self.leaves:
                    return f"left in {name}: {left}"
        return ""


def _is_left(name: str) -> bool:
    return any(part.endswith((".part", ".old", ".tmp")) for part in name.split("/"))


def _names_of(place: Path, folder: Path, names: dict[str, str]) -> set[str]:
    """Those of the names that are of the output or its folders."""
    own = os.path.relpath(place, folder)
    return {
        name
        for name in {*names, own}
        if name == own or own.startswith(f"{name}/") or name.startswith(f"{own}/")
    }


def files_of(folder: Path) -> dict[str, str]:
    """What is in a folder, by path: the kind, and a digest of files; links are not followed."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            if os.path.islink(path):
                kind = f"link to {os.readlink(path)}"
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    kind = hashlib.file_digest(file, "md5").hexdigest()
            else:
                kind = "folder" if os.path.isdir(path) else "device"
            found[os.path.relpath(path, folder)] = kind
    return found
