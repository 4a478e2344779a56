"""The package as it is imported and installed."""

import site
import subprocess
import sys
import tomllib
import zipfile
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


@pytest.mark.slow
def test_a_wheel_holds_all_that_the_program_needs(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("epiclick-*-py3-none-any.whl")
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(wheel) as packed:
        tops = {name.split("/")[0] for name in packed.namelist()}
        packed.extractall(folder)
    assert tops == {"epiclick", wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info"}
    # without site (-S) the development install is not found, only the wheel and its dependencies
    program = (
        f"import sys; sys.path[:0] = [{str(folder)!r}]; sys.path += {site.getsitepackages()!r}\n"
        "import epiclick; from epiclick.cli.main import run\n"
        f"assert epiclick.__file__.startswith({str(folder)!r}), epiclick.__file__\n"
        "run()\n"
    )
    small = ["--queries", "60", "--docs", "6", "--features", "3", "--pages", "900"]
    for words in (
        ["simulate", "--out", "world", *small],
        ["fit", "world/clicks.parquet", "--features", "world/features.parquet", "--out", "model"],
        ["report", "model", "--features", "world/features.parquet", "--out", "report.html"],
    ):
        command = [sys.executable, "-S", "-c", program, *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    page = (tmp_path / "report.html").read_text()
    assert "<style>" in page  # the wheel has what is not Python, too
    assert "class Chart" in page
