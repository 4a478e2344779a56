"""Runs notebooks, and records what they print and draw.

A notebook needs no kernel here: its code cells run one after another in one namespace, in a folder of
its own. What a cell prints, the value of its last line, and its figures are its outputs.

    python -m tests.docs.notebooks        runs all notebooks again and stores their outputs
"""

import ast
import base64
import io
import json
import tempfile
import warnings
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib as mpl

from epiclick.estimators.names import ESTIMATORS
from epiclick.paper.variants import VARIANTS

from .pages import DOCS

FOLDER = DOCS / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))


def run_notebook(path: Path, folder: Path) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell, in the format of notebooks."""
    from matplotlib import pyplot

    mpl.use("Agg")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    found = []
    registries = mock.patch.dict(ESTIMATORS), mock.patch.dict(VARIANTS)  # a notebook adds to them
    with chdir(folder), warnings.catch_warnings(), registries[0], registries[1]:
        warnings.simplefilter("default")
        for cell in code_cells(path):
            printed = io.StringIO()
            with redirect_stdout(printed):
                value = run_cell("".join(cell["source"]), namespace)
            outputs = []
            if printed.getvalue():
                text = printed.getvalue().splitlines(keepends=True)
                outputs.append({"name": "stdout", "output_type": "stream", "text": text})
            if value is not None:
                outputs.append(shown(value))
            for number in pyplot.get_fignums():
                outputs.append(drawn(pyplot.figure(number)))
            pyplot.close("all")
            found.append(outputs)
    return found


def code_cells(path: Path) -> list[dict[str, Any]]:
    """The code cells of a notebook."""
    cells = json.loads(path.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def run_cell(source: str, namespace: dict[str, Any]) -> Any:
    """Run a cell; returns the value of its last line if that is an expression without `;`."""
    tree = ast.parse(source)
    last = tree.body[-1]
    shows = isinstance(last, ast.Expr) and not source.rstrip().endswith(";")
    if shows:
        value = ast.Assign([ast.Name("_", ast.Store())], last.value)
        tree.body[-1] = ast.fix_missing_locations(ast.copy_location(value, last))
    exec(compile(tree, "<cell>", "exec"), namespace)
    return namespace["_"] if shows else None


def shown(value: Any) -> dict[str, Any]:
    """The value of a last line as an output."""
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(keepends=True)
    return {"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"}


def drawn(figure: Any) -> dict[str, Any]:
    """A figure as an output."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=80, metadata={"Software": None})
    data = {"image/png": base64.b64encode(image.getvalue()).decode()}
    return {"data": data, "metadata": {}, "output_type": "display_data"}


def text_of(outputs: list[dict[str, Any]]) -> str:
    """What outputs show as text."""
    parts = [
        "".join(each.get("text", each.get("data", {}).get("text/plain", []))) for each in outputs
    ]
    return "\n".join(part for part in parts if part)


def record() -> None:
    """Store the outputs of all notebooks."""
    for name in NOTEBOOKS:
        path = FOLDER / name
        with tempfile.TemporaryDirectory() as folder:
            outputs = run_notebook(path, Path(folder))
        notebook = json.loads(path.read_text())
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for number, (cell, own) in enumerate(zip(code, outputs, strict=True), 1):
            for output in own:
                if "execution_count" in output:
                    output["execution_count"] = number
            cell |= {"outputs": own, "execution_count": number}
        path.write_text(json.dumps(notebook, indent=1) + "\n")


if __name__ == "__main__":
    record()
