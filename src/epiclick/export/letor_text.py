"""Training sets as LETOR text, which allRank, RankLib, XGBoost and LightGBM read.

    2 qid:1 1:0.5 2:-1.25 # ["red shoes", "P10"]

The text has no place for weights. They are in a second file, one per line, under the name at which
XGBoost and LightGBM look for them: `train.txt.weight`. Other tools ignore it.
"""

import json
from pathlib import Path

from epiclick.data.arrays import changes
from epiclick.data.writing import written_aside
from epiclick.export.lightgbm import LightGBMData

WEIGHTS = ".weight"


def write_letor(path: str | Path, data: LightGBMData) -> None:
    """Write a training set; queries are numbered from 1, and comments have the ids as JSON."""
    number = changes(data.query_id).cumsum().tolist()
    labels, ids = (
        data.y.tolist(),
        zip(data.query_id.to_pylist(), data.doc_id.to_pylist(), strict=True),
    )
    marks = [f"{i}:" for i in range(1, len(data.feature_names) + 1)]
    weights = Path(f"{path}{WEIGHTS}")
    with (
        written_aside(path) as aside,
        written_aside(weights) as beside,
        aside.open("w", encoding="utf-8", newline="\n") as file,
        beside.open("w", encoding="utf-8", newline="\n") as weight_file,
    ):
        for label, query, vector, names in zip(labels, number, data.X, ids, strict=True):
            values = " ".join(
                mark + format(value, ".9g")
                for mark, value in zip(marks, vector.tolist(), strict=True)
            )
            file.write(f"{label} qid:{query} {values} # {json.dumps(names)}\n")
        weight_file.writelines(f"{weight:.9g}\n" for weight in data.weight.tolist())
