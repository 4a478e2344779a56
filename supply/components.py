"""What a user of epiclick installs: dependencies and licences, as a table or a CycloneDX SBOM.

    python supply/components.py licences > docs/licences.md
    python supply/components.py sbom > dist/epiclick.cdx.json     (`make sbom`)

Read from the environment this runs in, which `make` fills with the tested versions of
constraints.txt. Extras and the tools of development are left out.
"""

import json
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "epiclick"

# what packages without an SPDX expression say of their licence, in free text or as a classifier
SPDX = {
    "Apache Software License": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
}


@dataclass(frozen=True)
class Component:
    """An installed distribution.

    Attributes:
        name: its normalised name.
        version: the version that is installed.
        licence: SPDX expression of its licence.
        needs: names of the components it requires.
    """

    name: str
    version: str
    licence: str
    needs: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Its package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def components(root: str = PROJECT) -> list[Component]:
    """The project and all it requires, directly or not, by name."""
    # a distribution may be required with extras and without: keep the union
    found: dict[str, tuple[Distribution, set[str]]] = {}
    todo = [(root, "")]
    done: set[tuple[str, str]] = set()
    while todo:
        name, extra = todo.pop()
        if (name, extra) in done:
            continue
        done.add((name, extra))
        own, needs = found.setdefault(name, (distribution(name), set()))
        for requirement in map(Requirement, own.requires or ()):
            if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
                continue
            other = canonicalize_name(requirement.name)
            needs.add(other)
            todo += [(other, each) for each in ("", *requirement.extras)]
    return [
        Component(name, own.version, licence(own), tuple(sorted(needs)))
        for name, (own, needs) in sorted(found.items())
    ]


def licence(own: Distribution) -> str:
    """SPDX expression of a distribution's licence; an error if its metadata do not say."""
    metadata = own.metadata
    name, text = metadata["Name"], metadata.get("License") or ""
    if expression := metadata.get("License-Expression"):
        return expression
    words = [
        each.split(" :: ")[-1]
        for each in metadata.get_all("Classifier") or ()
        if each.startswith("License :: ")
    ]
    for word in (*words, text):
        if word in SPDX:
            return SPDX[word]
        if word in SPDX.values():
            return word
    raise ValueError(f"{name}: unknown licence {words or text!r}; add it to SPDX")


def licences() -> Iterator[str]:
    """The page of licences."""
    own = components()
    yield "# Licences"
    yield ""
    yield f"What `pip install {PROJECT}` installs with it: {len(own) - 1} packages on Linux with"
    yield "Python 3.11. Tested versions, with checksums of their files, are in `constraints.txt`;"
    yield "`make sbom` writes them as a CycloneDX bill of materials to `dist/epiclick.cdx.json`."
    yield f"Extras and development tools are not listed. {PROJECT} itself is Apache-2.0."
    yield ""
    yield "| package | licence | required by |"
    yield "|---|---|---|"
    for each in own:
        if each.name == PROJECT:
            continue
        by = ", ".join(other.name for other in own if each.name in other.needs)
        yield f"| {each.name} | {each.licence} | {by} |"


def bill() -> dict[str, Any]:
    """The bill of materials: CycloneDX 1.6, the same for the same versions."""
    own = components()
    (root,) = (each for each in own if each.name == PROJECT)
    names = " ".join(each.purl for each in own)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, names)}",
        "version": 1,
        "metadata": {"component": entry(root, "application")},
        "components": [entry(each, "library") for each in own if each is not root],
        "dependencies": [
            {"ref": each.purl, "dependsOn": [o.purl for o in own if o.name in each.needs]}
            for each in own
        ],
    }


def entry(own: Component, kind: str) -> dict[str, Any]:
    """A component in a bill."""
    return {
        "type": kind,
        "bom-ref": own.purl,
        "name": own.name,
        "version": own.version,
        "licenses": [{"expression": own.licence}],
        "purl": own.purl,
    }


def main() -> None:
    """Print what is asked for."""
    verb = sys.argv[1] if len(sys.argv) == 2 else ""
    if verb == "licences":
        print("\n".join(licences()))
    elif verb == "sbom":
        print(json.dumps(bill(), indent=1))
    else:
        sys.exit("usage: components.py licences | sbom")


if __name__ == "__main__":
    main()
