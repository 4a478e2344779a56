"""Campaign: commands are killed at each of their steps and at random times, and called again."""

import json
import os
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torture.campaign import Campaign, Case, Result
from torture.damage import recipes, written
from torture.damage.recipes import RECIPES, Recipe, is_whole
from torture.damage.steps import Steps
from torture.program import LIMIT, Ended, call, start, wait

FOREIGN = {
    "notes.txt": "mine",
    "out.bak": "mine",
    ".out.mine.part": "mine",
    ".out.0123abcd-1.part": "mine",
    "part/.out.0123abcd-1-1.01234567.part": "mine",
}
"""Files of the user next to the outputs; the last has the name of a leftover, but elsewhere."""

ENDS = 12
"""Steps at the beginning and at the end that are never left out: there files get their names."""

TWICE = 0.15
"""Share of the kills after which the second call is killed, too."""

PASSING = (".checkpoint", ".rows")
"""Endings of files that exist while a command runs."""

RESULTS = "undisturbed.json"


@dataclass(frozen=True)
class Kill:
    """A kill of a command.

    Attributes:
        recipe: number of the command.
        present: whether the output exists before, with other contents.
        step: the step at which the process is killed; None for a time.
    """

    recipe: int
    present: bool
    step: int | None


class Kills(Campaign):
    """After a kill files are as before or complete, and the same call completes them."""

    name = "kills"
    # a refusal stands for a call that ended before it was to be killed
    floors: ClassVar = {"count": 0.6, "fit": 0.6, "simulate": 0.6}

    def __init__(self, given: Sequence[Recipe] = RECIPES) -> None:
        """Kill these commands."""
        self.recipes = given

    def prepare(self, stock: Path) -> None:
        """Run each command undisturbed, with and without an earlier output."""
        written.make(recipes.INPUTS, stock)
        written.make_page_files(stock / "pages")
        if any(recipe.begins for recipe in self.recipes):
            written.make([recipes.FINISHED], stock)
            for path in (stock / "finished").iterdir():
                if path.is_file():
                    path.unlink()
        found = []
        for number, recipe in enumerate(self.recipes):
            by_state = {}
            for present in (False, True)[: 1 + (recipe.earlier is not None)]:
                folder = stock / "undisturbed" / "w"
                shutil.rmtree(folder.parent, ignore_errors=True)
                folder.mkdir(parents=True)
                if present:
                    self._lay_out(recipe, stock, folder)
                    written.make([str(recipe.earlier)], folder)
                    shutil.copytree(folder, stock / "earlier" / str(number))
                    shutil.rmtree(folder)
                    folder.mkdir()
                by_state[str(present)] = self._undisturbed(recipe, stock, folder, number, present)
            found.append(by_state)
        shutil.rmtree(stock / "undisturbed")
        (stock / RESULTS).write_text(json.dumps(found))

    def _undisturbed(
        self, recipe: Recipe, stock: Path, folder: Path, number: int, present: bool
    ) -> dict[str, object]:
        """Steps, seconds and outputs of a command that is not killed."""
        self._begin(recipe, stock, folder, number, present=present)
        before = recipe.written(folder)
        steps, began = Steps(folder), time.monotonic()
        ended = call(*recipe.words(overwrite=present), folder=folder, before=steps.watch)
        written.succeeded(ended, recipe.command)
        seconds = time.monotonic() - began
        after = recipe.written(folder)
        return {"steps": steps.count, "seconds": seconds, "before": before, "after": after}

    def plan(self, stock: Path) -> list[Kill]:
        """All kills."""
        kills = []
        for number, by_state in enumerate(_results(stock)):
            recipe = self.recipes[number]
            for state, found in by_state.items():
                share = recipe.most // len(by_state), recipe.timed // len(by_state)
                steps = _chosen(found["steps"], share[0])
                kills += [Kill(number, state == "True", step) for step in steps]
                kills += [Kill(number, state == "True", None)] * share[1]
        return kills

    def size(self, stock: Path) -> int:
        """Number of kills."""
        return len(self.plan(stock))

    def run(self, case: Case) -> Result:
        """Kill a command, and call it again."""
        kill = self.plan(case.stock)[case.number]
        recipe = self.recipes[kill.recipe]
        undisturbed = _results(case.stock)[kill.recipe][str(kill.present)]
        folder = case.folder
        self._begin(recipe, case.stock, folder, kill.recipe, present=kill.present)
        for name, content in FOREIGN.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(content)
        fraction = case.rng.random()
        where = f"{fraction:.0%} of its time" if kill.step is None else f"step {kill.step}"
        what = f"{recipe.name}, {'over an earlier output' if kill.present else 'anew'}, at {where}"
        words = recipe.words(overwrite=kill.present)
        if kill.step is None:
            ended = _killed_after(words, folder, fraction * undisturbed["seconds"])
        else:
            ended = _killed_at(words, folder, kill.step)
        if case.rng.random() < TWICE and ended.code == -signal.SIGKILL:
            wrong = _wrong_now(recipe, folder, undisturbed)
            if wrong is not None:
                return Result(recipe.verb, what, "failed", wrong)
            again = case.rng.randrange(undisturbed["steps"])
            what = f"{what}, again at step {again}"
            _killed_at(_again(recipe, folder), folder, again)
        if ended.code not in (0, -signal.SIGKILL):
            why = f"ended with {ended.code} before it was killed: {ended.err[-300:]}"
            return Result(recipe.verb, what, "failed", why)
        wrong = _wrong_now(recipe, folder, undisturbed) or _wrong_later(recipe, folder, undisturbed)
        if wrong is not None:
            return Result(recipe.verb, what, "failed", wrong)
        return Result(recipe.verb, what, "refused" if ended.code == 0 else "accepted")

    def _begin(
        self, recipe: Recipe, stock: Path, folder: Path, number: int, *, present: bool
    ) -> None:
        """Fill a folder with what is there before the call."""
        if present:
            shutil.copytree(stock / "earlier" / str(number), folder, dirs_exist_ok=True)
        else:
            self._lay_out(recipe, stock, folder)

    def _lay_out(self, recipe: Recipe, stock: Path, folder: Path) -> None:
        """Copy the inputs of a command."""
        pairs = [(name, name) for name in recipe.needs]
        if recipe.begins:
            pairs.append((recipe.begins, "out"))
        for source, target in pairs:
            copy = shutil.copytree if (stock / source).is_dir() else shutil.copy2
            copy(stock / source, folder / target)


def _results(stock: Path) -> list[dict]:
    return json.loads((stock / RESULTS).read_text())


def _chosen(count: int, most: int) -> list[int]:
    """Numbers of steps: those at both ends, and some of those between them."""
    if count <= most:
        return list(range(count))
    ends = min(ENDS, most // 3)
    inner = most - 2 * ends
    between = [ends + (count - 2 * ends) * k // inner for k in range(inner)]
    return [*range(ends), *between, *range(count - ends, count)]


def _temporary(folder: Path) -> dict[str, str | None]:
    """Keep what libraries write elsewhere next to the case."""
    place = Path(f"{folder}.tmp")
    place.mkdir(exist_ok=True)
    return {"TMPDIR": str(place)}


def _killed_at(words: list[str], folder: Path, step: int) -> Ended:
    steps = Steps(folder, step)
    return _ended(start(words, folder, before=steps.watch, environment=_temporary(folder)), folder)


def _killed_after(words: list[str], folder: Path, seconds: float) -> Ended:
    process = start(words, folder, environment=_temporary(folder))
    time.sleep(seconds)
    os.kill(process, signal.SIGKILL)
    return _ended(process, folder)


def _ended(process: int, folder: Path) -> Ended:
    """Wait for a call, then end the processes that it has started: they notice only later."""
    ended = wait(process, folder, LIMIT)
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    return ended


def _again(recipe: Recipe, folder: Path) -> list[str]:
    """The call that follows a kill."""
    resume = recipe.resumes and (folder / "out.checkpoint").exists()
    return recipe.words(overwrite=(folder / "out").exists(), resume=resume)


def _wrong_now(recipe: Recipe, folder: Path, undisturbed: dict) -> str | None:
    """What a kill has broken."""
    before, after, now = undisturbed["before"], undisturbed["after"], recipe.written(folder)
    if recipe.is_one and now not in (before, after):
        return (
            f"after the kill, the output is neither the old nor the new: {_differing(now, after)}"
        )
    for name, digest in now.items():
        if digest not in (before.get(name), after.get(name)) and not name.endswith(PASSING):
            return f"after the kill, {name} is neither the old nor the new"
    if lost := before.keys() & after.keys() - now.keys():
        return f"after the kill, {sorted(lost)[:3]} are lost"
    for name, path in recipe.files(folder, volatile=True):
        if not is_whole(path):
            return f"after the kill, {name} is not complete"
    return _wrong_foreign(folder)


def _wrong_foreign(folder: Path) -> str | None:
    for name, content in FOREIGN.items():
        if not (folder / name).is_file() or (folder / name).read_text() != content:
            return f"{name}, a file of the user, was changed"
    return None


def _wrong_later(recipe: Recipe, folder: Path, undisturbed: dict) -> str | None:
    """What is wrong after the same call has been made again."""
    words = _again(recipe, folder)
    ended = call(*words, folder=folder, environment=_temporary(folder))
    if ended.fault or ended.code:
        return f"{' '.join(words)}: code {ended.code}, {ended.fault or ended.err[-400:]}"
    now, after = recipe.written(folder), undisturbed["after"]
    if now != after:
        return f"the output differs from that of an undisturbed run: {_differing(now, after)}"
    for name, path in recipe.files(folder, volatile=True):
        if not is_whole(path):
            return f"{name} is not complete"
    left = [path for path in folder.rglob(".*") if path.suffix in (".part", ".old")]
    left += [path for path in folder.rglob("*") if path.name.endswith(PASSING)]
    if left := {str(path.relative_to(folder)) for path in left} - FOREIGN.keys():
        return f"left behind: {sorted(left)[:3]}"
    return _wrong_foreign(folder)


def _differing(now: dict[str, str], after: dict[str, str]) -> list[str]:
    """The first files that differ."""
    return sorted(name for name in now.keys() | after.keys() if now.get(name) != after.get(name))[
        :4
    ]
