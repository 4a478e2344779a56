"""What a campaign is: numbered cases, each with one result, kept in a ledger."""

import json
import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import ClassVar, Literal

Outcome = Literal["accepted", "refused", "failed"]

FEW = 20
"""Cases of a verb from which on its share of accepted ones is judged."""


@dataclass(frozen=True)
class Result:
    """The result of a case.

    Attributes:
        verb: the verb that was attacked.
        what: how.
        outcome: whether the verb did its work, refused to, or broke a promise.
        why: for a failure, the promise.
        counts: number of inputs by outcome, if the case tried several.
    """

    verb: str
    what: str
    outcome: Outcome
    why: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A case to run.

    Attributes:
        number: its number in the campaign.
        rng: random numbers of its own.
        folder: an empty folder, the current one of its calls.
        stock: what `prepare` of the campaign has made; to be read only.
    """

    number: int
    rng: Random = field(repr=False)
    folder: Path
    stock: Path


class Campaign(ABC):
    """A kind of attack."""

    name: str
    floors: ClassVar[Mapping[str, float]] = {}
    """Least share of accepted cases, by verb: a campaign that is refused all over shows nothing."""

    ceilings: ClassVar[Mapping[str, float]] = {}
    """Largest share of accepted cases, by verb, where most of them should be refused."""

    @abstractmethod
    def prepare(self, stock: Path) -> None:
        """Make in an empty folder what cases share."""

    @abstractmethod
    def size(self, stock: Path) -> int:
        """Number of cases."""

    @abstractmethod
    def run(self, case: Case) -> Result:
        """Run one case."""


@dataclass(frozen=True)
class Run:
    """A run of campaigns, in a folder that a later call goes on with."""

    out: Path
    seed: int

    def stock(self, campaign: Campaign) -> Path:
        """What the cases of a campaign share; made if it is not there."""
        folder = self.out / "stock" / campaign.name
        if not folder.is_dir():
            making = folder.with_name(f".{campaign.name}")
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir(parents=True)
            campaign.prepare(making)
            making.rename(folder)
        return folder

    def run(self, campaign: Campaign, number: int) -> Result:
        """Run one case; its files are kept if it fails."""
        place = self.out / "cases" / f"{campaign.name}-{number}"
        shutil.rmtree(place, ignore_errors=True)
        (place / "w").mkdir(parents=True)
        # the same folder for all cases of a number, so that messages are as long, too
        rng = Random(f"{self.seed}/{campaign.name}/{number}")
        result = campaign.run(Case(number, rng, place / "w", self.stock(campaign)))
        if result.outcome != "failed":
            shutil.rmtree(place, ignore_errors=True)
        return result

    def finish(self, campaign: Campaign, numbers: list[int], shard: str = "") -> None:
        """Run those of the cases that the ledger lacks."""
        done = {number for number, _ in self.ledger(campaign)}
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{campaign.name}{shard}.jsonl"
        if path.is_file():
            # without the half of a line that a killed run left
            whole = path.read_bytes().rpartition(b"\n")
            path.write_bytes(b"".join(whole[:2]))
        with path.open("a") as ledger:
            for number in numbers:
                if number in done:
                    continue
                record = {"case": number, **asdict(self.run(campaign, number))}
                ledger.write(f"{json.dumps(record)}\n")
                ledger.flush()

    def ledger(self, campaign: Campaign) -> Iterator[tuple[int, Result]]:
        """Cases that were run, with their results."""
        for path in sorted(self.out.glob(f"{campaign.name}.*")):
            for line in path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):  # else the run was killed while it wrote this line
                    record = json.loads(line)
                    yield record.pop("case"), Result(**record)


@dataclass(frozen=True)
class Summary:
    """A campaign in numbers.

    Attributes:
        name: of the campaign.
        verbs: number of cases by verb and outcome.
        failures: numbers and results of failed cases.
        outside: verbs with too few or too many accepted cases, and their share.
    """

    name: str
    verbs: Mapping[str, Mapping[str, int]]
    failures: tuple[tuple[int, Result], ...]
    outside: Mapping[str, float]

    @classmethod
    def of(cls, campaign: Campaign, results: Iterator[tuple[int, Result]], size: int) -> "Summary":
        """Count results, each case once; `size` is the number of cases of a whole run."""
        by_case = dict(results)
        verbs: dict[str, Counter[str]] = {}
        for result in by_case.values():
            verbs.setdefault(result.verb, Counter()).update(result.counts or [result.outcome])
        outside = {}
        for verb in {**campaign.floors, **campaign.ceilings}:
            count = verbs.get(verb, Counter())
            share = count["accepted"] / max(count.total(), 1)
            is_right = campaign.floors.get(verb, 0.0) <= share <= campaign.ceilings.get(verb, 1.0)
            # a few cases of many say nothing about shares
            if not is_right and (0 < len(by_case) == size or count.total() >= FEW):
                outside[verb] = share
        failed = [(n, result) for n, result in by_case.items() if result.outcome == "failed"]
        return cls(campaign.name, dict(sorted(verbs.items())), tuple(sorted(failed)), outside)

    @property
    def total(self) -> Counter[str]:
        """Cases by outcome."""
        return sum((Counter(count) for count in self.verbs.values()), Counter())
