"""What is installed is known: pinned, with checksums, its licences listed, in a bill of materials."""

import importlib.util
import json
import re
import sys
from email.message import Message
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def supply() -> ModuleType:
    spec = importlib.util.spec_from_file_location("components", ROOT / "supply/components.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def pinned() -> dict[str, list[str]]:
    """Checksums of the files of each tested version."""
    entries = re.split(r"\n(?=\S)", (ROOT / "constraints.txt").read_text())
    return {each.split()[0]: re.findall(r"--hash=sha256:([0-9a-f]{64})", each) for each in entries}


def test_every_tested_version_has_checksums() -> None:
    for requirement, checksums in pinned().items():
        assert re.fullmatch(r"[a-z0-9-]+==[^=]+", requirement)
        assert checksums, requirement


def test_constraints_name_no_registry() -> None:
    assert "//" not in (ROOT / "constraints.txt").read_text()


def test_the_environment_has_the_tested_versions(supply: ModuleType) -> None:
    tested = {requirement.split("==")[0]: requirement for requirement in pinned()}
    for each in supply.components():
        if each.name != "epiclick":
            assert tested[each.name] == f"{each.name}=={version(each.name)}"


def test_the_page_of_licences_is_up_to_date(supply: ModuleType) -> None:
    assert (ROOT / "docs/licences.md").read_text() == "\n".join([*supply.licences(), ""])


def test_the_bill_of_materials_is_complete(supply: ModuleType) -> None:
    bill = json.loads(json.dumps(supply.bill()))
    listed = {each["bom-ref"] for each in bill["components"]}
    root = bill["metadata"]["component"]["bom-ref"]
    assert root == f"pkg:pypi/epiclick@{version('epiclick')}"
    needs = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    # all that is listed is needed, and all that is needed is listed
    reached, todo = set(), [root]
    while todo:
        if (one := todo.pop()) not in reached:
            reached.add(one)
            todo += needs[one]
    assert reached == listed | {root}
    assert {f"pkg:pypi/{name}@{version(name)}" for name in ("jax", "mdurl", "duckdb")} <= listed
    assert all(each["licenses"][0]["expression"] for each in bill["components"])
    assert supply.bill() == supply.bill()


class Silent:
    """A distribution whose metadata say nothing of a licence."""

    def __init__(self) -> None:
        self.metadata = Message()
        self.metadata["Name"] = "silent"


def test_an_unknown_licence_is_an_error(supply: ModuleType) -> None:
    with pytest.raises(ValueError, match="silent: unknown licence"):
        supply.licence(Silent())
