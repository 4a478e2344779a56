"""`epiclick export`, as a program or a person would call it."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray
from sklearn.datasets import load_svmlight_file

from epiclick import load, read_log

from ..export.workbench_layout import violations
from .conftest import Done, epiclick

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def judged(world: Path, marginal: tuple[Path, Done]) -> pd.Series:
    """Mean by (query_id, doc_id): by clicks where there are any, elsewhere by features."""
    model, features = load(marginal[0]), world / "features.parquet"
    counts = read_log(world / "late.parquet", features=features)
    both = [model.posterior(counts), model.relevance(features)]
    keys = ["query_id", "doc_id"]
    return pd.concat(both).drop_duplicates(keys).set_index(keys)["mean"].sort_index()


def items_of(world: Path) -> list[object]:
    return ["--features", world / "features.parquet", "--clicks", world / "late.parquet"]


def test_lightgbm(
    world: Path, marginal: tuple[Path, Done], judged: pd.Series, tmp_path: Path
) -> None:
    out = tmp_path / "train.parquet"
    done = epiclick(
        "export", marginal[0], "--to", "lightgbm", *items_of(world), "--out", out, "--json"
    )
    record = done.record
    assert list(record) == [
        *("schema_version", "to", "rows", "queries", "features"),
        *("how", "cuts", "clip", "warnings"),
    ]
    assert (record["rows"], record["queries"], record["features"]) == (1200, 150, 4)
    assert (record["how"], record["clip"], record["warnings"]) == ("posterior", None, [])
    table = pd.read_parquet(out).set_index(["query_id", "doc_id"])
    assert table.index.tolist() == judged.index.tolist()
    expected = [sum(mean > cut for cut in record["cuts"]) for mean in judged]
    assert table["label"].tolist() == expected
    features = pd.read_parquet(world / "features.parquet").set_index(["query_id", "doc_id"])
    names = ["f0", "f1", "f2", "f3"]
    np.testing.assert_array_equal(table[names], features.loc[table.index, names])
    assert table["weight"].mean() == pytest.approx(1)


def test_lightgbm_by_propensity(
    world: Path, marginal: tuple[Path, Done], pointwise: tuple[Path, Done], tmp_path: Path
) -> None:
    log = pd.read_parquet(world / "late.parquet")
    for model in (marginal[0], pointwise[0]):
        out = tmp_path / f"{model.name}.parquet"
        done = epiclick(
            *("export", model, "--to", "lightgbm", "--how", "propensity", "--clip", 3),
            *(*items_of(world), "--out", out, "--json"),
        )
        assert (done.record["how"], done.record["clip"]) == ("propensity", 3.0)
        bias = load(model).position_bias().set_index("position")["relative"]
        weight = log["click"] * np.minimum(1 / bias[log["position"]].to_numpy(), 3)
        expected = weight.groupby([log["query_id"], log["doc_id"]]).sum()
        table = pd.read_parquet(out)
        found = table[table["label"] == 1].set_index(["query_id", "doc_id"])["weight"]
        np.testing.assert_allclose(found, expected[expected > 0], rtol=1e-9)
        assert found.index.tolist() == expected[expected > 0].index.tolist()


def test_all_judgements_hold_the_same_grades(
    world: Path, marginal: tuple[Path, Done], judged: pd.Series, tmp_path: Path
) -> None:
    given = [*items_of(world), "--cuts", "0.15,0.2,0.3,0.4", "--json"]
    qrels, ratings = tmp_path / "qrels", tmp_path / "ratings.csv"
    workbench, plugin = tmp_path / "judgements.json", tmp_path / "judgements.txt"
    targets = {"qrels": qrels, "quepid": ratings, "srw": workbench, "ltr": plugin}
    for to, out in targets.items():
        done = epiclick("export", marginal[0], "--to", to, *given, "--out", out)
        assert done.record == {
            "schema_version": 1,
            "to": to,
            "rows": 1200,
            "cuts": [0.15, 0.2, 0.3, 0.4],
            **({"name": "epiclick"} if to == "srw" else {}),
            "warnings": [],
        }
    grade = [str(sum(mean > cut for cut in (0.15, 0.2, 0.3, 0.4))) for mean in judged]
    assert len(set(grade)) > 2
    ids = [(str(query), str(doc)) for query, doc in judged.index]
    lines = [line.split() for line in qrels.read_text().splitlines()]
    assert lines == [[*pair[:1], "0", pair[1], y] for pair, y in zip(ids, grade, strict=True)]
    with ratings.open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["query", "docid", "rating"],
        *([*p, y] for p, y in zip(ids, grade, strict=True)),
    ]
    record = json.loads(workbench.read_text())
    assert violations(record) == []
    assert "0.15, 0.2, 0.3, 0.4" in record["description"]
    found = [
        (each["query"], one["docId"], one["rating"])
        for each in record["judgmentRatings"]
        for one in each["ratings"]
    ]
    assert found == [(*pair, f"{y}.000") for pair, y in zip(ids, grade, strict=True)]
    lines = [line.split() for line in plugin.read_text().splitlines() if line[0] != "#"]
    assert lines == [
        [y, f"qid:{query}", "#", doc] for (query, doc), y in zip(ids, grade, strict=True)
    ]


@pytest.mark.parametrize("how", ["posterior", "propensity"])
def test_letor_text_has_the_training_set_and_its_weights_beside_it(
    how: str, world: Path, marginal: tuple[Path, Done], tmp_path: Path
) -> None:
    out, parquet = tmp_path / "train.txt", tmp_path / "train.parquet"
    for to, file in {"letor": out, "lightgbm": parquet}.items():
        given = ["--to", to, "--how", how, *items_of(world), "--out", file, "--json"]
        done = epiclick("export", marginal[0], *given)
    expected = pd.read_parquet(parquet)
    x, y, query = load_svmlight_file(str(out), query_id=True, zero_based=False)
    names = [name for name in expected if name.startswith("f")]
    np.testing.assert_array_equal(x.toarray().astype(np.float32), expected[names])
    assert y.tolist() == expected["label"].tolist()
    assert (query - 1).tolist() == pd.factorize(expected["query_id"])[0].tolist()
    weight = np.loadtxt(tmp_path / "train.txt.weight")
    np.testing.assert_allclose(weight, expected["weight"], rtol=1e-8)
    ids = [json.loads(line.split(" # ")[1]) for line in out.read_text().splitlines()]
    assert ids == expected[["query_id", "doc_id"]].to_numpy().tolist()
    assert done.record["rows"] == len(expected) == len(weight)


@pytest.mark.parametrize("rank_by", ["mean", "lower", "thompson"])
def test_run(rank_by: str, world: Path, marginal: tuple[Path, Done], tmp_path: Path) -> None:
    out = tmp_path / "run"
    given = ["--features", world / "features.parquet", "--rank-by", rank_by, "--seed", 4]
    done = epiclick("export", marginal[0], "--to", "run", *given, "--out", out, "--json")
    assert (done.record["rows"], done.record["rank_by"]) == (1200, rank_by)
    expected = load(marginal[0]).rank(world / "features.parquet", rank_by, seed=4)
    lines = [line.split(" ") for line in out.read_text().splitlines()]
    found = [
        [int(query), int(doc), int(place), float(score)] for query, _, doc, place, score, _ in lines
    ]
    assert found == expected.to_numpy().tolist()
    assert {(line[1], line[5]) for line in lines} == {("Q0", "epiclick")}


def test_arviz(world: Path, marginal: tuple[Path, Done], tmp_path: Path) -> None:
    out = tmp_path / "samples.nc"
    given = ["--to", "arviz", "--draws", 50, "--out", out, "--json"]
    done = epiclick("export", marginal[0], *given)
    assert (done.record["draws"], done.record["items"]) == (50, 0)
    done = epiclick("export", marginal[0], *given, *items_of(world), "--items", 5)
    assert (done.record["draws"], done.record["items"]) == (50, 5)
    with xarray.open_datatree(out, engine="h5netcdf") as tree:
        assert tree["posterior"]["position_bias"].shape == (1, 50, 3)
        assert tree["posterior"]["relevance"].shape == (1, 50, 5)


def test_a_model_without_features_exports_the_items_of_its_log(
    world: Path, without_features: tuple[Path, Done], tmp_path: Path
) -> None:
    out = tmp_path / "qrels"
    done = epiclick("export", without_features[0], "--to", "qrels", "--out", out)
    pairs = pd.read_parquet(world / "early.parquet")[["query_id", "doc_id"]].drop_duplicates()
    assert f"rows: {len(pairs):,}" in done.out
    assert f"written to {out}" in done.err
    found = {tuple(line.split()[::2]) for line in out.read_text().splitlines()}
    assert found == {(str(query), str(doc)) for query, doc in pairs.to_numpy().tolist()}
    train = tmp_path / "train.parquet"
    given = ["--to", "lightgbm", "--out", train, "--json"]
    refused = epiclick("export", without_features[0], *given)
    refused.assert_refused("--features", "features-needed")
    done = epiclick("export", without_features[0], *given, "--features", world / "features.parquet")
    assert done.record["rows"] == len(pd.read_parquet(train)) == len(pairs)


@pytest.mark.parametrize(
    ("arguments", "words", "error_code"),
    [
        (["--to", "lightgmb", "--out", "o.parquet"], "mean 'lightgbm'?", "unknown-target"),
        (
            ["--to", "excel", "--out", "o.parquet"],
            "one of lightgbm, letor, qrels, run, quepid, srw, ltr, arviz",
            "unknown-target",
        ),
        (["--to", "lightgbm", "--out", "o.parquet"], "4 features", "features-needed"),
        (["--to", "lightgbm", "--out", "o.csv", "F"], "name a .parquet file", "wrong-suffix"),
        (["--to", "quepid", "--out", "o.txt", "F"], "name a .csv file", "wrong-suffix"),
        (["--to", "arviz", "--out", "o.h5"], "name a .nc file", "wrong-suffix"),
        (["--to", "qrels", "--out", ".", "F"], "name a file", "not-a-file"),
        (
            ["--to", "lightgbm", "--out", "o.parquet", "F", "--how", "propensity"],
            "--clicks",
            "missing-clicks",
        ),
        (["--to", "lightgbm", "--out", "o.parquet", "F", "--how", "posterier"], "did you", None),
        (
            ["--to", "qrels", "--out", "o", "F", "--how", "posterior"],
            "--how applies to --to lightgbm",
            "option-does-not-apply",
        ),
        (
            ["--to", "run", "--out", "o", "F", "--cuts", ".1,.2,.3,.4"],
            "lightgbm, letor, qrels, quepid, srw and ltr",
            "option-does-not-apply",
        ),
        (["--to", "qrels", "--out", "o", "F", "--cuts", "a,b"], "four numbers", "not-a-number"),
        (["--to", "srw", "--out", "o.txt", "F"], "name a .json file", "wrong-suffix"),
        (["--to", "srw", "--out", "o.json", "F", "--name", "a<b"], "--name", "invalid-name"),
        (["--to", "ltr", "--out", "o", "F", "--name", "a"], "to srw,", "option-does-not-apply"),
        (["--to", "qrels", "--out", "o", "F", "--cuts", "0.3,0.2"], "cuts", "invalid-cuts"),
        (
            ["--to", "run", "--out", "o", "F", "--rank-by", "median"],
            "--rank-by must be one of mean",
            None,
        ),
        (
            ["--to", "run", "--out", "copy.parquet", "--features", "copy.parquet"],
            "copy.parquet",
            "output-is-input",
        ),
    ],
)
def test_bad_input_gives_code_2_one_message_and_no_file(
    arguments: list[str],
    words: str,
    error_code: str | None,
    world: Path,
    marginal: tuple[Path, Done],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features = (world / "features.parquet").read_bytes()
    (tmp_path / "copy.parquet").write_bytes(features)
    monkeypatch.chdir(tmp_path)
    given = []
    for each in arguments:
        given += ["--features", str(world / "features.parquet")] if each == "F" else [each]
    done = epiclick("export", marginal[0], *given)
    done.assert_refused(words, error_code)
    assert [path.name for path in tmp_path.iterdir()] == ["copy.parquet"]
    assert (tmp_path / "copy.parquet").read_bytes() == features


def test_queries_of_several_words_are_refused_for_trec_only(
    world: Path, marginal: tuple[Path, Done], tmp_path: Path
) -> None:
    features = pd.read_parquet(world / "features.parquet")
    features["query_id"] = "query " + features["query_id"].astype(str)
    features["doc_id"] = features["doc_id"].astype(str)
    features.to_parquet(tmp_path / "named.parquet")
    given = ["--features", tmp_path / "named.parquet", "--out"]
    done = epiclick("export", marginal[0], "--to", "qrels", *given, tmp_path / "qrels")
    done.assert_refused("150 query_ids, first 'query 0'", "id-with-whitespace")
    assert not (tmp_path / "qrels").exists()
    done = epiclick("export", marginal[0], "--to", "quepid", *given, tmp_path / "r.csv", "--json")
    assert done.record["rows"] == 1200
