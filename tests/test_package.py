"""The package as it is imported and installed."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import epiclick

ROOT = Path(__file__).resolve().parents[1]


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_every_public_name_can_be_had() -> None:
    for name in epiclick.__all__:
        assert getattr(epiclick, name) is not None
    assert set(epiclick.__all__) <= set(dir(epiclick))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = epiclick.nothing


def test_importing_loads_nothing_heavy() -> None:
    loaded = run_python(
        "import sys, epiclick; print([m for m in ('jax', 'ibis', 'pandas', 'numpy') if m in sys.modules])"
    )
    assert loaded == "[]"


def test_reading_a_log_never_loads_jax() -> None:
    assert (
        run_python("import sys, epiclick; epiclick.read_log; print('jax' in sys.modules)")
        == "False"
    )


@pytest.mark.parametrize("first", ["epiclick.World", "import epiclick.simulate.world"])
def test_simulate_is_the_function_whatever_was_imported_first(first: str) -> None:
    said = run_python(f"import epiclick\n{first}\nprint(callable(epiclick.simulate))")
    assert said == "True"


def test_every_dependency_has_an_upper_bound_and_a_tested_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = project["dependencies"] + project["optional-dependencies"]["dev"]
    tested = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()}
    for requirement in requirements:
        assert ",<" in requirement, requirement
        name = requirement.split(">")[0].split("[")[0]
        assert name in tested, f"{name} has no tested version in constraints.txt"
