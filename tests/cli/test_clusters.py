"""`--cluster`, and models side by side in `compare --also`."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import epiclick as ec

from ..posterior.user_logs import user_log
from .conftest import epiclick

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shop(cli_folder: Path) -> Path:
    """A log of one query with users and days, two rankings, and models of it."""
    folder = cli_folder / "recommendations"
    folder.mkdir()
    log = pd.DataFrame(user_log(5, users=60, pages=20))
    log = log.assign(day=log["page_id"] % 40, same="x")
    log.to_csv(folder / "log.csv", index=False)
    log.assign(user_id=log["user_id"].where(log.index > 4)).to_csv(
        folder / "unknown.csv", index=False
    )
    rates = log.groupby("doc_id")["click"].mean().sort_values()
    for name, docs in (("good", rates.index[::-1][:3]), ("bad", rates.index[:3])):
        rows = pd.DataFrame({"query_id": 0, "doc_id": docs, "position": np.arange(1, 4)})
        rows.to_csv(folder / f"{name}.csv", index=False)
    for model in ("pbm", "ubm"):
        done = epiclick(
            "fit", folder / "log.csv", "--out", folder / model, "--click-model", model, "-q"
        )
        assert done.code == 0, done.err
    return folder


def test_fit_says_which_clusters_it_used(shop: Path) -> None:
    fit = ("fit", shop / "log.csv", "--out", shop / "other", "--overwrite")
    assert "differences between 60 users." in " ".join(epiclick(*fit).out.split())
    record = epiclick(*fit, "--cluster", "day", "--json").record
    assert record["posterior"]["clusters"] == {"by": "day", "clusters": 40, "groups": 40}
    counts = shop / "counts.parquet"
    assert epiclick("count", shop / "log.csv", "--cluster", "day", "--out", counts).code == 0
    again = epiclick("fit", counts, "--out", shop / "other", "--overwrite", "--json").record
    assert again["posterior"]["clusters"] == record["posterior"]["clusters"]
    assert again["position_bias"] == record["position_bias"]
    # a model that starts from another one has the same clusters, unless others are given
    more = (*fit[:-1], "--overwrite", "--init", shop / "other", "--json")
    epiclick(*fit, "--cluster", "day")
    assert epiclick(*more).record["posterior"]["clusters"]["by"] == "day"


@pytest.mark.parametrize(
    ("log", "cluster", "words", "code"),
    [
        ("log.csv", "sesion", "column 'sesion' (given for clusters) is not in", "unknown-column"),
        ("unknown.csv", "user", "cluster (user_id) is missing: 5 rows", "missing-value"),
        ("log.csv", "same", "all rows of the log have the same value", "one-cluster"),
    ],
)
def test_clusters_that_cannot_be_used_are_refused(
    shop: Path, log: str, cluster: str, words: str, code: str
) -> None:
    done = epiclick("fit", shop / log, "--out", shop / "none", "--cluster", cluster)
    done.assert_refused(words, code)
    assert not (shop / "none").exists()


def compared(shop: Path, *more: object):
    rankings = (f"good={shop / 'good.csv'}", f"bad={shop / 'bad.csv'}")
    return epiclick(
        *("compare", shop / "pbm", "--ranking", rankings[0], "--ranking", rankings[1]),
        *("--clicks", shop / "log.csv", "--samples", 400, "--also", shop / "ubm", *more),
    )


def test_models_side_by_side(shop: Path) -> None:
    record = compared(shop, "--json").record
    several = record["models"]
    assert several["agree"]
    assert several["verdict"].startswith("both click models agree: good beats bad")
    rows = pd.DataFrame(several["table"])
    assert rows["model"].tolist() == [str(shop / name) for name in ("pbm", "pbm", "ubm", "ubm")]
    # each model reads the log with its own options
    for name in ("pbm", "ubm"):
        model = ec.load(shop / name)
        rankings = {each: str(shop / f"{each}.csv") for each in ("good", "bad")}
        counts = ec.read_log(shop / "log.csv", click_model=name)
        own = ec.compare(model, rankings, clicks=counts, samples=400).rankers
        found = rows.loc[rows["model"] == str(shop / name), "value"]
        np.testing.assert_allclose(found, own["value"], rtol=1e-9)
    out = compared(shop).out
    assert "By click model" in out
    assert "both click models agree" in " ".join(out.split())


def test_every_model_must_pass_the_gate(shop: Path) -> None:
    gate = ("--fail-unless-better", 0.9, "--quiet", "--despite", "fit,posterior")
    assert compared(shop, *gate).code == 0
    done = compared(shop, "--also", shop / "pbm")
    done.assert_refused("each model must be given once", "duplicate-model")
