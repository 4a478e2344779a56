"""The checks see mistakes: each is made on purpose, and at least one check must fail."""

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from epiclick import estimators

from . import checks

PACKAGE = "epiclick.estimators"
COPY = "mutated_estimators"

Check = Callable[[ModuleType], None]


class Mutant(NamedTuple):
    """A mistake, and the check that must see it."""

    module: str
    right: str
    wrong: str
    check: Check


def formula(name: str, baseline: bool = False, literal: bool = False) -> Check:
    return partial(checks.check_formula, name=name, baseline=baseline, literal=literal)


conditioned_baseline = partial(checks.check_conditioned_expectation, baseline=True)
exact_baseline = partial(checks.check_exact_expectation, baseline=True)

MUTANTS = {
    "naive: no mean over samples": Mutant(
        "naive", "weights / self.samples)", "weights)", formula("naive")
    ),
    "naive: no baseline": Mutant(
        "naive", "if self.baseline:", "if False:", formula("naive", baseline=True)
    ),
    "naive: offset added": Mutant(
        "naive", "log_likelihoods - offset", "log_likelihoods + offset", checks.check_offset
    ),
    "naive: no cap": Mutant(
        "naive",
        "jnp.maximum(self.log_offset, log_likelihoods.max() - MOST_NATS)",
        "self.log_offset",
        checks.check_offset,
    ),
    "naive: literal one moved": Mutant(
        "naive", "return self if self.literal else ", "return ", checks.check_offset
    ),
    "baseline: added": Mutant(
        "scores", "weights - others /", "weights + others /", formula("naive", baseline=True)
    ),
    "baseline: divided by all": Mutant(
        "scores", "(weights.shape[-1] - 1)", "weights.shape[-1]", formula("naive", baseline=True)
    ),
    "baseline: includes its own sample": Mutant(
        "scores", "keepdims=True) - weights", "keepdims=True)", checks.check_naive_expectation
    ),
    "score: sign of beta": Mutant(
        "scores", "+ (beta - 1) *", "- (beta - 1) *", formula("self_normalized")
    ),
    "score: alpha and beta swapped": Mutant(
        "scores",
        "alpha, beta = betas.alpha, betas.beta",
        "alpha, beta = betas.beta, betas.alpha",
        formula("self_normalized"),
    ),
    "score: not normalised": Mutant(
        "scores", " - log_beta_function * total", "", formula("self_normalized")
    ),
    "self-normalised: no softmax": Mutant(
        "self_normalized",
        "jax.nn.softmax(log_likelihoods)",
        "jnp.exp(log_likelihoods)",
        formula("self_normalized"),
    ),
    "self-normalised: always the paper's factor": Mutant(
        "self_normalized", "if self.literal:", "if True:", checks.check_self_normalized_bias
    ),
    "self-normalised: no baseline": Mutant(
        "self_normalized", "if self.baseline:", "if False:", formula("self_normalized", True)
    ),
    "joint: weights of pairs forgotten": Mutant(
        "joint",
        "jnp.dot(batch.weight, of_pairs)",
        "of_pairs.sum()",
        formula("self_normalized"),
    ),
    "joint: clicks' biases forgotten": Mutant(
        "joint", "return examined + jnp", "return jnp", formula("self_normalized")
    ),
    "joint: every display is looked at": Mutant(
        "joint", "other + rest * zeta", "other + 0 * rest * zeta", formula("self_normalized")
    ),
    "inner: earlier biases not rescaled": Mutant(
        "inner", "weight * shrink.astype(jnp.float32)", "weight", formula("conditioned")
    ),
    "inner: shares not rescaled": Mutant(
        "inner", "share * shrink + own", "share + own", formula("conditioned")
    ),
    "inner: not normalised": Mutant("inner", " / bucket.total)", ")", formula("conditioned")),
    "inner: sum for mean": Mutant(
        "inner", "bucket.total / samples", "bucket.total", formula("conditioned")
    ),
    "inner: missing displays count": Mutant(
        "inner", ".astype(jnp.float32), 1)", ".astype(jnp.float32), 0)", formula("conditioned")
    ),
    "inner: clicks forgotten in heads": Mutant(
        "inner", "logs = log_attracted + unclicked", "logs = unclicked", checks.check_buckets
    ),
    "inner: products trusted": Mutant(
        "inner", "smallest > SMALLEST", "smallest > -1", checks.check_extremes
    ),
    "conditioned: no inner baseline": Mutant(
        "conditioned",
        "inner = leave_one_out(inner)",
        "inner = inner * 1",
        formula("conditioned", baseline=True),
    ),
    "conditioned: no outer baseline": Mutant(
        "conditioned",
        "outer = leave_one_out(outer)",
        "outer = outer * 1",
        formula("conditioned", baseline=True),
    ),
    "conditioned: baseline for weights": Mutant(
        "conditioned",
        "leave_one_out(inner)",
        "inner - leave_one_out(inner)",
        conditioned_baseline,
    ),
    "conditioned: literal factor reversed": Mutant(
        "conditioned",
        "surrogate / self.samples if self.literal else surrogate",
        "surrogate if self.literal else surrogate / self.samples",
        formula("conditioned"),
    ),
    "conditioned: no softmax": Mutant(
        "conditioned",
        "jax.nn.softmax(log_likelihoods)",
        "jnp.exp(log_likelihoods)",
        formula("conditioned"),
    ),
    "exact: weights differentiated": Mutant(
        "exact",
        "jax.lax.stop_gradient(jax.nn.softmax(each))",
        "jax.nn.softmax(each)",
        checks.check_exact_given_draws,
    ),
    "exact: no baseline": Mutant(
        "exact",
        "outer = leave_one_out(outer)",
        "outer = outer * 1",
        partial(checks.check_exact_given_draws, baseline=True),
    ),
    "exact: baseline on the relevance gradient": Mutant(
        "exact",
        "of_pairs = outer @ each",
        "of_pairs = (leave_one_out(outer) if self.baseline else outer) @ each",
        exact_baseline,
    ),
    "marginal: downhill": Mutant(
        "marginal", "Estimate(value, value)", "Estimate(-value, value)", checks.check_marginal
    ),
    "entropy: sign of a term": Mutant(
        "entropy", "* eta - 0.5 * c / x", "* eta + 0.5 * c / x", checks.check_entropy
    ),
    "entropy: weights forgotten": Mutant(
        "entropy",
        "(weight @ each) / jnp.where(total > 0, total, 1.0)",
        "each.mean()",
        checks.check_entropy,
    ),
    "draws: relevance turned over": Mutant(
        "draws", "logit -= spare", "logit += spare", checks.check_draws
    ),
    "draws: alpha for beta": Mutant("draws", "spare /= beta", "spare /= alpha", checks.check_draws),
}


class Copies(MetaPathFinder, InspectLoader):
    """Finds copies of a module with a mistake and of all that import it; the rest is ours."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.copied = {"__init__", mutant.module}
        while more := {name for name in SOURCES if imports(name) & self.copied} - self.copied:
            self.copied |= more

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname.split(".")[0] != COPY:
            return None
        return spec_from_loader(fullname, self, is_package=self.is_package(fullname))

    def is_package(self, fullname: str) -> bool:
        return fullname == COPY

    def get_source(self, fullname: str) -> str:
        name = "__init__" if self.is_package(fullname) else fullname.removeprefix(f"{COPY}.")
        source = SOURCES[name]
        if name == self.mutant.module:
            assert source.count(self.mutant.right) == 1, f"{self.mutant.right!r} in {name}.py"
            source = source.replace(self.mutant.right, self.mutant.wrong)
        for other in self.copied:
            source = source.replace(f"from {PACKAGE}.{other} ", f"from {COPY}.{other} ")
        return source


SOURCES = {path.stem: path.read_text() for path in Path(estimators.__file__).parent.glob("*.py")}


def imports(name: str) -> set[str]:
    """Modules of the package that a module of it imports."""
    return set(re.findall(rf"^from {PACKAGE}\.(\w+) ", SOURCES[name], re.MULTILINE))


@pytest.fixture
def load() -> Iterator[Callable[[Mutant], ModuleType]]:
    """A function that imports the package with a mistake; undone at the end."""
    finders = []

    def load_copy(mutant: Mutant) -> ModuleType:
        finders.append(Copies(mutant))
        sys.meta_path.insert(0, finders[-1])
        package = importlib.import_module(COPY)
        for name in ("draws", "entropy", "inner"):
            home = COPY if name in finders[-1].copied else PACKAGE
            setattr(package, name, importlib.import_module(f"{home}.{name}"))
        return package

    yield load_copy
    for finder in finders:
        sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if name.split(".")[0] == COPY]:
        del sys.modules[name]


@pytest.mark.parametrize("name", list(MUTANTS))
def test_mistakes_are_seen(name: str, load: Callable[[Mutant], ModuleType]) -> None:
    mutant = MUTANTS[name]
    package = load(mutant)
    with pytest.raises(AssertionError):
        mutant.check(package)


@pytest.mark.parametrize("module", sorted({mutant.module for mutant in MUTANTS.values()}))
def test_copies_without_a_mistake_pass(module: str, load: Callable[[Mutant], ModuleType]) -> None:
    """The control: it is the mistake that fails, not the copy."""
    mutant = next(mutant for mutant in MUTANTS.values() if mutant.module == module)
    mutant.check(load(mutant._replace(wrong=mutant.right)))
