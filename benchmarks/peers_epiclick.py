"""epiclick's side of the peer benchmark: count the pages, fit, predict."""

import numpy as np
import pandas as pd
import pyarrow as pa

import epiclick as ec
from epiclick.data.counts import ClickCounts
from epiclick.data.features import FeatureTable
from peers_side import HIDDEN, Fit, Pages, epoch_seconds_of, fitted_now, parse_fit


def table_of(query: np.ndarray, matrix: np.ndarray) -> FeatureTable:
    """The features of all pairs; a pair's row is its document."""
    keys = pa.table({"query_id": query, "doc_id": np.arange(len(query))})
    return FeatureTable(keys, tuple(f"f{i}" for i in range(matrix.shape[1])), matrix)


def counted(pages: Pages, query: np.ndarray, features: FeatureTable | None) -> ClickCounts:
    """The pages as counted by `read_log`, with all checks."""
    log = pa.table(
        {
            "page_id": np.repeat(np.arange(len(pages)), pages.pair.shape[1]),
            "query_id": query[pages.pair].ravel(),
            "doc_id": pages.pair.ravel(),
            "position": pages.positions.ravel(),
            "click": pages.click.ravel(),
        }
    )
    return ec.read_log(log, features=features)


def main(fit: Fit) -> None:
    query = fit.query()
    features = None if fit.ids else table_of(query, fit.features())
    train, valid = (counted(fit.pages(part), query, features) for part in ("train", "valid"))
    options = {"seed": fit.seed, "epochs": fit.epochs, "hidden": HIDDEN}
    model = {"PointwisePBM": ec.PointwisePBM, "EpistemicPBM": ec.EpistemicPBM}[fit.model](**options)
    model.fit(train, valid, progress=False)
    done = fitted_now()
    bias = model.position_bias()
    pages = fit.pages("test")
    test = counted(pages, query, features)
    # entries of the counts back to displays
    at = np.zeros((len(query), pages.pair.shape[1]))
    position = test.contexts["position"].to_numpy()[test.context]
    at[test.doc_id.to_numpy()[test.pair], position - 1] = model.predict_clicks(test)
    fit.write(
        at[pages.pair, pages.positions - 1],
        **done,
        epochs=len(model.history_),
        epoch_seconds=epoch_seconds_of(list(model.history_["seconds"])),
        pairs=len(train),
        relative=bias["relative"].tolist(),
        **intervals(bias),
    )


def intervals(bias: pd.DataFrame) -> dict[str, list[float]]:
    """Bounds of the intervals of relative bias; none for a point estimate."""
    ends = {end: bias[f"relative_{end}"] for end in ("low", "high")}
    return {end: each.tolist() for end, each in ends.items() if each.notna().all()}


if __name__ == "__main__":
    main(parse_fit())
