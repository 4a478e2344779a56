"""What a reproduction depends on, and all that the paper leaves open, each with its reason.

What the paper says (its section 6): 100,000 pages of K = 5 items, theta_k = 1/k, relevance from
labels; hidden layers of 64, 64 and 32 units; S = 60 samples; batches of 12,000 pairs for epistemic
and 35,000 for pointwise models; 1,500 epochs, the last one shown; 15 runs.

What it leaves open, and what is taken here:

- *Optimiser*: Adam with a constant rate and no weight decay, as curves over epochs are shown and no
  schedule or penalty is told of. The rate of each method is that of a grid (`paper.settings`) with
  the highest likelihood per display of the validation queries after the last epoch, in a run of its
  own (`paper.runs`); variants of a method inherit it.
- *Lookup*: it learns at a rate of its own, `lookup_rate`, the same for all methods. Its logits have
  far to go, from 0 to logit(1): at the network's rate the network has overfitted before position
  bias has arrived, and the number of epochs would tell of that way alone. Variants at the network's
  rate stand beside (`pointwise~lookup=1`).
- *Initialisation*: the paper says "around 0.5 for all parameters" and a confidence "around 1". So
  position bias and mean relevance start at 1/2 (the network's weights are He normal, those of its
  last layer a tenth of that), and raw confidences at 0.1: |x| + 1 has no gradient at 0. `marginal`,
  which is ours, starts as our own fits do.
- *Data*: models learn from the training queries' clicks and are scored on the test queries'; those
  of the validation queries choose rates only. Means and spreads of relevance are over all displayed
  pairs.
- *Runs*: a run is a new logging policy, new clicks and new first weights; items and labels are the
  same, and all methods of a run share its clicks and first weights, so that they can be compared in
  pairs.
- *MSLR-WEB10K* with "30,000 queries": the name and the count contradict each other, as 30,000 are
  those of MSLR-WEB30K. The name is believed: fold 1 of MSLR-WEB10K, whose 10,000 queries the
  synthetic data have, too. `--path` may name either.
- *Logging policy*: see `simulate.policy`.
- *Objective*: the paper adds lambda times the entropy to the log-likelihood; which pairs either is
  summed over is not said. Here the log-likelihood of a batch is divided by its pairs, and the
  entropy is a mean, so that a lambda means the same for batches of any size.
- *Whole-set likelihood*: the paper's log-sum-exp over 60 biases, divided by displays to be
  comparable. Relevance is integrated in closed form, which is the limit of its inner samples, and
  all methods are scored in this one way, also those that are trained without conditioning. Each run
  has biases of its own, which its methods and epochs share.
- *Rankers* (figure 7): the paper does not say which of its estimators; it is the one of figures 3
  to 6, self-normalised + conditioning without baselines.
- *Naive*: to the letter, and with a fixed offset without which it cannot move (`estimators.naive`).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from epiclick.errors import InputError, Problem, did_you_mean

DATASETS = ("synthetic", "mslr", "istella", "letor")

MOST_RUNS = 99
"""The next one is for choosing rates, see `paper.runs`."""

EXTENDS = ("runs", "first_run", "methods")
"""Settings that say which cells there are, not what is in them: more of them may be asked for."""


@dataclass(frozen=True)
class Settings:
    """Everything that decides what is measured.

    Attributes:
        preset: where the settings began.
        dataset: "synthetic", or what the LETOR data are called.
        data: digest of the LETOR data; "" for synthetic ones.
        queries: number of synthetic queries.
        docs: documents of each.
        features: features of each document.
        pages: result pages of a run.
        theta: true position bias.
        runs: how many.
        first_run: number of the first.
        epochs: passes over the training pairs.
        samples: S, of position bias and of relevance.
        batch_size: pairs in a batch of epistemic models.
        pointwise_batch_size: pairs in a batch of pointwise models.
        room: share of each batch that is left free so that runs of small worlds, in which
            compiling takes long beside training, share programs; 0 for batches as they are.
        every: epochs from one measurement to the next.
        ranker_samples: of each ranker's value.
        hidden: units of the network's hidden layers.
        lookup_rate: rate of the lookup of position bias.
        weight_decay: of AdamW; 0 is Adam.
        rates: rate of the network for each method that was tuned.
        scored: the queries on which models are scored, "test", or "vali" to choose rates.
        methods: keys of the variants.
        seed: of everything random.
    """

    preset: str = "paper"
    dataset: str = "synthetic"
    data: str = ""
    queries: int | None = 10_000
    docs: int | None = 120
    features: int | None = 136
    pages: int = 100_000
    theta: tuple[float, ...] = (1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5)
    runs: int = 15
    first_run: int = 0
    epochs: int = 1_500
    samples: int = 60
    batch_size: int = 12_000
    pointwise_batch_size: int = 35_000
    room: float = 0.0
    every: int = 10
    ranker_samples: int = 2_500
    hidden: tuple[int, ...] = (64, 64, 32)
    lookup_rate: float = 0.03
    weight_decay: float = 0.0
    rates: Mapping[str, float] = field(default_factory=dict)
    scored: str = "test"
    methods: tuple[str, ...] = ()
    seed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON can hold them."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Settings":
        """The settings that `to_dict` described."""
        known = {each.name for each in fields(cls)}
        given = {name: value for name, value in stored.items() if name in known}
        for name in ("theta", "hidden", "methods"):
            given[name] = tuple(given[name])
        return cls(**given)

    def deciding(self) -> dict[str, Any]:
        """What decides the content of a cell."""
        return {k: v for k, v in self.to_dict().items() if k not in EXTENDS}

    @property
    def run_numbers(self) -> range:
        """Numbers of the runs."""
        return range(self.first_run, self.first_run + self.runs)

    @property
    def measured(self) -> tuple[int, ...]:
        """Epochs after which models are measured: the first, every so many, and the last."""
        return tuple(sorted({1, *range(self.every, self.epochs + 1, self.every), self.epochs}))

    def check(self) -> None:
        """Refuse what makes no sense, all together."""
        rules: dict[str, tuple[bool, str]] = {
            "runs": (1 <= self.runs <= MOST_RUNS, f"a whole number from 1 to {MOST_RUNS}"),
            "epochs": (self.epochs >= 1, "a whole number above 0"),
            "samples": (self.samples >= 2, "2 or more"),
            "every": (self.every >= 1, "a whole number above 0"),
            "room": (0 <= self.room < 1, "from 0 to below 1"),
            "ranker_samples": (self.ranker_samples >= 100, "100 or more"),
            "seed": (self.seed >= 0, "0 or more"),
            "lookup_rate": (self.lookup_rate > 0, "above 0"),
            "rates": (all(rate > 0 for rate in self.rates.values()), "above 0"),
            "dataset": (self.dataset in DATASETS, f"one of {', '.join(DATASETS)}"),
        }
        problems = [
            Problem(f"{name} must be {rule}", 1, "argument", (f"{name}={getattr(self, name)!r}",))
            for name, (good, rule) in rules.items()
            if not good
        ]
        if problems:
            raise InputError.of("these arguments of reproduce", problems)


GRID = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3)
"""Rates of the network that are tried."""

RATES: dict[str, float] = dict.fromkeys(
    (
        "pointwise",
        "naive",
        "naive+baseline",
        "self_normalized",
        "self_normalized+baseline",
        "conditioned",
        "conditioned+baseline",
        "exact",
        "marginal",
    ),
    1e-4,
)
"""Rates as `--tune` chose them in worlds of a tenth with 150 epochs: the same for every method. The
other presets take them over."""

PRESETS: dict[str, Settings] = {
    "paper": Settings(room=0.05, rates=RATES),
    # a tenth of queries, pages and batches: as many steps an epoch, and as many displays a pair; a
    # tenth of the epochs, since so few clicks are soon learned by heart
    "tenth": Settings(
        preset="tenth",
        queries=1_000,
        pages=10_000,
        epochs=150,
        batch_size=1_200,
        pointwise_batch_size=3_500,
        room=0.1,
        rates=RATES,
    ),
    # about as many steps an epoch, ten minutes on two cores
    "quick": Settings(
        preset="quick",
        queries=800,
        docs=40,
        pages=8_000,
        runs=3,
        epochs=100,
        samples=30,
        batch_size=1_200,
        pointwise_batch_size=3_500,
        room=0.15,
        rates=RATES,
    ),
}


def choose_preset(name: str) -> Settings:
    """The settings of a preset; InputError where it is unknown."""
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS)
        raise InputError(f"preset must be one of {', '.join(PRESETS)}; got '{name}'{hint}")
    return PRESETS[name]


def with_rates(settings: Settings, path: Path) -> Settings:
    """The settings with rates from a JSON file, as `--tune` writes it: method -> rate."""
    try:
        given = {str(k): float(v) for k, v in json.loads(path.read_text("utf-8")).items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read as rates ({error}); expected JSON such as "
            '{"exact": 0.001, "pointwise": 0.003}'
        ) from error
    unknown = sorted(set(given) - set(settings.rates))
    if unknown:
        raise InputError(
            f"{path} has rates of {', '.join(unknown)}; those that have one are "
            f"{', '.join(settings.rates)}"
        )
    return replace(settings, rates={**settings.rates, **given})
