"""Functions and tests named on the notation page exist."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "notation.md").read_text()


def named_functions(text: str) -> list[str]:
    return sorted(set(re.findall(r"`(epiclick(?:\.\w+)+)`", text)))


def named_tests(text: str) -> list[str]:
    return sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)+)`", text)))


def find_function(path: str) -> object:
    """The object of a dotted path: the longest prefix that is a module, then its attributes."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(path)


def has_test(path: str) -> bool:
    """Whether a file has a test, or a class with a test, of that name, without importing it."""
    file, *names = path.split("::")
    body = ast.parse((ROOT / file).read_text()).body
    for name in names:
        found = [
            node
            for node in body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
        ]
        if not found:
            return False
        body = found[0].body
    return names[-1].startswith("test_")


@pytest.mark.parametrize("path", named_functions(PAGE))
def test_every_function_can_be_imported(path: str) -> None:
    assert find_function(path) is not None


@pytest.mark.parametrize("path", named_tests(PAGE))
def test_every_test_exists(path: str) -> None:
    assert has_test(path)


def test_every_row_of_equations_has_a_function_and_a_test() -> None:
    rows = re.findall(r"^\|(.+)\|(.+)\|(.+)\|$", PAGE.split("## Equations", 1)[1], re.M)
    rows = [row for row in rows if not set(row[0]) <= {"-"} and row[0].strip() != "equation"]
    assert len(rows) > 20
    for equation, functions, tests in rows:
        assert named_functions(functions), equation
        assert named_tests(tests), equation


def test_missing_names_would_be_noticed() -> None:
    with pytest.raises(AttributeError):
        find_function("epiclick.beta.Beta.nothing")
    assert not has_test("tests/test_beta.py::TestEntropy::test_nothing")
    assert not has_test("tests/test_beta.py::TestEntropy")
