"""Settings of a reproduction, and every choice the paper leaves open, with its reason.

What the paper specifies (section 6): 100,000 pages of K = 5 items, theta_k = 1/k, relevance from
labels; hidden layers of 64, 64 and 32 units; S = 60 samples; batches of 12,000 pairs for epistemic
and 35,000 for pointwise models; 1,500 epochs, results after the last one; 15 runs.

What it leaves open, and the choice made here:

- *Optimiser*: Adam with a constant learning rate and no weight decay, since the paper shows curves
  over epochs and mentions neither a schedule nor a penalty. The rate of each method is the one in
  `GRID` with the highest validation likelihood per display after the last epoch, in a separate run
  (`paper.runs.tune`); variants of a method inherit it.
- *Lookup*: position bias has its own rate, `lookup_rate`, the same for all methods. Its logits have
  far to go, from 0 to logit(1): at the network's rate the network overfits before position bias has
  converged, and the number of epochs would only measure that delay. Variants at the network's rate
  are included for comparison (`pointwise~lookup=1`).
- *Initialisation*: the paper says "around 0.5 for all parameters" and a confidence "around 1". So
  position bias and mean relevance start at 1/2 (the network's weights are He normal, those of its
  last layer a tenth of that), and raw confidences at 0.1, because |x| + 1 has no gradient at 0.
  `marginal`, which is ours, has the same weights, and starts from click rates like this library's
  own fits. Their last layer has full weights, which weight decay removes; there is none here.
- *Position bias of* `marginal` is the mean of its posterior, which follows training, as in fits of
  this library. Likelihoods are those after the last epoch, as for all methods.
- *Data*: models are trained on the clicks of the training queries and scored on those of the test
  queries; validation queries are used only to choose learning rates. Means and standard deviations
  of relevance are over all displayed pairs.
- *Runs*: each run has a new logging policy, new clicks and new initial weights; items and labels
  stay the same. All methods of a run share its clicks and initial weights, so that comparisons are
  paired.
- *MSLR-WEB10K* with "30,000 queries": name and count contradict each other, as 30,000 is the size
  of MSLR-WEB30K. We follow the name: fold 1 of MSLR-WEB10K, whose 10,000 queries are also the size
  of the synthetic data. `--path` accepts either.
- *Logging policy*: see `simulate.policy`.
- *Objective*: the paper adds lambda times the entropy to the log-likelihood, without saying which
  pairs each is summed over. Here the log-likelihood of a batch is divided by its number of pairs,
  and the entropy is a mean, so that lambda means the same at any batch size.
- *Whole-set likelihood*: the paper's log-sum-exp over 60 draws of position bias, divided by the
  number of displays to be comparable. Relevance is integrated in closed form, the limit of the
  paper's inner samples, and all methods are scored this way, including those trained without
  conditioning. Each run has its own draws, shared by its methods and epochs.
- *Rankers* (figure 7): the paper does not say which estimator it uses. We take that of figures 3 to
  6, self-normalised + conditioning without baselines.
- *Naive*: as written in the paper, and with a fixed offset without which it cannot learn
  (`estimators.naive`).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from epiclick.errors import InputError, Problem, did_you_mean

DATASETS = ("synthetic", "mslr", "istella", "letor")

MOST_RUNS = 99
"""The run after these is the one in which learning rates are chosen, see `paper.runs.tune`."""

EXTENDS = ("runs", "first_run", "methods")
"""Settings that decide which cells exist, not what is in them; a later call may extend them."""


@dataclass(frozen=True)
class Settings:
    """Everything that determines the measurements.

    Attributes:
        preset: name of the preset the settings are based on.
        dataset: "synthetic", or the name of the LETOR data.
        data: digest of the LETOR data; "" for synthetic data.
        queries: number of synthetic queries.
        docs: documents per query.
        features: features per document.
        pages: result pages per run.
        theta: true position bias.
        runs: number of runs.
        first_run: number of the first run.
        epochs: passes over the training pairs.
        samples: S, of position bias and of relevance.
        batch_size: pairs per batch of epistemic models.
        pointwise_batch_size: pairs per batch of pointwise models.
        room: spare share of each batch, so that runs of small worlds, where compilation is slow
            relative to training, can share compiled programs; 0 for batches without spare room.
        every: epochs between measurements.
        ranker_samples: samples of each ranker's value.
        hidden: units of the network's hidden layers.
        lookup_rate: learning rate of the lookup of position bias.
        weight_decay: of AdamW; 0 gives Adam.
        rates: learning rate of the network for each tuned method.
        scored: the queries that models are scored on: "test", or "vali" to choose rates.
        methods: keys of the variants.
        seed: random seed of the whole reproduction.
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
        """The settings as JSON-compatible values."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    def of_cells(self) -> dict[str, Any]:
        """The settings that determine the content of a cell."""
        return {k: v for k, v in self.to_dict().items() if k not in EXTENDS}

    @property
    def run_numbers(self) -> range:
        """Numbers of the runs."""
        return range(self.first_run, self.first_run + self.runs)

    @property
    def measured(self) -> tuple[int, ...]:
        """Epochs after which models are measured: the first, each multiple of `every`, the last."""
        return tuple(sorted({1, *range(self.every, self.epochs + 1, self.every), self.epochs}))

    def check(self) -> None:
        """Reject invalid settings, all of them in one error."""
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
            Problem(
                f"{name} must be {rule}",
                1,
                "argument",
                (f"{name}={getattr(self, name)!r}",),
                code="unknown-dataset"
                if name == "dataset"
                else f"{name.replace('_', '-')}-out-of-range",
            )
            for name, (valid, rule) in rules.items()
            if not valid
        ]
        if problems:
            raise InputError.of("these arguments of reproduce", problems)


GRID = (3e-5, 1e-4, 3e-4, 1e-3, 3e-3)
"""Learning rates of the network that `paper.runs.tune` tries."""

RATES: dict[str, float] = {
    **dict.fromkeys(
        (
            "pointwise",
            *("naive", "naive+baseline"),
            *("self_normalized", "self_normalized+baseline"),
            *("conditioned", "conditioned+baseline"),
            "exact",
        ),
        1e-4,
    ),
    "marginal": 3e-5,  # its last layer is given all units, and learns faster at the same rate
}
"""Rates that `--tune` chose with preset "tenth". The other presets reuse them."""

# a tenth of the queries, pages and batch sizes keeps the steps per epoch and displays per pair; a
# tenth of the epochs, since models soon overfit so few clicks
_TENTH = Settings(
    preset="tenth",
    queries=1_000,
    pages=10_000,
    epochs=150,
    batch_size=1_200,
    pointwise_batch_size=3_500,
    room=0.1,
    rates=RATES,
)

# about as many steps per epoch, ten minutes on two cores
_QUICK = replace(_TENTH, preset="quick", queries=800, docs=40, pages=8_000, runs=3, epochs=100,
                 samples=30, room=0.15)  # fmt: skip

PRESETS: dict[str, Settings] = {
    "paper": Settings(room=0.05, rates=RATES),
    "tenth": _TENTH,
    "quick": _QUICK,
}


def choose_preset(name: str) -> Settings:
    """The settings of a preset."""
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS)
        raise InputError(
            f"preset must be one of {', '.join(PRESETS)}; got '{name}'{hint}",
            code="unknown-preset",
        )
    return PRESETS[name]


def with_rates(settings: Settings, path: Path) -> Settings:
    """The settings with rates from a JSON file as written by `--tune`: method -> rate."""
    try:
        given = {str(k): float(v) for k, v in json.loads(path.read_text("utf-8")).items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path} cannot be read as rates ({error}); expected JSON such as "
            '{"exact": 0.001, "pointwise": 0.003}',
            code="invalid-rates-file",
        ) from error
    unknown = sorted(set(given) - set(settings.rates))
    if unknown:
        raise InputError(
            f"{path} has rates for {', '.join(unknown)}; methods with a rate are "
            f"{', '.join(settings.rates)}",
            code="unknown-method",
        )
    return replace(settings, rates={**settings.rates, **given})
